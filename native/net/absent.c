/* Stands in for the native transport where it was not built: every call says so. */
#include "spansieve.h"

#include <stdio.h>

ss_server *ss_server_new(ss_runtime *runtime, const ss_server_config *config, ss_error *error) {
    (void)runtime, (void)config;
    *error = (ss_error){.code = SS_ERR_UNSUPPORTED, .reason = "this build has no native transport"};
    return NULL;
}

ss_status ss_server_shutdown(ss_server *server, uint64_t timeout_ns) {
    (void)server, (void)timeout_ns;
    return SS_ERR_UNSUPPORTED;
}

void ss_server_free(ss_server *server) {
    (void)server;
}

void ss_server_read_stats(const ss_server *server, ss_server_stats *stats) {
    (void)server;
    *stats = (ss_server_stats){0};
}

bool ss_server_take_refusal(ss_server *server, ss_transport transport, ss_refusal refusal, ss_refusal_note *note) {
    (void)server, (void)transport, (void)refusal, (void)note;
    return false;
}

int ss_server_request_fd(const ss_server *server) {
    (void)server;
    return -1;
}

ss_status ss_server_next_request(ss_server *server, ss_admin_request *request) {
    (void)server, (void)request;
    return SS_ERR_UNSUPPORTED;
}

ss_status ss_server_reply(ss_server *server, uint64_t token, int http_status, const char *content_type,
                          const uint8_t *body, size_t body_length) {
    (void)server, (void)token, (void)http_status, (void)content_type, (void)body, (void)body_length;
    return SS_ERR_UNSUPPORTED;
}

ss_tls *ss_tls_new(const ss_tls_config *config, ss_error *error) {
    (void)config;
    *error = (ss_error){.code = SS_ERR_UNSUPPORTED, .reason = "this build has no native transport"};
    return NULL;
}

void ss_tls_free(ss_tls *tls) {
    (void)tls;
}

ss_status ss_tls_replace(ss_tls *tls, const ss_tls_config *config, ss_error *error) {
    (void)tls, (void)config;
    *error = (ss_error){.code = SS_ERR_UNSUPPORTED, .reason = "this build has no native transport"};
    return SS_ERR_UNSUPPORTED;
}

uint64_t ss_tls_failures(ss_tls *tls, char *text, size_t size) {
    (void)tls, (void)text, (void)size;
    return 0;
}

ss_client *ss_client_new(const ss_client_config *config, ss_error *error) {
    (void)config;
    *error = (ss_error){.code = SS_ERR_UNSUPPORTED, .reason = "this build has no native transport"};
    return NULL;
}

void ss_client_free(ss_client *client) {
    (void)client;
}

void ss_client_export(ss_client *client, ss_signal signal, ss_encoding encoding, const uint8_t *message, size_t length,
                      uint64_t timeout_ns, int cancel_fd, ss_client_result *result) {
    (void)client, (void)signal, (void)encoding, (void)message, (void)length, (void)timeout_ns, (void)cancel_fd;
    *result = (ss_client_result){.transport_status = SS_ERR_UNSUPPORTED};
    snprintf(result->message, sizeof result->message, "this build has no native transport");
}

uint64_t ss_client_accepted(const ss_client *client, ss_encoding encoding) {
    (void)client, (void)encoding;
    return 0;
}

void ss_client_close(ss_client *client) {
    (void)client;
}
