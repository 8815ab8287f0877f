/*
 * spansieve.h: the whole public C API of the data plane.
 *
 * Python sees exactly this file: the build drops the preprocessor lines and hands the rest to cffi.
 * So: no macros, constants are enums, opaque handles, every pointer with its length.
 *
 * Ownership words: "borrows" (the caller keeps it and must outlive the use), "copies", "takes" (the
 * callee frees it). Handles come in _new / _free pairs; _free(NULL) is a no-op.
 * Threads: a function is safe from any thread only where it says so; otherwise one thread at a time
 * may use a handle. No function prints, aborts, or touches errno or the locale.
 */
#ifndef SPANSIEVE_H
#define SPANSIEVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------------ status, errors, signals */

typedef enum ss_status {
    SS_OK = 0,
    SS_ERR_MALFORMED,   /* the bytes break the grammar of their format; ss_error.offset says where */
    SS_ERR_LIMIT,       /* a stated limit (size, depth, count) would be passed */
    SS_ERR_REFUSED,     /* retryable: memory, a batch or a queue is full */
    SS_ERR_NO_MEMORY,   /* the allocator said no */
    SS_ERR_ARGUMENT,    /* a parameter is out of its range; ss_error.reason names it */
    SS_ERR_UNSUPPORTED, /* well-formed but not something this build or peer can do */
    SS_ERR_IO,          /* the network failed: connect, reset, closed */
    SS_ERR_TIMEOUT,     /* the deadline passed first */
    SS_ERR_CLOSED,      /* the handle was shut down */
    SS_ERR_CANCELLED    /* whoever asked for it has gone */
} ss_status;

/* Caller-owned detail of a failure. reason is a constant text, never freed. */
typedef struct ss_error {
    ss_status code;
    uint64_t offset; /* byte offset into the input, 0 where there is none */
    const char *reason;
} ss_error;

const char *ss_status_text(ss_status status);

/* True when native/net is part of this build; without it ss_server_new and ss_client_new say SS_ERR_UNSUPPORTED. */
bool ss_has_net(void);

typedef enum ss_signal { SS_SIGNAL_TRACES = 0, SS_SIGNAL_METRICS = 1, SS_SIGNAL_LOGS = 2, SS_N_SIGNALS = 3 } ss_signal;

typedef enum ss_transport { SS_TRANSPORT_GRPC = 0, SS_TRANSPORT_HTTP = 1, SS_N_TRANSPORTS = 2 } ss_transport;

typedef enum ss_payload { SS_PAYLOAD_PROTOBUF = 0, SS_PAYLOAD_JSON = 1 } ss_payload;

/* How a message is compressed. */
typedef enum ss_encoding {
    SS_ENCODING_IDENTITY = 0,
    SS_ENCODING_GZIP,
    SS_ENCODING_ZSTD,
    SS_ENCODING_SNAPPY,        /* raw block format; framed is recognised on the way in */
    SS_ENCODING_ZLIB,          /* HTTP "deflate" and "zlib": RFC 1950 */
    SS_ENCODING_SNAPPY_FRAMED, /* gRPC "snappy", HTTP "x-snappy-framed"; a raw block is recognised on the way in */
    SS_ENCODING_LZ4,           /* frames */
    SS_N_ENCODINGS
} ss_encoding;

/* google.rpc.Code, the values that a receiver answers with. */
typedef enum ss_code {
    SS_CODE_OK = 0,
    SS_CODE_CANCELLED = 1,
    SS_CODE_UNKNOWN = 2,
    SS_CODE_INVALID_ARGUMENT = 3,
    SS_CODE_DEADLINE_EXCEEDED = 4,
    SS_CODE_NOT_FOUND = 5,
    SS_CODE_RESOURCE_EXHAUSTED = 8,
    SS_CODE_UNIMPLEMENTED = 12,
    SS_CODE_INTERNAL = 13,
    SS_CODE_UNAVAILABLE = 14,
    SS_CODE_UNAUTHENTICATED = 16
} ss_code;

/* A growable byte buffer. Zero-initialised is empty and valid. */
typedef struct ss_buffer {
    uint8_t *data;
    size_t length;
    size_t capacity;
} ss_buffer;

/* Room for extra more bytes; data is not NULL then. */
ss_status ss_buffer_reserve(ss_buffer *buffer, size_t extra);
ss_status ss_buffer_append(ss_buffer *buffer, const uint8_t *data, size_t length); /* copies */
void ss_buffer_free(ss_buffer *buffer); /* frees the bytes, leaves the buffer empty and valid */

/* ------------------------------------------------------------------ runtime and workers */

/* What the threads of one collector share: the memory account and the grace periods of reloads. */
typedef struct ss_runtime ss_runtime;
ss_runtime *ss_runtime_new(void);
/* Frees it with the last worker and queue made from it, so these may be freed before or after. */
void ss_runtime_free(ss_runtime *runtime);

/* Bytes held for requests, batches and queues now. Any thread. */
uint64_t ss_runtime_in_flight_bytes(const ss_runtime *runtime);
/* Tell the memory limiters the resident set size just sampled. Any thread. */
void ss_runtime_set_rss(ss_runtime *runtime, uint64_t rss_bytes);
/* Give memory that is free inside the process back to the system, where the allocator can. Any thread. */
void ss_runtime_release_memory(ss_runtime *runtime);
/* Let the process open as many files as the system lets it: the soft limit becomes the hard one. Returns the number, 0
 * where there is no limit. */
uint64_t ss_raise_descriptor_limit(void);
/* Return once every worker that was inside ss_receiver_accept or ss_consumer_push at the call has left it:
 * what was unpublished before the call can be freed after it. Any thread that is not inside one. */
void ss_runtime_synchronize(ss_runtime *runtime);

/* Per-thread scratch: table, arena, buffers. One thread at a time. */
typedef struct ss_worker ss_worker;
ss_worker *ss_worker_new(ss_runtime *runtime);
void ss_worker_free(ss_worker *worker);

/* ------------------------------------------------------------------ config: YAML */

typedef enum ss_yaml_kind {
    SS_YAML_OTHER = 0, /* the beginning of the stream, the end of a document */
    SS_YAML_DOCUMENT,  /* begins */
    SS_YAML_SCALAR,
    SS_YAML_SEQUENCE, /* begins */
    SS_YAML_MAPPING,  /* begins */
    SS_YAML_END,      /* of the innermost sequence or mapping */
    SS_YAML_ALIAS,
    SS_YAML_STREAM_END
} ss_yaml_kind;

/* Texts are UTF-8, NULL where there is none, and valid until the next call. */
typedef struct ss_yaml_event {
    ss_yaml_kind kind;
    bool is_plain;      /* a scalar without quotes and tag: its type is that which it looks like */
    uint64_t line;      /* where it begins, from 1; of a fault, where it is */
    uint64_t begin;     /* of a fault: the line where what was being read begins; 0: it is a character */
    const char *anchor; /* defined here; of an alias, referred to */
    const char *tag;    /* of a scalar */
    const char *value;  /* of a scalar; may hold zero bytes */
    size_t length;      /* of value */
} ss_yaml_event;

