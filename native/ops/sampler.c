/* probabilistic_sampler: keep an item when its rejection threshold is at most its randomness, both of 56 bits.
 * Source: OpenTelemetry, "TraceState: Probability Sampling"; for hash_seed the Collector's historic FNV-1a buckets. */
#include "core/bytes.h"
#include "core/verdict.h"
#include "ops/number.h"
#include "ops/op.h"
#include "ops/sdk_ratio.h"
#include "ops/tracestate.h"
#include "otlp/any_value.h"

#include <float.h>
#include <stdlib.h>

_Static_assert(FLT_EVAL_METHOD == 0, "the bucket count must be rounded to float at each step, as in the Collector");

enum { BUCKET_BITS = 14, BUCKETS = 1 << BUCKET_BITS, TRACE_ID_SIZE = 16 };
enum { RANDOMNESS_BITS = 56, NO_ERROR = 0, RETRY_DELAY_MS = 1000 };
enum { ATTRIBUTE_MAX = 64 }; /* room for a log attribute that this op writes */

static const char PRIORITY[] = "sampling.priority";
static const char THRESHOLD[] = "sampling.threshold";
static const char RANDOMNESS[] = "sampling.randomness";

_Static_assert((int)SS_SAMPLER_CONSTANT_HIGH_HALF < (int)SS_OP_COUNTERS, "every kind of item has its counter");

typedef enum strategy { HASH_SEED, PROPORTIONAL, EQUALIZING, SDK_RATIO, NEVER } strategy;

typedef struct name {
    const char *text;
    size_t length;
} name;

typedef struct sampler {
    ss_op op;
    strategy strategy;
    bool fail_closed;
    bool allow_resampling;
    bool hash_trace_id;
    uint32_t precision;
    uint32_t seed_state; /* FNV-1a over the seed: what the hashes of all items start from */
    uint32_t buckets;    /* hash_seed: kept, of 16384 */
    double ratio;
    uint64_t threshold; /* of an item that arrives without one */
    ss_sampler_sdk sdk;
    bool sdk_keeps_any;
    uint64_t sdk_last;               /* sdk_ratio: the largest number kept, where any is */
    bool is_observing;               /* a lock that nobody waits for: guards observed */
    uint8_t observed[TRACE_ID_SIZE]; /* the last trace id that was looked at */
    name from_attribute;
    name priority_attribute;
    uint8_t field[64]; /* the trace_state field of a kept span that had none; the digits of rv are still to be set */
    size_t field_length;
    char *texts; /* owns the names */
} sampler;

enum { FIELD_RANDOMNESS = 8 }; /* tag, length, "ot=rv:" */

/* ---------------------------------------------------------------- hash_seed's randomness */

static const uint32_t FNV_OFFSET = 0x811c9dc5;
static const uint32_t FNV_PRIME = 0x01000193;

static inline uint32_t fnv1a(uint32_t state, const uint8_t *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) {
        state = (state ^ bytes[i]) * FNV_PRIME;
    }
    return state;
}

/*
 * The same for a block of trace ids at once, as far as the bucket needs it: 16 bits of the state do not depend on those
 * above them, and eight such states fit a vector of any machine.
 */
enum { BLOCK = 8 };

typedef uint8_t vector_bytes __attribute__((vector_size(16)));
typedef uint16_t vector_words __attribute__((vector_size(16)));

#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (vector_bytes){__VA_ARGS__})
#endif

static inline vector_bytes interleave_low(vector_bytes a, vector_bytes b) {
    return SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

static inline vector_bytes interleave_high(vector_bytes a, vector_bytes b) {
    return SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/* Widen bytes to words. */
static inline vector_words words_of(vector_bytes bytes, bool high) {
    const vector_bytes zero = {0};
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return (vector_words)(high ? interleave_high(zero, bytes) : interleave_low(zero, bytes));
#else
    return (vector_words)(high ? interleave_high(bytes, zero) : interleave_low(bytes, zero));
#endif
}

/* Hash n_ids trace ids that stand one behind the other, or the first BLOCK of them. */
static inline void hash_block(uint32_t state, const uint8_t *trace_ids, size_t n_ids, uint16_t out[BLOCK]) {
    vector_bytes ids[BLOCK] = {{0}}, mixed[BLOCK];
    if (n_ids >= BLOCK) {
        memcpy(ids, trace_ids, sizeof ids);
    } else {
        memcpy(ids, trace_ids, n_ids * TRACE_ID_SIZE);
    }
    /* Three rounds transpose: ids[i] is then byte 2i of all ids, followed by byte 2i + 1 of all. */
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCK / 2; i++) {
            mixed[2 * i] = interleave_low(ids[i], ids[i + BLOCK / 2]);
            mixed[2 * i + 1] = interleave_high(ids[i], ids[i + BLOCK / 2]);
        }
        memcpy(ids, mixed, sizeof ids);
    }
    vector_words states = (vector_words){0} + (uint16_t)state;
    for (int i = 0; i < BLOCK; i++) {
        states = (states ^ words_of(ids[i], false)) * (uint16_t)FNV_PRIME;
        states = (states ^ words_of(ids[i], true)) * (uint16_t)FNV_PRIME;
    }
    memcpy(out, &states, sizeof states);
}

