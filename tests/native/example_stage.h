/* An example of a stage, to be copied: it counts the items of each tenant and emits the counts as metrics. */
#ifndef SS_EXAMPLE_STAGE_H
#define SS_EXAMPLE_STAGE_H

#include <stdlib.h>

#include "core/verdict.h"
#include "plan/metadata.h"
#include "plan/stage.h"
#include "wire.h"

enum { TENANTS_MAX = 10000 };

typedef struct example {
    ss_stage stage; /* first */
    ss_names names; /* of the header that names the tenant */
    ss_buffer key;  /* of the request at hand */
    uint64_t n_emitted, n_lost;
} example;

static ss_status example_take(ss_stage *stage, ss_worker *worker, const ss_view *view, ss_verdict *verdict) {
    (void)worker;
    example *self = (example *)stage;
    self->key.length = 0;
    if (ss_metadata_select(view->metadata, view->metadata_length, &self->names, &self->key) != SS_OK) {
        return SS_ERR_NO_MEMORY;
    }
    const ss_key key = ss_stage_key(stage, self->key.data, self->key.length);
    ss_group *group = ss_stage_find(stage, &key);
    if (!group && stage->n_open >= TENANTS_MAX) { /* what clients choose is bounded */
        return ss_refuse(verdict, "too many tenants", 1000);
    }
    if (!group && !(group = ss_stage_open(stage, &key, UINT64_MAX))) {
        return SS_ERR_NO_MEMORY;
    }
    group->n_items += view->n_items;
    return SS_OK;
}

/* Make message a field of another one. */
static inline void nest(ss_buffer *message, uint32_t field) {
    ss_buffer outer = {0};
    put_message(&outer, field, message);
    ss_buffer_free(message);
    *message = outer;
}

/* Write one data point into each group, and send it. */
static void example_timer(ss_stage *stage) {
    for (ss_group *group = stage->open.first, *next; group; group = next) {
        next = group->next;
        put_fixed64(&group->bytes, SS_NUMBER_DATA_POINT_AS_INT, group->n_items);
        nest(&group->bytes, SS_SUM_DATA_POINTS);
        nest(&group->bytes, SS_METRIC_SUM);
        nest(&group->bytes, SS_SCOPE_METRICS_METRICS);
        nest(&group->bytes, SS_RESOURCE_METRICS_SCOPE_METRICS);
        nest(&group->bytes, SS_EXPORT_METRICS_SERVICE_REQUEST_RESOURCE_METRICS);
        group->n_items = 1;
        ss_stage_account(stage, group);
        ss_stage_send(stage, group);
    }
}

/* Only when the stage drains, after the timer's last call: nothing is open then. */
static void example_due(ss_stage *stage, ss_group *group, bool is_draining) {
    (void)is_draining;
    ss_stage_discard(stage, group);
}

static void example_ack(ss_stage *stage, const ss_group *group) {
    ((example *)stage)->n_emitted += group->n_items;
}

static void example_nack(ss_stage *stage, const ss_group *group) {
    ((example *)stage)->n_lost += group->n_items;
}

static void example_collect(const ss_stage *stage, void *counts) {
    ((uint64_t *)counts)[0] = ((const example *)stage)->n_emitted;
    ((uint64_t *)counts)[1] = ((const example *)stage)->n_lost;
}

static void example_release(ss_stage *stage) {
    ss_names_free(&((example *)stage)->names);
    ss_buffer_free(&((example *)stage)->key);
}

static ss_consumer *example_new(ss_runtime *runtime, uint64_t interval_ns, ss_consumer *output) {
    static const char *const names[] = {"tenant"};
    static const ss_stage_vtable vtable = {.take = example_take,
                                           .due = example_due,
                                           .timer = example_timer,
                                           .ack = example_ack,
                                           .nack = example_nack,
                                           .collect = example_collect,
                                           .release = example_release};
    example *self = calloc(1, sizeof *self);
    if (!self) {
        return NULL;
    }
    self->stage.interval_ns = interval_ns;
    ss_status status = ss_stage_init(&self->stage, &vtable, runtime, SS_SIGNAL_TRACES, &output, 1);
    self->stage.emits = SS_SIGNAL_METRICS;
    if (status != SS_OK || ss_names_copy(&self->names, names, 1) != SS_OK || ss_stage_start(&self->stage) != SS_OK) {
        ss_consumer_free(&self->stage.consumer);
        return NULL;
    }
    return &self->stage.consumer;
}

#endif
