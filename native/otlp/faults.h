/* Faults that cost no more than the item that they are in: what is found, what is mended, and how it is told. */
#ifndef SS_FAULTS_H
#define SS_FAULTS_H

#include "core/account.h"

/* Why an item cannot go on. */
typedef struct ss_item_fault {
    ss_fault fault;
    uint32_t offset; /* of the field's tag */
} ss_item_fault;

enum { SS_FIRST_FAULTS = 3, SS_PATH_SIZE = 256 /* characters of a path and its end */ };

/* What a scan found. */
typedef struct ss_faults {
    uint32_t n_items; /* that have one; their verdict is SS_DROP, and of their columns only ids and places are filled */
    uint32_t by_fault[SS_N_FAULTS];
    ss_item_fault first[SS_FIRST_FAULTS]; /* of the first items, in order; each item's first */
    bool has_bad_text;                    /* somewhere a text is not UTF-8 */
} ss_faults;

/* ss_scan, but an ss_fault only marks its item, and texts are looked at where checks_texts says so. */
ss_status ss_scan_items(ss_signal signal, const uint8_t *bytes, size_t length, bool checks_texts, ss_table *table,
                        ss_faults *faults, ss_error *error);

/* ss_json_to_otlp, but an id that is none is passed on as its text, of a length that no id has, and what is nested too
 * deeply as one empty message that is, so that a scan marks their item; and U+FFFD takes the place of bytes that are
 * not UTF-8: in n_texts texts. holding counts out and what is held meanwhile; NULL: it is not counted. path becomes
 * that of the field with the error, as in ss_path_write. */
ss_status ss_json_to_otlp_items(ss_signal signal, const uint8_t *json, size_t length, ss_holding *holding,
                                ss_buffer *out, uint64_t *n_texts, char path[SS_PATH_SIZE], ss_error *error);

/* True for text that may be the base64 of an id of size bytes, as plain protobuf JSON has it. */
bool ss_json_id_is_base64(const uint8_t *text, size_t length, size_t size);

/* Append a request, which was scanned, with U+FFFD in place of the bytes that are not UTF-8: in n_texts texts. */
ss_status ss_repair_texts(ss_signal signal, const uint8_t *bytes, size_t length, ss_holding *holding, ss_buffer *out,
                          uint64_t *n_texts);

/* Write the path of the field of a request that holds the byte at offset, as OTLP/JSON names it:
 * resourceSpans[0].scopeSpans[0].spans[0]; as far as it can be read, cut to size and NUL-terminated. */
void ss_path_write(ss_signal signal, const uint8_t *bytes, size_t length, size_t offset, char *out, size_t size);

/* Write where the first faulty items stand, what was expected and what came, as one line of text, cut to size and
 * NUL-terminated. payload is what the sender wrote. */
void ss_faults_describe(const ss_faults *faults, const ss_table *table, ss_payload payload, char *out, size_t size);

#endif