static uint32_t seeded(uint32_t hash_seed) {
    uint8_t little_endian[4];
    for (int i = 0; i < 4; i++) {
        little_endian[i] = (uint8_t)(hash_seed >> 8 * i);
    }
    return fnv1a(FNV_OFFSET, little_endian, sizeof little_endian);
}

/* The bucket turned round, so that few buckets kept is a high threshold; bits without part in the choice fill up. */
static inline uint64_t spread(uint32_t hash) {
    uint64_t bucket = hash & (BUCKETS - 1);
    uint64_t unused = hash >> (32 - BUCKET_BITS);
    return (BUCKETS - 1 - bucket) << (RANDOMNESS_BITS - BUCKET_BITS) | (unused ^ unused << 10) << BUCKET_BITS | bucket;
}

uint64_t ss_sampler_hash(uint32_t hash_seed, const uint8_t *bytes, size_t length) {
    return spread(fnv1a(seeded(hash_seed), bytes, length));
}

uint32_t ss_sampler_buckets(float sampling_percentage) {
    float percentage = sampling_percentage > 100 ? 100 : sampling_percentage;
    return percentage > 0 ? (uint32_t)(percentage * 163.84F) : 0;
}

/* ---------------------------------------------------------------- the decision on one item */

typedef struct item {
    ss_sampling carried; /* on arrival; after the decision what is to be written */
    bool is_log;
    bool is_writable; /* what it carries was understood, so it may be brought up to date */
    bool sets_randomness;
    bool sets_threshold;
    bool loses_threshold; /* with what probability it was kept can no longer be said */
    uint64_t randomness;
    ss_sampler_policy policy;
    uint32_t error; /* ss_sampler_error or NO_ERROR */
} item;

static inline bool is_zero_id(const uint8_t *trace_id) {
    uint64_t halves[2];
    memcpy(halves, trace_id, sizeof halves);
    return (halves[0] | halves[1]) == 0;
}

/* Bytes 9 to 15, big-endian. */
static inline uint64_t low_bits(const uint8_t *trace_id) {
    uint64_t value;
    memcpy(&value, trace_id + 8, sizeof value);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value & SS_RANDOMNESS_MAX;
}

static void set_source(item *it, ss_sampler_policy policy, uint64_t randomness) {
    it->policy = policy;
    it->randomness = randomness;
}

static void set_error(item *it, ss_sampler_error error) {
    it->error = error;
    it->is_writable = it->is_writable && (error == SS_SAMPLER_NO_RANDOMNESS || error == SS_SAMPLER_INCONSISTENT);
}

/* Complete what hash_seed mode knows of an item; its randomness is set already where it has any. */
static void check_hashed(const sampler *self, item *it, bool is_readable) {
    if (!is_readable) {
        set_error(it, SS_SAMPLER_UNREADABLE);
    } else if (it->carried.has_randomness && !self->allow_resampling) {
        set_error(it, SS_SAMPLER_RANDOMNESS_IN_USE);
    } else if (it->carried.has_threshold && !self->allow_resampling) {
        set_error(it, SS_SAMPLER_THRESHOLD_IN_USE);
    } else if (it->policy == SS_SAMPLER_MISSING_RANDOMNESS) {
        set_error(it, SS_SAMPLER_NO_RANDOMNESS);
    }
}

static void check_consistent(item *it, const uint8_t *trace_id, bool is_readable) {
    if (!is_readable) {
        set_error(it, SS_SAMPLER_UNREADABLE);
        return;
    }
    if (it->carried.has_randomness) {
        set_source(it, SS_SAMPLER_SAMPLING_RANDOMNESS, it->carried.randomness);
    } else if (!is_zero_id(trace_id)) {
        set_source(it, SS_SAMPLER_TRACE_ID_W3C, low_bits(trace_id));
    } else {
        set_error(it, SS_SAMPLER_NO_RANDOMNESS);
        return;
    }
    if (it->carried.has_threshold && it->carried.threshold > it->randomness) {
        it->carried.has_threshold = false;
        set_error(it, SS_SAMPLER_INCONSISTENT);
    }
}

/* The SDK's decision as the least randomness there is, or the most. Nothing that the item carries has a part in it. */
static void check_sdk(const sampler *self, item *it, const uint8_t *trace_id, bool is_readable) {
    it->is_writable = is_readable && it->carried.has_threshold;
    if (is_zero_id(trace_id)) {
        set_error(it, SS_SAMPLER_NO_RANDOMNESS);
        return;
    }
    bool is_kept = self->sdk_keeps_any && ss_sdk_ratio_number(self->sdk, trace_id) <= self->sdk_last;
    set_source(it, SS_SAMPLER_TRACE_ID_SDK, is_kept ? SS_RANDOMNESS_MAX : 0);
    it->loses_threshold = self->ratio < 1;
}

/* At 0 % only priority counts; an item that cannot be read still meets fail_closed, and is still written. */
static void check_never(item *it, bool is_readable) {
    set_source(it, SS_SAMPLER_SAMPLING_PRIORITY, SS_RANDOMNESS_MAX);
    if (!is_readable) {
        it->error = SS_SAMPLER_UNREADABLE;
    }
}