/* Reads a YAML text event by event. One thread at a time. */
typedef struct ss_yaml ss_yaml;
ss_yaml *ss_yaml_new(const uint8_t *text, size_t length); /* borrows text, UTF-8; NULL: no memory */
void ss_yaml_free(ss_yaml *yaml);
/* SS_ERR_MALFORMED: error has the reason and, in characters, the offset; in bytes where a character is the fault. */
ss_status ss_yaml_next(ss_yaml *yaml, ss_yaml_event *event, ss_error *error);

/* ------------------------------------------------------------------ otlp: scan, table, emit */

/* Bits of ss_table.marks, found by the scan. */
typedef enum ss_mark {
    SS_MARK_EXCEPTION = 1, /* a span event named "exception" */
    SS_MARK_PRIORITY = 2   /* an attribute named "sampling.priority" */
} ss_mark;

/* Values of ss_table.verdict. */
typedef enum ss_row_verdict { SS_KEEP = 0, SS_DROP = 1 } ss_row_verdict;

/*
 * The columns of one Export*ServiceRequest: row i is span, data point or log record i in document order.
 * Offsets are into the scanned bytes, which the table borrows. All arrays have n_rows entries (ids times
 * 16 or 8 bytes); an id that is absent is all zero. Valid until the next scan into the same table.
 */
typedef struct ss_table {
    ss_signal signal;
    const uint8_t *bytes; /* the scanned message; borrowed */
    size_t bytes_length;
    uint32_t n_rows;
    uint32_t n_kept; /* rows whose verdict is SS_KEEP; ops that drop keep it right */

    uint8_t *trace_id;              /* 16 x n_rows: span, log record */
    uint8_t *span_id;               /* 8 x n_rows: span, log record */
    uint8_t *parent_span_id;        /* 8 x n_rows: span */
    uint64_t *start_time_unix_nano; /* span, data point; log record: observed_time */
    uint64_t *end_time_unix_nano;   /* span; data point and log record: time_unix_nano */
    int32_t *kind;        /* span kind; data point: field number of the metric's data oneof; log: severity_number */
    int32_t *status_code; /* span: 0 unset, 1 ok, 2 error */
    uint32_t *flags;
    uint32_t *name_offset; /* span name; data point: its metric's name */
    uint32_t *name_length;
    uint32_t *tracestate_offset; /* the value of Span.trace_state; length 0 when absent */
    uint32_t *tracestate_length;
    uint32_t *attributes_offset; /* tag of the first attribute of the row; length 0 when it has none */
    uint32_t *attributes_length; /* from there to the end of the last attribute; other fields may lie between */
    uint32_t *attribute_count;
    uint32_t *event_count;    /* span */
    uint32_t *link_count;     /* span */
    uint32_t *resource_index; /* number of the enclosing ResourceSpans / ResourceMetrics / ResourceLogs, from 0 */
    uint32_t *scope_index;    /* number of the enclosing Scope*, counted through the whole message, from 0 */
    uint32_t *node_index;     /* container that holds the row directly; C only */
    uint32_t *row_offset;     /* first byte of the row: its tag */
    uint32_t *row_length;     /* tag, length prefix and body */
    uint32_t *body_offset;    /* first byte of the row's message */
    uint32_t *parent_offset;  /* value of Span.parent_span_id; 0 when absent */
    uint8_t *marks;           /* ss_mark bits */
    uint8_t *verdict;         /* ss_row_verdict; the one column that may be written. 0 after a scan */

    struct ss_table_private *private_state;
} ss_table;

ss_table *ss_table_new(void);
void ss_table_free(ss_table *table);

/* Read an Export*ServiceRequest (traces, metrics or logs) into table: one pass, every read bounds-checked,
 * nested AnyValues checked too. Borrows bytes. Fails with SS_ERR_MALFORMED or SS_ERR_LIMIT and the offset. */
ss_status ss_scan(ss_signal signal, const uint8_t *bytes, size_t length, ss_table *table, ss_error *error);

/* Set n_kept from the verdict column, after another writer (numpy) changed it. */
void ss_table_recount(ss_table *table);

/* Replace length bytes at offset, which lie in row, by replacement (copied). length 0 inserts. Edits of a row may
 * not overlap. The columns keep showing the input. */
ss_status ss_table_edit(ss_table *table, uint32_t row, uint32_t offset, uint32_t length, const uint8_t *replacement,
                        size_t replacement_length);

/* True when nothing was dropped or edited: the output is the input. */
bool ss_table_is_untouched(const ss_table *table);

/* Append the message with the kept rows of [first_row, end_row) and their edits to out. Containers left with no
 * row are left out; every byte that is not a row, unknown fields included, is carried over in place. */
ss_status ss_emit(ss_table *table, uint32_t first_row, uint32_t end_row, ss_buffer *out);

/* What costs an item, and no other one: somewhere in it. */
typedef enum ss_fault {
    SS_FAULT_TRACE_ID = 0, /* an id of a length that no id has */
    SS_FAULT_SPAN_ID,
    SS_FAULT_PARENT_SPAN_ID,
    SS_FAULT_WIRE_TYPE, /* a field that OTLP knows with a wire type that it cannot have, or a group */
    SS_FAULT_NESTING,   /* more messages within one another than protobuf's parsers take */
    SS_N_FAULTS
} ss_fault;

/* ------------------------------------------------------------------ otlp: JSON */

/* OTLP/JSON text of an Export*ServiceRequest -> its protobuf bytes, appended to out. */
ss_status ss_json_to_otlp(ss_signal signal, const uint8_t *json, size_t length, ss_buffer *out, ss_error *error);
/* The other way: one line of OTLP/JSON (no line feed), appended to out. Unknown fields are left out. */
ss_status ss_otlp_to_json(ss_signal signal, const uint8_t *bytes, size_t length, ss_buffer *out, ss_error *error);

/* ------------------------------------------------------------------ ops */

/* One processor's work on a table: marks rows, edits rows, or refuses. Safe in several workers at once. */
typedef struct ss_op ss_op;
void ss_op_free(ss_op *op);
/* Items counted under index (each constructor lists its indexes). Any thread. */
uint64_t ss_op_counter(const ss_op *op, uint32_t index);
/* Items of the requests that the op did not refuse, and how many of them it kept. Any thread. */
uint64_t ss_op_incoming_items(const ss_op *op);
uint64_t ss_op_outgoing_items(const ss_op *op);

/* Check a regular expression: true with how many groups it has and how many of them have a name, or false with what is
 * wrong with it, and at which byte, as text in message. */
bool ss_pattern_check(const char *pattern, size_t length, uint32_t *n_groups, uint32_t *n_named, char *message,
                      size_t message_length);

/* -- probabilistic_sampler -- */
typedef enum ss_sampler_mode {
    SS_SAMPLER_HASH_SEED = 0, /* hash of the trace id (logs: or of an attribute), 16384 buckets */
    SS_SAMPLER_PROPORTIONAL,  /* multiplies the probability that an item arrives with */
    SS_SAMPLER_EQUALIZING,    /* brings items down to one probability */
    SS_SAMPLER_SDK_RATIO      /* what the ratio sampler of an SDK decides */
} ss_sampler_mode;

typedef enum ss_sampler_sdk {
    SS_SAMPLER_SDK_PYTHON = 0,
    SS_SAMPLER_SDK_GO,
    SS_SAMPLER_SDK_JAVA,
    SS_SAMPLER_SDK_JS,
    SS_SAMPLER_SDK_DOTNET,
    SS_SAMPLER_SDK_JAEGER,
    SS_SAMPLER_SDK_DATADOG,
    SS_SAMPLER_N_SDKS
} ss_sampler_sdk;

