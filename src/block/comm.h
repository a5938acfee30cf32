/*
 * Communication buffers: contiguous addresses made of the user share's blocks.
 *
 * A run of free blocks side by side is given out under its own address;
 * scattered blocks are stitched: mapped a second time at fresh addresses.
 * Either way the bytes lie in registered regions, and comm_find() tells where.
 *
 *     region:    | a0 | a1 | b1 |    | b0 | b2 |    a: a run, its own address
 *     stitched:  | b0 | b1 | b2 |                   b: a second mapping
 *
 * A buffer is `busy` while operations on it are in flight. One that is freed
 * while busy has its blocks quarantined until it is not.
 *
 * Threads. Every function may be called from any thread at any time, under one
 * rule for the owner of a buffer: it is not freed while another thread posts
 * it, that is between the find and the hold, nor used after the free. The lock
 * of alloc and free is never taken by find, hold, and drop (but for the drop
 * that ends a freed buffer).
 */
#ifndef BLOCK_COMM_H
#define BLOCK_COMM_H

#include "block/pool.h"

typedef struct block_comm        block_comm_t;
typedef struct block_comm_buffer block_comm_buffer_t;

/*
 * UCXPOOL_ERR_NO_MEMORY  nothing is left behind
 */
ucxpool_status_t block_comm_create(block_pool_t *pool, block_comm_t **comm_p);
/* Frees what is still allocated, busy or not: no operation may be in flight
 * any more. NULL is allowed. */
void block_comm_destroy(block_comm_t *comm);

/*
 * length  Bytes, rounded up to whole blocks.
 *
 * UCXPOOL_ERR_INVALID_PARAM  length is 0
 * UCXPOOL_ERR_NO_BLOCKS      more than is free in the user's share; or there
 *                            is no run, and blocks smaller than a (huge) page
 *                            cannot be stitched
 * UCXPOOL_ERR_NO_MEMORY      no memory to describe it, or no addresses
 */
ucxpool_status_t block_comm_alloc(block_comm_t *comm, size_t length,
                                  void **address_p);

/*
 * NULL is allowed. The address is invalid at once; the blocks are free when
 * nothing is in flight on them any more, and quarantined until then.
 *
 * UCXPOOL_ERR_INVALID_PARAM  address is not the start of a buffer
 */
ucxpool_status_t block_comm_free(block_comm_t *comm, void *address);

/*
 * Where the bytes from `address` on lie: the longest physically contiguous
 * piece that starts there, at most `length` bytes. False when address is in no
 * buffer. Adjacent blocks of one region are one piece. Cheap when there are no
 * buffers, and when the answer is the same buffer as the last.
 */
bool block_comm_find(block_comm_t *comm, const void *address, size_t length,
                     mem_piece_t *piece_p, block_comm_buffer_t **buffer_p);

/* Is there such a block, and does it belong to a buffer that is not freed? */
bool block_comm_has_block(const block_comm_t *comm, uint32_t index);

/* One more, one fewer operation in flight on the buffer. */
void block_comm_hold(block_comm_buffer_t *buffer);
void block_comm_drop(block_comm_t *comm, block_comm_buffer_t *buffer);

#endif
