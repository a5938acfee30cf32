/*
 * A pool's UCX context and worker: its own, or borrowed ones.
 */
#ifndef UCX_CONTEXT_H
#define UCX_CONTEXT_H

#include "ucx/claim.h"

#include <stdbool.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

typedef struct xfer_context {
    ucp_context_h context;
    ucp_worker_h  worker;
    bool          own_context;
    bool          own_worker;
    bool          worker_stays; /* it cannot be destroyed: ucx/worker.h */
    xfer_claim_t  claim;        /* of a borrowed worker's ids */
} xfer_context_t;

typedef struct xfer_context_params {
    ucp_context_h context;  /* borrowed; NULL: one is made */
    ucp_worker_h  worker;   /* likewise */
    bool          for_gpu;  /* the pool's blocks will be memory of a GPU */
    bool          has_rdma; /* the machine has a card for it */
    uint64_t      peer_timeout_ns;
} xfer_context_params_t;

/* Comes before the pool's memory, which is registered with the context. */
ucxpool_status_t xfer_context_init(xfer_context_t              *ucx,
                                   const xfer_context_params_t *params);

/* Let an own worker say what it has to say, before it is destroyed. Blocks for
 * a moment at most. */
void xfer_context_settle_worker(xfer_context_t *ucx);

/* UCX may end operations only when its worker goes (1.22 does), and then calls
 * back: whatever they belong to must still be there. name: the pool's. */
void xfer_context_destroy_worker(xfer_context_t *ucx, const char *name);

void xfer_context_cleanup(xfer_context_t *ucx);

#endif
