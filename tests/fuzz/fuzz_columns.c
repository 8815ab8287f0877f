/* Columns of values of any request, and edits of its attributes: in bounds, no item is lost, what was edited scans
 * again and shows the edit. */
#include <stdlib.h>
#include <string.h>

#include "otlp/table.h"
#include "spansieve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
    if (!condition) {
        abort();
    }
}

#define TEXT(literal) ((ss_text){literal, sizeof(literal) - 1})
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { CHOICES = 2 };

static const ss_text keys[] = {TEXT("a"), TEXT("b"), TEXT(""), TEXT("service.name")};

/* How many rows have a text; all of them are looked at. */
static uint32_t read_texts(const ss_table *table, ss_column_source source, ss_text key) {
    const size_t n = table->n_rows;
    uint32_t found = 0;
    ss_text_column column = {.ends = malloc((n + 1) * sizeof *column.ends),
                             .index = malloc((n + 1) * sizeof *column.index)};
    require(column.ends && column.index);
    require(ss_table_texts(table, source, key, &column) == SS_OK);
    require(column.n_texts <= n);
    require(!column.n_texts || column.ends[column.n_texts - 1] == column.bytes.length);
    for (uint32_t i = 0; i < n; i++) {
        require(column.index[i] < (int32_t)column.n_texts);
        found += column.index[i] >= 0;
    }
    ss_buffer_free(&column.bytes);
    free(column.ends);
    free(column.index);
    return found;
}

static void edit(ss_table *table, ss_text key, uint8_t choice) {
    const ss_value values[] = {{.type = SS_TYPE_INT, .integer = choice}, {.type = SS_TYPE_STRING, .string = keys[1]}};
    const uint32_t n = table->n_rows;
    uint32_t *chosen = malloc((n + 1) * sizeof *chosen);
    uint8_t *is_chosen = malloc(n + 1);
    double *numbers = malloc((n + 1) * sizeof *numbers);
    ss_buffer held = {0};
    ss_error error;
    require(chosen && is_chosen && numbers);
    for (uint32_t i = 0; i < n; i++) {
        chosen[i] = i % 2 ? 0 : choice % 3;
        is_chosen[i] = i % 2;
    }
    require(ss_table_set_attribute(table, key, values, COUNT(values), chosen) == SS_OK);
    require(ss_table_settle(table, &held, &error) == SS_OK);
    require(table->n_rows == n && read_texts(table, SS_SOURCE_ATTRIBUTE, key) >= n / 2);
    require(ss_table_numbers(table, SS_SOURCE_ATTRIBUTE, key, numbers) == SS_OK);
    for (uint32_t i = 1; i < n; i += 2) {
        require(numbers[i] == choice);
    }
    require(ss_table_delete_attribute(table, key, is_chosen) == SS_OK);
    require(ss_table_settle(table, &held, &error) == SS_OK);
    require(table->n_rows == n && read_texts(table, SS_SOURCE_ATTRIBUTE, key) <= n - n / 2);
    ss_buffer_free(&held);
    free(chosen);
    free(is_chosen);
    free(numbers);
}

/* Two bytes choose, the rest is the request. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < CHOICES) {
        return 0;
    }
    const ss_signal signal = (ss_signal)(data[0] % 4 % SS_N_SIGNALS);
    const ss_text key = keys[data[0] / 4 % COUNT(keys)];
    const size_t length = size - CHOICES;
    /* A copy of the exact size lets the sanitizer see a read past the end. */
    uint8_t *bytes = malloc(length + !length);
    ss_table *table = ss_table_new();
    ss_error error;
    require(bytes && table);
    memcpy(bytes, data + CHOICES, length);
    if (ss_scan(signal, bytes, length, table, &error) == SS_OK) {
        for (int source = SS_SOURCE_ATTRIBUTE; source <= SS_SOURCE_BODY; source++) {
            (void)read_texts(table, (ss_column_source)source, key);
        }
        edit(table, key, data[1]);
    }
    ss_table_free(table);
    free(bytes);
    return 0;
}