/* What a decision rests on. Items of a policy are counted at 2 * policy (dropped) and 2 * policy + 1 (kept). */
typedef enum ss_sampler_policy {
    SS_SAMPLER_TRACE_ID_HASH = 0,
    SS_SAMPLER_TRACE_ID_W3C,        /* low 56 bits of the trace id */
    SS_SAMPLER_SAMPLING_RANDOMNESS, /* rv of the tracestate or sampling.randomness of the record */
    SS_SAMPLER_SAMPLING_PRIORITY,
    SS_SAMPLER_MISSING_RANDOMNESS,
    SS_SAMPLER_ATTRIBUTE,    /* hash of from_attribute */
    SS_SAMPLER_TRACE_ID_SDK, /* what the SDK makes of the trace id */
    SS_SAMPLER_N_POLICIES
} ss_sampler_policy;

/* Items that met an error (fail_closed decides on them), counted beside their policy. */
typedef enum ss_sampler_error {
    SS_SAMPLER_NO_RANDOMNESS = 2 * SS_SAMPLER_N_POLICIES, /* no trace id and nothing in its place */
    SS_SAMPLER_RANDOMNESS_IN_USE,                         /* hash_seed: the item has a randomness already */
    SS_SAMPLER_THRESHOLD_IN_USE,                          /* hash_seed: the item has a threshold already */
    SS_SAMPLER_INCONSISTENT, /* the threshold says that the item should have been dropped before */
    SS_SAMPLER_UNREADABLE    /* tracestate or sampling attributes break their grammar */
} ss_sampler_error;

/* Trace ids that cannot be random, among the few of each request that are looked at and compared with the one before.
 * Of random ids each has a chance of 2^-46 at most. An id is counted once, as the first of these that holds. */
typedef enum ss_sampler_pattern {
    SS_SAMPLER_ZERO_LOW_HALF = SS_SAMPLER_UNREADABLE + 1,
    SS_SAMPLER_CONSTANT_LOW_HALF,
    SS_SAMPLER_COUNTING, /* the low half is near that of the id before, in either byte order */
    SS_SAMPLER_ZERO_HIGH_HALF,
    SS_SAMPLER_CONSTANT_HIGH_HALF
} ss_sampler_pattern;

typedef struct ss_sampler_config {
    ss_signal signal; /* traces or logs */
    ss_sampler_mode mode;
    float sampling_percentage; /* >= 0; above 100 is 100 */
    ss_sampler_sdk sdk;        /* sdk_ratio: whose */
    double sdk_ratio;          /* sdk_ratio: in place of sampling_percentage, 0 to 1 */
    uint32_t hash_seed;
    uint32_t sampling_precision;   /* hex digits of a threshold, 1 to 14; 0 is 14 */
    bool fail_closed;              /* items with an error are dropped, else kept */
    bool allow_resampling;         /* hash_seed: rv and th on arrival are no error; probabilities multiply */
    bool hash_trace_id;            /* hash_seed, logs: trace id first, from_attribute where there is none */
    const char *from_attribute;    /* logs; NULL or "": none; copied */
    const char *sampling_priority; /* logs; NULL or "": none; copied */
} ss_sampler_config;

ss_op *ss_sampler_new(const ss_sampler_config *config, ss_error *error);

/* The rejection threshold, in 2^-56, of a probability. False outside [2^-56, 1]. precision as in the configuration. */
bool ss_sampler_threshold(double probability, uint32_t precision, uint64_t *threshold);
/* The 56 bits of randomness that hash_seed mode makes of a trace id or an attribute. */
uint64_t ss_sampler_hash(uint32_t hash_seed, const uint8_t *bytes, size_t length);
/* Buckets of 16384 that hash_seed mode keeps. */
uint32_t ss_sampler_buckets(float sampling_percentage);

/* -- low_value_filter -- */
/* What makes a span worth little; a rule is a set of these that must all hold. */
typedef enum ss_sign {
    SS_SIGN_SHORT = 1, /* 0 <= end - start < min_duration_ns */
    SS_SIGN_NO_ATTRIBUTES = 2,
    SS_SIGN_NAME = 4 /* the name matches one of the patterns */
} ss_sign;

enum { SS_LOW_VALUE_RULES_MAX = 8 };

/* Counter i of the op: spans dropped by rule i; counter SS_LOW_VALUE_REPARENTED: kept spans given a new parent. */
typedef enum ss_low_value_counter { SS_LOW_VALUE_REPARENTED = SS_LOW_VALUE_RULES_MAX } ss_low_value_counter;

typedef struct ss_low_value_config {
    uint64_t min_duration_ns;
    const char *const *names; /* glob patterns with * and ?; copied */
    size_t n_names;
    const uint8_t *rules; /* each a set of ss_sign bits; the first that holds drops the span; copied */
    size_t n_rules;       /* at most SS_LOW_VALUE_RULES_MAX */
    bool keep_roots;
    bool reparent; /* children of a dropped span take its parent, within a request */
} ss_low_value_config;

ss_op *ss_low_value_new(const ss_low_value_config *config, ss_error *error);

/* -- memory_limiter -- */
typedef enum ss_memory_limiter_counter {
    SS_MEMORY_LIMITER_ACCEPTED = 0,
    SS_MEMORY_LIMITER_REFUSED
} ss_memory_limiter_counter;
/* Refuse (UNAVAILABLE) while the last RSS sample plus what was taken in since, or the bytes in flight, reach
 * soft_limit_bytes. From its making to its end nothing that is held for requests of the runtime grows beyond
 * hard_limit_bytes: a request that would need more is refused, or rejected where it could never have it. Keeps runtime.
 */
ss_op *ss_memory_limiter_new(ss_runtime *runtime, uint64_t soft_limit_bytes, uint64_t hard_limit_bytes,
                             ss_error *error);

/* -- metricstransform -- */
typedef enum ss_metrics_transform_counter {
    SS_METRICS_TRANSFORM_DELETED = 0, /* points dropped by delete_label_value */
    SS_METRICS_TRANSFORM_MERGED,      /* points added into another one */
    SS_METRICS_TRANSFORM_APART,       /* points of one identity that cannot be merged: other bounds or zero threshold */
    SS_METRICS_TRANSFORM_SKIPPED, /* operations not done on a metric that they would have changed because its type has
                                     no such operation */
    SS_METRICS_TRANSFORM_SUPERSEDED, /* of MERGED: points of a gauge that gave way to the last, by default */
    SS_METRICS_TRANSFORM_UNDECIDED   /* searches for a pattern that were given up */
} ss_metrics_transform_counter;

typedef enum ss_aggregation {
    SS_AGGREGATION_SUM = 0,
    SS_AGGREGATION_MEAN,
    SS_AGGREGATION_MIN,
    SS_AGGREGATION_MAX,
    SS_AGGREGATION_MEDIAN,
    SS_AGGREGATION_COUNT,
    SS_AGGREGATION_LAST,   /* of the points, which are of one time, the last of the request */
    SS_AGGREGATION_DEFAULT /* gauges: the last; sums: the sum */
} ss_aggregation;

