/*
 * The heap: memory of any size for everything that is not communication.
 *
 *     chunks lie side by side in one reserved range of addresses, the home:
 *
 *       home      | chunk 0 | chunk 1 | chunk 2 | chunk 3 | chunk 4 | ...
 *                   live      free      live      free      live
 *
 *     where no free range is long enough, scattered free chunks are mapped a
 *     second time, side by side: the range is stitched:
 *
 *       stitched  | chunk 1 | chunk 3 |
 *
 * So an allocation seldom fails because what is free lies in pieces: all that
 * is free in whole chunks can be used. Chunks are large ones (HEAP_CHUNK) where
 * long allocations were, and of 2 MiB elsewhere; less than one that is free
 * among live ones serves shorter allocations. The memory of an allocation does
 * not move, and its addresses are contiguous.
 *
 * The heap of a pool is host memory, or that of the pool's GPU. It never takes
 * a block, and blocks are never taken from it; both count against MEMORY_LIMIT,
 * but for blocks in pinned memory beside a heap on a GPU.
 * With COMM_SIZE=0 the pool has no blocks, so all is the heap's; channels and
 * listeners cannot be made of it (UCXPOOL_ERR_UNSUPPORTED).
 * It starts empty, and takes memory when it is needed.
 *
 * Streams. Every call names a stream, as the CUDA driver does: a CUstream (or
 * cudaStream_t); NULL is the legacy default stream. Memory that was allocated
 * for a stream may be used by work in that stream at once, though an earlier
 * owner's work in the same stream may still be running; by others after what
 * makes them wait for it. Memory freed in a stream may still be in use by work
 * that is in the stream at that moment. It is given to others when that has
 * ended, or they are made to wait for it. On the host a stream is only a name:
 * what is freed is free.
 *
 * CUDA graphs. What a graph uses is allocated before its capture begins, and
 * freed after its last launch: the heap sets events in streams, and knows of no
 * replays.
 *
 * CU_STREAM_PER_THREAD names another stream in each thread, and is refused. A
 * stream is destroyed only after ucxpool_heap_stream_end(): a new one may come
 * to have its address.
 *
 * Threads. All functions may be called from any thread. Threads with streams of
 * their own rarely meet in a lock.
 *
 * Registration. The heap is not registered with UCX; ucxpool_send_buffer()
 * takes its memory as it takes any, and packs it.
 */
#ifndef UCXPOOL_HEAP_H
#define UCXPOOL_HEAP_H

#include <ucxpool/pool.h>
#include <ucxpool/stats.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Allocate.
 *
 * size            Bytes, 1 or more; rounded up to HEAP_ALIGNMENT.
 * stream          The stream that will use it first.
 * address_p [out] First byte, a multiple of HEAP_ALIGNMENT. Untouched after an
 *                 error. What it holds is undefined.
 *
 * UCXPOOL_ERR_INVALID_PARAM  size is 0; or stream is CU_STREAM_PER_THREAD
 * UCXPOOL_ERR_NO_MEMORY      there is not so much; the detail tells how much is
 *                            live, free, and in what pieces. The heap is as it
 *                            was.
 * UCXPOOL_ERR_UNSUPPORTED    the GPU has no virtual memory
 * UCXPOOL_ERR_IO             the driver or the system failed otherwise
 */
ucxpool_status_t ucxpool_heap_alloc(ucxpool_t *pool, size_t size, void *stream,
                                    void **address_p);

/*
 * Free, after the work that is in the stream now.
 *
 * address  As ucxpool_heap_alloc() gave it; NULL is allowed.
 *
 * UCXPOOL_ERR_INVALID_PARAM  not the first byte of a live allocation: freed
 *                            twice, inside one, or of somebody else. Nothing
 *                            is changed.
 */
ucxpool_status_t ucxpool_heap_free(ucxpool_t *pool, void *address,
                                   void *stream);

