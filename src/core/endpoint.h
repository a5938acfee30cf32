/*
 * Endpoints: UCX's connection to one peer, for one channel at a time.
 *
 *     open -> draining -> flushing -> closing -> closed
 *
 * UCX ends an operation early only by the forced close of its endpoint. That is
 * for endpoints that have failed, or whose peer does not progress; the others
 * are kept (remote.h) until the pool goes. So a close waits until nothing is in
 * flight, then until UCX has flushed the endpoint, both until a deadline.
 */
#ifndef CORE_ENDPOINT_H
#define CORE_ENDPOINT_H

#include "core/pool.h"

typedef enum core_endpoint_step {
    CORE_ENDPOINT_OPEN,
    CORE_ENDPOINT_DRAINING, /* operations are in flight */
    CORE_ENDPOINT_FLUSHING,
    CORE_ENDPOINT_CLOSING,
    CORE_ENDPOINT_CLOSED
} core_endpoint_step_t;

typedef struct core_endpoint {
    base_list_t          link;      /* the pool's endpoints */
    base_list_t          idle_link; /* no channel uses it: remote.h */
    ucxpool_t           *pool;
    ucp_ep_h             ep;
    bool                 is_own;      /* made here; else the caller's */
    bool                 is_cloexec;  /* its connection is closed on exec */
    bool                 is_sure;     /* idle, and its other end stands */
    bool                 is_prepared; /* idle, and was not used yet */
    bool                 has_failed;  /* told by UCX or the caller; atomic */
    core_endpoint_step_t step;
    unsigned             num_operations; /* that UCX will call back */
    uint64_t             deadline;       /* of the close */
    void                *flush;          /* UCX's request; NULL: none */
} core_endpoint_t;

/*
 * Make an endpoint with failure handling to UCX's worker of that address.
 *
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO, UCXPOOL_ERR_PEER_LOST
 */
ucxpool_status_t core_endpoint_create(ucxpool_t *pool, const void *worker,
                                      core_endpoint_t **endpoint_p);

/* An endpoint is needed: log what may keep UCX from connecting. */
void core_endpoint_warn(void);

/* An endpoint of the caller's. NULL: no memory. */
core_endpoint_t *core_endpoint_borrow(ucxpool_t *pool, ucp_ep_h ep);

/* Close on exec what UCX has opened for it by now, soon. */
void core_endpoint_close_on_exec(core_endpoint_t *endpoint);

/* It has failed; from any thread. */
void core_endpoint_set_failed(core_endpoint_t *endpoint);
bool core_endpoint_has_failed(const core_endpoint_t *endpoint);

/* An operation of UCX that will call back; core_channel_end_operation() ends
 * it. */
void core_endpoint_start(core_endpoint_t *endpoint);

/*
 * Begin to close it; core_endpoint_progress() does the rest. From the deadline
 * on it is closed by force, whatever is in flight. Again: an earlier deadline
 * counts.
 */
void core_endpoint_close(core_endpoint_t *endpoint, uint64_t deadline);

/* The steps of a close that can be done now. */
unsigned core_endpoint_progress(core_endpoint_t *endpoint);

/* When it wants to be looked at though nothing happens. */
uint64_t core_endpoint_deadline(const core_endpoint_t *endpoint);

/* Closed, and no operation is left: it may be destroyed. */
bool core_endpoint_is_over(const core_endpoint_t *endpoint);

void core_endpoint_destroy(core_endpoint_t *endpoint);

#endif
