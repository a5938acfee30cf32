/*
 * A pool's UCX context and worker: its own, or borrowed ones.
 */
#ifndef UCX_CONTEXT_H
#define UCX_CONTEXT_H

#include "base/list.h"
#include "ucx/tune.h"

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

/*
 * Which active-message ids of a borrowed worker a pool has. UCX replaces the
 * handler of an id that is set a second time, without a word, and the first
 * pool's messages go to the second. So every pool of the process says which ids
 * it takes of which worker, before it sets handlers.
 */
typedef struct ucx_claim {
    base_list_t  link;
    ucp_worker_h worker;
    unsigned     first; /* id */
    unsigned     count;
    const char  *name; /* of the pool; lives as long as the claim */
} ucx_claim_t;

/*
 * Take the ids for claim->name. What the claim says is filled in by the caller,
 * and the claim belongs to the register until it is released.
 *
 * UCXPOOL_ERR_INVALID_PARAM  another pool has one of these ids of this worker
 */
ucxpool_status_t ucx_claim_take(ucx_claim_t *claim);

/* One that was not taken, with an initialized link, too. */
void ucx_claim_release(ucx_claim_t *claim);

/*
 * UCX before 1.14 aborts the process where its answer to a peer's request to
 * connect is still queued when the worker is destroyed, or when the peer dies.
 */
bool ucx_asserts_on_answers(void);

typedef struct ucx_context {
    ucp_context_h context;
    ucp_worker_h  worker;
    bool          own_context;
    bool          own_worker;
    bool          worker_stays; /* it cannot be destroyed */
    bool          is_lost;      /* it cannot be used: core/network.h */
    ucx_claim_t   claim;        /* of a borrowed worker's ids */
    char          devices[UCX_DEVICES_SIZE]; /* that it was limited to here; "":
                                                it was not */
} ucx_context_t;

typedef struct ucx_context_params {
    ucp_context_h context;  /* borrowed; NULL: one is made */
    ucp_worker_h  worker;   /* likewise */
    bool          for_gpu;  /* the pool's blocks will be memory of a GPU */
    bool          has_rdma; /* the machine has a card for it */
    uint64_t      peer_timeout_ns;
    const char   *devices; /* as ucx_tune_devices() */
} ucx_context_params_t;

/* Comes before the pool's memory, which is registered with the context. */
ucxpool_status_t ucx_context_init(ucx_context_t              *ucx,
                                  const ucx_context_params_t *params);

/* Let an own worker say what it has to say, before it is destroyed. Blocks for
 * a moment at most. */
void ucx_context_settle_worker(ucx_context_t *ucx);

/* UCX may end operations only when its worker goes (1.22 does), and then calls
 * back: whatever they belong to must still be there. name: the pool's. */
void ucx_context_destroy_worker(ucx_context_t *ucx, const char *name);

void ucx_context_cleanup(ucx_context_t *ucx);

#endif
