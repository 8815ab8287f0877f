/* Protobuf in: what is accepted must come out as JSON that the reader takes and that means the same. The first byte
 * chooses the signal. */
#include <stdlib.h>
#include <string.h>

#include "spansieve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    ss_signal signal = (ss_signal)(data[0] % SS_N_SIGNALS);
    ss_buffer json = {0}, wire = {0}, json_again = {0};
    ss_error error = {0};
    if (ss_otlp_to_json(signal, data + 1, size - 1, &json, &error) != SS_OK) {
        if (!error.reason || error.offset > size - 1 || json.length) {
            abort();
        }
    } else if (ss_json_to_otlp(signal, json.data, json.length, &wire, &error) != SS_OK) {
        if (!strstr(error.reason, "id must be")) { /* an id of a wrong length is shown as it is, but not taken */
            abort();
        }
    } else if (ss_otlp_to_json(signal, wire.data, wire.length, &json_again, &error) != SS_OK ||
               json.length != json_again.length || memcmp(json.data, json_again.data, json.length) != 0) {
        abort();
    }
    ss_buffer_free(&json);
    ss_buffer_free(&wire);
    ss_buffer_free(&json_again);
    return 0;
}
