/* Sources: OpenSSL's manual, ssl(7) and bio(7); RFC 8446; RFC 7301 (ALPN); RFC 9113, section 9.2. */
#include "net/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "codec/library.h"

/* Each name stands here once, for its pointer and for its symbol: in two lists one could come to differ. */
#define OPENSSL_FUNCTIONS(X)                                                                                           \
    X(BIO_ctrl)                                                                                                        \
    X(BIO_ctrl_pending)                                                                                                \
    X(BIO_free)                                                                                                        \
    X(BIO_new)                                                                                                         \
    X(BIO_new_mem_buf)                                                                                                 \
    X(BIO_read)                                                                                                        \
    X(BIO_s_mem)                                                                                                       \
    X(ERR_clear_error)                                                                                                 \
    X(ERR_peek_error)                                                                                                  \
    X(ERR_peek_last_error)                                                                                             \
    X(ERR_reason_error_string)                                                                                         \
    X(EVP_PKEY_free)                                                                                                   \
    X(PEM_read_bio_PrivateKey)                                                                                         \
    X(PEM_read_bio_X509)                                                                                               \
    X(SSL_CTX_add_client_CA)                                                                                           \
    X(SSL_CTX_check_private_key)                                                                                       \
    X(SSL_CTX_ctrl)                                                                                                    \
    X(SSL_CTX_free)                                                                                                    \
    X(SSL_CTX_get_cert_store)                                                                                          \
    X(SSL_CTX_new)                                                                                                     \
    X(SSL_CTX_set_alpn_protos)                                                                                         \
    X(SSL_CTX_set_alpn_select_cb)                                                                                      \
    X(SSL_CTX_set_cipher_list)                                                                                         \
    X(SSL_CTX_set_default_verify_paths)                                                                                \
    X(SSL_CTX_set_options)                                                                                             \
    X(SSL_CTX_set_session_id_context)                                                                                  \
    X(SSL_CTX_set_verify)                                                                                              \
    X(SSL_CTX_use_PrivateKey)                                                                                          \
    X(SSL_CTX_use_certificate)                                                                                         \
    X(SSL_ctrl)                                                                                                        \
    X(SSL_do_handshake)                                                                                                \
    X(SSL_free)                                                                                                        \
    X(SSL_get0_alpn_selected)                                                                                          \
    X(SSL_get0_param)                                                                                                  \
    X(SSL_get_error)                                                                                                   \
    X(SSL_get_verify_result)                                                                                           \
    X(SSL_new)                                                                                                         \
    X(SSL_read)                                                                                                        \
    X(SSL_set0_rbio)                                                                                                   \
    X(SSL_set0_wbio)                                                                                                   \
    X(SSL_set1_host)                                                                                                   \
    X(SSL_set_accept_state)                                                                                            \
    X(SSL_set_connect_state)                                                                                           \
    X(SSL_shutdown)                                                                                                    \
    X(SSL_write)                                                                                                       \
    X(TLS_method)                                                                                                      \
    X(X509_STORE_add_cert)                                                                                             \
    X(X509_VERIFY_PARAM_set1_ip_asc)                                                                                   \
    X(X509_free)                                                                                                       \
    X(X509_verify_cert_error_string)
#define POINTER(name) __typeof__(&(name)) name;
#define SYMBOL(name) {#name, &api->name},

typedef struct openssl {
    void *library;
    OPENSSL_FUNCTIONS(POINTER)
} openssl;

/* Bytes are compared, so names stand as they go over the wire: each behind its length, the best first. */
typedef struct alpn {
    unsigned char bytes[32];
    unsigned int length;
} alpn;

struct ss_tls {
    openssl api;
    bool is_server;
    alpn alpn;
    char *server_name;
    pthread_mutex_t lock;
    /* guarded by lock */
    SSL_CTX *context;
    uint64_t n_failures;
    char failure[256];
};

