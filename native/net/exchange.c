#include "net/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATUS_OFFSET = 9, STATUS_LENGTH = 3 }; /* of the line "HTTP/1.1 200 OK" */

/* ------------------------------------------------------------------ requests */

void ss_exchange_head_reset(ss_exchange_head *head) {
    head->method.length = head->target.length = head->lines.length = 0;
    head->has_host = head->has_length = false;
}

void ss_exchange_head_free(ss_exchange_head *head) {
    ss_buffer_free(&head->method);
    ss_buffer_free(&head->target);
    ss_buffer_free(&head->lines);
}

static bool is(const uint8_t *name, size_t length, const char *other) {
    return length == strlen(other) && memcmp(name, other, length) == 0;
}

static ss_status append_text(ss_buffer *to, const char *text) {
    return ss_buffer_append(to, (const uint8_t *)text, strlen(text));
}

/* nghttp2 lets none of these through; that a value could end its line is not left to it alone. */
static bool could_end_line(const uint8_t *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\r' || text[i] == '\n' || text[i] == 0) {
            return true;
        }
    }
    return false;
}

static ss_status add_line(ss_exchange_head *head, const uint8_t *name, size_t name_length, const uint8_t *value,
                          size_t length) {
    ss_buffer *lines = &head->lines;
    ss_status status = ss_buffer_append(lines, name, name_length);
    status = status == SS_OK ? append_text(lines, ": ") : status;
    status = status == SS_OK ? ss_buffer_append(lines, value, length) : status;
    return status == SS_OK ? append_text(lines, "\r\n") : status;
}

/* Of a request line, where a space is an end, too. */
static ss_status keep_word(ss_buffer *word, const uint8_t *value, size_t length) {
    return length && !memchr(value, ' ', length) && !memchr(value, '\t', length) ? ss_buffer_append(word, value, length)
                                                                                 : SS_ERR_MALFORMED;
}

ss_status ss_exchange_head_add(ss_exchange_head *head, const uint8_t *name, size_t name_length, const uint8_t *value,
                               size_t length) {
    static const char host[] = "host";
    if (could_end_line(name, name_length) || could_end_line(value, length)) {
        return SS_ERR_MALFORMED;
    }
    if (is(name, name_length, ":method")) {
        return keep_word(&head->method, value, length);
    }
    if (is(name, name_length, ":path")) {
        return keep_word(&head->target, value, length);
    }
    bool is_authority = is(name, name_length, ":authority");
    if (is_authority || is(name, name_length, host)) { /* they are one, and the first counts */
        bool had_host = head->has_host;
        head->has_host = true;
        return had_host ? SS_OK : add_line(head, (const uint8_t *)host, sizeof host - 1, value, length);
    }
    /* What is about the connection is not for the request: RFC 9113, section 8.2.2; and nobody waits for a 100. */
    if (name[0] == ':' || is(name, name_length, "te") || is(name, name_length, "expect") ||
        is(name, name_length, "transfer-encoding") || is(name, name_length, "connection") ||
        is(name, name_length, "upgrade")) {
        return SS_OK;
    }
    head->has_length |= is(name, name_length, "content-length");
    return add_line(head, name, name_length, value, length);
}

static ss_status feed(ss_exchange *exchange, const void *bytes, size_t length) {
    if (exchange->is_open) {
        exchange->is_open = exchange->inner->protocol->receive(exchange->inner, bytes, length);
    }
    return exchange->is_open || ss_exchange_is_answered(exchange) ? SS_OK : SS_ERR_NO_MEMORY;
}

ss_status ss_exchange_begin(ss_exchange *exchange, ss_exchange_head *head, bool has_body, ss_connection *carrier,
                            void *stream) {
    *exchange = (ss_exchange){.inner = ss_http1_new(carrier->scratch, carrier->listener), .is_open = true};
    if (!exchange->inner) {
        return SS_ERR_NO_MEMORY;
    }
    exchange->inner->carrier = carrier;
    exchange->inner->carrier_stream = stream;
    exchange->is_chunked = has_body && !head->has_length;
    ss_buffer *text = &head->method;
    ss_status status = append_text(text, " ");
    status = status == SS_OK ? ss_buffer_append(text, head->target.data, head->target.length) : status;
    status = status == SS_OK ? append_text(text, " HTTP/1.1\r\n") : status;
    status = status == SS_OK ? ss_buffer_append(text, head->lines.data, head->lines.length) : status;
    status = status == SS_OK && exchange->is_chunked ? append_text(text, "transfer-encoding: chunked\r\n") : status;
    status = status == SS_OK ? append_text(text, "\r\n") : status;
    return status == SS_OK ? feed(exchange, text->data, text->length) : status;
}

ss_status ss_exchange_feed(ss_exchange *exchange, const uint8_t *bytes, size_t length, bool is_last) {
    static const char last_chunk[] = "0\r\n\r\n";
    ss_status status = SS_OK;
    exchange->held += length;
    if (length && exchange->is_chunked) {
        char size[20];
        int n = snprintf(size, sizeof size, "%zx\r\n", length);
        status = feed(exchange, size, (size_t)n);
    }
    if (length && status == SS_OK) {
        status = feed(exchange, bytes, length);
    }
    if (length && exchange->is_chunked && status == SS_OK) {
        status = feed(exchange, "\r\n", 2);
    }
    return is_last && exchange->is_chunked && status == SS_OK ? feed(exchange, last_chunk, sizeof last_chunk - 1)
                                                              : status;
}

/* ------------------------------------------------------------------ answers */

bool ss_exchange_is_answered(const ss_exchange *exchange) {
    return exchange->inner->output.length > 0;
}

static char *next_line(char **pos) {
    char *line = *pos;
    char *end = strstr(line, "\r\n"); /* each has one: they are written here */
    *end = 0;
    *pos = end + 2;
    return line;
}

static nghttp2_nv field_of(const char *name, size_t name_length, const char *value, size_t length) {
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, name_length, length,
                        NGHTTP2_NV_FLAG_NONE};
}

nghttp2_nv *ss_exchange_answer(ss_exchange *exchange, size_t *n_fields) {
    ss_buffer *output = &exchange->inner->output;
    if (ss_buffer_append(output, (const uint8_t *)"", 1) != SS_OK) { /* an end for strstr */
        return NULL;
    }
    char *pos = (char *)output->data;
    size_t n_lines = 1;
    for (const char *line = pos; (line = strstr(line, "\r\n")); line += 2) {
        n_lines++; /* those of the body do no harm */
    }
    nghttp2_nv *fields = calloc(n_lines, sizeof *fields);
    if (!fields) {
        return NULL;
    }
    const char *status = next_line(&pos) + STATUS_OFFSET;
    fields[0] = field_of(":status", sizeof ":status" - 1, status, STATUS_LENGTH);
    *n_fields = 1;
    for (char *line; *(line = next_line(&pos));) {
        char *colon = strchr(line, ':'), *value = colon + 1;
        for (char *c = line; c < colon; c++) {
            *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
        }
        value += strspn(value, " ");
        size_t name_length = (size_t)(colon - line);
        if (!is((const uint8_t *)line, name_length, "connection")) {
            fields[(*n_fields)++] = field_of(line, name_length, value, strlen(value));
        }
    }
    exchange->body = (size_t)(pos - (char *)output->data);
    exchange->length = output->length - 1 - exchange->body;
    return fields;
}

void ss_exchange_end(ss_exchange *exchange) {
    if (exchange->inner) {
        ss_buffer_free(&exchange->inner->output);
        exchange->inner->protocol->free(exchange->inner);
        exchange->inner = NULL;
    }
}
