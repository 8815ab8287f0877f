/* Numbers as text, the way Go's strconv reads and writes them: it decides what the Collector makes of an attribute. */
#ifndef SS_NUMBER_H
#define SS_NUMBER_H

#include "spansieve.h"

enum { SS_NUMBER_FORMAT_MAX = 64, SS_NUMBER_LITERAL_MAX = 128 };

/* Read a floating-point literal as strconv.ParseFloat does: underscores between digits, hexadecimal with an exponent,
 * inf, infinity and nan in any case. False for anything else, for what overflows, for texts too long for numbers. */
bool ss_number_parse(const uint8_t *text, size_t length, double *value);

/* Write value as JSON and JavaScript do, in the fewest digits that read back as value. Returns the length. */
size_t ss_number_format(double value, char out[SS_NUMBER_FORMAT_MAX]);

/* Truncated; out of range and NaN, which no int holds, give the nearest int and 0. */
int64_t ss_int_of(double value);

#endif
