/*
 * Blocks as UCX is told of them: always with their memory type and handle,
 * since its own detection is a cache with a history of mistakes.
 */
#ifndef CORE_UCX_MEMORY_H
#define CORE_UCX_MEMORY_H

#include "block/pool.h"

#include <ucp/api/ucp.h>

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
