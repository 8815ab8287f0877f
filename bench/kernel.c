/*
 * The kernel alone, for instruction counts: reads one request from a file and runs stages over it, a number of times.
 *
 * Usage: kernel FILE REPEATS STAGES, where STAGES is a set of letters: s scan, p sampler (10 %), f low-value filter,
 * e emit. The scan always runs. Prints the rows of one repeat.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/op.h"
#include "spansieve.h"

static uint8_t *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        return NULL;
    }
    *length = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*length);
    if (bytes && fread(bytes, 1, *length, file) != *length) {
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    return bytes;
}

int main(int argc, char **argv) {
    size_t length = 0;
    uint8_t *bytes = argc == 4 ? read_file(argv[1], &length) : NULL;
    if (!bytes) {
        fprintf(stderr, "usage: kernel FILE REPEATS STAGES\n");
        return 2;
    }
    ss_error error = {0};
    ss_table *table = ss_table_new();
    const char *const names[] = {"*grpc.health.v1.Health/*", "/healthz", "/_healthz", "/metrics"};
    const uint8_t rules[] = {SS_SIGN_NAME, SS_SIGN_SHORT | SS_SIGN_NO_ATTRIBUTES};
    const ss_low_value_config low_value = {.min_duration_ns = 1000000,
                                           .names = names,
                                           .n_names = sizeof names / sizeof names[0],
                                           .rules = rules,
                                           .n_rules = sizeof rules,
                                           .reparent = true};
    ss_op *filter = ss_low_value_new(&low_value, &error);
    ss_buffer out = {0};
    for (int repeat = atoi(argv[2]); repeat > 0; repeat--) {
        ss_verdict verdict = {0};
        if (ss_scan(SS_SIGNAL_TRACES, bytes, length, table, &error) != SS_OK) {
            fprintf(stderr, "%s at byte %llu\n", error.reason, (unsigned long long)error.offset);
            return 1;
        }
        if (strchr(argv[3], 'f')) {
            filter->vtable->run(filter, table, &verdict);
        }
        ss_op_settle_counts(table, true);
        if (strchr(argv[3], 'e')) {
            out.length = 0;
            ss_emit(table, 0, table->n_rows, &out);
        }
    }
    printf("%u\n", table->n_rows);
    ss_op_free(filter);
    ss_table_free(table);
    ss_buffer_free(&out);
    free(bytes);
    return 0;
}
