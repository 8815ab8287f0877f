/* Source: grpc/health/v1/health.proto (HealthCheckRequest.service 1), gRPC "health-checking.md". */
#include "net/health.h"

#include "core/bytes.h"
#include "net/grpc.h"

static bool is(const uint8_t *bytes, size_t length, const char *text) {
    return length == strlen(text) && memcmp(bytes, text, length) == 0;
}

ss_health_method ss_health_route(const uint8_t *path, size_t length) {
    if (is(path, length, "/grpc.health.v1.Health/Check")) {
        return SS_HEALTH_CHECK;
    }
    return is(path, length, "/grpc.health.v1.Health/Watch") ? SS_HEALTH_WATCH : SS_HEALTH_NONE;
}

bool ss_health_read(const uint8_t *message, size_t length, int *subject) {
    ss_reader reader = {message, message + length};
    ss_reader name = {message, message};
    while (reader.pos < reader.end) {
        uint64_t tag;
        if (!ss_read_varint(&reader, &tag) || tag > UINT32_MAX) {
            return false;
        }
        bool is_name = tag == (1 << 3 | SS_WIRE_BYTES);
        if (is_name ? !ss_read_bytes(&reader, &name) : !ss_skip_field(&reader, (uint32_t)tag, 0)) {
            return false;
        }
    }
    size_t name_length = (size_t)(name.end - name.pos);
    *subject = name_length ? SS_HEALTH_OF_NOTHING : SS_HEALTH_OF_ALL;
    for (int signal = 0; signal < SS_N_SIGNALS; signal++) {
        if (is(name.pos, name_length, ss_grpc_services[signal])) {
            *subject = signal;
        }
    }
    return true;
}

ss_health ss_health_of(const ss_service *service, int subject) {
    if (subject == SS_HEALTH_OF_NOTHING) {
        return SS_HEALTH_SERVICE_UNKNOWN;
    }
    for (int signal = 0; signal < SS_N_SIGNALS; signal++) {
        bool is_asked = subject == SS_HEALTH_OF_ALL || subject == signal;
        if (is_asked && service->has_signal(service->receiver, (ss_signal)signal)) {
            return SS_HEALTH_SERVING;
        }
    }
    return SS_HEALTH_NOT_SERVING;
}
