/*
 * Communication buffers: contiguous addresses, backed by the user share's
 * blocks.
 *
 * A run of adjacent free blocks is returned at its own address. Scattered
 * blocks are stitched: mapped a second time, at new contiguous addresses. In
 * both cases the bytes are in registered regions, and block_comm_find() returns
 * their position.
 *
 *     region:    | a0 | a1 | b1 |    | b0 | b2 |    a: a run, its own address
 *     stitched:  | b0 | b1 | b2 |                   b: a second mapping
 *
 * A buffer is `busy` while operations on it are in flight. If it is freed while
 * busy, its blocks are quarantined until the last operation ends.
 *
 * Any thread may call any function at any time. But the owner of a buffer must
 * not free it while another thread posts an operation on it, that is, between
 * find and hold. The owner must not use a buffer after it has freed it. Find,
 * hold and drop do not take the lock of alloc and free, except for the last
 * drop of a freed buffer.
 */
#ifndef BLOCK_COMM_H
#define BLOCK_COMM_H

#include "block/pool.h"

typedef struct block_comm        block_comm_t;
typedef struct block_comm_buffer block_comm_buffer_t;

/*
 * Create an empty set of buffers.
 *
 * UCXPOOL_ERR_NO_MEMORY  *comm_p is unchanged
 */
ucxpool_status_t block_comm_create(block_pool_t *pool, block_comm_t **comm_p);
/* Frees all buffers, even those that are held and were not dropped. No
 * operation may be in flight. NULL is allowed. */
void block_comm_destroy(block_comm_t *comm);

/*
 * Allocate a buffer of `length` bytes, rounded up to whole blocks.
 *
 * UCXPOOL_ERR_INVALID_PARAM  length is 0
 * UCXPOOL_ERR_NO_BLOCKS      the user's share has too few free blocks; or there
 *                            is no run, and the blocks are smaller than a
 *                            (huge) page and cannot be stitched
 * UCXPOOL_ERR_NO_MEMORY      no memory to describe the buffer, or no address
 *                            space
 */
ucxpool_status_t block_comm_alloc(block_comm_t *comm, size_t length,
                                  void **address_p);

/*
 * Free a buffer. NULL is allowed. The address is invalid at once. The blocks
 * are free as soon as no operation on them is in flight, and quarantined until
 * then.
 *
 * UCXPOOL_ERR_INVALID_PARAM  address is not the start of a buffer
 */
ucxpool_status_t block_comm_free(block_comm_t *comm, void *address);

/*
 * Find the longest physically contiguous piece that starts at `address`, at
 * most `length` bytes long. Adjacent blocks of one region are one piece.
 * Returns false if no buffer contains the address. The call is fast if there
 * are no buffers, or if the previous call found the same buffer.
 */
bool block_comm_find(block_comm_t *comm, const void *address, size_t length,
                     mem_piece_t *piece_p, block_comm_buffer_t **buffer_p);

/* Returns true if the block exists and belongs to a buffer that is not
 * freed. */
bool block_comm_has_block(const block_comm_t *comm, uint32_t index);

/* hold() adds an operation in flight on the buffer, and drop() removes it. */
void block_comm_hold(block_comm_buffer_t *buffer);
void block_comm_drop(block_comm_t *comm, block_comm_buffer_t *buffer);

#endif
