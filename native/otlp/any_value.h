/* AnyValue and KeyValue: what a value is, how it is written, and the text that the Collector makes of it. */
#ifndef SS_ANY_VALUE_H
#define SS_ANY_VALUE_H

#include "core/arena.h"
#include "otlp_fields.h"

/* The last member of the oneof that was set; field 0 when none was. */
typedef struct ss_any_value {
    uint64_t field;
    uint64_t number; /* bool, int; the bits of a double */
    ss_reader bytes; /* string, bytes, array, kvlist */
} ss_any_value;

/* Find the next field of that number and its body, which has a length; whole is it with its tag. message moves behind.
 * False: there is none any more, or it is malformed. */
bool ss_next_field(ss_reader *message, uint32_t field, ss_reader *whole, ss_reader *body);

/* The body of the last such field; no data: there is none. */
ss_bytes ss_last_field(ss_reader message, uint32_t field);

/* The bodies of all such fields, put together in arena where they do not lie together: what a message means that came
 * in pieces. False: out of memory. */
bool ss_gather_field(ss_arena *arena, ss_reader message, uint32_t field, ss_bytes *found);

/* Read the body of an AnyValue. False: malformed. */
bool ss_any_value_read(ss_reader body, ss_any_value *value);

/* Read the body of a KeyValue: its key, and the body of its value, put together. False: out of memory.
 * REQUIRES: it was scanned. */
bool ss_key_value_read(ss_arena *arena, ss_reader body, ss_bytes *key, ss_bytes *value);

/* The number of an int or a double. */
bool ss_any_value_number(const ss_any_value *value, double *number);

/* Whether two bodies mean the same: of the same type, numbers as numbers, maps in any order. */
bool ss_any_value_equal(ss_arena *arena, ss_bytes a, ss_bytes b);

/* Append the text of a value: as it is, decimal, true and false, base64, JSON with sorted keys; none of an empty one.
 * False: out of memory or malformed. REQUIRES: the value was scanned, or is of a configuration, which bounds how deep
 * it is. */
bool ss_any_value_text(ss_arena *arena, ss_bytes body, ss_buffer *out);

/* The same for what patterns are compared with: never an exponent. False also for what they are not compared with:
 * empty, bytes, array, map. */
bool ss_any_value_match_text(const ss_any_value *value, ss_buffer *out);

/* Make the body of a value in arena. No data: out of memory. */
ss_bytes ss_any_value_of_text(ss_arena *arena, ss_bytes text);
ss_bytes ss_any_value_of_int(ss_arena *arena, int64_t number);
ss_bytes ss_any_value_of_double(ss_arena *arena, double number);
/* The same, where it is nested more than depth deep, too. */
ss_bytes ss_any_value_of(ss_arena *arena, const ss_value *value, unsigned depth);

#endif
