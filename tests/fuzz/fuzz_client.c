/* A hostile server: any bytes, in pieces, to a client session with a call that has more to say than the window takes.
 * The first byte chooses the size of the pieces, so that splits are found too. */
#include <stdlib.h>

#include "net/client_session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t message[100000];
    static const ss_client_head head = {.authority = "localhost", .user_agent = "fuzz"};
    static const ss_client_call call = {SS_SIGNAL_TRACES, SS_ENCODING_ZSTD, message, sizeof message, 1000000000};
    if (!size) {
        return 0;
    }
    size_t step = data[0] ? data[0] : 65536;
    ss_client_session *session = ss_client_session_new(&head);
    if (!session) {
        return 0;
    }
    size_t at = 1;
    for (int n_calls = 0; n_calls < 3 && ss_client_session_begin(session, &call) == SS_OK; n_calls++) {
        ss_status status = SS_OK;
        while (status == SS_OK && !ss_client_session_is_done(session) && !ss_client_session_is_over(session)) {
            const uint8_t *out;
            size_t length;
            status = ss_client_session_pending(session, &out, &length);
            if (status == SS_OK && length) {
                /* Take an odd part of it, as a full socket would. */
                ss_client_session_sent(session, length > 3 ? length - length / 3 : length);
                continue;
            }
            size_t n = size - at < step ? size - at : step;
            if (status != SS_OK || n == 0) {
                break;
            }
            status = ss_client_session_receive(session, data + at, n);
            at += n;
        }
        if (status != SS_OK || !ss_client_session_is_done(session)) {
            break;
        }
        if (ss_client_session_is_unprocessed(session)) {
            break;
        }
        ss_client_result result = {0};
        ss_client_session_finish(session, &result);
        if (result.transport_status != SS_OK || !ss_client_session_is_usable(session)) {
            break;
        }
    }
    ss_client_session_free(session);
    return 0;
}
