/* A request body as gRPC frames it, in the encoding that the first byte names; and paths. */
#include "net/grpc.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { LIMIT = 1 << 16 };
    if (size == 0) {
        return 0;
    }
    ss_codec *codec = ss_codec_new();
    ss_buffer inflated = {0};
    ss_verdict verdict = {0};
    const uint8_t *message;
    size_t length;
    ss_encoding encoding = (ss_encoding)(data[0] % SS_N_ENCODINGS);
    bool is_found = ss_grpc_unpack(encoding, data + 1, size - 1, LIMIT, &message, &length, &verdict);
    if (is_found && data[1]) {
        ss_error error = {0};
        ss_status status = ss_decompress(codec, encoding, message, length, LIMIT, &inflated, &error);
        length = inflated.length;
        is_found = status == SS_OK;
        if (!is_found) {
            ss_grpc_fail_inflation(status, &error, LIMIT, &verdict);
        }
    }
    if (is_found) {
        if (length > LIMIT || verdict.code != SS_CODE_OK) {
            __builtin_trap();
        }
    } else {
        char text[SS_GRPC_MESSAGE_TEXT_BYTES];
        if (verdict.code == SS_CODE_OK || ss_grpc_encode_message(verdict.message, text) != strlen(text)) {
            __builtin_trap();
        }
    }
    ss_signal signal;
    if (!ss_grpc_route(data + 1, size - 1, &signal, &verdict) && verdict.code != SS_CODE_UNIMPLEMENTED) {
        __builtin_trap();
    }
    memset(verdict.message, 0, sizeof verdict.message);
    memcpy(verdict.message, data + 1, size - 1 < sizeof verdict.message - 1 ? size - 1 : sizeof verdict.message - 1);
    verdict.has_retry_delay = data[0] & 0x80;
    ss_buffer answer = {0};
    (void)ss_rpc_status_append(&verdict, SS_PAYLOAD_PROTOBUF, &answer);
    (void)ss_rpc_status_append(&verdict, SS_PAYLOAD_JSON, &answer);
    (void)ss_export_response_append(&verdict, SS_SIGNAL_LOGS, SS_PAYLOAD_PROTOBUF, &answer);
    (void)ss_export_response_append(&verdict, SS_SIGNAL_LOGS, SS_PAYLOAD_JSON, &answer);
    (void)ss_base64_append(data, size, &answer);
    ss_buffer_free(&answer);
    ss_buffer_free(&inflated);
    ss_codec_free(codec);
    return 0;
}
