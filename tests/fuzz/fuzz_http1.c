/* HTTP/1.1 input: the first byte says how the rest is cut, whether the listener is an admin one, and whether answers
 * come later. */
#include "../native/transport_fixture.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    fixture f;
    fixture_start(&f, SS_TRANSPORT_HTTP);
    f.listener.config.is_admin = data[0] & 0x80;
    f.listener.config.read_timeout_ns = 1000000000;
    f.listener.config.response_headers = "X-A: b\r\n";
    static const char *const origins[] = {"https://*.example", "null"}, *const headers[] = {"content-type", "x-a"};
    if (!f.listener.config.is_admin) { /* a connection that looks at all headers */
        f.listener.cors = ss_cors_new(
            &(ss_cors_config){.origins = origins, .n_origins = 2, .headers = headers, .n_headers = 2, .max_age_s = 9});
        (void)ss_names_copy(&f.listener.metadata_names, headers, 2);
        fixture_disconnect(&f);
        fixture_connect(&f);
    }
    f.verdict.rejected_items = data[0] & 0x40;
    f.verdict.is_pending = data[0] & 0x40;
    size_t step = data[0] & 0x3f ? data[0] & 0x3f : size;
    for (size_t pos = 1; pos < size && f.is_open; pos += step) {
        fixture_feed(&f, data + pos, size - pos < step ? size - pos : step);
        while (f.is_open && f.connection->admin_token) {
            f.is_open = ss_http1_reply(f.connection, 200, "text/plain", (const uint8_t *)"ok", 2);
        }
        while (f.is_open && f.n_waiting) {
            fixture_answer(&f);
        }
    }
    fixture_tick(&f, 2000000000);
    if (f.is_open) {
        (void)f.connection->protocol->drain(f.connection);
    }
    fixture_stop(&f);
    if (f.held_bytes) {
        __builtin_trap(); /* bytes of unfinished requests are left on the account */
    }
    return 0;
}
