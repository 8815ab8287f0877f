/* HTTP/2 input: the first byte says how the rest is cut, whether answers come later, and whether it is OTLP/HTTP; the
 * preface is given, so that inputs get past it. */
#include "../native/transport_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    if (size == 0) {
        return 0;
    }
    fixture f;
    bool is_http = data[0] & 0x10;
    fixture_start(&f, is_http ? SS_TRANSPORT_HTTP : SS_TRANSPORT_GRPC);
    if (is_http) {
        fixture_disconnect(&f);
        f.has_http2 = true;
        fixture_connect(&f);
    }
    f.listener.config.read_timeout_ns = 1000000000;
    f.listener.config.has_health = true;
    static const char *const names[] = {":authority", "host", "te"};
    (void)ss_names_copy(&f.listener.metadata_names, names, 3);
    f.verdict.code = data[0] & 0x80 ? SS_CODE_UNAVAILABLE : SS_CODE_OK;
    f.verdict.has_retry_delay = data[0] & 0x40;
    f.verdict.is_pending = data[0] & 0x20;
    fixture_feed(&f, preface, sizeof preface - 1);
    size_t step = data[0] & 0x3f ? data[0] & 0x3f : size;
    for (size_t pos = 1; pos < size && f.is_open; pos += step) {
        fixture_feed(&f, data + pos, size - pos < step ? size - pos : step);
        if (f.n_waiting > pos % 3) { /* one, two or three pieces later: its stream may have been reset */
            fixture_answer(&f);
        }
    }
    fixture_tick(&f, 2000000000);
    while (f.n_waiting) {
        fixture_answer(&f);
    }
    if (f.is_open) {
        (void)f.connection->protocol->drain(f.connection);
        (void)f.connection->protocol->produce(f.connection);
    }
    fixture_stop(&f);
    if (f.held_bytes) {
        __builtin_trap(); /* bytes of unfinished requests are left on the account */
    }
    return 0;
}
