/*
 * TLS between a socket and what runs on it, without the socket: sealed bytes in, plain bytes out, and the other way
 * round. OpenSSL is loaded with the first ss_tls, so that who talks plain text never pays for it.
 */
#ifndef SS_TLS_H
#define SS_TLS_H

#include "spansieve.h"

typedef struct ss_tls_stream ss_tls_stream;

enum {
    SS_TLS_RECORD_BYTES = 16 * 1024, /* plain, of the largest record */
    SS_TLS_CARRY_BYTES = 18 * 1024   /* more than what reads can yield beyond what was fed: a record begun before */
};

/* One connection's state, with the certificates of this moment. NULL without memory. Borrows tls. */
ss_tls_stream *ss_tls_stream_new(ss_tls *tls);
void ss_tls_stream_free(ss_tls_stream *stream);

/* True once both sides have shown who they are. */
/* True once HTTP/2 has been agreed on. */
bool ss_tls_stream_has_http2(const ss_tls_stream *stream);
bool ss_tls_stream_is_ready(const ss_tls_stream *stream);

/* Give sealed bytes of the peer to the next reads. Borrows them until a read has filled less than its room. */
ss_status ss_tls_stream_feed(ss_tls_stream *stream, const uint8_t *bytes, size_t length);
/* Shake hands, then open what was fed. *n < room: all of it was used. SS_ERR_CLOSED: the peer has said goodbye;
 * SS_ERR_IO: see ss_tls_stream_reason; *n bytes came before either. */
ss_status ss_tls_stream_read(ss_tls_stream *stream, uint8_t *plain, size_t room, size_t *n);
/* Seal bytes. REQUIRES: is ready. */
ss_status ss_tls_stream_write(ss_tls_stream *stream, const uint8_t *bytes, size_t length);
/* Say goodbye, once. */
void ss_tls_stream_end(ss_tls_stream *stream);

/* Sealed bytes for the peer. The caller takes them: sets length to 0, or removes some from the front. */
ss_buffer *ss_tls_stream_output(ss_tls_stream *stream);

/* What has failed, "" when nothing has. */
const char *ss_tls_stream_reason(const ss_tls_stream *stream);

#endif
