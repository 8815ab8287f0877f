/* JSON in: what is accepted must come out as JSON that means the same. The first byte chooses the signal. */
#include <stdlib.h>
#include <string.h>

#include "spansieve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    ss_signal signal = (ss_signal)(data[0] % SS_N_SIGNALS);
    ss_buffer wire = {0}, json = {0}, wire_again = {0}, json_again = {0};
    ss_error error = {0};
    if (ss_json_to_otlp(signal, data + 1, size - 1, &wire, &error) != SS_OK) {
        if (!error.reason || error.offset > size - 1 || wire.length) {
            abort();
        }
    } else if (ss_otlp_to_json(signal, wire.data, wire.length, &json, &error) != SS_OK) {
        if (error.code != SS_ERR_LIMIT) { /* a key given twice makes a message in pieces */
            abort();
        }
    } else if (ss_json_to_otlp(signal, json.data, json.length, &wire_again, &error) != SS_OK ||
               ss_otlp_to_json(signal, wire_again.data, wire_again.length, &json_again, &error) != SS_OK ||
               json.length != json_again.length || memcmp(json.data, json_again.data, json.length) != 0) {
        abort();
    }
    ss_buffer_free(&wire);
    ss_buffer_free(&json);
    ss_buffer_free(&wire_again);
    ss_buffer_free(&json_again);
    return 0;
}