typedef enum ss_metric_action {
    SS_METRIC_ACTION_ADD_LABEL = 0,          /* new_label = new_value where it is absent */
    SS_METRIC_ACTION_UPDATE_LABEL,           /* label -> new_label (NULL: keep); texts: value, new value, ... */
    SS_METRIC_ACTION_DELETE_LABEL,           /* without label */
    SS_METRIC_ACTION_DELETE_LABEL_VALUE,     /* without the points whose label is texts[0] */
    SS_METRIC_ACTION_AGGREGATE_LABELS,       /* with the labels in texts only */
    SS_METRIC_ACTION_AGGREGATE_LABEL_VALUES, /* label = new_value where it is one of texts */
    SS_METRIC_ACTION_TOGGLE_SCALAR_TYPE,     /* int <-> double */
    SS_METRIC_ACTION_SCALE_VALUE             /* times scale */
} ss_metric_action;

typedef struct ss_metric_operation {
    ss_metric_action action;
    ss_aggregation aggregation; /* how the two aggregate_* and delete_label merge points that coincide */
    double scale;
    const char *label; /* those that the action does not use may be NULL */
    const char *new_label;
    const char *new_value;
    const char *const *texts;
    size_t n_texts;
} ss_metric_operation;

typedef struct ss_metric_transform {
    const char *include;  /* the metric's name, or a pattern to be found in it */
    bool is_regexp;       /* of include and of the values of match_labels */
    const char *new_name; /* NULL: keep; with is_regexp $1, ${1}, $name and ${name} stand for groups of include */
    const char *const *match_labels; /* label, value, label, value ...: a point matches when all do */
    size_t n_match_labels;           /* entries of match_labels: twice the number of labels */
    const ss_metric_operation *operations;
    size_t n_operations;
} ss_metric_transform;

typedef struct ss_metrics_transform_config {
    const ss_metric_transform *transforms; /* applied in order */
    size_t n_transforms;
} ss_metrics_transform_config;

/* Copies config. Counters: ss_metrics_transform_counter. */
ss_op *ss_metrics_transform_new(const ss_metrics_transform_config *config, ss_error *error);

/* -- attributes, resource -- */
/* Text of any bytes; data may be NULL where length is 0. */
typedef struct ss_text {
    const char *data;
    size_t length;
} ss_text;

/* Types of an AnyValue. */
typedef enum ss_value_type {
    SS_TYPE_EMPTY = 0,
    SS_TYPE_STRING,
    SS_TYPE_BOOL,
    SS_TYPE_INT,
    SS_TYPE_DOUBLE,
    SS_TYPE_ARRAY,
    SS_TYPE_MAP
} ss_value_type;

enum { SS_VALUE_DEPTH_MAX = 30 }; /* arrays and maps within one another: more would be no message that can be read */

typedef struct ss_value {
    ss_value_type type;
    ss_text string;
    int64_t integer; /* bool: 0 or 1 */
    double real;
    const struct ss_value *items; /* of an array or a map */
    const ss_text *keys;          /* of a map */
    size_t n_items;
} ss_value;

typedef enum ss_attribute_verb {
    SS_ATTRIBUTE_INSERT = 0, /* where the key is absent */
    SS_ATTRIBUTE_UPDATE,     /* where it is there */
    SS_ATTRIBUTE_UPSERT,
    SS_ATTRIBUTE_DELETE,  /* the first of key, and all whose key the pattern finds */
    SS_ATTRIBUTE_HASH,    /* of the same: SHA-256 in hex in place of the value */
    SS_ATTRIBUTE_EXTRACT, /* groups of pattern, found in the text of key, become attributes of their names */
    SS_ATTRIBUTE_CONVERT
} ss_attribute_verb;

typedef struct ss_attribute_action {
    ss_attribute_verb verb;
    ss_text key;
    ss_text pattern;       /* empty: none */
    const ss_value *value; /* what insert, update and upsert write; NULL: one of the next two */
    ss_text from_metadata; /* header of the request, in lower case; more values of it are joined with ";" */
    ss_text from_attribute;
    const ss_value *otherwise;    /* where there is no such header or attribute; NULL: nothing is done then */
    ss_value_type converted_type; /* string, int or double */
} ss_attribute_action;

/* Texts of which one must be met; none: any text will do. */
typedef struct ss_text_list {
    const ss_text *texts;
    size_t n;
} ss_text_list;

typedef struct ss_attribute_condition {
    ss_text key;
    const ss_value *value; /* NULL: any; a pattern where patterns are compared */
} ss_attribute_condition;

typedef struct ss_attribute_conditions {
    const ss_attribute_condition *conditions;
    size_t n;
} ss_attribute_conditions;

typedef struct ss_library_condition {
    ss_text name;
    bool has_version; /* else any will do */
    ss_text version;
} ss_library_condition;

/* Which items; all of it must hold. */
typedef struct ss_attribute_match {
    bool is_regexp; /* texts are patterns, to be found */
    ss_text_list services;
    ss_text_list names; /* of spans, or of metrics */
    ss_text_list span_kinds;
    ss_text_list log_bodies;
    ss_text_list log_severity_texts;
    bool has_severity_number;
    int32_t min_severity_number;
    bool matches_undefined_severity;
    const ss_library_condition *libraries;
    size_t n_libraries;
    ss_attribute_conditions resources;
    ss_attribute_conditions attributes;
} ss_attribute_match;

typedef enum ss_attributes_counter {
    SS_ATTRIBUTES_UNDECIDED = 0 /* searches for a pattern that were given up */
} ss_attributes_counter;

typedef struct ss_attributes_config {
    bool is_resource;                   /* the attributes of resources instead of those of items */
    const ss_attribute_action *actions; /* in order */
    size_t n_actions;
    const ss_attribute_match *include; /* NULL: all items */
    const ss_attribute_match *exclude; /* NULL: none */
} ss_attributes_config;

/* Copies config. Counters: ss_attributes_counter. SS_ERR_ARGUMENT: offset is where in a pattern the fault is.
 * SS_ERR_UNSUPPORTED: hash without OpenSSL.
 */
ss_op *ss_attributes_new(const ss_attributes_config *config, ss_error *error);

/* ------------------------------------------------------------------ columns of values, for processors in Python */

/* What a column is read from. */
typedef enum ss_column_source {
    SS_SOURCE_ATTRIBUTE = 0, /* of the item; the first of its key */
    SS_SOURCE_RESOURCE_ATTRIBUTE,
    SS_SOURCE_SCOPE_NAME,
    SS_SOURCE_NAME,          /* of the span, or of the data point's metric */
    SS_SOURCE_SEVERITY_TEXT, /* log record; none of others */
    SS_SOURCE_BODY           /* log record; none of others */
} ss_column_source;

/* Texts of the rows of a table, as ss_any_value_text has them. */
typedef struct ss_text_column {
    ss_buffer bytes; /* one text behind the other */
    uint32_t n_texts;
    uint32_t *ends; /* where in bytes each text ends; room for n_rows */
    int32_t *index; /* which of them each row has; -1: none. Rows that follow one another share an equal one */
} ss_text_column;

/* Read a column; index and ends are the caller's, as bytes is, empty. SS_ERR_NO_MEMORY, SS_ERR_LIMIT. */
ss_status ss_table_texts(const ss_table *table, ss_column_source source, ss_text key, ss_text_column *column);
/* The values of attributes that are ints or doubles; NaN where there is none. numbers has room for n_rows. */
ss_status ss_table_numbers(const ss_table *table, ss_column_source source, ss_text key, double *numbers);

