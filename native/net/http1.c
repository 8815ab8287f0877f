/*
 * OTLP/HTTP and the admin listeners on HTTP/1.1. llhttp finds the parts of a request; this file judges them, keeps the
 * body within its limit and writes the answers, in the order of the requests.
 * Sources: RFC 9110, RFC 9112, OTLP specification "OTLP/HTTP".
 */
#include "net/cors.h"
#include "net/grpc.h"
#include "net/refusal.h"

#include <llhttp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    NAME_BYTES = SS_METADATA_NAME_MAX, /* longer header names are none of ours */
    VALUE_BYTES = 128,                 /* of a header of ours; what is longer is cut, and not known */
    LIST_BYTES = 1024,                 /* the same of a list of header names */
    URL_BYTES = 512,
    OUTPUT_BYTES = 16 * 1024, /* while more than this waits to be sent, what a peer has sent behind it waits too */
    DRAIN_BYTES = 256 * 1024, /* a refused body up to this size is read, so that the connection can be used again */
    DRAIN_PATIENCE_NS = 200000000
};

typedef enum header {
    HEADER_CONTENT_TYPE = 0,
    HEADER_CONTENT_ENCODING,
    HEADER_EXPECT,
    HEADER_HOST,
    N_HEADERS,
    /* Those below are looked at only where CORS is configured. */
    HEADER_ORIGIN = N_HEADERS,
    HEADER_REQUEST_METHOD,
    HEADER_REQUEST_HEADERS,
    N_HEADERS_WITH_CORS,
    HEADER_OTHER = N_HEADERS_WITH_CORS
} header;

/* Value of a header of the request at hand. */
typedef struct text {
    uint16_t length; /* of what is kept */
    bool is_set;     /* the first of several counts; of Host there is one */
    bool is_cut;
    uint16_t capacity;
    char *bytes;
} text;

/* What lies between a header's name and its value, and between the pieces of a value: the end of a line, and behind it
 * a blank, is a value that goes on on another line, which RFC 9112 forbids. */
typedef enum fold { FOLD_NONE = 0, FOLD_LINE_END, FOLD_FOUND } fold;

/* What a connection needs for CORS. */
typedef struct cors_texts {
    text texts[N_HEADERS_WITH_CORS - N_HEADERS];
    char origin[4 * VALUE_BYTES], method[NAME_BYTES], headers[LIST_BYTES];
} cors_texts;

typedef struct http1 {
    ss_connection base;
    llhttp_t parser;
    uint64_t started_ns; /* when the request at hand began; without one, since when it is waited for */
    bool has_begun;      /* a request is at hand */
    bool has_version;    /* and its first line is complete */
    bool has_headers;    /* and its headers are, too */
    bool was_used;       /* there was a request before */
    bool is_closing;     /* the last answer is written */
    bool is_draining;
    uint64_t drain_by_ns; /* draining: an idle connection is closed then */

    /* The request at hand. */
    size_t header_bytes;
    char url[URL_BYTES];
    size_t url_length; /* whole */
    char name[NAME_BYTES];
    size_t name_length;
    header header;
    text texts[N_HEADERS];
    char values[N_HEADERS][VALUE_BYTES];
    cors_texts *cors; /* NULL: no CORS */
    ss_signal signal;
    ss_payload payload;
    ss_encoding encoding;
    const char *kept_name; /* of the header being read, where it is kept with the request; NULL: it is not */
    const char *gap; /* in the input, where the target, a header's name or the last piece of its value ended; or NULL */
    fold fold;       /* what the gap has shown so far */
    ss_buffer kept_value;
    ss_buffer metadata;
    size_t expected; /* Content-Length, 0 where unknown */
    bool is_preflight;
    bool is_refused; /* decided already, told when the body has been read */
    ss_refusal refusal;
    ss_body body;
    ss_reply *reply;     /* that the request waits for; NULL: it does not */
    ss_buffer backlog;   /* came while a request waited for its answer, or its answer for the peer */
    size_t backlog_read; /* of it */
} http1;

/* ------------------------------------------------------------------ encodings */

static const struct {
    const char *name;
    ss_encoding encoding;
} encodings[SS_N_CONTENT_ENCODINGS] = {
    [SS_CONTENT_NONE] = {"", SS_ENCODING_IDENTITY},
    [SS_CONTENT_IDENTITY] = {"identity", SS_ENCODING_IDENTITY},
    [SS_CONTENT_GZIP] = {"gzip", SS_ENCODING_GZIP},
    [SS_CONTENT_ZSTD] = {"zstd", SS_ENCODING_ZSTD},
    [SS_CONTENT_ZLIB] = {"zlib", SS_ENCODING_ZLIB},
    [SS_CONTENT_DEFLATE] = {"deflate", SS_ENCODING_ZLIB},
    [SS_CONTENT_SNAPPY] = {"snappy", SS_ENCODING_SNAPPY},
    [SS_CONTENT_SNAPPY_FRAMED] = {"x-snappy-framed", SS_ENCODING_SNAPPY_FRAMED},
    [SS_CONTENT_LZ4] = {"lz4", SS_ENCODING_LZ4},
};

static bool takes_encoding(const http1 *connection, size_t name) {
    uint32_t taken = connection->base.listener->config.encodings;
    return (!taken || taken >> name & 1) && ss_encoding_is_available(encodings[name].encoding);
}

/* ------------------------------------------------------------------ answers */

static const char *reason_of(int status) {
    switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 415: return "Unsupported Media Type";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Unknown";
    }
}

