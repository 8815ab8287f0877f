/* grpc.health.v1.Health without HTTP: its methods, what a request asks about, and the answer. */
#ifndef SS_HEALTH_H
#define SS_HEALTH_H

#include "net/connection.h"

typedef enum ss_health_method { SS_HEALTH_NONE = 0, SS_HEALTH_CHECK, SS_HEALTH_WATCH } ss_health_method;

/* What a request asks about: an ss_signal's service, or one of these. */
enum { SS_HEALTH_OF_ALL = SS_N_SIGNALS, SS_HEALTH_OF_NOTHING };

/* HealthCheckResponse.ServingStatus. */
typedef enum ss_health {
    SS_HEALTH_SERVING = 1,
    SS_HEALTH_NOT_SERVING = 2,
    SS_HEALTH_SERVICE_UNKNOWN = 3 /* of SS_HEALTH_OF_NOTHING */
} ss_health;

/* The method of a request's path; SS_HEALTH_NONE: none of this service. */
ss_health_method ss_health_route(const uint8_t *path, size_t length);
/* Read a HealthCheckRequest; false: it is none. */
bool ss_health_read(const uint8_t *message, size_t length, int *subject);
/* A signal's service serves while a pipeline takes the signal, and the whole while any does. */
ss_health ss_health_of(const ss_service *service, int subject);

#endif
