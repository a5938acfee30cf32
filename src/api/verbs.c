/*
 * The public functions for callers that use verbs directly: registration, and
 * the keys of blocks and buffers.
 */
#include <ucxpool/verbs.h>

#include "base/error.h"
#include "base/math.h"
#include "core/domains.h"
#include "core/pool.h"

ucxpool_status_t ucxpool_verbs_register(ucxpool_t *pool, struct ibv_pd *pd,
                                        int access, ucxpool_verbs_t **verbs_p)
{
    if (base_missing(pool)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    if ((pd == NULL) || (verbs_p == NULL)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM, "%s is NULL",
                          (pd == NULL) ? "the protection domain" : "verbs_p");
    }
    return core_domain_get(pool, pd, access, verbs_p);
}

ucxpool_status_t ucxpool_verbs_deregister(ucxpool_verbs_t *verbs)
{
    return (verbs == NULL) ? UCXPOOL_OK : core_domain_put(verbs);
}

/* Find an address in the regions: in a block, or in a buffer made of blocks.
 * Returns false if the address is in neither. */
static bool locate(ucxpool_t *pool, const void *address, size_t length,
                   mem_piece_t *piece_p)
{
    const mem_regions_t *regions = &pool->memory.regions;
    size_t offset = (uintptr_t)address - (uintptr_t)regions->address;
    block_comm_buffer_t *ignored;

    if (offset < regions->num_regions * regions->region_size) {
        piece_p->region = (uint32_t)(offset / regions->region_size);
        piece_p->offset = offset % regions->region_size;
        piece_p->length =
            base_min(regions->region_size - piece_p->offset, length);
        return true;
    }
    return block_comm_find(pool->memory.comm, address, length, piece_p,
                           &ignored);
}

ucxpool_status_t ucxpool_verbs_keys(const ucxpool_verbs_t *verbs,
                                    const void *address, size_t length,
                                    ucxpool_verbs_piece_t *piece_p)
{
    ucxpool_t  *pool;
    mem_piece_t where;
    uint32_t    lkey;
    uint32_t    rkey;

    if (base_missing(verbs) || base_missing(piece_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    pool = verbs->pool;
    if ((length == 0) || !locate(pool, address, length, &where)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%zu bytes at %p are not in a block or buffer of the "
                          "pool: only these have keys",
                          length, address);
    }
    if (!mem_verbs_keys(verbs->registration, where.region, &lkey, &rkey)) {
        return base_error(UCXPOOL_ERR_CLOSED,
                          "region %u is deregistered: register again",
                          where.region);
    }
    piece_p->address =
        (uintptr_t)pool->memory.regions.regions[where.region].address +
        where.offset;
    piece_p->length = where.length;
    piece_p->lkey   = lkey;
    piece_p->rkey   = rkey;
    return UCXPOOL_OK;
}