struct ss_tls_stream {
    ss_tls *tls;
    const openssl *api;
    SSL *ssl;
    BIO *sealed; /* written by ssl, which owns it */
    ss_buffer output;
    bool is_ready;
    bool has_http2;
    bool is_ended;
    char reason[256];
};

/* ------------------------------------------------------------------ certificates */

static bool is_given(const char *text) {
    return text && text[0];
}

static ss_status fail(ss_error *error, ss_status code, const char *reason) {
    *error = (ss_error){.code = code, .reason = reason};
    return code;
}

/* The library's own texts live as long as it is loaded: as long as any ss_tls. */
static ss_status fail_as_library(const openssl *api, ss_error *error, const char *otherwise) {
    const char *reason = api->ERR_reason_error_string(api->ERR_peek_last_error());
    return fail(error, SS_ERR_ARGUMENT, reason ? reason : otherwise);
}

static ss_status load(openssl *api, ss_error *error) {
    const ss_symbol symbols[] = {OPENSSL_FUNCTIONS(SYMBOL)};
    api->library = ss_library_load(SPANSIEVE_LIBSSL, symbols, sizeof symbols / sizeof symbols[0]);
    return api->library ? SS_OK : fail(error, SS_ERR_UNSUPPORTED, "TLS needs OpenSSL: " SPANSIEVE_LIBSSL " is missing");
}

/* An encrypted key is an error, never a question on the terminal. */
static int no_password(char *buffer, int size, int is_writing, void *data) {
    (void)buffer, (void)size, (void)is_writing, (void)data;
    return -1;
}

static BIO *open_text(const openssl *api, const char *text) {
    api->ERR_clear_error();
    return api->BIO_new_mem_buf(text, -1);
}

typedef ss_status take_certificate(const openssl *api, SSL_CTX *context, X509 *certificate, size_t index);