static text *text_of(http1 *connection, header name) {
    if (name < N_HEADERS) {
        return &connection->texts[name];
    }
    return connection->cors && name < N_HEADERS_WITH_CORS ? &connection->cors->texts[name - N_HEADERS] : NULL;
}

static ss_header_text value_of(http1 *connection, header name) {
    const text *value = text_of(connection, name);
    bool is_known = name < N_HEADERS || !value->is_cut; /* half an origin is another one */
    return (ss_header_text){value->bytes, is_known ? value->length : 0};
}

static void drop_metadata(http1 *connection) {
    if (connection->metadata.length) {
        ss_release_bytes(connection->base.scratch, connection->metadata.length);
    }
    ss_buffer_free(&connection->metadata);
}

static void forget_request(http1 *connection) {
    ss_body_release(connection->base.scratch, &connection->body);
    connection->header_bytes = connection->url_length = connection->name_length = connection->expected = 0;
    connection->header = HEADER_OTHER;
    connection->kept_name = NULL;
    ss_buffer_free(&connection->kept_value);
    drop_metadata(connection);
    for (header name = 0; name < (connection->cors ? N_HEADERS_WITH_CORS : N_HEADERS); name++) {
        text *value = text_of(connection, name);
        value->length = 0;
        value->is_set = value->is_cut = false;
    }
    connection->is_preflight = connection->is_refused = false;
    connection->gap = NULL;
    connection->fold = FOLD_NONE;
    connection->has_begun = connection->has_version = connection->has_headers = false;
    connection->was_used = true;
    connection->started_ns = connection->base.scratch->now_ns;
}

/* The header lines that the configuration adds to the answer to a request. */
static ss_status append_configured(http1 *connection, ss_buffer *output) {
    const ss_listener *listener = connection->base.listener;
    const char *lines = listener->config.response_headers;
    ss_status status = lines ? ss_buffer_append(output, (const uint8_t *)lines, strlen(lines)) : SS_OK;
    if (status != SS_OK || !connection->cors) {
        return status;
    }
    ss_header_text origin = value_of(connection, HEADER_ORIGIN);
    if (connection->is_preflight) {
        return ss_cors_append_preflight(listener->cors, origin, value_of(connection, HEADER_REQUEST_METHOD),
                                        value_of(connection, HEADER_REQUEST_HEADERS), output);
    }
    llhttp_method_t method = connection->parser.method;
    bool is_simple = method == HTTP_POST || method == HTTP_GET || method == HTTP_HEAD || method == HTTP_OPTIONS;
    return ss_cors_append_answer(listener->cors, origin, is_simple, output);
}

/* Write an answer and be ready for the next request. extra: further header lines, each with its end. content_type NULL:
 * the answer has no body. */
static bool respond(http1 *connection, int status, const char *content_type, const char *extra, const uint8_t *body,
                    size_t length) {
    ss_buffer *output = &connection->base.output;
    bool keeps_alive =
        !connection->is_closing && !connection->is_draining && !connection->base.listener->config.closes_after_answer;
    bool is_head = connection->has_begun && connection->parser.method == HTTP_HEAD;
    /* A client of HTTP/1.0 believes in an end unless it is told otherwise. */
    bool is_old = connection->parser.http_major == 1 && connection->parser.http_minor == 0;
    const char *persistence = !keeps_alive ? "Connection: close\r\n" : is_old ? "Connection: keep-alive\r\n" : "";
    char head[512], type[256] = "", size[40] = "";
    if (content_type) {
        snprintf(type, sizeof type, "Content-Type: %s\r\n", content_type);
        snprintf(size, sizeof size, "Content-Length: %zu\r\n", length);
    }
    int head_size = snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\n%s%s%s%s", status, reason_of(status), type, extra,
                             persistence, size);
    if (!connection->base.carrier) { /* which counts it */
        ss_count(&connection->base.scratch->stats.requests, 1);
    }
    ss_status written = ss_buffer_append(output, (const uint8_t *)head, (size_t)head_size);
    if (written == SS_OK && connection->has_headers) {
        written = append_configured(connection, output);
    }
    if (written == SS_OK) {
        written = ss_buffer_append(output, (const uint8_t *)"\r\n", 2);
    }
    if (written == SS_OK && !is_head) {
        written = ss_buffer_append(output, body, length);
    }
    if (!keeps_alive || written != SS_OK) { /* no answer is better than half of one */
        connection->is_closing = true;
    }
    forget_request(connection);
    return written == SS_OK;
}

static bool respond_text_with(http1 *connection, int status, const char *extra, const char *message) {
    return respond(connection, status, "text/plain; charset=utf-8", extra, (const uint8_t *)message, strlen(message));
}

static bool respond_text(http1 *connection, int status, const char *message) {
    return respond_text_with(connection, status, "", message);
}

static const char *content_type_of(ss_payload payload) {
    return payload == SS_PAYLOAD_JSON ? "application/json" : "application/x-protobuf";
}

static bool respond_status(http1 *connection, int status, const char *extra, const ss_verdict *verdict) {
    ss_buffer *answer = &connection->base.scratch->answer;
    answer->length = 0;
    ss_status written = verdict->code == SS_CODE_OK
                            ? ss_export_response_append(verdict, connection->signal, connection->payload, answer)
                            : ss_rpc_status_append(verdict, connection->payload, answer);
    if (written != SS_OK) {
        connection->is_closing = true;
        return false;
    }
    return respond(connection, status, content_type_of(connection->payload), extra, answer->data, answer->length);
}