/* Edit the table so that row i has the attribute values[chosen[i]]; where chosen[i] is n_values or more it stays as it
 * is. REQUIRES: the table has no edits. SS_ERR_LIMIT: edits would bring too many bytes. */
ss_status ss_table_set_attribute(ss_table *table, ss_text key, const ss_value *values, uint32_t n_values,
                                 const uint32_t *chosen);
/* Edit the table so that the rows whose is_chosen is not 0 have no attribute of that key. REQUIRES: as above. */
ss_status ss_table_delete_attribute(ss_table *table, ss_text key, const uint8_t *is_chosen);

/* Scan what the edits of a table make of its bytes, rows that are dropped included, into the table itself. bytes, the
 * caller's, becomes what the table shows, and is left alone where there are no edits. After a failure the table is to
 * be scanned anew. */
ss_status ss_table_settle(ss_table *table, ss_buffer *bytes, ss_error *error);

/* ------------------------------------------------------------------ consumers: the graph of a running collector */

/* What a receiver answers its client. Zero-initialised is success. */
typedef struct ss_verdict {
    ss_code code;
    bool has_retry_delay; /* attach RetryInfo / Retry-After */
    uint32_t retry_delay_ms;
    uint64_t rejected_items; /* with SS_CODE_OK: partial success */
    char message[512];       /* UTF-8, NUL-terminated */
    bool is_pending;         /* nothing of the above counts: the answer comes by the request's route */
    bool is_too_fast;        /* pending, since its client brings more than is worked off: it is not read meanwhile */
} ss_verdict;

/* Something that takes requests of one signal. Built back to front; a consumer borrows those behind it. */
typedef struct ss_consumer ss_consumer;
/* Free in the order receivers -> exporters, after ss_receiver_publish away and ss_runtime_synchronize. */
void ss_consumer_free(ss_consumer *consumer);

/* Push one serialized Export*ServiceRequest. n_items may be 0 for "not counted yet". Any thread, each with its worker.
 */
ss_status ss_consumer_push(ss_consumer *consumer, ss_worker *worker, const uint8_t *bytes, size_t length,
                           ss_verdict *verdict);

/* Run ops in order on each request, pass on what is kept to next. Borrows ops. */
ss_consumer *ss_pipeline_new(ss_signal signal, ss_op *const *ops, size_t n_ops, ss_consumer *next);
uint64_t ss_pipeline_incoming_items(const ss_consumer *pipeline);
uint64_t ss_pipeline_outgoing_items(const ss_consumer *pipeline);

/* Give each request to all outputs; the first failure is the verdict. */
ss_consumer *ss_fanout_new(ss_signal signal, ss_consumer *const *outputs, size_t n_outputs);

/* Count and discard. */
ss_consumer *ss_discard_new(ss_signal signal);
uint64_t ss_discard_items(const ss_consumer *discard);

/* Gather requests until a count, a size or a time is reached; pass batches on from a thread of its own.
 * A batch that an output refuses is kept and tried again; meanwhile at most one more batch is gathered and
 * then requests are refused, so nothing acknowledged is lost.
 * Splitting repeats resource and scope in each batch. A request that would grow 16-fold by that, and by more than
 * 64 MiB, is split no further: its rest is one batch. */
typedef struct ss_batch_config {
    uint64_t timeout_ns;               /* 0: pass on at once */
    uint32_t send_batch_size;          /* items that trigger a batch; 0: no count trigger */
    uint32_t send_batch_max_size;      /* items at most in a batch; 0: no limit */
    uint32_t send_batch_max_bytes;     /* bytes at most in a batch, unless one item alone is larger, or the messages
                                          around it are, which are then not repeated for each item; 0: no limit */
    const char *const *metadata_names; /* lower case; requests with other values of these headers go into other
                                          batches; copied */
    size_t n_metadata_names;
    uint32_t max_combinations; /* of those values that are gathered at once; more are refused; 0: no limit */
} ss_batch_config;
enum { SS_BATCH_N_BOUNDS = 22 };
typedef struct ss_batch_stats {
    uint64_t size_trigger_send;
    uint64_t timeout_trigger_send;
    uint64_t bytes_trigger_send;
    uint64_t sent_items;
    uint64_t sent_batches;
    uint64_t pending_items;                   /* acknowledged, not yet passed on */
    uint64_t n_combinations;                  /* of metadata values that are being gathered now */
    uint64_t failed_items;                    /* given up at shutdown, or refused for good by an output */
    uint64_t sent_by_size[SS_BATCH_N_BOUNDS]; /* of sent_batches, those within each bound and above the one before */
} ss_batch_stats;
/* Number of items up to which a batch counts at index in sent_by_size; ascending. 0 past the last. */
uint32_t ss_batch_size_bound(size_t index);
ss_consumer *ss_batch_new(ss_runtime *runtime, ss_signal signal, const ss_batch_config *config,
                          ss_consumer *const *outputs, size_t n_outputs, ss_error *error);
void ss_batch_read_stats(const ss_consumer *batch, ss_batch_stats *stats);
/* Pass on what is gathered and refuse from now on; gives up after timeout_ns. Blocks. */
ss_status ss_batch_drain(ss_consumer *batch, uint64_t timeout_ns);

/* A bounded queue that the threads of an exporter empty. */
typedef enum ss_queue_sizer { SS_SIZER_REQUESTS = 0, SS_SIZER_ITEMS, SS_SIZER_BYTES } ss_queue_sizer;
typedef struct ss_queue_stats {
    uint64_t size; /* in sizer units, requests being exported included */
    uint64_t capacity;
    uint64_t items;                /* items held, those being exported included */
    uint64_t in_flight_requests;   /* popped, not yet done */
    uint64_t enqueue_failed_items; /* refused; not those of a batch, which tries again */
    uint64_t withdrawn_items;      /* whose client has gone before they were popped; in no other counter */
    uint64_t sent_items;           /* this and what follows: as told to ss_queue_done */
    uint64_t failed_items;         /* those given up at the end included */
    uint64_t rejected_items;       /* of sent_items, in partial successes */
    uint64_t sent_bytes;
    uint64_t uncompressed_bytes; /* of the requests sent */
    ss_encoding encoding;        /* that requests are given now */
    bool is_closed;
} ss_queue_stats;
/* A request taken from a queue. bytes and cancel_fd stay valid until ss_queue_done. */
typedef struct ss_queue_item {
    const uint8_t *bytes;
    size_t length;
    ss_encoding encoding;   /* of bytes */
    size_t original_length; /* before compression */
    uint64_t n_items;
    uint64_t deadline_ns;   /* monotonic, when the client that waits for it goes; UINT64_MAX: none does, or never */
    uint64_t not_before_ns; /* monotonic, of the next attempt: as told to ss_queue_put_back; 0: at once */
    int cancel_fd;          /* readable once that client has gone; -1: none waits */
    void *handle;
} ss_queue_item;
/* block_on_overflow: wait up to a second for room before refusing. */
ss_consumer *ss_queue_new(ss_runtime *runtime, ss_signal signal, ss_queue_sizer sizer, uint64_t capacity,
                          bool block_on_overflow, ss_error *error);
