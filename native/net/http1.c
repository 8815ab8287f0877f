/*
 * OTLP/HTTP and the admin listeners on HTTP/1.1. llhttp finds the parts of a request; this file judges them, keeps the
 * body within its limit and writes the answers, in the order of the requests.
 * Sources: RFC 9110, RFC 9112, OTLP specification "OTLP/HTTP".
 */
#include "net/connection.h"
#include "net/cors.h"
#include "net/grpc.h"

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
    DRAIN_BYTES = 256 * 1024, /* a refused body up to this size is read, so that the connection can be used again */
    DRAIN_PATIENCE_NS = 200000000
};

typedef enum header {
    HEADER_CONTENT_TYPE = 0,
    HEADER_CONTENT_ENCODING,
    HEADER_EXPECT,
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
    bool is_set;     /* the first of several counts */
    bool is_cut;
    uint16_t capacity;
    char *bytes;
} text;

/* What a connection needs for CORS. */
typedef struct cors_texts {
    text texts[N_HEADERS_WITH_CORS - N_HEADERS];
    char origin[4 * VALUE_BYTES], method[NAME_BYTES], headers[LIST_BYTES];
} cors_texts;

typedef struct http1 {
    ss_connection base;
    llhttp_t parser;
    uint64_t started_ns;  /* when the request at hand began; without one, since when it is waited for */
    uint64_t answered_ns; /* when the answer that is being written was made; 0: none is */
    bool has_begun;       /* a request is at hand */
    bool has_headers;     /* and its headers are complete */
    bool was_used;        /* there was a request before */
    bool is_closing;      /* the last answer is written */
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
    ss_buffer kept_value;
    ss_buffer metadata;
    size_t expected; /* Content-Length, 0 where unknown */
    int refusal;     /* HTTP status decided already, sent when the body has been read; 0: none. 204: a preflight */
    ss_body body;
    ss_reply *reply;   /* that the request waits for; NULL: it does not */
    ss_buffer backlog; /* came while a request waited for its answer */
} http1;

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