static bool respond_verdict(http1 *connection, const ss_verdict *verdict) {
    char retry_after[40] = "";
    int status = ss_http_status_of(verdict->code);
    if ((status == 429 || status == 503) && verdict->has_retry_delay) {
        snprintf(retry_after, sizeof retry_after, "Retry-After: %u\r\n", verdict->retry_delay_ms / 1000);
    }
    return respond_status(connection, status, retry_after, verdict);
}

/* The message is not what it is said to be. */
static bool respond_malformed(http1 *connection, const char *reason) {
    ss_verdict verdict;
    ss_refuse_request(&connection->base, SS_REFUSAL_MALFORMED, "%s", reason);
    ss_verdict_fail(&verdict, SS_CODE_INVALID_ARGUMENT, "%s", reason);
    return respond_verdict(connection, &verdict);
}

/* The bytes of the request cannot be held: the rest of it is not read, and it comes again. */
static bool respond_no_room(http1 *connection) {
    ss_verdict verdict;
    ss_refuse_request(&connection->base, SS_REFUSAL_MEMORY, "a body of more than %zu bytes",
                      ss_body_length(&connection->body));
    ss_verdict_no_room(&verdict);
    connection->is_closing = true;
    return respond_verdict(connection, &verdict);
}

/* HTTP is broken: nothing behind it can be understood. */
static bool respond_broken(http1 *connection, int status, const char *message, const char *reason) {
    ss_count(&connection->base.scratch->stats.protocol_errors, 1);
    ss_refuse_request(&connection->base, SS_REFUSAL_PROTOCOL, "HTTP that cannot be read: %s", reason);
    connection->is_closing = true;
    return respond_text(connection, status, message);
}

static const char *text_in_quotes(const char *bytes, size_t length, char *quoted, size_t size) {
    ss_quote((const uint8_t *)bytes, length, quoted, size);
    return quoted;
}

/* The encodings that the listener takes, as a list. */
static void write_encodings(const http1 *connection, char *out, size_t size) {
    size_t used = 0;
    out[0] = 0;
    for (size_t i = SS_CONTENT_GZIP; i < SS_N_CONTENT_ENCODINGS; i++) {
        if (takes_encoding(connection, i) && used < size) {
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", encodings[i].name);
        }
    }
}

static bool respond_encoding(http1 *connection) {
    char list[128], extra[192], quoted[2 * VALUE_BYTES];
    ss_header_text value = value_of(connection, HEADER_CONTENT_ENCODING);
    ss_verdict verdict;
    write_encodings(connection, list, sizeof list);
    ss_verdict_fail(&verdict, SS_CODE_INVALID_ARGUMENT, "unsupported Content-Encoding: %.*s; supported: %s",
                    (int)value.length, value.bytes, list);
    ss_refuse_request(&connection->base, SS_REFUSAL_ENCODING, "Content-Encoding %s",
                      text_in_quotes(value.bytes, value.length, quoted, sizeof quoted));
    snprintf(extra, sizeof extra, "Accept-Encoding: %s\r\n", list);
    return respond_status(connection, 415, extra, &verdict);
}

static size_t path_length(const http1 *connection) {
    size_t kept = connection->url_length < URL_BYTES ? connection->url_length : URL_BYTES;
    const char *query = memchr(connection->url, '?', kept);
    return query ? (size_t)(query - connection->url) : connection->url_length;
}

static bool respond_refusal(http1 *connection) {
    char quoted[200];
    ss_connection *base = &connection->base;
    const char *method = llhttp_method_name((llhttp_method_t)connection->parser.method);
    size_t kept = path_length(connection) < URL_BYTES ? path_length(connection) : URL_BYTES;
    ss_header_text type = value_of(connection, HEADER_CONTENT_TYPE);
    switch ((int)connection->refusal) {
    case SS_REFUSAL_UNKNOWN_PATH:
    case SS_REFUSAL_NO_PIPELINE:
        ss_refuse_request(base, connection->refusal, "%s %s", method,
                          text_in_quotes(connection->url, kept, quoted, sizeof quoted));
        return respond_text(connection, 404, "404 page not found\n");
    case SS_REFUSAL_METHOD:
        ss_refuse_request(base, connection->refusal, "%s %s", method,
                          text_in_quotes(connection->url, kept, quoted, sizeof quoted));
        return respond_text_with(connection, 405, "Allow: POST\r\n", "405 method not allowed, supported: [POST]");
    case SS_REFUSAL_MEDIA_TYPE:
        ss_refuse_request(base, connection->refusal, "Content-Type %s",
                          text_in_quotes(type.bytes, type.length, quoted, sizeof quoted));
        return respond_text(connection, 415,
                            "415 unsupported media type, supported: [application/json, application/x-protobuf]");
    default: return respond_encoding(connection);
    }
}

/* What needs no body. */
static bool respond_early(http1 *connection) {
    return connection->is_preflight ? respond(connection, 204, NULL, "", NULL, 0) : respond_refusal(connection);
}

/* ------------------------------------------------------------------ requests */

