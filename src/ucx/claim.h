/*
 * Which active-message ids of a borrowed worker a pool has. UCX replaces the
 * handler of an id that is set a second time, without a word, and the first
 * pool's messages go to the second. So every pool of the process says which ids
 * it takes of which worker, before it sets handlers.
 */
#ifndef UCX_CLAIM_H
#define UCX_CLAIM_H

#include "base/list.h"

#include <ucxpool/status.h>

#include <ucp/api/ucp.h>

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

#endif