/* Requests that come from now on are compressed on their way in, by the thread that brings them; level as in
 * ss_compress. At first they are kept as they are. SS_ERR_ARGUMENT, SS_ERR_UNSUPPORTED. Any thread. */
ss_status ss_queue_set_compression(ss_consumer *queue, ss_encoding encoding, int level);
/* Wait for a request: SS_OK, SS_ERR_TIMEOUT, or SS_ERR_CLOSED once closed and empty. Any thread. */
ss_status ss_queue_pop(ss_consumer *queue, uint64_t timeout_ns, ss_queue_item *item);
/* From now on clients get their answer when their request has been delivered or given up: ss_queue_done says which.
 * One whose client goes before it has been popped is dropped: withdrawn. Requests that come in batches are answered
 * when they are queued, all the same. waiting_max: so many requests of clients may be held, whatever their size, and
 * capacity is for the others only; 0: capacity is for all. */
void ss_queue_hold_answers(ss_consumer *queue, uint64_t waiting_max);
/* Wait before another attempt to send item. SS_ERR_TIMEOUT: timeout_ns have passed. SS_ERR_CANCELLED: its client has
 * gone. SS_ERR_CLOSED, where ends_with_queue: the queue is closed or has a successor. Any thread. */
ss_status ss_queue_wait(ss_consumer *queue, const ss_queue_item *item, uint64_t timeout_ns, bool ends_with_queue);
/* Put item at the end of the line, so that the others have their turn before it. Any thread. */
void ss_queue_put_back(ss_consumer *queue, ss_queue_item *item, uint64_t not_before_ns);
/* What waits in queue, and what comes from now on, goes to successor, which outlives it and has its runtime, as long as
 * that is not closed; if need be beyond its capacity. What is being sent is left to ss_queue_pass_on. Once. */
void ss_queue_hand_over(ss_consumer *queue, ss_consumer *successor);
/* Give item to the successor to send, and its client, if one waits, an answer. False: there is no successor, it is
 * closed, or ss_queue_give_up has counted the item. Any thread. */
bool ss_queue_pass_on(ss_consumer *queue, ss_queue_item *item);
/* What became of the request: counts it, frees its bytes and its place, tells its clients. SS_CODE_OK is sent, with
 * bytes_sent on the wire; all else is failed. NULL: not counted, and clients are to come again. False: it was counted
 * by ss_queue_give_up. Any thread. */
bool ss_queue_done(ss_consumer *queue, ss_queue_item *item, const ss_verdict *verdict, uint64_t bytes_sent);
/* Count what is still held as failed, once and for all: returns how many items. Any thread. */
uint64_t ss_queue_give_up(ss_consumer *queue);
/* Refuse new requests; poppers get the rest, then SS_ERR_CLOSED. Any thread. */
void ss_queue_close(ss_consumer *queue);
void ss_queue_read_stats(const ss_consumer *queue, ss_queue_stats *stats);

/* What a thread works with that takes one request after another out of a queue, looks at its rows, and passes them on.
 * To be read by others. */
typedef struct ss_table_worker {
    ss_queue_item item; /* the request at hand, until ss_queue_done */
    ss_table *table;    /* its rows */
    ss_buffer edited;   /* for ss_table_settle */
    ss_buffer out;      /* what was emitted last */
    ss_verdict verdict; /* of the last failure */
} ss_table_worker;
ss_table_worker *ss_table_worker_new(void); /* NULL: no memory */
void ss_table_worker_free(ss_table_worker *self);
/* Wait for a request and scan it. As ss_queue_pop; else the request is at hand, cannot be read, and verdict says why.
 */
ss_status ss_table_worker_next(ss_table_worker *self, ss_consumer *queue, uint64_t timeout_ns);
/* Put the rows that are kept into out, unless all are, and set *request and *length to what the table has become. */
ss_status ss_table_worker_emit(ss_table_worker *self, const uint8_t **request, size_t *length);
/* Emit, and push what is left, if anything is, to output. SS_OK: that is done, and ss_queue_done was told so; else
 * verdict says why not, and the request is still at hand. */
ss_status ss_table_worker_pass(ss_table_worker *self, ss_consumer *queue, ss_worker *worker, ss_consumer *output);

/* ------------------------------------------------------------------ receiver: where transports hand over */

/* How a transport of native/net is given an answer later. */
typedef struct ss_reply_route ss_reply_route;

enum { SS_METADATA_NAME_MAX = 255 }; /* bytes of the longest header name that a listener keeps */

/* One complete, decompressed message. Borrowed for the call. */
typedef struct ss_request {
    ss_signal signal;
    ss_transport transport;
    ss_payload payload;
    const uint8_t *bytes;
    size_t length;
    ss_encoding encoding;    /* that it came in */
    ss_reply_route *route;   /* NULL: accept returns when the answer is known */
    const uint8_t *metadata; /* block of the headers that the listener keeps, as native/plan/metadata.h says */
    size_t metadata_length;
} ss_request;

/* The type of ss_receiver_accept: the narrow seam between a transport and the rest. */
typedef void (*ss_accept_fn)(void *receiver, ss_worker *worker, const ss_request *request, ss_verdict *verdict);

/* What becomes of a request in which items are invalid and others are not. */
typedef enum ss_invalid_items {
    /* A fault costs its item, told in the partial success; a text that is not UTF-8 is repaired, and told there. */
    SS_INVALID_REJECT_ITEM = 0,
    /* A fault costs the request; the texts of protobuf go on as they came. */
    SS_INVALID_REJECT_REQUEST = 1
} ss_invalid_items;

typedef struct ss_receiver ss_receiver;
typedef struct ss_receiver_stats { /* [signal][transport], items */
    uint64_t accepted[3][2];
    uint64_t refused[3][2]; /* rejected ones too */
    uint64_t requests[3][2];
    uint64_t bytes[3][2];          /* message bytes after decompression */
    uint64_t malformed[3][2];      /* requests answered INVALID_ARGUMENT */
    uint64_t rejected[3][2][5];    /* invalid items, by ss_fault */
    uint64_t repaired_texts[3][2]; /* in which bytes that are not UTF-8 became U+FFFD */
} ss_receiver_stats;
ss_receiver *ss_receiver_new(ss_runtime *runtime, ss_invalid_items invalid_items);
void ss_receiver_free(ss_receiver *receiver);
/* Route signal to consumer from the next request on (one atomic store); NULL answers UNIMPLEMENTED. Any thread. */
void ss_receiver_publish(ss_receiver *receiver, ss_signal signal, ss_consumer *consumer);
bool ss_receiver_has_signal(const ss_receiver *receiver, ss_signal signal);
/* receiver is an ss_receiver. Any thread, each with its worker. */
void ss_receiver_accept(void *receiver, ss_worker *worker, const ss_request *request, ss_verdict *verdict);
void ss_receiver_read_stats(const ss_receiver *receiver, ss_receiver_stats *stats);
/* Write what was last told to a client of invalid items or texts, NUL-terminated, "" if nothing ever was. Any thread.
 */
void ss_receiver_last_fault(const ss_receiver *receiver, char *text, size_t size);

/* ------------------------------------------------------------------ codec: how messages are compressed */

/* False where the library was not there at build time. */
bool ss_encoding_is_available(ss_encoding encoding);

