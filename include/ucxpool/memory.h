/*
 * Registered memory that the caller can use directly.
 *
 * A block is a piece of BLOCK_SIZE bytes of one region. A region is one
 * physical allocation, mapped once and registered once for the life of the
 * pool:
 *
 *     region 0                        region 1
 *     +-------+-------+-------+      +-------+-------+-------+
 *     | block | block | block | .... | block | block | block |
 *     +-------+-------+-------+      +-------+-------+-------+
 *     one memfd, one ucp_mem_h       one memfd, one ucp_mem_h
 *
 * ucxpool_create() divides the blocks once: SEND_SHARE percent for packing
 * messages to send, RECV_SHARE percent for arriving data, and the rest for the
 * caller. The functions below take blocks only from the caller's share. So a
 * caller cannot exhaust the blocks that transfers need.
 */
#ifndef UCXPOOL_MEMORY_H
#define UCXPOOL_MEMORY_H

#include <ucxpool/pool.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct ucp_mem;

/* One block, for callers that use UCX directly. */
typedef struct ucxpool_block {
    void *address;          /* first byte, page-aligned; on a GPU: a device
                               address */
    size_t          size;   /* bytes: BLOCK_SIZE */
    struct ucp_mem *memh;   /* registration of its region; NULL on a GPU that
                               this UCX does not support */
    uint32_t region;        /* index of that region */
    uint32_t index;         /* index of the block in the pool */
    size_t   region_offset; /* offset of address in the region */
    uint64_t reserved[2];
} ucxpool_block_t;

/*
 * Take one block from the caller's share. Makes no system call, allocates no
 * memory and takes no lock.
 *
 * UCXPOOL_ERR_NO_BLOCKS  all blocks of the caller's share are taken; *block_p
 *                        is unchanged
 */
ucxpool_status_t ucxpool_block_get(ucxpool_t *pool, ucxpool_block_t *block_p);

/*
 * Take num_blocks blocks (1 or more), or none if too few are free.
 *
 * blocks [out]  Array of num_blocks blocks.
 *
 * UCXPOOL_ERR_NO_BLOCKS  fewer than num_blocks blocks are free; blocks is
 *                        unchanged
 */
ucxpool_status_t ucxpool_block_get_n(ucxpool_t *pool, size_t num_blocks,
                                     ucxpool_block_t *blocks);

/* Return a block to its pool. The caller must first complete all operations
 * that read or write it. A block of another pool, or a block that is already in
 * the pool, is ignored; the log and ucxpool_error_detail() report it. */
void ucxpool_block_put(ucxpool_t *pool, const ucxpool_block_t *block);

/*
 * Allocate a buffer that consists of registered blocks and has contiguous
 * addresses. Data in the buffer is sent and received in place, unless it is
 * short (INPLACE_MIN). The blocks may be scattered. Each physically contiguous
 * piece is sent as one operation.
 *
 * length         Bytes, 1 or more; rounded up to whole blocks.
 * address_p [out] First byte, page-aligned.
 *
 * UCXPOOL_ERR_INVALID_PARAM  length is 0
 * UCXPOOL_ERR_NO_BLOCKS      too few blocks of the caller's share are free. On
 *                            a GPU with CUDA_BACKING=alloc, the free blocks
 *                            must also be contiguous, because such blocks
 *                            cannot be mapped a second time
 * UCXPOOL_ERR_NO_MEMORY      no address range could be reserved
 */
ucxpool_status_t ucxpool_comm_alloc(ucxpool_t *pool, size_t length,
                                    void **address_p);

/*
 * Free a buffer from ucxpool_comm_alloc(). NULL is allowed. The address becomes
 * invalid at once. If a peer may still read blocks of the buffer, for example
 * after a canceled send, these blocks are quarantined: they stay unavailable
 * until the peer can no longer read them.
 */
void ucxpool_comm_free(ucxpool_t *pool, void *address);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