static uint64_t decide(const sampler *self, const item *it) {
    if (it->error != NO_ERROR) {
        return self->fail_closed ? SS_THRESHOLD_NEVER : 0;
    }
    bool is_alone = self->strategy == HASH_SEED || self->strategy == SDK_RATIO || self->strategy == NEVER;
    if (!it->carried.has_threshold || is_alone) {
        return self->threshold;
    }
    if (self->strategy == EQUALIZING) {
        return it->carried.threshold > self->threshold ? it->carried.threshold : self->threshold;
    }
    double arriving = (double)(SS_THRESHOLD_NEVER - it->carried.threshold) * 0x1p-56;
    uint64_t threshold;
    bool in_range = ss_sampler_threshold(arriving * self->ratio, self->precision, &threshold);
    return in_range ? threshold : SS_THRESHOLD_NEVER;
}

/* part of whole / 2^56, rounded up: at least 1 where both are. */
static uint64_t scale_down(uint64_t part, uint64_t whole) {
    unsigned __int128 product = (unsigned __int128)part * whole;
    return (uint64_t)((product + SS_RANDOMNESS_MAX) >> RANDOMNESS_BITS);
}

/*
 * A kept item that an earlier sampler had decided on. By the same hash: the higher threshold is the whole truth. By an
 * unrelated one: the probabilities multiply, and the randomness moves with them, so
 * that threshold <= randomness still holds and what is kept is still spread evenly above the threshold.
 */
static void combine(item *it, uint64_t threshold) {
    uint64_t arrived = it->carried.has_threshold ? it->carried.threshold : 0;
    bool is_same_hash = it->carried.has_randomness && it->carried.randomness == it->randomness;
    if (is_same_hash) {
        threshold = threshold > arrived ? threshold : arrived;
    } else {
        uint64_t whole = SS_THRESHOLD_NEVER - arrived;
        threshold = SS_THRESHOLD_NEVER - scale_down(SS_THRESHOLD_NEVER - threshold, whole);
        it->carried.randomness = SS_THRESHOLD_NEVER - scale_down(SS_THRESHOLD_NEVER - it->randomness, whole);
        it->sets_randomness = true;
    }
    it->sets_threshold = threshold != arrived || !it->carried.has_threshold;
    it->carried.threshold = threshold;
}

/*
 * Say in a kept item with what threshold it was kept. After an SDK's ratio nothing can be said: the trace may have been
 * through the same sampler before, with whatever ratio, and the bits that decided are not those of the randomness.
 */
static void update(const sampler *self, item *it, uint64_t threshold) {
    if (self->strategy == SDK_RATIO) {
        it->carried.has_threshold = !it->loses_threshold;
        return;
    }
    bool is_marked = it->carried.has_randomness || it->carried.has_threshold;
    if (self->strategy == HASH_SEED && is_marked) {
        if (it->policy != SS_SAMPLER_MISSING_RANDOMNESS) {
            combine(it, threshold);
        }
        return;
    }
    /* A span of unknown randomness gets the all-ones value that it was compared by; a log record does not. */
    if (self->strategy == HASH_SEED && !(it->is_log && it->error == SS_SAMPLER_NO_RANDOMNESS)) {
        it->carried.randomness = it->randomness;
        it->sets_randomness = true;
    }
    /* A probability is never raised: the items dropped before would be forgotten. */
    if (!it->carried.has_threshold || it->carried.threshold <= threshold) {
        it->carried.threshold = threshold;
        it->sets_threshold = true;
    }
}

typedef struct tally {
    uint32_t items[SS_OP_COUNTERS];
} tally;

static bool settle(const sampler *self, item *it, ss_sampler_policy policy, uint64_t threshold, tally *counts) {
    bool kept = threshold <= it->randomness;
    if (kept && it->is_writable) {
        update(self, it, threshold);
    }
    counts->items[2 * policy + kept]++;
    counts->items[it->error] += it->error != NO_ERROR;
    return kept;
}

static ss_status finish(sampler *self, ss_table *table, ss_status status, const tally *counts, ss_verdict *verdict) {
    if (status == SS_ERR_NO_MEMORY) {
        return ss_refuse(verdict, "out of memory", RETRY_DELAY_MS);
    }
    if (status != SS_OK) {
        return ss_reject(verdict, status, SS_CODE_INTERNAL, ss_status_text(status));
    }
    for (uint32_t i = 0; i < SS_OP_COUNTERS; i++) {
        ss_op_count(&self->op, table, i, counts->items[i]);
    }
    return SS_OK;
}

/* ---------------------------------------------------------------- whether trace ids are random */

enum { OBSERVED_OF_A_REQUEST = 8, NEAR = 1 << 16, NO_PATTERN = 0 };

static inline bool is_near(uint64_t a, uint64_t b) {
    return (a > b ? a - b : b - a) <= NEAR;
}

/* What shows that id, not zero, is not random, when before is an id of another trace. */
static uint32_t pattern_of(const uint8_t *id, const uint8_t *before) {
    uint64_t high = ss_sdk_ratio_half(id), low = ss_sdk_ratio_half(id + 8);
    uint64_t high_before = ss_sdk_ratio_half(before), low_before = ss_sdk_ratio_half(before + 8);
    if (low == 0) {
        return SS_SAMPLER_ZERO_LOW_HALF;
    }
    if (low == low_before) {
        return SS_SAMPLER_CONSTANT_LOW_HALF;
    }
    if (is_near(low, low_before) || is_near(__builtin_bswap64(low), __builtin_bswap64(low_before))) {
        return SS_SAMPLER_COUNTING;
    }
    if (high == 0) {
        return SS_SAMPLER_ZERO_HIGH_HALF;
    }
    return high == high_before ? SS_SAMPLER_CONSTANT_HIGH_HALF : NO_PATTERN;
}