/* Contexts for all encodings, made when first needed and reused. One thread at a time. */
typedef struct ss_codec ss_codec;
ss_codec *ss_codec_new(void);
void ss_codec_free(ss_codec *codec);
/* level: the library's scale; 0 is the encoding's default (gzip, zlib: 1 by libdeflate, else 6; zstd: 1, with a wide
 * window from 1 MiB of input on). SS_ERR_ARGUMENT: no such level; snappy and lz4 have none but 0. Appends to out. */
ss_status ss_compress(ss_codec *codec, ss_encoding encoding, int level, const uint8_t *bytes, size_t length,
                      ss_buffer *out);
/* Appends to out at most max_length bytes; SS_ERR_LIMIT when there would be more, before they are allocated.
 * A failure appends nothing. error may be NULL. */
ss_status ss_decompress(ss_codec *codec, ss_encoding encoding, const uint8_t *bytes, size_t length, size_t max_length,
                        ss_buffer *out, ss_error *error);

/* ------------------------------------------------------------------ net: TLS */

/* Certificates and keys are PEM. NULL and "" are none. */
typedef struct ss_tls_config {
    bool is_server;
    bool skips_verification; /* client: any certificate is taken */
    bool trusts_system;      /* client: the system's authorities beside ca */
    const char *ca;   /* client: signs servers, none: the system's do; server: signs clients, who then need one */
    const char *cert; /* to show, with those that sign it behind it */
    const char *key;
    const char *ciphers;  /* up to TLS 1.2, OpenSSL's list; none: its default */
    const char *groups;   /* curves, OpenSSL's list; none: its default */
    uint16_t min_version; /* as it is written in TLS; 0: OpenSSL's */
    uint16_t max_version;
    const char *alpn;        /* protocols that are spoken, h2 and http/1.1, the best first, with a comma between */
    const char *server_name; /* client: to ask for and to verify */
} ss_tls_config;

typedef struct ss_tls ss_tls;
/* Loads OpenSSL. Copies all of config. NULL: error says what cannot be used, with a text that stays valid. */
ss_tls *ss_tls_new(const ss_tls_config *config, ss_error *error);
/* REQUIRES: no server and no client has it any more. */
void ss_tls_free(ss_tls *tls);
/* What connections have from now on; is_server, alpn and server_name stay as they are. Any thread. */
ss_status ss_tls_replace(ss_tls *tls, const ss_tls_config *config, ss_error *error);
/* Handshakes that failed in a server; text gets the last one's reason. Any thread. */
uint64_t ss_tls_failures(ss_tls *tls, char *text, size_t size);

/* ------------------------------------------------------------------ net: server */

/* Names that Content-Encoding may have; bit 1 << n of ss_listener_config.encodings is name n. */
typedef enum ss_content_encoding {
    SS_CONTENT_NONE = 0, /* no such header */
    SS_CONTENT_IDENTITY,
    SS_CONTENT_GZIP,
    SS_CONTENT_ZSTD,
    SS_CONTENT_ZLIB,
    SS_CONTENT_DEFLATE,
    SS_CONTENT_SNAPPY,
    SS_CONTENT_SNAPPY_FRAMED,
    SS_CONTENT_LZ4,
    SS_N_CONTENT_ENCODINGS
} ss_content_encoding;

/* What pages of other origins may do, as browsers ask for it. */
typedef struct ss_cors_config {
    const char *const
        *origins;     /* the first "*" in one stands for any text, "*" alone allows all; case does not count */
    size_t n_origins; /* 0: no CORS */
    const char *const *headers; /* that a request may have; "*" alone allows all. None: those that need no leave */
    size_t n_headers;
    const char *exposed_headers; /* value of Access-Control-Expose-Headers; NULL: not sent */
    int32_t max_age_s;           /* 0: not said; less: not at all */
} ss_cors_config;

typedef struct ss_listener_config {
    int fd;                          /* bound, listening; the server dups it */
    ss_transport transport;          /* GRPC: HTTP/2 with prior knowledge; HTTP: HTTP/1.1, or HTTP/2
                                        where tls agrees on it */
    size_t max_message_bytes;        /* before and after decompression */
    uint32_t max_concurrent_streams; /* 0: 200 */
    uint32_t initial_window_bytes;   /* of a stream, 0: 2 MiB; the connection's is four times that */
    uint32_t max_connections;        /* 0: no limit; more are closed at once */
    uint64_t idle_timeout_ns;        /* close connections without a request this long; 0: never */
    uint64_t read_timeout_ns;        /* a request must be complete within this; 0: no limit */
    uint64_t write_timeout_ns;       /* answers must be taken within this; 0: no limit */
    ss_tls *tls;                     /* borrowed; NULL: plain text */
    uint64_t handshake_timeout_ns;   /* of TLS; 0: 10 s */

    /* gRPC. */
    uint64_t max_age_ns;       /* end connections this old, give or take a tenth, when their calls are done; 0: never */
    uint64_t max_age_grace_ns; /* and this much later whether they are done or not; 0: never */
    uint64_t ping_after_ns;    /* ping peers silent this long; 0: never */
    uint64_t ping_timeout_ns;  /* and end the connection if they stay so */
    uint64_t min_ping_interval_ns; /* end connections that ping more often */
    bool pings_without_calls;      /* else two hours must be between pings when there is no call */
    bool has_health;               /* serve grpc.health.v1.Health */

    /* Both. */
    const char *const *metadata_names; /* lower case; headers that are kept with their request; copied */
    size_t n_metadata_names;

    /* HTTP. */
    const char *paths[3]; /* URL path of each signal, one ending in "/" with all below it; NULL: /v1/...; copied */
    bool is_admin;        /* every request goes to ss_server_next_request instead of accept */
    bool closes_after_answer;
    bool ignores_encoding;        /* bodies are taken as they come, whatever Content-Encoding says */
    uint32_t encodings;           /* bits of ss_content_encoding that are accepted; 0: all */
    uint64_t header_timeout_ns;   /* the head of a request must be there within this; 0: no limit */
    const char *response_headers; /* lines, each with its end, of every answer; NULL: none; copied */
    const ss_cors_config *cors;   /* NULL: no CORS; copied */
} ss_listener_config;

typedef struct ss_server_config {
    const ss_listener_config *listeners;
    size_t n_listeners;
    uint32_t n_event_loops; /* threads; 0 means 1 */
    ss_accept_fn accept;    /* NULL with only admin listeners */
    bool (*has_signal)(const void *receiver, ss_signal signal);
    void *receiver;          /* first argument of both */
    uint64_t max_held_bytes; /* of connections, requests that are not complete and answers that are not taken, all
                                together; what is more is refused, and comes again. 0: no limit */
} ss_server_config;

