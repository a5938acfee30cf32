/*
 * Communication buffers: contiguous addresses made of the user share's blocks.
 *
 * A run of free blocks side by side is given out under its own address;
 * scattered blocks are stitched: mapped a second time at fresh addresses.
 * Either way the bytes lie in registered regions, and comm_find() tells where.
 *
 * A buffer is `busy` while operations on it are in flight. One that is freed
 * while busy has its blocks quarantined until it is not.
 */
#ifndef BLOCK_COMM_H
#define BLOCK_COMM_H

#include "block/pool.h"

typedef struct block_comm        block_comm_t;
typedef struct block_comm_buffer block_comm_buffer_t;

ucxpool_status_t block_comm_create(block_pool_t *pool, block_comm_t **comm_p);
/* Frees what is still allocated. */
void             block_comm_destroy(block_comm_t *comm);

ucxpool_status_t block_comm_alloc(block_comm_t *comm, size_t length,
                                  void **address_p);
/* UCXPOOL_ERR_INVALID_PARAM: address is not the start of a buffer. */
ucxpool_status_t block_comm_free(block_comm_t *comm, void *address);

/*
 * Where the bytes from `address` on lie: the longest physically contiguous
 * piece that starts there, at most `length` bytes. False when address is in no
 * buffer. Adjacent blocks of one region are one piece. Cheap when there are no
 * buffers, and when the answer is the same buffer as the last.
 */
bool block_comm_find(block_comm_t *comm, const void *address, size_t length,
                     mem_piece_t *piece_p, block_comm_buffer_t **buffer_p);

/* One more, one fewer operation in flight on the buffer. */
void block_comm_hold(block_comm_buffer_t *buffer);
void block_comm_drop(block_comm_t *comm, block_comm_buffer_t *buffer);

#endif