/* Look at a few rows of each request, each beside the one looked at before; at none while another thread looks. */
static void observe(sampler *self, const ss_table *table, tally *counts) {
    if (__atomic_test_and_set(&self->is_observing, __ATOMIC_ACQUIRE)) {
        return;
    }
    const size_t step = table->n_rows / OBSERVED_OF_A_REQUEST + 1;
    for (size_t row = 0; row < table->n_rows; row += step) {
        const uint8_t *id = table->trace_id + row * TRACE_ID_SIZE;
        if (is_zero_id(id) || memcmp(id, self->observed, TRACE_ID_SIZE) == 0) {
            continue;
        }
        if (!is_zero_id(self->observed)) {
            uint32_t pattern = pattern_of(id, self->observed);
            counts->items[pattern] += pattern != NO_PATTERN;
        }
        memcpy(self->observed, id, TRACE_ID_SIZE);
    }
    __atomic_clear(&self->is_observing, __ATOMIC_RELEASE);
}

/* ---------------------------------------------------------------- attributes */

typedef struct attribute {
    bool found;
    uint32_t offset; /* of the tag, in the table's bytes */
    uint32_t length;
    ss_any_value value;
} attribute;

static bool read_key_value(ss_reader reader, ss_reader *key, ss_any_value *value) {
    *value = (ss_any_value){0};
    *key = (ss_reader){reader.pos, reader.pos};
    while (reader.pos < reader.end) {
        uint64_t tag;
        ss_reader body;
        bool ok = ss_read_varint(&reader, &tag) && tag <= UINT32_MAX;
        if (ok && tag == (SS_KEY_VALUE_KEY << 3 | SS_WIRE_BYTES)) {
            ok = ss_read_bytes(&reader, key);
        } else if (ok && tag == (SS_KEY_VALUE_VALUE << 3 | SS_WIRE_BYTES)) {
            ok = ss_read_bytes(&reader, &body) && ss_any_value_read(body, value);
        } else if (ok) {
            ok = ss_skip_field(&reader, (uint32_t)tag, 0);
        }
        if (!ok) {
            return false;
        }
    }
    return true;
}

/* Find the first attribute of each name in a row. What the scan let pass is well-formed; all else ends the walk. */
static void find_attributes(const ss_table *table, uint32_t row, uint32_t field, const name *names, size_t n_names,
                            attribute *found) {
    const uint8_t *start = table->bytes + table->attributes_offset[row];
    ss_reader reader = {start, start + table->attributes_length[row]};
    while (reader.pos < reader.end) {
        const uint8_t *tag_pos = reader.pos;
        uint64_t tag;
        if (!ss_read_varint(&reader, &tag) || tag > UINT32_MAX) {
            return;
        }
        if (tag != (field << 3 | SS_WIRE_BYTES)) {
            if (!ss_skip_field(&reader, (uint32_t)tag, 0)) {
                return;
            }
            continue;
        }
        ss_reader body, key;
        ss_any_value value;
        if (!ss_read_bytes(&reader, &body) || !read_key_value(body, &key, &value)) {
            return;
        }
        for (size_t i = 0; i < n_names; i++) {
            size_t key_length = (size_t)(key.end - key.pos);
            if (!found[i].found && names[i].length == key_length && memcmp(names[i].text, key.pos, key_length) == 0) {
                found[i].found = true;
                found[i].offset = (uint32_t)(tag_pos - table->bytes);
                found[i].length = (uint32_t)(reader.pos - tag_pos);
                found[i].value = value;
            }
        }
    }
}

/* ---------------------------------------------------------------- spans */

/* sampling.priority: 0 drops, more keeps, anything else says nothing. */
static void apply_span_priority(const ss_table *table, uint32_t row, ss_sampler_policy *policy, uint64_t *threshold) {
    static const name wanted = {PRIORITY, sizeof PRIORITY - 1};
    attribute found = {0};
    find_attributes(table, row, SS_SPAN_ATTRIBUTES, &wanted, 1, &found);
    const ss_any_value *value = &found.value;
    double priority;
    bool is_number = ss_any_value_number(value, &priority) ||
                     (value->field == SS_ANY_VALUE_STRING_VALUE &&
                      ss_number_parse(value->bytes.pos, (size_t)(value->bytes.end - value->bytes.pos), &priority));
    if (is_number && priority >= 0) {
        *policy = SS_SAMPLER_SAMPLING_PRIORITY;
        *threshold = priority > 0 ? 0 : SS_THRESHOLD_NEVER;
    }
}

/* Put text in place of the span's trace_state. */
static ss_status write_tracestate(ss_table *table, uint32_t row, const uint8_t *text, size_t length) {
    uint8_t out[SS_TRACESTATE_FORMAT_MAX + 8];
    uint8_t *pos = out;
    uint32_t old_length = table->tracestate_length[row];
    uint32_t offset = table->row_offset[row] + table->row_length[row];
    uint32_t replaced = 0;
    if (old_length) {
        /* Only the length prefix and the value; every byte of the prefix but its last has the high bit, and the last
         * byte of the tag before it has not. */
        offset = table->tracestate_offset[row] - 1;
        while (table->bytes[offset - 1] & 0x80) {
            offset--;
        }
        replaced = table->tracestate_offset[row] - offset + old_length;
    } else {
        *pos++ = SS_SPAN_TRACE_STATE << 3 | SS_WIRE_BYTES;
    }
    pos = ss_write_varint(pos, length);
    memcpy(pos, text, length);
    return ss_table_edit(table, row, offset, replaced, out, (size_t)(pos - out) + length);
}

