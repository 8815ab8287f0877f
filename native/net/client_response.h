/* What a gRPC server answered a unary call with. Knows no socket and no HTTP/2 session. */
#ifndef SS_CLIENT_RESPONSE_H
#define SS_CLIENT_RESPONSE_H

#include "spansieve.h"

enum {
    SS_CLIENT_HEADER_BYTES_MAX = 64 * 1024, /* names and values of one response, trailers included */
    SS_CLIENT_BODY_BYTES_MAX = 64 * 1024    /* response message and its 5-byte prefix; and the message decompressed */
};

/* google.rpc.Code, what ss_code lacks because no receiver answers with it. */
enum { SS_CLIENT_CODE_PERMISSION_DENIED = 7 };

/* The parts of a response that matter, as they arrive. */
typedef struct ss_client_response {
    int http_status; /* 0: no header block has arrived */
    bool is_grpc;    /* the content-type is application/grpc */
    bool has_grpc_status;
    int32_t grpc_status;
    char message[512];    /* percent-decoded grpc-message */
    ss_buffer details;    /* grpc-status-details-bin, still base64 */
    ss_encoding encoding; /* of a message that says it is compressed */
    bool has_unknown_encoding;
    ss_buffer body;
    ss_codec *codec; /* made for the first message that needs it */
    ss_buffer inflated;
    size_t header_bytes;
    bool is_too_large;
} ss_client_response;

/* Empty the response, keeping its buffers. */
void ss_client_response_reset(ss_client_response *response);
void ss_client_response_free(ss_client_response *response);

/* One header or trailer field. SS_ERR_LIMIT once all of them together pass the maximum. */
ss_status ss_client_response_header(ss_client_response *response, const uint8_t *name, size_t name_length,
                                    const uint8_t *value, size_t value_length);
/* Bytes of the body. SS_ERR_LIMIT, and is_too_large, once they pass the maximum. */
ss_status ss_client_response_data(ss_client_response *response, const uint8_t *bytes, size_t length);
/* Fill everything but transport_status and bytes_sent of result from a response that has ended. */
void ss_client_response_result(ss_client_response *response, ss_client_result *result);

/* Copy text into a field of out_size bytes, cut to fit between characters, and terminate it. */
void ss_client_copy_text(char *out, size_t out_size, const uint8_t *text, size_t length);

#endif
