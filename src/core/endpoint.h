/*
 * An endpoint is UCX's connection to one peer. Only one channel at a time uses
 * an endpoint.
 *
 *     open -> draining -> flushing -> closing -> closed
 *
 * UCX aborts an operation only when its endpoint is closed by force. An
 * endpoint that has failed is closed by force at once. Any other close first
 * waits until no operation is in flight, and then until UCX has flushed the
 * endpoint. These waits end at a deadline, because the peer may make no
 * progress. Then the endpoint is closed by force in every case. Endpoints that
 * have not failed are kept (remote.h) until the pool is destroyed. An endpoint
 * of the caller is never closed.
 */
#ifndef CORE_ENDPOINT_H
#define CORE_ENDPOINT_H

#include "core/pool.h"

typedef enum core_endpoint_step {
    CORE_ENDPOINT_OPEN,
    CORE_ENDPOINT_DRAINING, /* until no operation is in flight */
    CORE_ENDPOINT_FLUSHING,
    CORE_ENDPOINT_CLOSING,
    CORE_ENDPOINT_CLOSED
} core_endpoint_step_t;

typedef struct core_endpoint {
    base_list_t          link;      /* in pool->channels.endpoints */
    base_list_t          idle_link; /* in the peer's list `idle`: remote.h */
    ucxpool_t           *pool;
    ucp_ep_h             ep;
    bool                 is_own; /* created by the pool, not by the caller */
    bool                 is_cloexec;  /* its connection is closed on exec */
    bool                 is_sure;     /* idle, and its other end exists */
    bool                 is_prepared; /* idle, and not used yet */
    ucs_status_t         failure;     /* reported by UCX, or UCS_OK; atomic */
    core_endpoint_step_t step;
    unsigned             num_operations; /* operations that will call back */
    uint64_t             deadline;       /* deadline of the close; see
                                            core_endpoint_close() */
    void *flush;                         /* UCX's request; NULL: none */
} core_endpoint_t;

/*
 * Create an endpoint with error handling to the UCX worker with this address.
 *
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO, UCXPOOL_ERR_PEER_LOST
 */
ucxpool_status_t core_endpoint_create(ucxpool_t *pool, const void *worker,
                                      core_endpoint_t **endpoint_p);

/* Returns UCXPOOL_ERR_UNSUPPORTED if an attempt to restart UCX has failed, so
 * that no endpoint can be created. */
ucxpool_status_t core_endpoint_check(const ucxpool_t *pool);

/* Use the caller's endpoint. Returns NULL if out of memory. */
core_endpoint_t *core_endpoint_borrow(ucxpool_t *pool, ucp_ep_h ep);

/* Soon after this call, set close-on-exec for the descriptors that UCX has
 * opened for the endpoint. */
void core_endpoint_close_on_exec(core_endpoint_t *endpoint);

/* Returns the failure that UCX has reported, or UCS_OK. May be called from any
 * thread. */
ucs_status_t core_endpoint_failure(const core_endpoint_t *endpoint);

bool core_endpoint_has_failed(const core_endpoint_t *endpoint);

/* Count the start or the end of a UCX operation that has a callback.
 * core_endpoint_end() must be the last call in the callback, because the pool
 * may no longer exist afterwards. */
void core_endpoint_start(core_endpoint_t *endpoint);
void core_endpoint_end(core_endpoint_t *endpoint);

/*
 * Start to close the endpoint; core_endpoint_progress() does the rest. At the
 * deadline the endpoint is closed by force, even with operations in flight. May
 * be called again with an earlier deadline.
 */
void core_endpoint_close(core_endpoint_t *endpoint, uint64_t deadline);

/* Do the steps of a close that are possible now. */
unsigned core_endpoint_progress(core_endpoint_t *endpoint);

/* Returns true if the endpoint is closed and has no operations, so that it may
 * be destroyed. */
bool core_endpoint_is_over(const core_endpoint_t *endpoint);

void core_endpoint_destroy(core_endpoint_t *endpoint);

#endif