/* Hand each certificate of pem to take, which keeps it by a reference of its own. */
static ss_status each_certificate(const openssl *api, SSL_CTX *context, const char *pem, take_certificate *take,
                                  ss_error *error) {
    BIO *text = open_text(api, pem);
    if (!text) {
        return fail(error, SS_ERR_NO_MEMORY, NULL);
    }
    ss_status status = SS_OK;
    size_t n = 0;
    for (X509 *certificate; status == SS_OK && (certificate = api->PEM_read_bio_X509(text, NULL, no_password, NULL));) {
        status = take(api, context, certificate, n++);
        api->X509_free(certificate);
    }
    bool is_at_end = ERR_GET_REASON(api->ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    if (status != SS_OK || n == 0 || !is_at_end) {
        status = n == 0 && is_at_end ? fail(error, SS_ERR_ARGUMENT, "failed to find any PEM data in certificate input")
                                     : fail_as_library(api, error, "a certificate cannot be used");
    }
    api->BIO_free(text);
    return status;
}

static ss_status show(const openssl *api, SSL_CTX *context, X509 *certificate, size_t index) {
    bool is_taken =
        index == 0 ? api->SSL_CTX_use_certificate(context, certificate) == 1
                   : api->SSL_CTX_ctrl(context, SSL_CTRL_CHAIN_CERT, 1, certificate) == 1; /* 1: by its own reference */
    return is_taken ? SS_OK : SS_ERR_ARGUMENT;
}

static ss_status trust(const openssl *api, SSL_CTX *context, X509 *certificate, size_t index) {
    (void)index;
    return api->X509_STORE_add_cert(api->SSL_CTX_get_cert_store(context), certificate) == 1 ? SS_OK : SS_ERR_ARGUMENT;
}

static ss_status trust_and_name(const openssl *api, SSL_CTX *context, X509 *certificate, size_t index) {
    bool is_named = api->SSL_CTX_add_client_CA(context, certificate) == 1;
    return is_named ? trust(api, context, certificate, index) : SS_ERR_ARGUMENT;
}

static ss_status use_key(const openssl *api, SSL_CTX *context, const char *pem, ss_error *error) {
    BIO *text = open_text(api, pem);
    if (!text) {
        return fail(error, SS_ERR_NO_MEMORY, NULL);
    }
    EVP_PKEY *key = api->PEM_read_bio_PrivateKey(text, NULL, no_password, NULL);
    ss_status status = SS_OK;
    if (!key) {
        status = fail(error, SS_ERR_ARGUMENT, "failed to parse private key");
    } else if (api->SSL_CTX_use_PrivateKey(context, key) != 1 || api->SSL_CTX_check_private_key(context) != 1) {
        status = fail(error, SS_ERR_ARGUMENT, "private key does not match public key");
    }
    api->EVP_PKEY_free(key);
    api->BIO_free(text);
    return status;
}

static ss_status use_certificates(const openssl *api, SSL_CTX *context, const ss_tls_config *config, ss_error *error) {
    ss_status status = SS_OK;
    if (is_given(config->ca)) {
        status = each_certificate(api, context, config->ca, config->is_server ? trust_and_name : trust, error);
    }
    if (status == SS_OK && !config->is_server && (!is_given(config->ca) || config->trusts_system)) {
        api->SSL_CTX_set_default_verify_paths(context);
    }
    if (status == SS_OK && is_given(config->cert)) {
        status = each_certificate(api, context, config->cert, show, error);
    }
    return status == SS_OK && is_given(config->key) ? use_key(api, context, config->key, error) : status;
}

/* ------------------------------------------------------------------ contexts */

static int select_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_length, const unsigned char *in,
                           unsigned int in_length, void *data) {
    (void)ssl;
    const alpn *ours = data;
    for (unsigned int own = 0; own < ours->length; own += 1u + ours->bytes[own]) {
        for (unsigned int i = 0; i < in_length; i += 1u + in[i]) { /* OpenSSL has checked the lengths */
            if (in[i] == ours->bytes[own] && memcmp(in + i + 1, ours->bytes + own + 1, in[i]) == 0) {
                *out = in + i + 1;
                *out_length = in[i];
                return SSL_TLSEXT_ERR_OK;
            }
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static ss_status set_limits(const openssl *api, SSL_CTX *context, const ss_tls_config *config, ss_error *error) {
    api->ERR_clear_error();
    if (api->SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, config->min_version, NULL) != 1 ||
        api->SSL_CTX_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, config->max_version, NULL) != 1) {
        return fail_as_library(api, error, "the versions are not supported");
    }
    if (is_given(config->ciphers) && api->SSL_CTX_set_cipher_list(context, config->ciphers) != 1) {
        return fail(error, SS_ERR_ARGUMENT, "OpenSSL knows none of the cipher suites");
    }
    /* Some interfaces take no const, and change nothing. */
    if (is_given(config->groups) &&
        api->SSL_CTX_ctrl(context, SSL_CTRL_SET_GROUPS_LIST, 0, (char *)config->groups) != 1) {
        return fail(error, SS_ERR_ARGUMENT, "OpenSSL does not know one of the curves");
    }
    return SS_OK;
}

static void set_behaviour(ss_tls *tls, SSL_CTX *context, const ss_tls_config *config) {
    const openssl *api = &tls->api;
    api->SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    api->SSL_CTX_ctrl(context, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY, NULL);
    api->SSL_CTX_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    if (tls->is_server) {
        static const unsigned char session_context[] = "spansieve";
        api->SSL_CTX_set_session_id_context(context, session_context, sizeof session_context - 1);
        api->SSL_CTX_set_alpn_select_cb(context, select_protocol, &tls->alpn);
        if (is_given(config->ca)) {
            api->SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
        }
    } else {
        api->SSL_CTX_set_alpn_protos(context, tls->alpn.bytes, tls->alpn.length);
        api->SSL_CTX_set_verify(context, config->skips_verification ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    }
}

static SSL_CTX *new_context(ss_tls *tls, const ss_tls_config *config, ss_error *error) {
    const openssl *api = &tls->api;
    SSL_CTX *context = api->SSL_CTX_new(api->TLS_method());
    if (!context) {
        fail(error, SS_ERR_NO_MEMORY, NULL);
        return NULL;
    }
    set_behaviour(tls, context, config);
    if (set_limits(api, context, config, error) != SS_OK || use_certificates(api, context, config, error) != SS_OK) {
        api->SSL_CTX_free(context);
        return NULL;
    }
    return context;
}

/* Where a comma was stands the length of the name behind it. */
static void set_alpn(alpn *to, const char *names, size_t length) {
    memcpy(to->bytes + 1, names, length);
    to->length = (unsigned int)length + 1;
    for (size_t first = 0, i = 0; i <= length; i++) {
        if (i == length || names[i] == ',') {
            to->bytes[first] = (unsigned char)(i - first);
            first = i + 1;
        }
    }
}

ss_tls *ss_tls_new(const ss_tls_config *config, ss_error *error) {
    *error = (ss_error){.code = SS_OK};
    size_t alpn_length = strlen(config->alpn);
    ss_tls *tls = calloc(1, sizeof *tls);
    if (!tls || alpn_length >= sizeof tls->alpn.bytes) {
        free(tls);
        fail(error, tls ? SS_ERR_ARGUMENT : SS_ERR_NO_MEMORY, NULL);
        return NULL;
    }
    pthread_mutex_init(&tls->lock, NULL);
    tls->is_server = config->is_server;
    set_alpn(&tls->alpn, config->alpn, alpn_length);
    tls->server_name = strdup(config->server_name ? config->server_name : "");
    if (!tls->server_name) {
        fail(error, SS_ERR_NO_MEMORY, NULL);
    } else if (load(&tls->api, error) == SS_OK) {
        tls->context = new_context(tls, config, error);
    }
    if (!tls->context) {
        ss_tls_free(tls);
        return NULL;
    }
    return tls;
}

ss_status ss_tls_replace(ss_tls *tls, const ss_tls_config *config, ss_error *error) {
    *error = (ss_error){.code = SS_OK};
    SSL_CTX *context = new_context(tls, config, error);
    if (!context) {
        return error->code;
    }
    pthread_mutex_lock(&tls->lock);
    SSL_CTX *before = tls->context;
    tls->context = context;
    pthread_mutex_unlock(&tls->lock);
    tls->api.SSL_CTX_free(before); /* each connection has a reference */
    return SS_OK;
}

void ss_tls_free(ss_tls *tls) {
    if (!tls) {
        return;
    }
    if (tls->context) {
        tls->api.SSL_CTX_free(tls->context);
    }
    ss_library_unload(tls->api.library);
    pthread_mutex_destroy(&tls->lock);
    free(tls->server_name);
    free(tls);
}

uint64_t ss_tls_failures(ss_tls *tls, char *text, size_t size) {
    pthread_mutex_lock(&tls->lock);
    uint64_t n = tls->n_failures;
    if (size) {
        size_t length = strnlen(tls->failure, size - 1);
        memcpy(text, tls->failure, length);
        text[length] = 0;
    }
    pthread_mutex_unlock(&tls->lock);
    return n;
}

/* ------------------------------------------------------------------ streams */

static bool is_address(const char *name) {
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

/* Ask for the server's name, and take no certificate for another one. */
static bool expect_name(ss_tls_stream *stream) {
    const openssl *api = stream->api;
    char *name = stream->tls->server_name;
    if (!name[0]) {
        return true;
    }
    if (is_address(name)) { /* which is never asked for: RFC 6066, section 3 */
        return api->X509_VERIFY_PARAM_set1_ip_asc(api->SSL_get0_param(stream->ssl), name) == 1;
    }
    return api->SSL_ctrl(stream->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name) == 1 &&
           api->SSL_set1_host(stream->ssl, name) == 1;
}

ss_tls_stream *ss_tls_stream_new(ss_tls *tls) {
    ss_tls_stream *stream = calloc(1, sizeof *stream);
    if (!stream) {
        return NULL;
    }
    const openssl *api = &tls->api;
    stream->tls = tls;
    stream->api = api;
    pthread_mutex_lock(&tls->lock);
    stream->ssl = api->SSL_new(tls->context);
    pthread_mutex_unlock(&tls->lock);
    BIO *sealed = stream->ssl ? api->BIO_new(api->BIO_s_mem()) : NULL;
    if (sealed) {
        stream->sealed = sealed;
        api->SSL_set0_wbio(stream->ssl, sealed);
    }
    if (!sealed || ss_tls_stream_feed(stream, (const uint8_t *)"", 0) != SS_OK ||
        (!tls->is_server && !expect_name(stream))) {
        ss_tls_stream_free(stream);
        return NULL;
    }
    if (tls->is_server) {
        api->SSL_set_accept_state(stream->ssl);
    } else {
        api->SSL_set_connect_state(stream->ssl);
    }
    return stream;
}

void ss_tls_stream_free(ss_tls_stream *stream) {
    if (stream) {
        stream->api->SSL_free(stream->ssl);
        ss_buffer_free(&stream->output);
        free(stream);
    }
}

bool ss_tls_stream_has_http2(const ss_tls_stream *stream) {
    return stream->has_http2;
}

bool ss_tls_stream_is_ready(const ss_tls_stream *stream) {
    return stream->is_ready;
}

ss_buffer *ss_tls_stream_output(ss_tls_stream *stream) {
    return &stream->output;
}

const char *ss_tls_stream_reason(const ss_tls_stream *stream) {
    return stream->reason;
}

static void append_text(char *text, size_t size, const char *more) {
    size_t length = strlen(text);
    size_t n = strnlen(more, size - 1 - length);
    memcpy(text + length, more, n);
    text[length + n] = 0;
}

static ss_status give_up(ss_tls_stream *stream, const char *what, const char *why) {
    append_text(stream->reason, sizeof stream->reason, what);
    append_text(stream->reason, sizeof stream->reason, why);
    ss_tls *tls = stream->tls;
    if (tls->is_server && !stream->is_ready) {
        pthread_mutex_lock(&tls->lock);
        tls->n_failures++;
        memcpy(tls->failure, stream->reason, sizeof tls->failure);
        pthread_mutex_unlock(&tls->lock);
    }
    return SS_ERR_IO;
}

static ss_status explain(ss_tls_stream *stream) {
    const openssl *api = stream->api;
    unsigned long code = api->ERR_peek_error();
    if (ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        long verdict = api->SSL_get_verify_result(stream->ssl);
        const char *why = api->X509_verify_cert_error_string(verdict);
        if (verdict != X509_V_ERR_HOSTNAME_MISMATCH && verdict != X509_V_ERR_IP_ADDRESS_MISMATCH) {
            return give_up(stream, "failed to verify certificate: ", why);
        }
        append_text(stream->reason, sizeof stream->reason, "failed to verify certificate: ");
        append_text(stream->reason, sizeof stream->reason, why);
        return give_up(stream, ", it is not valid for ", stream->tls->server_name);
    }
    const char *reason = api->ERR_reason_error_string(code);
    return give_up(stream, reason ? reason : "the peer broke off", "");
}

/* Move what ssl has written to output. */
static ss_status collect(ss_tls_stream *stream) {
    const openssl *api = stream->api;
    for (size_t n; (n = api->BIO_ctrl_pending(stream->sealed)) > 0;) {
        n = n < INT32_MAX ? n : INT32_MAX;
        ss_status status = ss_buffer_reserve(&stream->output, n);
        if (status != SS_OK) {
            return status;
        }
        int moved = api->BIO_read(stream->sealed, stream->output.data + stream->output.length, (int)n);
        if (moved <= 0) {
            return SS_ERR_IO;
        }
        stream->output.length += (size_t)moved;
    }
    return SS_OK;
}

ss_status ss_tls_stream_feed(ss_tls_stream *stream, const uint8_t *bytes, size_t length) {
    const openssl *api = stream->api;
    BIO *in = length <= INT32_MAX ? api->BIO_new_mem_buf(bytes, (int)length) : NULL;
    if (!in) {
        return SS_ERR_NO_MEMORY;
    }
    api->BIO_ctrl(in, BIO_C_SET_BUF_MEM_EOF_RETURN, -1, NULL); /* its end is not the connection's: more will be fed */
    api->SSL_set0_rbio(stream->ssl, in);
    return SS_OK;
}

static ss_status shake_hands(ss_tls_stream *stream) {
    const openssl *api = stream->api;
    api->ERR_clear_error();
    int result = api->SSL_do_handshake(stream->ssl);
    if (result != 1) {
        return api->SSL_get_error(stream->ssl, result) == SSL_ERROR_WANT_READ ? SS_OK : explain(stream);
    }
    const unsigned char *protocol;
    unsigned int length;
    api->SSL_get0_alpn_selected(stream->ssl, &protocol, &length);
    /* HTTP/1.1 is what is spoken without a word about it; HTTP/2 has to be agreed on. */
    static const unsigned char http2[] = {2, 'h', '2'};
    const alpn *ours = &stream->tls->alpn;
    if (length == 0 && ours->length == sizeof http2 && memcmp(ours->bytes, http2, sizeof http2) == 0) {
        return give_up(stream, "cannot check peer: missing selected ALPN property", "");
    }
    stream->has_http2 = length == http2[0] && memcmp(protocol, http2 + 1, length) == 0;
    stream->is_ready = true;
    return SS_OK;
}

static ss_status open_records(ss_tls_stream *stream, uint8_t *plain, size_t room, size_t *n) {
    const openssl *api = stream->api;
    while (*n < room) {
        api->ERR_clear_error();
        size_t left = room - *n;
        int result = api->SSL_read(stream->ssl, plain + *n, left < INT32_MAX ? (int)left : INT32_MAX);
        if (result > 0) {
            *n += (size_t)result;
            continue;
        }
        switch (api->SSL_get_error(stream->ssl, result)) {
        case SSL_ERROR_WANT_READ: return SS_OK;
        case SSL_ERROR_ZERO_RETURN: return SS_ERR_CLOSED;
        default: return explain(stream);
        }
    }
    return SS_OK;
}

ss_status ss_tls_stream_read(ss_tls_stream *stream, uint8_t *plain, size_t room, size_t *n) {
    *n = 0;
    ss_status status = stream->reason[0] ? SS_ERR_IO : SS_OK;
    if (status == SS_OK && !stream->is_ready) {
        status = shake_hands(stream);
    }
    if (status == SS_OK && stream->is_ready) {
        status = open_records(stream, plain, room, n);
    }
    ss_status collected = collect(stream);
    return status != SS_OK ? status : collected;
}

ss_status ss_tls_stream_write(ss_tls_stream *stream, const uint8_t *bytes, size_t length) {
    const openssl *api = stream->api;
    while (length) {
        size_t n = length < SS_TLS_RECORD_BYTES ? length : SS_TLS_RECORD_BYTES; /* bounds what `sealed` ever holds */
        api->ERR_clear_error();
        int result = stream->reason[0] ? 0 : api->SSL_write(stream->ssl, bytes, (int)n);
        if (result <= 0) {
            return stream->reason[0] ? SS_ERR_IO : explain(stream);
        }
        ss_status status = collect(stream);
        if (status != SS_OK) {
            return status;
        }
        bytes += result;
        length -= (size_t)result;
    }
    return SS_OK;
}

void ss_tls_stream_end(ss_tls_stream *stream) {
    if (!stream->is_ended && stream->is_ready && !stream->reason[0]) {
        stream->is_ended = true;
        stream->api->ERR_clear_error();
        (void)stream->api->SSL_shutdown(stream->ssl);
        (void)collect(stream);
    }
}
