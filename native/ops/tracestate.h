/* Sampling information as items carry it: the W3C tracestate with the "ot" member's rv and th.
 * Source: W3C Trace Context, "tracestate"; OpenTelemetry, "TraceState: Probability Sampling". */
#ifndef SS_TRACESTATE_H
#define SS_TRACESTATE_H

#include "spansieve.h"

/* 56 bits, in texts 14 hex digits. A threshold counts the randomness values below it, which are not sampled. */
enum { SS_SAMPLING_DIGITS = 14 };
static const uint64_t SS_THRESHOLD_NEVER = UINT64_C(1) << 56;
static const uint64_t SS_RANDOMNESS_MAX = (UINT64_C(1) << 56) - 1;

typedef struct ss_sampling {
    bool has_randomness;
    bool has_threshold;
    uint64_t randomness; /* rv */
    uint64_t threshold;  /* th */
} ss_sampling;

/* Read an rv or th. NULL, or what is wrong with it. */
const char *ss_randomness_parse(const uint8_t *text, size_t length, uint64_t *randomness);
const char *ss_threshold_parse(const uint8_t *text, size_t length, uint64_t *threshold);

void ss_randomness_format(uint64_t randomness, uint8_t out[SS_SAMPLING_DIGITS]);
/* Returns the number of digits: trailing zeros are left out, "never" has no text. */
size_t ss_threshold_format(uint64_t threshold, uint8_t out[SS_SAMPLING_DIGITS]);

enum {
    SS_TRACESTATE_MAX = 1024,                         /* longest header value that is read */
    SS_TRACESTATE_MEMBER_MAX = 256,                   /* longest key, longest value */
    SS_TRACESTATE_FORMAT_MAX = SS_TRACESTATE_MAX + 64 /* what rv and th can add */
};

typedef struct ss_tracestate {
    ss_sampling sampling;
    uint8_t randomness_text[SS_SAMPLING_DIGITS]; /* as it came: case and trailing zeros are kept until set */
    uint8_t threshold_text[SS_SAMPLING_DIGITS];
    size_t threshold_length;
    size_t extras_length;
    size_t vendors_length;
    uint8_t extras[SS_TRACESTATE_MEMBER_MAX]; /* other keys of the ot member, joined by ';' */
    uint8_t vendors[SS_TRACESTATE_MAX];       /* other members, joined by ',' */
} ss_tracestate;

/* Read a header value. NULL, or what is wrong with it; then state holds what could be used. */
const char *ss_tracestate_parse(ss_tracestate *state, const uint8_t *text, size_t length);
void ss_tracestate_set_randomness(ss_tracestate *state, uint64_t randomness);
void ss_tracestate_set_threshold(ss_tracestate *state, uint64_t threshold);
/* Returns the length: ot first, then the other members in their order. */
size_t ss_tracestate_format(const ss_tracestate *state, uint8_t out[SS_TRACESTATE_FORMAT_MAX]);

#endif