static __attribute__((noinline)) ss_status sample_span(const sampler *self, ss_table *table, uint32_t row,
                                                       tally *counts) {
    const uint8_t *trace_id = table->trace_id + (size_t)row * TRACE_ID_SIZE;
    const uint8_t *text = table->bytes + table->tracestate_offset[row];
    size_t length = table->tracestate_length[row];
    ss_tracestate state;
    bool is_readable = !ss_tracestate_parse(&state, text, length);
    item it = {.carried = state.sampling, .is_writable = true};

    set_source(&it, SS_SAMPLER_MISSING_RANDOMNESS, SS_RANDOMNESS_MAX);
    if (self->strategy == NEVER) {
        check_never(&it, is_readable);
    } else if (self->strategy == HASH_SEED) {
        if (!is_zero_id(trace_id)) {
            set_source(&it, SS_SAMPLER_TRACE_ID_HASH, spread(fnv1a(self->seed_state, trace_id, TRACE_ID_SIZE)));
        }
        check_hashed(self, &it, is_readable);
    } else if (self->strategy == SDK_RATIO) {
        check_sdk(self, &it, trace_id, is_readable);
    } else {
        check_consistent(&it, trace_id, is_readable);
    }
    uint64_t threshold = decide(self, &it);
    ss_sampler_policy policy = it.policy;
    if (table->marks[row] & SS_MARK_PRIORITY) {
        apply_span_priority(table, row, &policy, &threshold);
        it.loses_threshold = it.loses_threshold && policy != SS_SAMPLER_SAMPLING_PRIORITY;
    }
    if (!settle(self, &it, policy, threshold, counts)) {
        ss_table_drop(table, row);
        return SS_OK;
    }
    state.sampling.has_threshold = it.carried.has_threshold;
    if (it.sets_randomness) {
        ss_tracestate_set_randomness(&state, it.carried.randomness);
    }
    if (it.sets_threshold) {
        ss_tracestate_set_threshold(&state, it.carried.threshold);
    }
    uint8_t updated[SS_TRACESTATE_FORMAT_MAX];
    size_t updated_length = ss_tracestate_format(&state, updated);
    if (!it.is_writable || (updated_length == length && memcmp(updated, text, length) == 0)) {
        return SS_OK;
    }
    return write_tracestate(table, row, updated, updated_length);
}

/* Give a kept span that came without a tracestate the one of its trace. */
static __attribute__((noinline)) ss_status add_tracestate(const sampler *self, ss_table *table, uint32_t row) {
    const uint8_t *trace_id = table->trace_id + (size_t)row * TRACE_ID_SIZE;
    uint8_t field[sizeof self->field];
    memcpy(field, self->field, sizeof field);
    if (self->strategy == HASH_SEED) {
        uint64_t randomness = spread(fnv1a(self->seed_state, trace_id, TRACE_ID_SIZE));
        ss_randomness_format(randomness, field + FIELD_RANDOMNESS);
    }
    return ss_table_edit(table, row, table->row_offset[row] + table->row_length[row], 0, field, self->field_length);
}

/*
 * Most spans have no tracestate and no priority: the trace id decides. This loop is all that such spans cost when they
 * are dropped, so what it needs is in locals and what is rarer is not inlined.
 */
static inline __attribute__((always_inline)) ss_status run_plain(const sampler *self, ss_table *table, tally *counts,
                                                                 ss_sampler_policy policy) {
    const bool is_hashed = policy == SS_SAMPLER_TRACE_ID_HASH;
    const bool is_sdk = policy == SS_SAMPLER_TRACE_ID_SDK;
    const uint32_t n_rows = table->n_rows;
    const uint32_t *const tracestate_length = table->tracestate_length;
    const uint8_t *const marks = table->marks;
    uint8_t *const verdict = table->verdict;
    const uint32_t seed_state = self->seed_state;
    const uint32_t buckets = self->buckets;
    const uint64_t threshold = self->threshold;
    const ss_sampler_sdk sdk = self->sdk;
    const bool sdk_keeps_any = self->sdk_keeps_any;
    const uint64_t sdk_last = self->sdk_last;
    const uint8_t *trace_id = table->trace_id;
    uint16_t hashes[BLOCK] = {0};
    uint32_t n_kept = 0;
    uint32_t n_dropped = 0;
    ss_status status = SS_OK;

    for (size_t row = 0; row < n_rows && status == SS_OK; row++, trace_id += TRACE_ID_SIZE) {
        if (is_hashed && row % BLOCK == 0) {
            hash_block(seed_state, trace_id, n_rows - row, hashes);
        }
        if (verdict[row] != SS_KEEP) {
            continue;
        }
        if (tracestate_length[row] | (marks[row] & SS_MARK_PRIORITY) || is_zero_id(trace_id)) {
            status = sample_span(self, table, (uint32_t)row, counts);
            continue;
        }
        bool is_kept;
        if (is_hashed) {
            is_kept = (hashes[row % BLOCK] & (BUCKETS - 1)) < buckets;
        } else if (is_sdk) {
            is_kept = ss_sdk_ratio_number(sdk, trace_id) <= sdk_last && sdk_keeps_any;
        } else {
            is_kept = threshold <= low_bits(trace_id);
        }
        if (is_kept) {
            n_kept++;
            status = is_sdk ? SS_OK : add_tracestate(self, table, (uint32_t)row);
        } else {
            n_dropped++;
            verdict[row] = SS_DROP;
        }
    }
    table->n_kept -= n_dropped;
    counts->items[2 * policy] += n_dropped;
    counts->items[2 * policy + 1] += n_kept;
    return status;
}