/*
 * How many bytes of an allocation may be used: its size, rounded up.
 *
 * UCXPOOL_ERR_INVALID_PARAM  as for ucxpool_heap_free(), or address is NULL
 */
ucxpool_status_t ucxpool_heap_usable_size(ucxpool_t *pool, const void *address,
                                          size_t *size_p);

/*
 * Forget a stream that the caller will destroy: waits for its work, so that
 * what was freed in it is free. Nothing is set in it afterwards. What was
 * allocated for it may live on, and is freed in another stream; whoever names
 * its handle later means a new stream that has it.
 *
 * UCXPOOL_ERR_IO  the driver failed; the stream is not forgotten
 */
ucxpool_status_t ucxpool_heap_stream_end(ucxpool_t *pool, void *stream);

/* A physically contiguous piece of a range of the heap. */
typedef struct ucxpool_heap_segment {
    void  *address; /* in the home, where each chunk has one address for ever */
    size_t length;  /* bytes */
    void  *chunk;   /* first byte of the physical allocation, in the home */
    size_t chunk_size;
    uint64_t reserved[2];
} ucxpool_heap_segment_t;

/*
 * The physical pieces of a range, in its order. Together they are as long as
 * the range. A sender that hands memory to something which cannot cross the end
 * of a physical allocation sends one by one.
 *
 * address, length   Within one live allocation.
 * segments [out]    Array of max_segments; as many as fit are written. May be
 *                   NULL if that is 0.
 * num_segments_p [out] How many there are.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the range is not within one live allocation, or
 *                            is empty
 */
ucxpool_status_t ucxpool_heap_segments(ucxpool_t *pool, const void *address,
                                       size_t                  length,
                                       ucxpool_heap_segment_t *segments,
                                       size_t                  max_segments,
                                       size_t                 *num_segments_p);

/*
 * Take memory now that allocations would take later, until the heap holds
 * `size` bytes. A program that knows how much it will need does so at its
 * start, and then hardly an allocation waits for the driver (1 ms where a chunk
 * is cut for small ones).
 *
 * UCXPOOL_ERR_INVALID_PARAM  more than MEMORY_LIMIT leaves for the heap
 * UCXPOOL_ERR_NO_MEMORY      there is not so much; what there was is taken
 * UCXPOOL_ERR_UNSUPPORTED, UCXPOOL_ERR_IO  as for ucxpool_heap_alloc()
 */
ucxpool_status_t ucxpool_heap_reserve(ucxpool_t *pool, size_t size);

/*
 * Give free chunks back to the system or the driver, until the heap holds at
 * most keep_size bytes, or no chunk is wholly free. Waits for work in streams
 * in which memory was freed.
 *
 * released_p [out]  Bytes; may be NULL.
 *
 * UCXPOOL_ERR_IO  the driver failed; what was released until then is told
 */
ucxpool_status_t ucxpool_heap_trim(ucxpool_t *pool, size_t keep_size,
                                   size_t *released_p);

/*
 * Called, with no lock held, when an allocation of `size` bytes is about to
 * fail. It may free memory of this heap or of others (and allocate none of this
 * heap). Returns true to have the allocation tried again; it is called again
 * when that fails, so it must return false at last.
 */
typedef bool (*ucxpool_heap_failure_t)(void *arg, ucxpool_t *pool, size_t size,
                                       void *stream);

/*
 * Set it; NULL: none, as at the start.
 *
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_UNSUPPORTED  there is no heap, and none
 *                                                 can be made
 */
ucxpool_status_t ucxpool_heap_on_failure(ucxpool_t             *pool,
                                         ucxpool_heap_failure_t callback,
                                         void                  *arg);

/* Print the heap's statistics (stats.h), its allocations and free ranges by
 * size, and in text what each range of the home is. */
void ucxpool_heap_print(ucxpool_t *pool, FILE *stream,
                        ucxpool_stats_format_t format);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
