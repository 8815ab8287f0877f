/* The queue of admin requests between the event loops and the threads of the host program. */
#include "net/connection.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct ss_admin_entry {
    struct ss_admin_entry *next;
    ss_admin_request request;
} ss_admin_entry;

void ss_admin_init(ss_admin *admin) {
    *admin = (ss_admin){.fd = -1};
    pthread_mutex_init(&admin->lock, NULL);
}

ss_status ss_admin_open(ss_admin *admin) {
    admin->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return admin->fd < 0 ? SS_ERR_IO : SS_OK;
}

void ss_admin_release(ss_admin *admin) {
    for (ss_admin_entry *entry; (entry = admin->first);) {
        admin->first = entry->next;
        free(entry);
    }
    if (admin->fd >= 0) {
        close(admin->fd);
    }
    pthread_mutex_destroy(&admin->lock);
}

uint64_t ss_admin_push(ss_admin *admin, uint32_t loop_index, ss_admin_request *request) {
    ss_admin_entry *entry = calloc(1, sizeof *entry);
    if (!entry) {
        return 0;
    }
    pthread_mutex_lock(&admin->lock);
    request->token = ++admin->last_token << SS_ADMIN_LOOP_BITS | loop_index;
    entry->request = *request;
    *(admin->last ? &admin->last->next : &admin->first) = entry;
    admin->last = entry;
    pthread_mutex_unlock(&admin->lock);
    uint64_t one = 1;
    (void)!write(admin->fd, &one, sizeof one);
    return request->token;
}

bool ss_admin_pop(ss_admin *admin, ss_admin_request *request) {
    pthread_mutex_lock(&admin->lock);
    ss_admin_entry *entry = admin->first;
    if (entry) {
        admin->first = entry->next;
    }
    if (!admin->first) {
        admin->last = NULL;
        uint64_t count;
        (void)!read(admin->fd, &count, sizeof count); /* a push after this makes fd readable again */
    }
    pthread_mutex_unlock(&admin->lock);
    if (!entry) {
        return false;
    }
    *request = entry->request;
    free(entry);
    return true;
}
