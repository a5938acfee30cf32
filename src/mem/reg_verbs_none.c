/* For builds without libibverbs: registration always fails. */
#include "base/error.h"
#include "mem/reg_verbs.h"

ucxpool_status_t mem_verbs_create(const mem_regions_t *regions,
                                  struct ibv_pd *pd, int access,
                                  mem_verbs_counts_t *counts,
                                  mem_verbs_t       **verbs_p)
{
    return base_error(UCXPOOL_ERR_UNSUPPORTED,
                      "libucxpool was built without verbs: rebuild it with the "
                      "headers of libibverbs (libibverbs-dev) and without "
                      "--without-verbs");
}

ucxpool_status_t mem_verbs_deregister(mem_verbs_t *verbs)
{
    return UCXPOOL_OK;
}

void mem_verbs_destroy(mem_verbs_t *verbs)
{
}

bool mem_verbs_keys(const mem_verbs_t *verbs, uint32_t region, uint32_t *lkey_p,
                    uint32_t *rkey_p)
{
    return false;
}