/* A target may come whole, as a proxy gets it: RFC 9112 asks servers to take it. Who is meant is not looked at. */
static void strip_authority(http1 *connection) {
    const char *end = connection->url + connection->url_length;
    if (connection->url_length > URL_BYTES || connection->url[0] == '/') {
        return;
    }
    const char *path = memchr(connection->url, ':', connection->url_length);
    if (!path || end - path < 3 || memcmp(path, "://", 3) != 0) {
        return;
    }
    for (path += 3; path < end && *path != '/' && *path != '?';) {
        path++;
    }
    if (path < end && *path == '/') {
        connection->url_length = (size_t)(end - path);
        memmove(connection->url, path, connection->url_length);
    }
}

/* The path that is the request's, or the longest one above it that takes all below. */
static bool find_signal(http1 *connection) {
    size_t length = path_length(connection), best = 0;
    for (int i = 0; i < SS_N_SIGNALS && length <= URL_BYTES; i++) {
        const char *path = connection->base.listener->config.paths[i];
        size_t known = strlen(path);
        bool matches = known == length || (known < length && path[known - 1] == '/');
        if (matches && known > best && memcmp(path, connection->url, known) == 0) {
            connection->signal = (ss_signal)i;
            best = known;
        }
    }
    return best;
}

/* The media type without its parameters, in any case. */
static bool find_payload(http1 *connection) {
    ss_header_text value = value_of(connection, HEADER_CONTENT_TYPE);
    size_t length = 0;
    while (length < value.length && value.bytes[length] != ';' && value.bytes[length] != ' ' &&
           value.bytes[length] != '\t') {
        length++;
    }
    for (int payload = SS_PAYLOAD_PROTOBUF; payload <= SS_PAYLOAD_JSON; payload++) {
        const char *type = content_type_of((ss_payload)payload);
        if (length == strlen(type) && strncasecmp(value.bytes, type, length) == 0) {
            connection->payload = (ss_payload)payload;
            return true;
        }
    }
    connection->payload = SS_PAYLOAD_JSON; /* of an answer, if there is to be one */
    return false;
}

static bool find_encoding(http1 *connection) {
    static const char also_gzip[] = "x-gzip"; /* RFC 9110, section 8.4.1.3 */
    const text *value = text_of(connection, HEADER_CONTENT_ENCODING);
    connection->encoding = SS_ENCODING_IDENTITY;
    if (connection->base.listener->config.ignores_encoding) {
        return true;
    }
    if (value->length == sizeof also_gzip - 1 && strncasecmp(value->bytes, also_gzip, value->length) == 0) {
        connection->encoding = SS_ENCODING_GZIP;
        return takes_encoding(connection, SS_CONTENT_GZIP);
    }
    for (size_t i = 0; i < SS_N_CONTENT_ENCODINGS && !value->is_cut; i++) {
        const char *name = encodings[i].name;
        if (value->length == strlen(name) && strncasecmp(value->bytes, name, value->length) == 0) {
            connection->encoding = encodings[i].encoding;
            return takes_encoding(connection, i);
        }
    }
    return false;
}

static bool is_preflight(http1 *connection) {
    return connection->cors && connection->parser.method == HTTP_OPTIONS &&
           value_of(connection, HEADER_REQUEST_METHOD).length > 0;
}

/* False: refusal says why. */
static bool may_pass(http1 *connection, ss_refusal *refusal) {
    const ss_service *service = connection->base.scratch->service;
    bool has_payload = find_payload(connection);
    if (!find_encoding(connection)) {
        *refusal = SS_REFUSAL_ENCODING;
    } else if (!find_signal(connection)) {
        *refusal = SS_REFUSAL_UNKNOWN_PATH;
    } else if (!service->has_signal(service->receiver, connection->signal)) {
        *refusal = SS_REFUSAL_NO_PIPELINE;
    } else if (connection->parser.method != HTTP_POST) {
        *refusal = SS_REFUSAL_METHOD;
    } else if (!has_payload) {
        *refusal = SS_REFUSAL_MEDIA_TYPE;
    } else {
        return true;
    }
    return false;
}

static bool respond_too_large(http1 *connection) {
    static const char message[] = "http: request body too large"; /* the Collector's, with its 400 */
    ss_verdict verdict;
    ss_refuse_request(&connection->base, SS_REFUSAL_TOO_LARGE, "a body of more than %zu bytes",
                      connection->base.listener->config.max_message_bytes);
    if (connection->base.listener->config.is_admin) {
        return respond_text(connection, 400, message);
    }
    ss_verdict_fail(&verdict, SS_CODE_INVALID_ARGUMENT, message);
    return respond_verdict(connection, &verdict);
}

/* Decompress the body; false: it has been refused. */
static bool unpack(http1 *connection, ss_request *request) {
    ss_scratch *scratch = connection->base.scratch;
    ss_error error = {0};
    ss_verdict verdict;
    switch ((int)ss_inflate(scratch, connection->encoding, request->bytes, request->length,
                            connection->base.listener->config.max_message_bytes, &error)) {
    case SS_OK:
        request->bytes = ss_bytes_of(&scratch->inflated);
        request->length = scratch->inflated.length;
        return true;
    case SS_ERR_LIMIT: respond_too_large(connection); return false;
    case SS_ERR_REFUSED: respond_no_room(connection); return false;
    case SS_ERR_NO_MEMORY:
        ss_verdict_fail(&verdict, SS_CODE_UNAVAILABLE, "no memory to decompress the body");
        respond_verdict(connection, &verdict);
        return false;
    default: respond_malformed(connection, error.reason); return false;
    }
}