/* Why a request, or a connection, gets no further than the door. */
typedef enum ss_refusal {
    SS_REFUSAL_TOO_LARGE = 0, /* the message, before or after decompression */
    SS_REFUSAL_UNKNOWN_PATH,  /* or method of gRPC */
    SS_REFUSAL_NO_PIPELINE,   /* takes the signal */
    SS_REFUSAL_METHOD,        /* of HTTP */
    SS_REFUSAL_MEDIA_TYPE,
    SS_REFUSAL_ENCODING,  /* unknown, or not to be accepted */
    SS_REFUSAL_MALFORMED, /* the message is not what it is said to be */
    SS_REFUSAL_PROTOCOL,  /* HTTP is broken */
    SS_REFUSAL_HEADERS_TOO_LARGE,
    SS_REFUSAL_TIMEOUT, /* it did not come, or its answer was not taken, in time */
    SS_REFUSAL_MEMORY,  /* there is none to hold it */
    SS_N_REQUEST_REFUSALS,
    /* Of connections. */
    SS_REFUSAL_CONNECTIONS = SS_N_REQUEST_REFUSALS, /* there are max_connections */
    SS_REFUSAL_DESCRIPTORS,                         /* the rest of them is kept for exporters and files */
    SS_REFUSAL_CONNECTION_MEMORY,
    SS_N_REFUSALS
} ss_refusal;

/* One of what was refused. */
typedef struct ss_refusal_note {
    char client[64]; /* address and port; "" where there is none */
    char text[256];  /* what the client did; printable ASCII, or of a message its own words */
} ss_refusal_note;

/* What a client speaks that has come to the wrong port. */
typedef enum ss_stranger {
    SS_STRANGER_HTTP1 = 0,
    SS_STRANGER_HTTP2 = 1,
    SS_STRANGER_TLS = 2,
    SS_STRANGER_PLAIN = 3 /* no TLS */
} ss_stranger;

typedef struct ss_server_stats {
    uint64_t connections_opened;
    uint64_t connections_open;
    uint64_t requests;
    uint64_t bytes_read; /* from sockets */
    uint64_t bytes_written;
    uint64_t protocol_errors;           /* connections ended for breaking HTTP or flooding */
    uint64_t misdirected[2][4];         /* those among them that speak another protocol: [ss_transport][ss_stranger] */
    uint64_t refused[2][SS_N_REFUSALS]; /* [ss_transport][ss_refusal] */
} ss_server_stats;

/* A request to an admin listener. Valid until its reply. */
typedef struct ss_admin_request {
    uint64_t token;
    char method[16];
    char path[256]; /* without the query */
    char query[256];
} ss_admin_request;

typedef struct ss_server ss_server;
/* Start the event loops. Borrows runtime and receiver; copies the rest. */
ss_server *ss_server_new(ss_runtime *runtime, const ss_server_config *config, ss_error *error);
/* Stop accepting, send GOAWAY / Connection: close, let requests in flight finish, end after timeout_ns: then
 * SS_ERR_TIMEOUT says that some did not. Blocks; replies may still be given meanwhile. May be called again. */
ss_status ss_server_shutdown(ss_server *server, uint64_t timeout_ns);
void ss_server_free(ss_server *server);
void ss_server_read_stats(const ss_server *server, ss_server_stats *stats);
/* Take the note of the first refusal of its kind since the last call; false: there was none. Any thread. */
bool ss_server_take_refusal(ss_server *server, ss_transport transport, ss_refusal refusal, ss_refusal_note *note);
/* Readable while admin requests wait; -1 without an admin listener. */
int ss_server_request_fd(const ss_server *server);
/* Take the next admin request: SS_OK, or SS_ERR_TIMEOUT when none waits. Never blocks. */
ss_status ss_server_next_request(ss_server *server, ss_admin_request *request);
/* Answer it; copies body. 405 says that GET and HEAD are allowed. A connection that is gone by then is no error. Any
 * thread. */
ss_status ss_server_reply(ss_server *server, uint64_t token, int http_status, const char *content_type,
                          const uint8_t *body, size_t body_length);

/* ------------------------------------------------------------------ net: gRPC client */

typedef struct ss_client_config {
    const char *host; /* name, IPv4 or IPv6 literal without brackets; or an absolute path for a unix socket */
    uint16_t port;
    const char *authority;       /* :authority; NULL: host:port, or localhost for a unix socket; copied */
    const char *user_agent;      /* copied */
    const char *const *headers;  /* name, value, name, value ... lower-case names; copied */
    size_t n_headers;            /* entries of headers: twice the number of headers */
    uint32_t max_connections;    /* calls at once, > 0; more wait */
    uint64_t connect_timeout_ns; /* a call's own time limit holds for its connect too; UINT64_MAX: only that one */
    ss_tls *tls;                 /* borrowed; NULL: plain text */
} ss_client_config;

typedef struct ss_client_result {
    ss_status transport_status; /* SS_OK: the server answered; else why it did not */
    int32_t grpc_status;        /* valid with SS_OK */
    char message[512];          /* grpc-message, or what failed */
    bool has_retry_delay;       /* RetryInfo was present */
    uint64_t retry_delay_ns;
    bool is_answer_unreadable; /* the server took the request, but grpc_status and message tell of its answer */
    uint64_t rejected_items;   /* partial success */
    char partial_message[512];
    uint64_t bytes_sent; /* on the wire, framing included */
} ss_client_result;

/* Connections are made when first needed and reused, one call on each at a time. A call that a reused connection
 * turns out to be too old for (closed, or refusing before it could act) is made again once on a new one. */
typedef struct ss_client ss_client;
ss_client *ss_client_new(const ss_client_config *config, ss_error *error);
void ss_client_free(ss_client *client); /* closes; waits for the calls in flight to return */
/* One unary Export call of signal: message is already in encoding. Blocks at most timeout_ns (UINT64_MAX: no limit),
 * but for a name server that does not answer. The call is cancelled, SS_ERR_CANCELLED, once cancel_fd is readable (-1:
 * never). Any thread. */
void ss_client_export(ss_client *client, ss_signal signal, ss_encoding encoding, const uint8_t *message, size_t length,
                      uint64_t timeout_ns, int cancel_fd, ss_client_result *result);
/* What ends ss_client_export_queue, beside failures. */
typedef struct ss_export_watch {
    uint64_t timeout_ns;     /* of each call, as for ss_client_export */
    uint32_t n_threads;      /* so many requests are in flight: all threads are busy; UINT32_MAX: that may be */
    uint64_t reported_items; /* more than these have found no room in the queue or were withdrawn from it; not before a
                                tenth of a second */
} ss_export_watch;
typedef struct ss_export_attempt {
    bool is_made; /* else nothing of the rest counts */
    uint64_t duration_ns;
    ss_client_result result;
} ss_export_attempt;
/* Wait for requests of queue and send them, each done as sent, until one needs a decision. SS_OK: item is that one, and
 * attempt what came of sending it, which was no plain success. Or it was not sent: one of watch holds, or the queue is
 * closed, or gives requests another encoding by now. SS_ERR_CLOSED: closed and empty. Any thread. */
ss_status ss_client_export_queue(ss_client *client, ss_consumer *queue, const ss_export_watch *watch,
                                 ss_queue_item *item, ss_export_attempt *attempt);
/* Calls in encoding so far that the server took: its status was OK. Any thread. */
uint64_t ss_client_accepted(const ss_client *client, ss_encoding encoding);
/* Fail calls in flight and new ones with SS_ERR_CLOSED. Any thread. */
void ss_client_close(ss_client *client);

/* For clients over other transports. Read an Export*ServiceResponse of any signal: fills rejected_items and
 * partial_message. */
ss_status ss_export_response_read(const uint8_t *bytes, size_t length, ss_client_result *result);
/* Read a google.rpc.Status: fills grpc_status, message and the retry delay. */
ss_status ss_rpc_status_read(const uint8_t *bytes, size_t length, ss_client_result *result);

#endif
