/* A pool's UCX context and worker, created by the pool or borrowed. */
#ifndef UCX_CONTEXT_H
#define UCX_CONTEXT_H

#include "base/list.h"
#include "ucx/tune.h"

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

/*
 * The active message ids of a borrowed worker that a pool uses. If the handler
 * of an id is set twice, UCX replaces the first handler silently, and the
 * second pool receives the first pool's messages. Every pool of the process
 * therefore claims its ids of a worker before it sets handlers.
 */
typedef struct ucx_claim {
    base_list_t  link;
    ucp_worker_h worker;
    unsigned     first; /* id */
    unsigned     count;
    const char  *name; /* of the pool; must outlive the claim */
} ucx_claim_t;

/*
 * Claim the ids for claim->name. The caller fills in the claim, and must keep
 * it until it is released.
 *
 * UCXPOOL_ERR_INVALID_PARAM  another pool has claimed one of these ids of this
 *                            worker
 */
ucxpool_status_t ucx_claim_take(ucx_claim_t *claim);

/* Release a claim. A claim that was not taken is allowed if its link is
 * initialized. */
void ucx_claim_release(ucx_claim_t *claim);

/*
 * Returns true for UCX before 1.14. This UCX aborts the process if its answer
 * to a peer's connection request is still queued when the worker is destroyed
 * or when the peer dies.
 */
bool ucx_asserts_on_answers(void);

typedef struct ucx_context {
    ucp_context_h context;
    ucp_worker_h  worker;
    bool          own_context;
    bool          own_worker;
    bool          keeps_worker; /* must not be destroyed */
    bool          is_lost;      /* must not be used: see core/network.h */
    ucx_claim_t   claim;        /* of ids of a borrowed worker */
    char          devices[UCX_DEVICES_SIZE]; /* devices that the pool limited
                                              * UCX to; "": no limit */
} ucx_context_t;

typedef struct ucx_context_params {
    ucp_context_h context;  /* borrowed; NULL: create one */
    ucp_worker_h  worker;   /* borrowed; NULL: create one */
    bool          for_gpu;  /* the pool's blocks will be GPU memory */
    bool          has_rdma; /* the machine has an RDMA device */
    uint64_t      peer_timeout_ns;
    const char   *devices; /* as for ucx_tune_devices() */
} ucx_context_params_t;

/* Create or borrow the context and the worker. Call this before creating the
 * pool's memory, which is registered with the context. */
ucxpool_status_t ucx_context_init(ucx_context_t              *ucx,
                                  const ucx_context_params_t *params);

/* Let the pool's own worker send its pending answers before it is destroyed.
 * Blocks for 50 ms at most. */
void ucx_context_settle_worker(ucx_context_t *ucx);

/* Destroy the pool's own worker. UCX may complete operations only here (1.22
 * does), and then calls their callbacks. The objects that the callbacks use
 * must still exist. `name` is the pool's name. */
void ucx_context_destroy_worker(ucx_context_t *ucx, const char *name);

void ucx_context_cleanup(ucx_context_t *ucx);

#endif
