/* What OTLP's two protocols say, as bytes: no socket, no HTTP. Paths, gRPC message frames, statuses and responses. */
#ifndef SS_GRPC_H
#define SS_GRPC_H

#include "spansieve.h"

enum {
    SS_GRPC_PREFIX_BYTES = 5,
    SS_GRPC_MESSAGE_TEXT_BYTES = 3 * 512 /* room for any ss_verdict.message, percent-encoded, and its end */
};

/* Set verdict to a failure with a printf-like text; what does not fit is cut. */
void ss_verdict_fail(ss_verdict *verdict, ss_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Copy text of length bytes between double quotes, what is not printable ASCII escaped, cut to capacity,
 * NUL-terminated. */
void ss_quote(const uint8_t *text, size_t length, char *out, size_t capacity);

/* Names of the services whose Export takes each signal. */
extern const char *const ss_grpc_services[SS_N_SIGNALS];

/* Signal of an Export method's path; false where verdict (UNIMPLEMENTED) says what is unknown. */
bool ss_grpc_route(const uint8_t *path, size_t length, ss_signal *signal, ss_verdict *verdict);

/* grpc-encoding (and the HTTP token of the same name). False: unknown or not built in. */
bool ss_grpc_find_encoding(const uint8_t *name, size_t length, ss_encoding *encoding);
/* grpc-timeout in nanoseconds; UINT64_MAX where it is none. */
uint64_t ss_grpc_read_timeout(const uint8_t *text, size_t length);
/* Value of grpc-accept-encoding: the encodings of this build. */
const char *ss_grpc_accept_encoding(void);

/* Check the prefix of a message against its stream's encoding and the size limit. */
bool ss_grpc_check_prefix(const uint8_t prefix[SS_GRPC_PREFIX_BYTES], ss_encoding encoding, size_t max_message_bytes,
                          uint32_t *length, ss_verdict *verdict);

/* The one message of a complete request body, as it came; body[0] says whether it is compressed. */
bool ss_grpc_unpack(ss_encoding encoding, const uint8_t *body, size_t body_length, size_t max_message_bytes,
                    const uint8_t **message, size_t *message_length, ss_verdict *verdict);
/* What is told of a message that could not be decompressed. */
void ss_grpc_fail_inflation(ss_status status, const ss_error *error, size_t max_message_bytes, ss_verdict *verdict);

/* grpc-message: percent-encoded, NUL-terminated. Returns the length. */
size_t ss_grpc_encode_message(const char *message, char out[SS_GRPC_MESSAGE_TEXT_BYTES]);

/* Standard base64 without padding, as binary metadata is written; appended to out. */
ss_status ss_base64_append(const uint8_t *bytes, size_t length, ss_buffer *out);

/* google.rpc.Status of a failure, with RetryInfo where the verdict has a delay; appended to out. */
ss_status ss_rpc_status_append(const ss_verdict *verdict, ss_payload payload, ss_buffer *out);

/* Export*ServiceResponse of a success; appended to out. Protobuf without a partial success is no bytes. */
ss_status ss_export_response_append(const ss_verdict *verdict, ss_signal signal, ss_payload payload, ss_buffer *out);

/* The HTTP status that stands for a code. */
int ss_http_status_of(ss_code code);

#endif
