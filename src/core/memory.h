/*
 * The memory of a pool: its size, kind, regions and blocks; and for a GPU, the
 * engine that copies to it.
 */
#ifndef CORE_MEMORY_H
#define CORE_MEMORY_H

#include "core/pool.h"

/*
 * Allocate the memory, register it, and divide it into blocks. The pool's
 * settings and UCX context must exist. Sizes that are `auto` are replaced by
 * numbers. After an error, nothing remains allocated.
 *
 * Same errors as ucxpool_create().
 */
ucxpool_status_t core_memory_init(ucxpool_t              *pool,
                                  const ucxpool_params_t *params);

/* Clean up in two steps, because UCX is destroyed between them. After the last
 * use by a worker, core_memory_deregister() deregisters the blocks from UCX.
 * core_memory_cleanup() frees the memory. */
void core_memory_deregister(ucxpool_t *pool);
void core_memory_cleanup(ucxpool_t *pool);

/* Register the regions with pool->ucx.context, and update the statistics. Same
 * errors as ucx_reg_regions(). */
ucxpool_status_t core_memory_register(ucxpool_t *pool, mem_regions_t *regions);

/*
 * If the pool's blocks are in GPU memory, and it has no pinned host blocks yet,
 * create them. After a failure, later calls return the same error, because each
 * try is slow.
 *
 * UCXPOOL_ERR_UNSUPPORTED  the pool was created with COMM_SIZE=0
 * others                   see mem_regions_init()
 */
ucxpool_status_t core_memory_pin(ucxpool_t *pool);

/*
 * Pin regions of peers' host memory that are mapped here, so that the pool's
 * GPU can read them. A pool pins at most half of the machine's memory in this
 * way. After an error, none of these regions is pinned.
 *
 * UCXPOOL_ERR_NO_MEMORY  the limit is reached
 * others                 see ipc_cuda_pin()
 */
ucxpool_status_t core_memory_pin_peers(ucxpool_t            *pool,
                                       const uint8_t *const *addresses,
                                       const uint64_t *sizes, unsigned num);
/* Undo core_memory_pin_peers(). No kernel may be accessing the memory. */
void core_memory_unpin_peers(ucxpool_t *pool, const uint8_t *const *addresses,
                             const uint64_t *sizes, unsigned num);

/* Returns the blocks in host memory: the pool's blocks or, if those are in GPU
 * memory, the pinned host blocks. NULL: core_memory_pin() has not created
 * them. */
block_pool_t *core_memory_host_blocks(const ucxpool_t *pool);

/*
 * Check that the pool can send and receive.
 *
 * UCXPOOL_ERR_UNSUPPORTED  the pool was created with COMM_SIZE=0
 */
ucxpool_status_t core_memory_check(const ucxpool_t *pool);

/* Returns the regions that are registered with UCX: the pool's regions, or the
 * pinned regions that a pool on a GPU has in addition. */
mem_regions_t *core_memory_registered(ucxpool_t *pool);

/* Returns the kind of memory that the caller requested. */
ucxpool_memory_kind_t core_memory_kind(const ucxpool_params_t *params);

/* The memory type and handle of blocks for UCX operations. Always pass both to
 * UCX. UCX's own detection of memory types uses a cache that has returned wrong
 * results. */
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
