/* Faults that cost no more than the item that they are in: what is found, what is mended, and how it is told. */
#ifndef SS_FAULTS_H
#define SS_FAULTS_H

#include "spansieve.h"

/* Why an item cannot go on: an id of a length that no id has. */
typedef struct ss_item_fault {
    uint32_t row;
    ss_id id;
    const char *within;    /* the field of the row that the id is in, with a point: "links.", or "" */
    uint32_t value_offset; /* of the id */
    uint32_t value_length;
} ss_item_fault;

enum { SS_FIRST_FAULTS = 3 };

/* What a scan found. */
typedef struct ss_faults {
    uint32_t n_items; /* with a bad id; their verdict is SS_DROP */
    uint32_t by_id[SS_N_IDS];
    ss_item_fault first[SS_FIRST_FAULTS]; /* of the first items, in order; each item's first */
    bool has_bad_text;                    /* somewhere a text is not UTF-8 */
} ss_faults;

/* ss_scan, but a bad id only marks its item, and texts are looked at where checks_texts says so. */
ss_status ss_scan_items(ss_signal signal, const uint8_t *bytes, size_t length, bool checks_texts, ss_table *table,
                        ss_faults *faults, ss_error *error);

/* ss_json_to_otlp, but an id that is none is passed on as its text, of a length that no id has, so that a scan marks
 * its item; and U+FFFD takes the place of bytes that are not UTF-8: in n_texts texts. */
ss_status ss_json_to_otlp_items(ss_signal signal, const uint8_t *json, size_t length, ss_buffer *out, uint64_t *n_texts,
                                ss_error *error);

/* True for text that may be the base64 of an id of size bytes, as plain protobuf JSON has it. */
bool ss_json_id_is_base64(const uint8_t *text, size_t length, size_t size);

/* Append a request, which was scanned, with U+FFFD in place of the bytes that are not UTF-8: in n_texts texts. */
ss_status ss_repair_texts(ss_signal signal, const uint8_t *bytes, size_t length, ss_buffer *out, uint64_t *n_texts);

/* Write where the first faulty items stand, what was expected and what came, as one line of text, cut to size and
 * NUL-terminated. payload is what the sender wrote. */
void ss_faults_describe(const ss_faults *faults, const ss_table *table, ss_payload payload, char *out, size_t size);

#endif