static bool take_request(http1 *connection) {
    ss_scratch *scratch = connection->base.scratch;
    const ss_service *service = scratch->service;
    ss_request request = {.signal = connection->signal,
                          .transport = SS_TRANSPORT_HTTP,
                          .payload = connection->payload,
                          .encoding = connection->encoding,
                          .bytes = ss_body_bytes(&connection->body),
                          .length = ss_body_length(&connection->body),
                          .route = ss_connection_route(&connection->base, UINT64_MAX),
                          .metadata = connection->metadata.data,
                          .metadata_length = connection->metadata.length};
    if (connection->encoding != SS_ENCODING_IDENTITY && !unpack(connection, &request)) {
        return false;
    }
    ss_verdict verdict = {0};
    service->accept(service->receiver, scratch->worker, &request, &verdict);
    ss_inflated_done(scratch);
    if (verdict.is_pending) {
        connection->base.is_paused = true;
        ss_connection_await(&connection->base, NULL, &connection->reply);
        ss_body_release(scratch, &connection->body);
        return true;
    }
    if (verdict.code == SS_CODE_INVALID_ARGUMENT) {
        ss_refusal refusal = verdict.needs_memory ? SS_REFUSAL_MEMORY : SS_REFUSAL_MALFORMED;
        ss_refuse_request(&connection->base, refusal, "%s", verdict.message);
    }
    return respond_verdict(connection, &verdict);
}

/* A request waits for its answer. */
static bool waits(const http1 *connection) {
    return connection->base.admin_token || connection->base.is_paused;
}

static bool queue_admin_request(http1 *connection) {
    ss_admin_request request = {0};
    size_t kept = connection->url_length < URL_BYTES ? connection->url_length : URL_BYTES;
    size_t path = path_length(connection);
    size_t query = path < kept ? kept - path - 1 : 0;
    if (path >= sizeof request.path || query >= sizeof request.query || connection->url_length > URL_BYTES) {
        return respond_text(connection, 404, "404 page not found\n");
    }
    snprintf(request.method, sizeof request.method, "%s",
             llhttp_method_name((llhttp_method_t)connection->parser.method));
    memcpy(request.path, connection->url, path);
    if (query) {
        memcpy(request.query, connection->url + path + 1, query);
    }
    ss_scratch *scratch = connection->base.scratch;
    connection->base.admin_token = ss_admin_push(&scratch->service->admin, scratch->loop_index, &request);
    return connection->base.admin_token || respond_text(connection, 503, "out of memory\n");
}

/* ------------------------------------------------------------------ llhttp's callbacks */

static http1 *of(llhttp_t *parser) {
    return parser->data;
}

/* Nothing of the connection's input is looked at any more. */
static int stop(http1 *connection) {
    connection->is_closing = true;
    return HPE_USER;
}

static int count_header_bytes(http1 *connection, size_t length) {
    connection->header_bytes += length;
    if (connection->header_bytes > SS_MAX_HEADER_BYTES) {
        ss_refuse_request(&connection->base, SS_REFUSAL_HEADERS_TOO_LARGE, "headers of more than %d bytes",
                          SS_MAX_HEADER_BYTES);
        connection->is_closing = true;
        respond_text(connection, 431, "request headers are too large");
        return HPE_USER;
    }
    return 0;
}

static int on_message_begin(llhttp_t *parser) {
    http1 *connection = of(parser);
    connection->has_begun = true;
    connection->started_ns = connection->base.scratch->now_ns;
    return 0;
}

static int on_url(llhttp_t *parser, const char *at, size_t length) {
    http1 *connection = of(parser);
    if (connection->url_length < URL_BYTES) {
        size_t room = URL_BYTES - connection->url_length;
        memcpy(connection->url + connection->url_length, at, length < room ? length : room);
    }
    connection->url_length += length;
    connection->gap = at + length;
    return count_header_bytes(connection, length);
}

static const char lacks_version[] = "a request line without a version";
static const char folded[] = "a header that goes on on another line";

/* HTTP is broken in a way that the parser lets pass. */
static int refuse_syntax(http1 *connection, const char *reason) {
    respond_broken(connection, 400, "400 Bad Request", reason);
    return HPE_USER;
}