static ss_status run_spans(ss_op *op, ss_table *table, ss_verdict *verdict) {
    sampler *self = (sampler *)op;
    tally counts = {{0}};
    ss_status status;
    observe(self, table, &counts);
    switch (self->strategy) { /* each with a loop of its own */
    case HASH_SEED: status = run_plain(self, table, &counts, SS_SAMPLER_TRACE_ID_HASH); break;
    case SDK_RATIO: status = run_plain(self, table, &counts, SS_SAMPLER_TRACE_ID_SDK); break;
    case NEVER: status = run_plain(self, table, &counts, SS_SAMPLER_SAMPLING_PRIORITY); break;
    default: status = run_plain(self, table, &counts, SS_SAMPLER_TRACE_ID_W3C); break;
    }
    return finish(self, table, status, &counts, verdict);
}

/* ---------------------------------------------------------------- log records */

enum { WANTED_THRESHOLD, WANTED_RANDOMNESS, WANTED_SOURCE, WANTED_PRIORITY, N_WANTED };

/* Hash an attribute as the text that the Collector makes of it; false when that is empty. Arrays and maps, which the
 * Collector writes as JSON, are hashed as they are encoded. */
static bool hash_value(uint32_t state, const ss_any_value *value, uint32_t *hash) {
    char text[SS_NUMBER_FORMAT_MAX];
    const uint8_t *bytes = (const uint8_t *)text;
    size_t length = 0;
    double number;
    switch (value->field) {
    case SS_ANY_VALUE_BOOL_VALUE: length = (size_t)snprintf(text, sizeof text, value->number ? "true" : "false"); break;
    case SS_ANY_VALUE_INT_VALUE:
        length = (size_t)snprintf(text, sizeof text, "%lld", (long long)(int64_t)value->number);
        break;
    case SS_ANY_VALUE_DOUBLE_VALUE:
        (void)ss_any_value_number(value, &number);
        length = ss_number_format(number, text);
        break;
    case SS_ANY_VALUE_STRING_VALUE:
    case SS_ANY_VALUE_BYTES_VALUE:
    case SS_ANY_VALUE_ARRAY_VALUE:
    case SS_ANY_VALUE_KVLIST_VALUE:
        bytes = value->bytes.pos;
        length = (size_t)(value->bytes.end - value->bytes.pos);
        break;
    default: break;
    }
    *hash = fnv1a(state, bytes, length);
    return length > 0;
}

static bool read_sampling_attributes(const attribute *found, ss_sampling *carried) {
    *carried = (ss_sampling){0};
    const char *problem = NULL;
    const ss_any_value *threshold = &found[WANTED_THRESHOLD].value;
    const ss_any_value *randomness = &found[WANTED_RANDOMNESS].value;
    size_t threshold_length = (size_t)(threshold->bytes.end - threshold->bytes.pos);
    size_t randomness_length = (size_t)(randomness->bytes.end - randomness->bytes.pos);
    if (threshold->field == SS_ANY_VALUE_STRING_VALUE && threshold_length) {
        problem = ss_threshold_parse(threshold->bytes.pos, threshold_length, &carried->threshold);
        carried->has_threshold = !problem;
    }
    if (randomness->field == SS_ANY_VALUE_STRING_VALUE && randomness_length) {
        const char *second = ss_randomness_parse(randomness->bytes.pos, randomness_length, &carried->randomness);
        carried->has_randomness = !second;
        problem = problem ? problem : second;
    }
    return !problem;
}

/* A percentage to be kept by instead, where it is one: it is returned as a ratio, else 0. */
static double apply_log_priority(const sampler *self, const attribute *found, ss_sampler_policy *policy,
                                 uint64_t *threshold) {
    double percentage;
    if (ss_any_value_number(&found->value, &percentage) &&
        ss_sampler_threshold(percentage / 100, self->precision, threshold)) {
        *policy = SS_SAMPLER_SAMPLING_PRIORITY;
        return percentage / 100;
    }
    return 0;
}

/* The same by the SDK's own arithmetic. */
static void apply_sdk_log_priority(const sampler *self, const attribute *found, const uint8_t *trace_id, item *it,
                                   ss_sampler_policy *policy, uint64_t *threshold) {
    double ratio = apply_log_priority(self, found, policy, threshold);
    if (ratio > 0 && it->error == NO_ERROR) {
        uint64_t last;
        bool is_kept = ss_sdk_ratio_last(self->sdk, ratio, &last) && ss_sdk_ratio_number(self->sdk, trace_id) <= last;
        *threshold = is_kept ? 0 : SS_THRESHOLD_NEVER;
        it->loses_threshold = ratio < 1;
    }
}

