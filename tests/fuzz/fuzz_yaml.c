/* YAML: every event lies within its text, and a fault says what and where. */
#include <stdlib.h>
#include <string.h>

#include "spansieve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ss_yaml *yaml = ss_yaml_new(data, size);
    ss_yaml_event event = {0};
    ss_error error = {0};
    ss_status status = SS_OK;
    size_t n_read = 0;
    while (status == SS_OK && event.kind != SS_YAML_STREAM_END) {
        status = ss_yaml_next(yaml, &event, &error);
        /* A byte gives few lines and texts: an escape in quotes is the shortest that grows. */
        n_read += status == SS_OK ? event.length + (event.anchor ? strlen(event.anchor) : 0) : 0;
        if (event.line == 0 || event.line > size + 2 || n_read > 4 * size ||
            (status != SS_OK && (!error.reason || error.code != SS_ERR_MALFORMED || error.offset > size))) {
            abort();
        }
    }
    ss_yaml_free(yaml);
    return 0;
}
