#include "ucx/claim.h"

#include "base/error.h"
#include "base/lock.h"

/* The claims of all pools: the worker of two pools is one of the process. */
static base_lock_t lock;
static base_list_t claims = {&claims, &claims};

static bool overlap(const ucx_claim_t *a, const ucx_claim_t *b)
{
    return (a->worker == b->worker) && (a->first < b->first + b->count) &&
           (b->first < a->first + a->count);
}

static const ucx_claim_t *find_other(const ucx_claim_t *claim)
{
    const ucx_claim_t *other;

    base_list_for_each(other, &claims, ucx_claim_t, link) {
        if (overlap(claim, other)) {
            return other;
        }
    }
    return NULL;
}

ucxpool_status_t ucx_claim_take(ucx_claim_t *claim)
{
    ucxpool_status_t   status = UCXPOOL_OK;
    const ucx_claim_t *other;

    base_lock_take(&lock);
    other = find_other(claim);
    if (other == NULL) {
        base_list_add_tail(&claims, &claim->link);
    } else {
        status = base_error(UCXPOOL_ERR_INVALID_PARAM,
                            "the pool '%s' has the active-message ids %u to %u "
                            "of this worker; choose others for '%s' by "
                            "UCXPOOL_AM_ID, or give it another worker",
                            other->name, other->first,
                            other->first + other->count - 1, claim->name);
    }
    base_lock_give(&lock);
    return status;
}

void ucx_claim_release(ucx_claim_t *claim)
{
    base_lock_take(&lock);
    base_list_del(&claim->link);
    base_lock_give(&lock);
}