static int on_version_complete(llhttp_t *parser) {
    http1 *connection = of(parser);
    connection->has_version = true;
    connection->gap = NULL;
    if (parser->http_major != 1) {
        respond_broken(connection, 505, "505 HTTP Version Not Supported: unsupported protocol version",
                       "it is of another version");
        return HPE_USER;
    }
    return 0;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* Look at what lies between the pieces of a header, up to at. */
static void cross_gap(http1 *connection, const char *at) {
    for (const char *c = connection->gap; c < at; c++) {
        if (*c == '\n' && connection->fold == FOLD_NONE) {
            connection->fold = FOLD_LINE_END;
        } else if (connection->fold == FOLD_LINE_END && is_blank(*c)) {
            connection->fold = FOLD_FOUND;
        }
    }
    connection->gap = at;
}

static int on_header_field(llhttp_t *parser, const char *at, size_t length) {
    http1 *connection = of(parser);
    if (!connection->has_version) {
        return refuse_syntax(connection, lacks_version);
    }
    if (connection->gap) {
        cross_gap(connection, at);
    }
    if (connection->fold == FOLD_FOUND) { /* of blanks alone */
        return refuse_syntax(connection, folded);
    }
    connection->gap = at + length;
    connection->fold = FOLD_NONE;
    for (size_t i = 0; i < length && connection->name_length + i < NAME_BYTES; i++) {
        connection->name[connection->name_length + i] = at[i];
    }
    connection->name_length += length;
    return count_header_bytes(connection, length + 4);
}

static int on_header_field_complete(llhttp_t *parser) {
    http1 *connection = of(parser);
    static const char *const known[N_HEADERS_WITH_CORS] = {
        [HEADER_CONTENT_TYPE] = "content-type",
        [HEADER_CONTENT_ENCODING] = "content-encoding",
        [HEADER_EXPECT] = "expect",
        [HEADER_HOST] = "host",
        [HEADER_ORIGIN] = "origin",
        [HEADER_REQUEST_METHOD] = "access-control-request-method",
        [HEADER_REQUEST_HEADERS] = "access-control-request-headers",
    };
    if (connection->name_length == 0) {
        return refuse_syntax(connection, "a header without a name");
    }
    connection->header = HEADER_OTHER;
    for (header name = 0; name < (connection->cors ? N_HEADERS_WITH_CORS : N_HEADERS); name++) {
        if (connection->name_length == strlen(known[name]) &&
            strncasecmp(connection->name, known[name], connection->name_length) == 0) {
            connection->header = name;
        }
    }
    /* What follows the body is too late. */
    connection->kept_name =
        connection->has_headers || connection->name_length > NAME_BYTES
            ? NULL
            : ss_names_find(&connection->base.listener->metadata_names, connection->name, connection->name_length);
    connection->name_length = 0;
    if (connection->header == HEADER_HOST && connection->texts[HEADER_HOST].is_set && !connection->has_headers) {
        return refuse_syntax(connection, "more than one Host");
    }
    return 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t length) {
    http1 *connection = of(parser);
    cross_gap(connection, at);
    /* An empty value is found where the next line begins. */
    if (connection->fold == FOLD_FOUND || (connection->fold == FOLD_LINE_END && length > 0)) {
        return refuse_syntax(connection, folded);
    }
    connection->gap = at + length;
    text *value = text_of(connection, connection->header);
    if (value && !value->is_set) {
        size_t room = (size_t)(value->capacity - value->length);
        size_t kept = length < room ? length : room;
        value->is_cut |= kept < length; /* for good: a later piece may be empty */
        memcpy(value->bytes + value->length, at, kept);
        value->length = (uint16_t)(value->length + kept);
    }
    if (connection->kept_name && ss_buffer_append(&connection->kept_value, (const uint8_t *)at, length) != SS_OK) {
        return stop(connection);
    }
    return count_header_bytes(connection, length);
}

static int keep_value(http1 *connection) {
    ss_buffer *value = &connection->kept_value;
    while (value->length && is_blank((char)value->data[value->length - 1])) {
        value->length--;
    }
    size_t before = connection->metadata.length;
    ss_status status = ss_metadata_append(&connection->metadata, connection->kept_name, value->data, value->length);
    /* At most SS_MAX_HEADER_BYTES, which no refusal would make fewer. */
    ss_count_bytes(connection->base.scratch, connection->metadata.length - before);
    value->length = 0;
    connection->kept_name = NULL;
    return status == SS_OK ? 0 : stop(connection);
}

static int on_header_value_complete(llhttp_t *parser) {
    http1 *connection = of(parser);
    text *value = text_of(connection, connection->header);
    if (value && !value->is_set) {
        while (value->length && is_blank(value->bytes[value->length - 1])) {
            value->length--;
        }
        value->is_set = true;
    }
    return connection->kept_name ? keep_value(connection) : 0;
}

static int on_headers_complete(llhttp_t *parser) {
    http1 *connection = of(parser);
    const ss_listener_config *config = &connection->base.listener->config;
    bool is_chunked = parser->flags & F_CHUNKED;
    ss_header_text expect = value_of(connection, HEADER_EXPECT);
    bool expects = expect.length == 12 && strncasecmp(expect.bytes, "100-continue", 12) == 0;
    uint64_t stated = is_chunked ? 0 : (parser->flags & F_CONTENT_LENGTH ? parser->content_length : 0);
    connection->gap = NULL;
    if (!connection->has_version) {
        return refuse_syntax(connection, lacks_version);
    }
    if (!connection->texts[HEADER_HOST].is_set && parser->http_minor > 0) {
        return refuse_syntax(connection, "no Host");
    }
    connection->has_headers = true;
    strip_authority(connection);
    connection->is_preflight = !config->is_admin && is_preflight(connection);
    connection->is_refused =
        !config->is_admin && !connection->is_preflight && !may_pass(connection, &connection->refusal);
    bool is_answered = connection->is_preflight || connection->is_refused;
    if (is_answered && (is_chunked || stated > DRAIN_BYTES || (expects && stated))) {
        connection->is_closing = true; /* cheaper than reading it */
        respond_early(connection);
        return HPE_USER;
    }
    if (!is_answered && stated > config->max_message_bytes) {
        connection->is_closing = true;
        respond_too_large(connection);
        return HPE_USER;
    }
    connection->expected = (size_t)stated;
    if (expects && (stated || is_chunked)) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        if (ss_buffer_append(&connection->base.output, (const uint8_t *)go_on, sizeof go_on - 1) != SS_OK) {
            return stop(connection);
        }
    }
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t length) {
    http1 *connection = of(parser);
    ss_scratch *scratch = connection->base.scratch;
    if (connection->is_preflight || connection->is_refused) {
        return 0;
    }
    if (length > connection->base.listener->config.max_message_bytes - ss_body_length(&connection->body)) {
        connection->is_closing = true; /* the rest of the body is not read */
        respond_too_large(connection);
        return HPE_USER;
    }
    ss_status status = ss_body_append(scratch, &connection->body, (const uint8_t *)at, length, connection->expected);
    if (status == SS_ERR_REFUSED) {
        respond_no_room(connection);
    }
    return status == SS_OK ? 0 : stop(connection);
}