/* Encode LogRecord.attributes { key: name, value { string_value: text } }. All lengths take one byte. */
static size_t encode_attribute(uint8_t out[ATTRIBUTE_MAX], const char *key, const uint8_t *text, size_t length) {
    size_t key_length = strlen(key);
    uint8_t *pos = out;
    *pos++ = SS_LOG_RECORD_ATTRIBUTES << 3 | SS_WIRE_BYTES;
    *pos++ = (uint8_t)(2 + key_length + 4 + length);
    *pos++ = SS_KEY_VALUE_KEY << 3 | SS_WIRE_BYTES;
    *pos++ = (uint8_t)key_length;
    memcpy(pos, key, key_length);
    pos += key_length;
    *pos++ = SS_KEY_VALUE_VALUE << 3 | SS_WIRE_BYTES;
    *pos++ = (uint8_t)(2 + length);
    *pos++ = SS_ANY_VALUE_STRING_VALUE << 3 | SS_WIRE_BYTES;
    *pos++ = (uint8_t)length;
    memcpy(pos, text, length);
    return (size_t)(pos - out) + length;
}

/* Replace the attributes that are there, then add the others in one edit at the end of the record. */
static ss_status write_log(ss_table *table, uint32_t row, const item *it, const attribute *found) {
    uint8_t added[2 * ATTRIBUTE_MAX];
    size_t added_length = 0;
    ss_status status = SS_OK;
    if (it->is_writable && it->loses_threshold) {
        return ss_table_edit(table, row, found[WANTED_THRESHOLD].offset, found[WANTED_THRESHOLD].length,
                             (const uint8_t *)"", 0);
    }
    for (int i = 0; i < 2 && status == SS_OK; i++) {
        bool is_randomness = i == 0;
        if (is_randomness ? !it->sets_randomness : !it->sets_threshold) {
            continue;
        }
        uint8_t digits[SS_SAMPLING_DIGITS];
        size_t n_digits = SS_SAMPLING_DIGITS;
        if (is_randomness) {
            ss_randomness_format(it->carried.randomness, digits);
        } else {
            n_digits = ss_threshold_format(it->carried.threshold, digits);
        }
        const attribute *existing = &found[is_randomness ? WANTED_RANDOMNESS : WANTED_THRESHOLD];
        uint8_t *out = added + added_length;
        size_t length = encode_attribute(out, is_randomness ? RANDOMNESS : THRESHOLD, digits, n_digits);
        if (!existing->found) {
            added_length += length;
        } else if (existing->length != length || memcmp(table->bytes + existing->offset, out, length) != 0) {
            status = ss_table_edit(table, row, existing->offset, existing->length, out, length);
        }
    }
    if (status == SS_OK && added_length) {
        uint32_t end = table->row_offset[row] + table->row_length[row];
        status = ss_table_edit(table, row, end, 0, added, added_length);
    }
    return status;
}

static ss_status sample_log(const sampler *self, ss_table *table, uint32_t row, tally *counts) {
    const uint8_t *trace_id = table->trace_id + (size_t)row * TRACE_ID_SIZE;
    const name names[N_WANTED] = {{THRESHOLD, sizeof THRESHOLD - 1},
                                  {RANDOMNESS, sizeof RANDOMNESS - 1},
                                  self->from_attribute,
                                  self->priority_attribute};
    attribute found[N_WANTED] = {{0}};
    find_attributes(table, row, SS_LOG_RECORD_ATTRIBUTES, names, N_WANTED, found);
    item it = {.is_log = true, .is_writable = true};
    bool is_readable = read_sampling_attributes(found, &it.carried);

    set_source(&it, SS_SAMPLER_MISSING_RANDOMNESS, SS_RANDOMNESS_MAX);
    if (self->strategy == NEVER) {
        check_never(&it, is_readable);
    } else if (self->strategy == HASH_SEED) {
        uint32_t hash;
        if (self->hash_trace_id && !is_zero_id(trace_id)) {
            set_source(&it, SS_SAMPLER_TRACE_ID_HASH, spread(fnv1a(self->seed_state, trace_id, TRACE_ID_SIZE)));
        } else if (self->from_attribute.length && hash_value(self->seed_state, &found[WANTED_SOURCE].value, &hash)) {
            set_source(&it, SS_SAMPLER_ATTRIBUTE, spread(hash));
        }
        check_hashed(self, &it, is_readable);
    } else if (self->strategy == SDK_RATIO) {
        check_sdk(self, &it, trace_id, is_readable);
    } else {
        check_consistent(&it, trace_id, is_readable);
    }
    uint64_t threshold = decide(self, &it);
    ss_sampler_policy policy = it.policy;
    if (self->priority_attribute.length && self->strategy == SDK_RATIO) {
        apply_sdk_log_priority(self, &found[WANTED_PRIORITY], trace_id, &it, &policy, &threshold);
    } else if (self->priority_attribute.length) {
        (void)apply_log_priority(self, &found[WANTED_PRIORITY], &policy, &threshold);
    }
    if (!settle(self, &it, policy, threshold, counts)) {
        ss_table_drop(table, row);
        return SS_OK;
    }
    return write_log(table, row, &it, found);
}

static ss_status run_logs(ss_op *op, ss_table *table, ss_verdict *verdict) {
    sampler *self = (sampler *)op;
    ss_status status = SS_OK;
    tally counts = {{0}};
    observe(self, table, &counts);
    for (uint32_t row = 0; row < table->n_rows && status == SS_OK; row++) {
        if (table->verdict[row] == SS_KEEP) {
            status = sample_log(self, table, row, &counts);
        }
    }
    return finish(self, table, status, &counts, verdict);
}

