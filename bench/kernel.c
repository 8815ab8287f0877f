/*
 * The kernel alone, for instruction counts: reads requests from files and runs stages over them, a number of times.
 *
 * Usage: kernel REPEATS SIGNAL STAGES NAMES FILE...; SIGNAL is its number in spansieve.h; STAGES is a set of letters:
 * s scan, p sampler (10 %), f low-value filter, d deletion of an attribute that most spans have, t metrics transform
 * (all labels but `direction` removed, points added up), e emit. The scan always runs. NAMES are the filter's patterns,
 * joined by commas. Prints the items of one repeat.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/op.h"
#include "otlp/faults.h"
#include "spansieve.h"

enum { FILES_MAX = 64, NAMES_MAX = 256 };

static bool read_file(const char *path, ss_buffer *out) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        return false;
    }
    uint8_t block[65536];
    size_t n;
    while ((n = fread(block, 1, sizeof block, file)) > 0) {
        if (ss_buffer_append(out, block, n) != SS_OK) {
            break;
        }
    }
    bool is_complete = feof(file);
    fclose(file);
    return is_complete;
}

static ss_op *new_filter(char *names, ss_error *error) {
    const char *patterns[NAMES_MAX];
    size_t n_patterns = 0;
    for (char *name = strtok(names, ","); name && n_patterns < NAMES_MAX; name = strtok(NULL, ",")) {
        patterns[n_patterns++] = name;
    }
    const uint8_t rules[] = {SS_SIGN_NAME, SS_SIGN_SHORT | SS_SIGN_NO_ATTRIBUTES};
    const ss_low_value_config config = {.min_duration_ns = 1000000,
                                        .names = patterns,
                                        .n_names = n_patterns,
                                        .rules = rules,
                                        .n_rules = sizeof rules,
                                        .reparent = true};
    return ss_low_value_new(&config, error);
}

static ss_op *new_sampler(ss_error *error) {
    const ss_sampler_config config = {.signal = SS_SIGNAL_TRACES,
                                      .mode = SS_SAMPLER_HASH_SEED,
                                      .sampling_percentage = 10,
                                      .sampling_precision = 4,
                                      .fail_closed = true};
    return ss_sampler_new(&config, error);
}

/* Of captured spans most have the first, generated ones have the second. */
static ss_op *new_deletion(ss_error *error) {
    const ss_attribute_action actions[] = {
        {.verb = SS_ATTRIBUTE_DELETE, .key = {"component", 9}},
        {.verb = SS_ATTRIBUTE_DELETE, .key = {"net.peer.ip", 11}},
    };
    const ss_attributes_config config = {.actions = actions, .n_actions = 2};
    return ss_attributes_new(&config, error);
}

static ss_op *new_transform(ss_error *error) {
    const char *labels[] = {"direction"};
    const ss_metric_operation operation = {
        .action = SS_METRIC_ACTION_AGGREGATE_LABELS, .aggregation = SS_AGGREGATION_SUM, .texts = labels, .n_texts = 1};
    const ss_metric_transform transform = {
        .include = "^system\\.network\\.", .is_regexp = true, .operations = &operation, .n_operations = 1};
    const ss_metrics_transform_config config = {.transforms = &transform, .n_transforms = 1};
    return ss_metrics_transform_new(&config, error);
}

int main(int argc, char **argv) {
    ss_buffer files[FILES_MAX] = {{0}};
    size_t n_files = 0;
    for (int i = 5; i < argc && n_files < FILES_MAX; i++) {
        if (!read_file(argv[i], &files[n_files++])) {
            fprintf(stderr, "%s cannot be read\n", argv[i]);
            return 1;
        }
    }
    if (n_files == 0) {
        fprintf(stderr, "usage: kernel REPEATS SIGNAL STAGES NAMES FILE...\n");
        return 2;
    }
    ss_signal signal = (ss_signal)atoi(argv[2]);
    const char *stages = argv[3];
    ss_error error = {0};
    ss_table *table = ss_table_new();
    ss_op *sampler = new_sampler(&error);
    ss_op *filter = new_filter(argv[4], &error);
    ss_op *deletion = new_deletion(&error);
    ss_op *transform = new_transform(&error);
    if (!table || !sampler || !filter || !deletion || !transform) {
        fprintf(stderr, "no memory, or no such configuration\n");
        return 1;
    }
    ss_buffer out = {0};
    size_t n_items = 0;
    for (int repeat = atoi(argv[1]); repeat > 0; repeat--) {
        n_items = 0;
        for (size_t i = 0; i < n_files; i++) {
            ss_verdict verdict = {0};
            ss_faults faults; /* a receiver's scan: it looks at texts too */
            if (ss_scan_items(signal, files[i].data, files[i].length, true, table, &faults, &error) != SS_OK) {
                fprintf(stderr, "%s at byte %llu\n", error.reason, (unsigned long long)error.offset);
                return 1;
            }
            if (strchr(stages, 'p')) {
                ss_op_run(sampler, table, &verdict);
            }
            if (strchr(stages, 'f')) {
                ss_op_run(filter, table, &verdict);
            }
            if (strchr(stages, 'd')) {
                ss_op_run(deletion, table, &verdict);
            }
            if (strchr(stages, 't')) {
                ss_op_run(transform, table, &verdict);
            }
            ss_op_settle_counts(table, 0, true);
            if (strchr(stages, 'e')) {
                out.length = 0;
                ss_emit(table, 0, table->n_rows, &out);
            }
            n_items += table->n_rows;
        }
    }
    printf("%zu\n", n_items);
    ss_op_free(transform);
    ss_op_free(deletion);
    ss_op_free(filter);
    ss_op_free(sampler);
    ss_table_free(table);
    ss_buffer_free(&out);
    for (size_t i = 0; i < n_files; i++) {
        ss_buffer_free(&files[i]);
    }
    return 0;
}