static int on_message_complete(llhttp_t *parser) {
    http1 *connection = of(parser);
    connection->is_closing = !llhttp_should_keep_alive(parser);
    if (connection->base.listener->config.is_admin) {
        ss_body_release(connection->base.scratch, &connection->body);
        queue_admin_request(connection);
    } else if (connection->is_preflight || connection->is_refused) {
        respond_early(connection);
    } else {
        take_request(connection);
    }
    bool is_full = connection->base.output.length > OUTPUT_BYTES;
    return connection->is_closing || waits(connection) || is_full ? HPE_PAUSED : 0;
}

static const llhttp_settings_t settings = {
    .on_message_begin = on_message_begin,
    .on_url = on_url,
    .on_version_complete = on_version_complete,
    .on_header_field = on_header_field,
    .on_header_field_complete = on_header_field_complete,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* ------------------------------------------------------------------ the protocol */

/* Read on, up to a request that waits for its answer, or whose answer waits for the peer: *used says how far. True
 * while the connection goes on. */
static bool parse(http1 *connection, const uint8_t *bytes, size_t length, size_t *used) {
    llhttp_t *parser = &connection->parser;
    const char *pos = (const char *)bytes;
    const char *end = pos + length;
    *used = length;
    connection->gap = connection->gap ? pos : NULL;
    while (pos < end) {
        llhttp_errno_t result = llhttp_execute(parser, pos, (size_t)(end - pos));
        if (connection->is_closing && !waits(connection)) {
            return false;
        }
        if (result == HPE_OK) {
            break;
        }
        pos = llhttp_get_error_pos(parser);
        if (result == HPE_PAUSED) {
            *used = (size_t)(pos - (const char *)bytes);
            return true;
        }
        if (result != HPE_PAUSED_UPGRADE) {
            respond_broken(connection, 400, "400 Bad Request", llhttp_get_error_reason(parser));
            return false;
        }
        llhttp_resume_after_upgrade(parser); /* an upgrade that we do not take up: HTTP goes on */
    }
    if (connection->gap) {
        cross_gap(connection, end);
    }
    if (connection->has_begun && !connection->has_version && connection->fold != FOLD_NONE) {
        refuse_syntax(connection, lacks_version); /* now: behind such a line a client of HTTP/0.9 waits */
        return false;
    }
    ss_status status = ss_body_settle(connection->base.scratch, &connection->body, connection->expected);
    if (status == SS_ERR_REFUSED) {
        respond_no_room(connection);
    }
    return status == SS_OK;
}

/* Tell who speaks another protocol that this is the wrong port; false: it is none of them. A client of gRPC understands
 * HTTP/1.1 so far that it waits before it tries again; after a GOAWAY it would come back at once. */
static bool refuse_stranger(http1 *connection, const uint8_t *bytes, size_t length) {
    enum { TLS_HANDSHAKE = 22 };
    static const char preface[] = "PRI * HTTP/2.0";
    bool is_http2 = length >= sizeof preface - 1 && memcmp(bytes, preface, sizeof preface - 1) == 0;
    if (!is_http2 && bytes[0] != TLS_HANDSHAKE) {
        return false;
    }
    ss_count_stranger(&connection->base, is_http2 ? SS_STRANGER_HTTP2 : SS_STRANGER_TLS);
    ss_count(&connection->base.scratch->stats.protocol_errors, 1);
    connection->is_closing = true;
    respond_text(connection, 400,
                 is_http2 ? "this port speaks OTLP/HTTP over HTTP/1.1; OTLP/gRPC has a port of its own\n"
                          : "this port does not speak TLS\n");
    return true;
}

/* Put input by until what it waits for has happened. */
static bool put_by(http1 *connection, const uint8_t *bytes, size_t length) {
    if (!ss_hold_bytes(connection->base.scratch, length)) {
        ss_refuse_request(&connection->base, SS_REFUSAL_MEMORY, "requests behind one that waits for its answer");
        connection->is_closing = true; /* they come again, on another connection */
        return waits(connection);
    }
    if (ss_buffer_append(&connection->backlog, bytes, length) != SS_OK) {
        ss_release_bytes(connection->base.scratch, length);
        return false;
    }
    return true;
}

static void drop_backlog(http1 *connection) {
    ss_release_bytes(connection->base.scratch, connection->backlog.length);
    ss_buffer_free(&connection->backlog);
    connection->backlog_read = 0;
}

static bool receive(ss_connection *base, const uint8_t *bytes, size_t length) {
    http1 *connection = (http1 *)base;
    bool is_first = !connection->was_used && !connection->has_begun;
    size_t used;
    if (is_first && refuse_stranger(connection, bytes, length)) {
        return false;
    }
    if (connection->backlog.length || base->has_more || waits(connection)) {
        return put_by(connection, bytes, length);
    }
    if (!parse(connection, bytes, length, &used)) {
        return false;
    }
    base->has_more = !waits(connection) && base->output.length > OUTPUT_BYTES;
    return used == length || put_by(connection, bytes + used, length - used);
}

/* What was waited for has happened: what came behind it is read. */
static bool go_on(http1 *connection) {
    ss_connection *base = &connection->base;
    ss_buffer *backlog = &connection->backlog;
    size_t used = 0;
    if (connection->is_closing) {
        return false;
    }
    base->has_more = base->output.length > OUTPUT_BYTES;
    if (base->has_more) {
        return true;
    }
    llhttp_resume(&connection->parser);
    if (backlog->length == 0) {
        return true;
    }
    bool goes_on =
        parse(connection, backlog->data + connection->backlog_read, backlog->length - connection->backlog_read, &used);
    connection->backlog_read += used;
    if (connection->backlog_read == backlog->length) {
        drop_backlog(connection);
    }
    base->has_more = !waits(connection) && base->output.length > OUTPUT_BYTES;
    return goes_on;
}

bool ss_http1_reply(ss_connection *base, int http_status, const char *content_type, const uint8_t *body,
                    size_t length) {
    http1 *connection = (http1 *)base;
    base->admin_token = 0;
    respond(connection, http_status, content_type, http_status == 405 ? "Allow: GET, HEAD\r\n" : "", body, length);
    return go_on(connection);
}

static bool answer(ss_connection *base, void *stream, const ss_verdict *verdict) {
    (void)stream; /* one request at a time */
    http1 *connection = (http1 *)base;
    base->is_paused = false;
    respond_verdict(connection, verdict);
    return go_on(connection);
}

/* As Go's server does, whoever may still be there to read the answer. */
static void hang_up(ss_connection *base) {
    ss_promise_cancel(((http1 *)base)->reply->promise);
}

/* Answers are written when they are made; once they have been sent, there may be more. */
static bool produce(ss_connection *base) {
    return !base->has_more || base->output.length || go_on((http1 *)base);
}

/* How long the connection may go on as it is; 0: for ever. */
static uint64_t patience_ns(const http1 *connection) {
    const ss_listener_config *config = &connection->base.listener->config;
    bool has_limit = config->header_timeout_ns && !connection->has_headers;
    if (connection->has_begun) {
        return has_limit && (!config->read_timeout_ns || config->header_timeout_ns < config->read_timeout_ns)
                   ? config->header_timeout_ns
                   : config->read_timeout_ns;
    }
    return has_limit && !connection->was_used ? config->header_timeout_ns : config->idle_timeout_ns;
}

static bool tick(ss_connection *base) {
    http1 *connection = (http1 *)base;
    uint64_t now = base->scratch->now_ns;
    if (base->output.length > 0 || waits(connection)) {
        connection->started_ns = now; /* nothing is read meanwhile */
        return true;
    }
    uint64_t limit_ns = patience_ns(connection);
    if (limit_ns && now - connection->started_ns > limit_ns) {
        if (connection->has_begun) {
            ss_refuse_request(base, SS_REFUSAL_TIMEOUT, "a request that was not complete after %.1f s",
                              (double)limit_ns / 1e9);
            connection->is_closing = true;
            respond_text(connection, 408, "408 Request Timeout");
        }
        return false;
    }
    return !(connection->is_draining && !connection->has_begun && now >= connection->drain_by_ns);
}

/* A request that is on its way is still taken, and answered with Connection: close; only then, or when none comes, is
 * the connection closed, so that a reload breaks no client. */
static bool drain(ss_connection *base) {
    http1 *connection = (http1 *)base;
    connection->is_draining = true;
    connection->drain_by_ns = base->scratch->now_ns + DRAIN_PATIENCE_NS;
    return true;
}

static void http1_free(ss_connection *base) {
    http1 *connection = (http1 *)base;
    ss_reply_abandon(connection->reply);
    ss_body_release(base->scratch, &connection->body);
    drop_backlog(connection);
    ss_buffer_free(&connection->kept_value);
    drop_metadata(connection);
    free(connection->cors);
    free(connection);
}

static const ss_protocol http1_protocol = {.receive = receive,
                                           .produce = produce,
                                           .tick = tick,
                                           .drain = drain,
                                           .answer = answer,
                                           .hang_up = hang_up,
                                           .free = http1_free};

static void keep(text *value, char *bytes, size_t capacity) {
    value->bytes = bytes;
    value->capacity = (uint16_t)capacity;
}

ss_connection *ss_http1_new(ss_scratch *scratch, ss_listener *listener) {
    http1 *connection = calloc(1, sizeof *connection);
    cors_texts *cors = listener->cors ? calloc(1, sizeof *cors) : NULL;
    if (!connection || (listener->cors && !cors)) {
        free(connection);
        free(cors);
        return NULL;
    }
    for (size_t i = 0; i < N_HEADERS; i++) {
        keep(&connection->texts[i], connection->values[i], sizeof connection->values[i]);
    }
    if (cors) {
        keep(&cors->texts[HEADER_ORIGIN - N_HEADERS], cors->origin, sizeof cors->origin);
        keep(&cors->texts[HEADER_REQUEST_METHOD - N_HEADERS], cors->method, sizeof cors->method);
        keep(&cors->texts[HEADER_REQUEST_HEADERS - N_HEADERS], cors->headers, sizeof cors->headers);
        connection->cors = cors;
    }
    connection->header = HEADER_OTHER;
    connection->started_ns = scratch->now_ns;
    connection->base = (ss_connection){
        .protocol = &http1_protocol, .scratch = scratch, .listener = listener, .wake_ns = UINT64_MAX, .fd = -1};
    llhttp_init(&connection->parser, HTTP_REQUEST, &settings);
    connection->parser.data = connection;
    return &connection->base;
}
