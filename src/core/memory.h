/*
 * The memory of a pool: how much, of what kind, in which regions and blocks;
 * and on a GPU the engine that copies to it.
 */
#ifndef CORE_MEMORY_H
#define CORE_MEMORY_H

#include "core/pool.h"

/*
 * Take the memory, register it, cut it into blocks. The pool's settings and its
 * UCX context stand; sizes that are `auto` become numbers. After an error
 * nothing is left.
 *
 * As ucxpool_create().
 */
ucxpool_status_t core_memory_init(ucxpool_t              *pool,
                                  const ucxpool_params_t *params);

/* In two steps, because UCX goes between them: with blocks it has registered,
 * but no worker may use any more; then the memory itself. */
void core_memory_deregister(ucxpool_t *pool);
void core_memory_cleanup(ucxpool_t *pool);

/* Register with pool->ucx.context, and count it; as ucx_reg_regions(). */
ucxpool_status_t core_memory_register(ucxpool_t *pool, mem_regions_t *regions);

/*
 * Can the pool send and receive?
 *
 * UCXPOOL_ERR_UNSUPPORTED  no: it was made with COMM_SIZE=0
 */
ucxpool_status_t core_memory_check(const ucxpool_t *pool);

/* What UCX is given: the pool's regions, or the pinned ones beside a GPU's. */
mem_regions_t *core_memory_registered(ucxpool_t *pool);

/* Which memory the caller wants. */
ucxpool_memory_kind_t core_memory_kind(const ucxpool_params_t *params);

/* Blocks as UCX is told of them: always with their memory type and handle,
 * since its own detection is a cache with a history of mistakes. */
static inline ucs_memory_type_t core_ucx_memory_type(const block_pool_t *blocks)
{
    return mem_regions_are_on_gpu(block_pool_regions(blocks))
               ? UCS_MEMORY_TYPE_CUDA
               : UCS_MEMORY_TYPE_HOST;
}

static inline ucp_mem_h core_ucx_memh(const block_pool_t *blocks,
                                      const mem_piece_t  *where)
{
    return block_pool_regions(blocks)->regions[where->region].memh;
}

#endif
