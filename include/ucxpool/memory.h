/*
 * Registered memory, to be used directly.
 *
 * A block is a piece of BLOCK_SIZE bytes of one region; a region is one
 * physical allocation, mapped once and registered once for the life of the
 * pool:
 *
 *     region 0                        region 1
 *     +-------+-------+-------+      +-------+-------+-------+
 *     | block | block | block | .... | block | block | block |
 *     +-------+-------+-------+      +-------+-------+-------+
 *     one memfd, one ucp_mem_h       another, another
 *
 * Blocks are shared out once, at create: SEND_SHARE percent for packing what
 * is sent, RECV_SHARE percent for what arrives, the rest for the caller. Only
 * that rest is handed out here, so that a caller can never starve a transfer.
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

/* One block, for callers that speak UCX by themselves. */
typedef struct ucxpool_block {
    void *address;          /* first byte, aligned to the page; on a GPU: as
                               the GPU knows it */
    size_t          size;   /* bytes: BLOCK_SIZE */
    struct ucp_mem *memh;   /* registration of the region it lies in; NULL
                               on a GPU that this UCX does not know */
    uint32_t region;        /* index of that region */
    uint32_t index;         /* index of the block in the pool */
    size_t   region_offset; /* offset of address in the region */
    uint64_t reserved[2];
} ucxpool_block_t;

/*
 * Take one block. No system call, no allocation, no lock.
 *
 * UCXPOOL_ERR_NO_BLOCKS  all of the caller's share are taken; *block_p is
 *                        untouched
 */
ucxpool_status_t ucxpool_block_get(ucxpool_t *pool, ucxpool_block_t *block_p);

/*
 * Take num_blocks blocks (1 or more), or none.
 *
 * blocks [out]  Array of num_blocks.
 *
 * UCXPOOL_ERR_NO_BLOCKS  fewer are free now; blocks is untouched
 */
ucxpool_status_t ucxpool_block_get_n(ucxpool_t *pool, size_t num_blocks,
                                     ucxpool_block_t *blocks);

/* Give a block back to the pool that it was taken from. The caller must have
 * ended what reads or writes it. A block of another pool, or one that was given
 * back before, is left alone; the log and ucxpool_error_detail() say so. */
void ucxpool_block_put(ucxpool_t *pool, const ucxpool_block_t *block);

/*
 * Allocate a buffer made of registered blocks: contiguous addresses, sent and
 * received in place, without a copy into blocks. Its blocks may be scattered;
 * it is sent as one operation per physical piece.
 *
 * length         Bytes, 1 or more; rounded up to whole blocks.
 * address_p [out] First byte, aligned to the page.
 *
 * UCXPOOL_ERR_INVALID_PARAM  length is 0
 * UCXPOOL_ERR_NO_BLOCKS      more than is left of the caller's share; or on a
 *                            GPU with CUDA_BACKING=alloc, where blocks cannot
 *                            be mapped a second time, no run of free blocks
 * UCXPOOL_ERR_NO_MEMORY      no addresses could be reserved
 */
ucxpool_status_t ucxpool_comm_alloc(ucxpool_t *pool, size_t length,
                                    void **address_p);

/*
 * Give such a buffer back. NULL is allowed. Blocks that an ended request left
 * in doubt (a peer may still read them) go to quarantine first; the address is
 * invalid at once.
 */
void ucxpool_comm_free(ucxpool_t *pool, void *address);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