/* ---------------------------------------------------------------- construction */

static void free_sampler(ss_op *op) {
    sampler *self = (sampler *)op;
    free(self->texts);
    free(self);
}

static const ss_op_vtable spans_vtable = {.reads = SS_COLUMN_TRACESTATE | SS_COLUMN_ATTRIBUTES,
                                          .edits = SS_COLUMN_TRACESTATE,
                                          .run = run_spans,
                                          .free = free_sampler};
static const ss_op_vtable logs_vtable = {
    .reads = SS_COLUMN_ATTRIBUTES, .edits = SS_COLUMN_ATTRIBUTES, .run = run_logs, .free = free_sampler};

static const char *check_config(const ss_sampler_config *config) {
    if (config->signal != SS_SIGNAL_TRACES && config->signal != SS_SIGNAL_LOGS) {
        return "signal must be traces or logs";
    }
    if (!(config->sampling_percentage >= 0 && config->sampling_percentage <= FLT_MAX)) {
        return "sampling_percentage must be a number of at least 0";
    }
    if (config->sampling_precision > SS_SAMPLING_DIGITS) {
        return "sampling_precision must be at most 14";
    }
    if (config->mode == SS_SAMPLER_SDK_RATIO && (uint32_t)config->sdk >= SS_SAMPLER_N_SDKS) {
        return "sdk must be one of those listed";
    }
    if (config->mode == SS_SAMPLER_SDK_RATIO && !(config->sdk_ratio >= 0 && config->sdk_ratio <= 1)) {
        return "sdk_ratio must be a number from 0 to 1";
    }
    return NULL;
}

static bool copy_names(sampler *self, const ss_sampler_config *config) {
    const char *from = config->from_attribute ? config->from_attribute : "";
    const char *priority = config->sampling_priority ? config->sampling_priority : "";
    self->from_attribute.length = strlen(from);
    self->priority_attribute.length = strlen(priority);
    self->texts = malloc(self->from_attribute.length + self->priority_attribute.length + 1);
    if (!self->texts) {
        return false;
    }
    self->from_attribute.text = self->texts;
    self->priority_attribute.text = self->texts + self->from_attribute.length;
    memcpy(self->texts, from, self->from_attribute.length);
    memcpy(self->texts + self->from_attribute.length, priority, self->priority_attribute.length);
    return true;
}

/* What decides on an item that arrives with nothing: most of them, so the work is done here once. */
static void prepare(sampler *self, const ss_sampler_config *config) {
    float percentage = config->sampling_percentage > 100 ? 100 : config->sampling_percentage;
    self->buckets = ss_sampler_buckets(percentage);
    self->ratio = (double)percentage / 100 < 0x1p-56 ? 0x1p-56 : (double)percentage / 100;
    self->threshold = SS_THRESHOLD_NEVER;
    if (config->mode == SS_SAMPLER_SDK_RATIO) {
        self->strategy = SDK_RATIO;
        self->threshold = 1; /* of what check_sdk makes */
        self->ratio = config->sdk_ratio;
        self->sdk = config->sdk;
        self->sdk_keeps_any = ss_sdk_ratio_last(config->sdk, config->sdk_ratio, &self->sdk_last);
    } else if (percentage == 0 || (config->mode == SS_SAMPLER_HASH_SEED && self->buckets == 0)) {
        self->strategy = NEVER;
    } else if (config->mode == SS_SAMPLER_HASH_SEED) {
        self->strategy = HASH_SEED;
        self->threshold = (uint64_t)(BUCKETS - self->buckets) << (RANDOMNESS_BITS - BUCKET_BITS);
    } else {
        self->strategy = config->mode == SS_SAMPLER_EQUALIZING ? EQUALIZING : PROPORTIONAL;
        (void)ss_sampler_threshold(self->ratio, self->precision, &self->threshold);
    }
    ss_tracestate state;
    (void)ss_tracestate_parse(&state, NULL, 0);
    if (self->strategy == HASH_SEED) {
        ss_tracestate_set_randomness(&state, 0);
    }
    ss_tracestate_set_threshold(&state, self->threshold);
    uint8_t text[SS_TRACESTATE_FORMAT_MAX];
    size_t length = ss_tracestate_format(&state, text);
    self->field[0] = SS_SPAN_TRACE_STATE << 3 | SS_WIRE_BYTES;
    self->field[1] = (uint8_t)length;
    memcpy(self->field + 2, text, length);
    self->field_length = 2 + length;
}

ss_op *ss_sampler_new(const ss_sampler_config *config, ss_error *error) {
    const char *problem = check_config(config);
    if (problem) {
        *error = (ss_error){.code = SS_ERR_ARGUMENT, .reason = problem};
        return NULL;
    }
    sampler *self = calloc(1, sizeof *self);
    if (!self || !copy_names(self, config)) {
        free(self);
        *error = (ss_error){.code = SS_ERR_NO_MEMORY, .reason = "out of memory"};
        return NULL;
    }
    self->op.vtable = config->signal == SS_SIGNAL_TRACES ? &spans_vtable : &logs_vtable;
    self->fail_closed = config->fail_closed;
    self->allow_resampling = config->allow_resampling;
    self->hash_trace_id = config->hash_trace_id;
    self->precision = config->sampling_precision;
    self->seed_state = seeded(config->hash_seed);
    prepare(self, config);
    return &self->op;
}
