/* Sources: Fetch standard "CORS protocol"; the answers are those of the Collector, whose origins know wildcards and no
 * case. */
#include "net/cors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Browsers send the names sorted, so a set can be checked in one pass. */
enum { SPACES_MAX = 1, EMPTY_NAMES_MAX = 16 };

struct ss_cors {
    char **origins;
    size_t n_origins;
    char **headers; /* sorted */
    size_t n_headers;
    bool allows_all_origins;
    bool allows_all_headers;
    char *exposed_headers;
    int32_t max_age_s;
};

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Copy texts; sets *has_star where one is "*". NULL: no memory. */
static char **copy_texts(const char *const *texts, size_t n, bool *has_star) {
    char **copies = calloc(n + 1, sizeof *copies);
    for (size_t i = 0; copies && i < n; i++) {
        *has_star |= strcmp(texts[i], "*") == 0;
        if (!(copies[i] = strdup(texts[i]))) {
            while (i > 0) {
                free(copies[--i]);
            }
            free(copies);
            return NULL;
        }
    }
    return copies;
}

ss_cors *ss_cors_new(const ss_cors_config *config) {
    static const char *const usual[] = {"accept", "content-type", "x-requested-with"};
    ss_cors *cors = calloc(1, sizeof *cors);
    if (!cors) {
        return NULL;
    }
    const char *const *headers = config->n_headers ? config->headers : usual;
    size_t n_headers = config->n_headers ? config->n_headers : sizeof usual / sizeof usual[0];
    cors->max_age_s = config->max_age_s;
    cors->origins = copy_texts(config->origins, config->n_origins, &cors->allows_all_origins);
    cors->headers = copy_texts(headers, n_headers, &cors->allows_all_headers);
    cors->exposed_headers = strdup(config->exposed_headers ? config->exposed_headers : "");
    cors->n_origins = cors->origins ? config->n_origins : 0;
    cors->n_headers = cors->headers ? n_headers : 0;
    if (!cors->origins || !cors->headers || !cors->exposed_headers) {
        ss_cors_free(cors);
        return NULL;
    }
    for (size_t i = 0; i < n_headers; i++) {
        for (char *c = cors->headers[i]; *c; c++) {
            *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + ('a' - 'A') : *c);
        }
    }
    qsort(cors->headers, n_headers, sizeof *cors->headers, by_text);
    return cors;
}

void ss_cors_free(ss_cors *cors) {
    if (!cors) {
        return;
    }
    for (size_t i = 0; i < cors->n_origins; i++) {
        free(cors->origins[i]);
    }
    for (size_t i = 0; i < cors->n_headers; i++) {
        free(cors->headers[i]);
    }
    free(cors->origins);
    free(cors->headers);
    free(cors->exposed_headers);
    free(cors);
}

/* ------------------------------------------------------------------ what is allowed */

static bool matches(const char *pattern, ss_header_text origin) {
    size_t length = strlen(pattern);
    const char *star = strchr(pattern, '*');
    if (!star) {
        return length == origin.length && strncasecmp(pattern, origin.bytes, length) == 0;
    }
    size_t before = (size_t)(star - pattern), after = length - before - 1;
    return origin.length >= before + after && strncasecmp(pattern, origin.bytes, before) == 0 &&
           strncasecmp(star + 1, origin.bytes + origin.length - after, after) == 0;
}

static bool allows_origin(const ss_cors *cors, ss_header_text origin) {
    bool allowed = cors->allows_all_origins;
    for (size_t i = 0; i < cors->n_origins && !allowed; i++) {
        allowed = matches(cors->origins[i], origin);
    }
    return allowed && origin.length > 0;
}

static bool allows_method(ss_header_text method) {
    static const char *const allowed[] = {"GET", "POST", "HEAD", "OPTIONS"};
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        if (strlen(allowed[i]) == method.length && memcmp(allowed[i], method.bytes, method.length) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t';
}

/* Names between commas, in lower case and sorted as browsers send them, all of them in the set. */
static bool allows_headers(const ss_cors *cors, ss_header_text names) {
    if (cors->allows_all_headers) {
        return true;
    }
    const char *pos = names.bytes, *end = pos + names.length;
    size_t next = 0; /* what comes before in the set has been passed */
    for (int n_empty = 0; pos < end;) {
        const char *comma = memchr(pos, ',', (size_t)(end - pos));
        const char *from = pos, *to = comma ? comma : end;
        pos = comma ? comma + 1 : end;
        for (int i = 0; i < SPACES_MAX && from < to && is_space(*from); i++) {
            from++;
        }
        for (int i = 0; i < SPACES_MAX && from < to && is_space(to[-1]); i++) {
            to--;
        }
        if (from == to) {
            if (++n_empty > EMPTY_NAMES_MAX) {
                return false;
            }
            continue;
        }
        size_t length = (size_t)(to - from);
        while (next < cors->n_headers &&
               (strlen(cors->headers[next]) != length || memcmp(cors->headers[next], from, length) != 0)) {
            next++;
        }
        if (next++ >= cors->n_headers) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ header lines */

static ss_status append_text(ss_buffer *out, const char *text) {
    return ss_buffer_append(out, (const uint8_t *)text, strlen(text));
}

/* name: with its colon and space. */
static ss_status append_line(ss_buffer *out, const char *name, const char *value, size_t length) {
    ss_status status = append_text(out, name);
    if (status == SS_OK) {
        status = ss_buffer_append(out, (const uint8_t *)value, length);
    }
    return status == SS_OK ? append_text(out, "\r\n") : status;
}

static ss_status append_origin(const ss_cors *cors, ss_header_text origin, ss_buffer *out) {
    if (cors->allows_all_origins) {
        origin = (ss_header_text){"*", 1};
    }
    ss_status status = append_line(out, "Access-Control-Allow-Origin: ", origin.bytes, origin.length);
    return status == SS_OK ? append_text(out, "Access-Control-Allow-Credentials: true\r\n") : status;
}

ss_status ss_cors_append_answer(const ss_cors *cors, ss_header_text origin, bool is_simple, ss_buffer *out) {
    ss_status status = append_text(out, "Vary: Origin\r\n");
    if (status != SS_OK || !is_simple || !allows_origin(cors, origin)) {
        return status;
    }
    status = append_origin(cors, origin, out);
    size_t length = strlen(cors->exposed_headers);
    return status == SS_OK && length
               ? append_line(out, "Access-Control-Expose-Headers: ", cors->exposed_headers, length)
               : status;
}

ss_status ss_cors_append_preflight(const ss_cors *cors, ss_header_text origin, ss_header_text method,
                                   ss_header_text headers, ss_buffer *out) {
    ss_status status =
        append_text(out, "Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers\r\n");
    if (!allows_origin(cors, origin) || !allows_method(method) || !allows_headers(cors, headers)) {
        return status;
    }
    if (status == SS_OK) {
        status = append_origin(cors, origin, out);
    }
    if (status == SS_OK) {
        status = append_line(out, "Access-Control-Allow-Methods: ", method.bytes, method.length);
    }
    if (status == SS_OK && headers.length) {
        status = append_line(out, "Access-Control-Allow-Headers: ", headers.bytes, headers.length);
    }
    if (status != SS_OK || cors->max_age_s == 0) {
        return status;
    }
    char seconds[16];
    int size = snprintf(seconds, sizeof seconds, "%d", cors->max_age_s > 0 ? (int)cors->max_age_s : 0);
    return append_line(out, "Access-Control-Max-Age: ", seconds, (size_t)size);
}