static void forget_request(http1 *connection) {
    ss_body_release(connection->base.scratch, &connection->body);
    connection->header_bytes = connection->url_length = connection->name_length = connection->expected = 0;
    connection->header = HEADER_OTHER;
    connection->kept_name = NULL;
    ss_buffer_free(&connection->kept_value);
    ss_buffer_free(&connection->metadata);
    for (header name = 0; name < (connection->cors ? N_HEADERS_WITH_CORS : N_HEADERS); name++) {
        text *value = text_of(connection, name);
        value->length = 0;
        value->is_set = value->is_cut = false;
    }
    connection->refusal = 0;
    connection->has_begun = connection->has_headers = false;
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
    if (connection->refusal == 204) {
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
    connection->answered_ns = connection->base.scratch->now_ns;
    forget_request(connection);
    return written == SS_OK;
}

static bool respond_text(http1 *connection, int status, const char *message) {
    return respond(connection, status, "text/plain; charset=utf-8", "", (const uint8_t *)message, strlen(message));
}

static const char *content_type_of(ss_payload payload) {
    return payload == SS_PAYLOAD_JSON ? "application/json" : "application/x-protobuf";
}

static bool respond_verdict(http1 *connection, const ss_verdict *verdict) {
    ss_buffer *answer = &connection->base.scratch->answer;
    answer->length = 0;
    char retry_after[40] = "";
    int status = ss_http_status_of(verdict->code);
    if ((status == 429 || status == 503) && verdict->has_retry_delay) {
        snprintf(retry_after, sizeof retry_after, "Retry-After: %u\r\n", verdict->retry_delay_ms / 1000);
    }
    ss_status written = verdict->code == SS_CODE_OK
                            ? ss_export_response_append(verdict, connection->signal, connection->payload, answer)
                            : ss_rpc_status_append(verdict, connection->payload, answer);
    if (written != SS_OK) {
        connection->is_closing = true;
        return false;
    }
    return respond(connection, status, content_type_of(connection->payload), retry_after, answer->data, answer->length);
}

static bool respond_invalid(http1 *connection, const char *format, const char *detail) {
    ss_verdict verdict;
    ss_verdict_fail(&verdict, SS_CODE_INVALID_ARGUMENT, format, detail);
    return respond_verdict(connection, &verdict);
}

static bool respond_refusal(http1 *connection) {
    char encoding[2 * VALUE_BYTES];
    ss_header_text value = value_of(connection, HEADER_CONTENT_ENCODING);
    switch (connection->refusal) {
    case 204: return respond(connection, 204, NULL, "", NULL, 0);
    case 404: return respond_text(connection, 404, "404 page not found\n");
    case 405: return respond_text(connection, 405, "405 method not allowed, supported: [POST]");
    case 415:
        return respond_text(connection, 415,
                            "415 unsupported media type, supported: [application/json, application/x-protobuf]");
    default:
        snprintf(encoding, sizeof encoding, "%.*s", (int)value.length, value.bytes);
        return respond_invalid(connection, "unsupported Content-Encoding: %s", encoding);
    }
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

static size_t path_length(const http1 *connection) {
    size_t kept = connection->url_length < URL_BYTES ? connection->url_length : URL_BYTES;
    const char *query = memchr(connection->url, '?', kept);
    return query ? (size_t)(query - connection->url) : connection->url_length;
}

/* The path that is the request's, or the longest one above it that takes all below. */
static bool find_signal(http1 *connection) {
    const ss_service *service = connection->base.scratch->service;
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
    return best && service->has_signal(service->receiver, connection->signal);
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
    static const struct {
        const char *name;
        ss_encoding encoding;
    } known[SS_N_CONTENT_ENCODINGS] = {
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
    const ss_listener_config *config = &connection->base.listener->config;
    const text *value = text_of(connection, HEADER_CONTENT_ENCODING);
    connection->encoding = SS_ENCODING_IDENTITY;
    if (config->ignores_encoding) {
        return true;
    }
    for (size_t i = 0; i < SS_N_CONTENT_ENCODINGS && !value->is_cut; i++) {
        if (value->length == strlen(known[i].name) && memcmp(value->bytes, known[i].name, value->length) == 0) {
            connection->encoding = known[i].encoding;
            return (!config->encodings || config->encodings >> i & 1) && ss_encoding_is_available(connection->encoding);
        }
    }
    return false;
}

static bool is_preflight(http1 *connection) {
    return connection->cors && connection->parser.method == HTTP_OPTIONS &&
           value_of(connection, HEADER_REQUEST_METHOD).length > 0;
}

static int judge(http1 *connection) {
    if (is_preflight(connection)) {
        return 204;
    }
    bool has_payload = find_payload(connection);
    if (!find_encoding(connection)) {
        return 400;
    }
    if (!find_signal(connection)) {
        return 404;
    }
    if (connection->parser.method != HTTP_POST) {
        return 405;
    }
    return has_payload ? 0 : 415;
}

static bool respond_too_large(http1 *connection) {
    connection->is_closing = true; /* the rest of the body is not read */
    if (connection->base.listener->config.is_admin) {
        return respond_text(connection, 400, "http: request body too large");
    }
    return respond_invalid(connection, "%s", "http: request body too large");
}

static bool take_request(http1 *connection) {
    ss_scratch *scratch = connection->base.scratch;
    const ss_service *service = scratch->service;
    const size_t limit = connection->base.listener->config.max_message_bytes;
    ss_request request = {.signal = connection->signal,
                          .transport = SS_TRANSPORT_HTTP,
                          .payload = connection->payload,
                          .encoding = connection->encoding,
                          .bytes = ss_body_bytes(&connection->body),
                          .length = ss_body_length(&connection->body),
                          .route = ss_connection_route(&connection->base, UINT64_MAX),
                          .metadata = connection->metadata.data,
                          .metadata_length = connection->metadata.length};
    if (connection->encoding != SS_ENCODING_IDENTITY) {
        ss_error error = {0};
        scratch->inflated.length = 0;
        ss_status status = ss_decompress(scratch->codec, connection->encoding, request.bytes, request.length, limit,
                                         &scratch->inflated, &error);
        if (status == SS_ERR_LIMIT) {
            return respond_invalid(connection, "%s", "http: request body too large");
        }
        if (status == SS_ERR_NO_MEMORY) {
            ss_verdict verdict;
            ss_verdict_fail(&verdict, SS_CODE_UNAVAILABLE, "no memory to decompress the body");
            return respond_verdict(connection, &verdict);
        }
        if (status != SS_OK) {
            return respond_invalid(connection, "%s", error.reason);
        }
        request.bytes = ss_bytes_of(&scratch->inflated);
        request.length = scratch->inflated.length;
    }
    ss_verdict verdict = {0};
    service->accept(service->receiver, scratch->worker, &request, &verdict);
    if (verdict.is_pending) {
        connection->base.is_paused = true;
        ss_connection_await(&connection->base, NULL, &connection->reply);
        ss_body_release(scratch, &connection->body);
        return true;
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
    return count_header_bytes(connection, length);
}

static int on_header_field(llhttp_t *parser, const char *at, size_t length) {
    http1 *connection = of(parser);
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
        [HEADER_ORIGIN] = "origin",
        [HEADER_REQUEST_METHOD] = "access-control-request-method",
        [HEADER_REQUEST_HEADERS] = "access-control-request-headers",
    };
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
    return 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t length) {
    http1 *connection = of(parser);
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

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static int keep_value(http1 *connection) {
    ss_buffer *value = &connection->kept_value;
    while (value->length && is_blank((char)value->data[value->length - 1])) {
        value->length--;
    }
    ss_status status = ss_metadata_append(&connection->metadata, connection->kept_name, value->data, value->length);
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
    if (parser->http_major != 1) {
        connection->is_closing = true;
        respond_text(connection, 505, "505 HTTP Version Not Supported: unsupported protocol version");
        return HPE_USER;
    }
    connection->has_headers = true;
    strip_authority(connection);
    connection->refusal = config->is_admin ? 0 : judge(connection);
    if (connection->refusal && (is_chunked || stated > DRAIN_BYTES || (expects && stated))) {
        connection->is_closing = true; /* cheaper than reading it */
        respond_refusal(connection);
        return HPE_USER;
    }
    if (!connection->refusal && stated > config->max_message_bytes) {
        respond_too_large(connection);
        return HPE_USER;
    }
    connection->expected = (size_t)stated;
    if (expects && (stated || is_chunked)) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        connection->answered_ns = connection->base.scratch->now_ns;
        if (ss_buffer_append(&connection->base.output, (const uint8_t *)go_on, sizeof go_on - 1) != SS_OK) {
            return stop(connection);
        }
    }
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t length) {
    http1 *connection = of(parser);
    ss_scratch *scratch = connection->base.scratch;
    if (connection->refusal) {
        return 0;
    }
    if (length > connection->base.listener->config.max_message_bytes - ss_body_length(&connection->body)) {
        respond_too_large(connection);
        return HPE_USER;
    }
    ss_status status = ss_body_append(scratch, &connection->body, (const uint8_t *)at, length, connection->expected);
    return status == SS_OK ? 0 : stop(connection);
}

static int on_message_complete(llhttp_t *parser) {
    http1 *connection = of(parser);
    connection->is_closing = !llhttp_should_keep_alive(parser);
    if (connection->base.listener->config.is_admin) {
        ss_body_release(connection->base.scratch, &connection->body);
        queue_admin_request(connection);
    } else if (connection->refusal) {
        respond_refusal(connection);
    } else {
        take_request(connection);
    }
    return connection->is_closing || waits(connection) ? HPE_PAUSED : 0;
}

static const llhttp_settings_t settings = {
    .on_message_begin = on_message_begin,
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_field_complete = on_header_field_complete,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* ------------------------------------------------------------------ the protocol */

/* True while the connection goes on. What comes behind a waiting request is put by. */
static bool parse(http1 *connection, const uint8_t *bytes, size_t length) {
    llhttp_t *parser = &connection->parser;
    const char *pos = (const char *)bytes;
    const char *end = pos + length;
    while (pos < end) {
        llhttp_errno_t result = llhttp_execute(parser, pos, (size_t)(end - pos));
        if (connection->is_closing && !waits(connection)) {
            return false;
        }
        if (result == HPE_OK) {
            break;
        }
        pos = llhttp_get_error_pos(parser);
        if (result == HPE_PAUSED) { /* a request waits */
            return ss_buffer_append(&connection->backlog, (const uint8_t *)pos, (size_t)(end - pos)) == SS_OK;
        }
        if (result != HPE_PAUSED_UPGRADE) {
            ss_count(&connection->base.scratch->stats.protocol_errors, 1);
            connection->is_closing = true;
            respond_text(connection, 400, "400 Bad Request");
            return false;
        }
        llhttp_resume_after_upgrade(parser); /* an upgrade that we do not take up: HTTP goes on */
    }
    return ss_body_settle(connection->base.scratch, &connection->body, connection->expected) == SS_OK;
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

static bool receive(ss_connection *base, const uint8_t *bytes, size_t length) {
    http1 *connection = (http1 *)base;
    bool is_first = !connection->was_used && !connection->has_begun;
    return !(is_first && refuse_stranger(connection, bytes, length)) && parse(connection, bytes, length);
}

/* The request that waited has been answered: what came behind it is read. */
static bool go_on(http1 *connection) {
    if (connection->is_closing) {
        return false;
    }
    llhttp_resume(&connection->parser);
    ss_buffer backlog = connection->backlog;
    connection->backlog = (ss_buffer){0};
    bool goes_on = parse(connection, ss_bytes_of(&backlog), backlog.length);
    ss_buffer_free(&backlog);
    return goes_on;
}

bool ss_http1_reply(ss_connection *base, int http_status, const char *content_type, const uint8_t *body,
                    size_t length) {
    http1 *connection = (http1 *)base;
    base->admin_token = 0;
    respond(connection, http_status, content_type, "", body, length);
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

static bool produce(ss_connection *base) {
    (void)base; /* answers are written when they are made */
    return true;
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
    const ss_listener_config *config = &base->listener->config;
    uint64_t now = base->scratch->now_ns;
    if (base->output.length > 0) {
        if (config->write_timeout_ns && now - connection->answered_ns > config->write_timeout_ns) {
            base->output.length = base->output_sent = 0; /* nobody takes it */
            return false;
        }
        connection->started_ns = now; /* nothing is read meanwhile */
        return true;
    }
    if (waits(connection)) {
        connection->started_ns = now;
        return true;
    }
    uint64_t limit_ns = patience_ns(connection);
    if (limit_ns && now - connection->started_ns > limit_ns) {
        if (connection->has_begun) {
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
    ss_buffer_free(&connection->backlog);
    ss_buffer_free(&connection->kept_value);
    ss_buffer_free(&connection->metadata);
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
