/* From a queue to a server without a word to Python, as long as all goes well. */
#include "core/clock.h"
#include "plan/consumer.h"

/* An overflow that goes on does not call for a report with every request. */
static const uint64_t REPORT_AFTER_NS = 100000000;

static bool needs_decision(const ss_consumer *queue, const ss_queue_item *item, const ss_export_watch *watch,
                           uint64_t report_ns) {
    ss_queue_stats now;
    ss_queue_read_stats(queue, &now);
    return now.is_closed || now.encoding != item->encoding || now.in_flight_requests >= watch->n_threads ||
           (now.enqueue_failed_items + now.withdrawn_items > watch->reported_items && ss_clock_ns() >= report_ns);
}

static bool is_plain_success(const ss_client_result *result) {
    return result->transport_status == SS_OK && result->grpc_status == SS_CODE_OK && !result->rejected_items &&
           !result->partial_message[0];
}

ss_status ss_client_export_queue(ss_client *client, ss_consumer *queue, const ss_export_watch *watch,
                                 ss_queue_item *item, ss_export_attempt *attempt) {
    static const ss_verdict sent = {0};
    uint64_t report_ns = ss_clock_deadline(REPORT_AFTER_NS);
    attempt->is_made = false;
    for (;;) {
        ss_status status = ss_queue_pop(queue, UINT64_MAX, item);
        if (status != SS_OK || needs_decision(queue, item, watch, report_ns)) {
            return status;
        }
        uint64_t started_ns = ss_clock_ns();
        ss_client_result *result = &attempt->result;
        ss_client_export(client, queue->signal, item->encoding, item->bytes, item->length, watch->timeout_ns,
                         item->cancel_fd, result);
        if (!is_plain_success(result)) {
            attempt->is_made = true;
            attempt->duration_ns = ss_clock_ns() - started_ns;
            return SS_OK;
        }
        ss_queue_done(queue, item, &sent, result->bytes_sent);
    }
}
