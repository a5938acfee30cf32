/*
 * The heap allocates memory of any size for purposes other than communication.
 *
 *     The heap consists of physical allocations, called chunks. The chunks are
 *     adjacent in one reserved address range, called the home:
 *
 *       home      | chunk 0 | chunk 1 | chunk 2 | chunk 3 | chunk 4 | ...
 *                   live      free      live      free      live
 *
 *     If no free range is long enough, scattered free chunks are mapped a
 *     second time, at contiguous addresses. The result is a stitched range:
 *
 *       stitched  | chunk 1 | chunk 3 |
 *
 * Fragmentation therefore rarely makes an allocation fail: the heap can combine
 * any chunks that are completely free. Chunks are large (HEAP_CHUNK) for large
 * allocations and 2 MiB otherwise. Free space smaller than a chunk is used for
 * smaller allocations. The addresses of an allocation are contiguous and never
 * change.
 *
 * The heap of a pool is in host memory, or in the memory of the pool's GPU. The
 * heap and the blocks do not share memory, but both count against MEMORY_LIMIT.
 * There is one exception: if the heap is on a GPU and the blocks are in pinned
 * host memory, the blocks do not count. With COMM_SIZE=0 the pool has no
 * blocks, and the heap can use the whole limit. Such a pool cannot have
 * channels or listeners (UCXPOOL_ERR_UNSUPPORTED). The heap starts empty and
 * grows on demand.
 *
 * Streams. The functions that allocate and free take a stream: a CUstream (or
 * cudaStream_t); NULL is the legacy default stream. Work in the stream that was
 * passed to an allocation may use the memory at once, even if earlier work in
 * this stream still uses it for a previous allocation. Before work in another
 * stream may use the memory, the caller must make that stream wait for the
 * stream of the allocation. When memory is freed in a stream, work in this
 * stream may still be using it. The heap gives such memory to another stream
 * only after this work has ended, or makes the other stream wait for it. In a
 * heap of host memory a stream is only a label, and freed memory can be reused
 * at once.
 *
 * CUDA graphs. Before capturing a graph, allocate the memory that the graph
 * uses. Free this memory only after the last launch of the graph. The heap
 * tracks work with events that it records in streams, so it does not detect the
 * launches of a graph.
 *
 * CU_STREAM_PER_THREAD names a different stream in each thread and is rejected.
 * Call ucxpool_heap_stream_end() before destroying a stream, because a new
 * stream may get the same handle.
 *
 * Threads. All functions may be called from any thread. Threads that use
 * different streams rarely contend for a lock.
 *
 * Registration. Heap memory is not registered with UCX. It is sent and received
 * like any other memory that is not registered (transfer.h).
 */
#ifndef UCXPOOL_HEAP_H
#define UCXPOOL_HEAP_H

#include <ucxpool/pool.h>
#include <ucxpool/stats.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/*
 * Allocate memory.
 *
 * size            Bytes, 1 or more; rounded up to HEAP_ALIGNMENT.
 * stream          The stream that will use the memory first.
 * address_p [out] First byte, a multiple of HEAP_ALIGNMENT. Unchanged after an
 *                 error. The contents are undefined.
 *
 * UCXPOOL_ERR_INVALID_PARAM  size is 0; or stream is CU_STREAM_PER_THREAD
 * UCXPOOL_ERR_NO_MEMORY      too little memory; the detail gives the sizes of
 *                            the live and the free memory, and the
 *                            fragmentation of the free memory. The heap is
 *                            unchanged
 * UCXPOOL_ERR_UNSUPPORTED    the GPU has no virtual memory management
 * UCXPOOL_ERR_IO             any other failure of the driver or the system
 */
ucxpool_status_t ucxpool_heap_alloc(ucxpool_t *pool, size_t size, void *stream,
                                    void **address_p);

/*
 * Free memory. Other streams can reuse it only after the work that is now in
 * this stream has completed.
 *
 * address  From ucxpool_heap_alloc(); NULL is allowed.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the address is not the first byte of a live
 *                            allocation: the memory was already freed, the
 *                            address is inside an allocation, or the memory is
 *                            not from this heap. The heap is unchanged
 */
ucxpool_status_t ucxpool_heap_free(ucxpool_t *pool, void *address,
                                   void *stream);

/*
 * Get the usable size of an allocation in bytes: the requested size, rounded
 * up.
 *
 * UCXPOOL_ERR_INVALID_PARAM  as for ucxpool_heap_free(), or address is NULL
 */
ucxpool_status_t ucxpool_heap_usable_size(ucxpool_t *pool, const void *address,
                                          size_t *size_p);

/*
 * Forget a stream that the caller is about to destroy. Like
 * cuStreamSynchronize(), waits for the work in the stream, with no timeout.
 * Memory that was freed in the stream can then be reused. Meanwhile other
 * threads wait if they need the heap's lock. If the work has ended
 * (cuStreamQuery()), the function does not wait. The heap does not use the
 * stream afterwards. Memory that was allocated for the stream remains valid;
 * free it in another stream. If the caller passes the same handle later, the
 * heap treats it as a new stream.
 *
 * UCXPOOL_ERR_IO  the driver failed; the stream is not forgotten
 */
ucxpool_status_t ucxpool_heap_stream_end(ucxpool_t *pool, void *stream);

/* A physically contiguous piece of a heap range. */
typedef struct ucxpool_heap_segment {
    void    *address; /* home address, which never changes for a chunk */
    size_t   length;  /* bytes */
    void    *chunk;   /* home address of the whole physical allocation */
    size_t   chunk_size;
    uint64_t reserved[2];
} ucxpool_heap_segment_t;

/*
 * Get the physically contiguous pieces of a range, in address order. Their
 * total length is the length of the range. Some interfaces do not accept a
 * range that spans several physical allocations. Pass the pieces to such an
 * interface one at a time.
 *
 * address           An address in a live allocation.
 * length            Bytes; the range must be within the allocation.
 * segments [out]    Array of max_segments; as many as fit are written. May be
 *                   NULL if max_segments is 0.
 * num_segments_p [out] Number of pieces of the range. It may exceed
 *                   max_segments.
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
 * Grow the heap to `size` bytes now, so that later allocations do not have to
 * grow it. A program that knows how much memory it needs should call this
 * function at startup. Later allocations then rarely wait for the driver. One
 * exception remains: a small allocation may need a large chunk to be split,
 * which takes about 1 ms.
 *
 * UCXPOOL_ERR_INVALID_PARAM  size is more than MEMORY_LIMIT leaves for the heap
 * UCXPOOL_ERR_NO_MEMORY      too little memory; the heap keeps the memory that
 *                            it has allocated
 * UCXPOOL_ERR_UNSUPPORTED, UCXPOOL_ERR_IO  as for ucxpool_heap_alloc()
 */
ucxpool_status_t ucxpool_heap_reserve(ucxpool_t *pool, size_t size);

/*
 * Return free chunks to the system or the driver, until the heap holds at most
 * keep_size bytes, or no chunk is completely free. If the heap holds more than
 * keep_size bytes, this function waits for the work in all streams in which
 * memory was freed. This wait has no timeout. Meanwhile other threads wait if
 * they need the heap's lock.
 *
 * released_p [out]  Bytes that were returned. May be NULL.
 *
 * UCXPOOL_ERR_IO  the driver failed; *released_p is the number of bytes that
 *                 were returned before the failure
 */
ucxpool_status_t ucxpool_heap_trim(ucxpool_t *pool, size_t keep_size,
                                   size_t *released_p);

/*
 * Called with no lock held when an allocation of `size` bytes is about to fail.
 * The handler may free memory of this heap or of other heaps, but must not
 * allocate from this heap. If the handler returns a value other than 0, the
 * allocation is retried, and if that also fails, the handler is called again.
 * The handler must therefore return 0 eventually.
 */
typedef int (*ucxpool_heap_failure_handler_t)(void *arg, ucxpool_t *pool,
                                              size_t size, void *stream);

/*
 * Set the handler for failed allocations. NULL removes the handler. A new heap
 * has no handler.
 *
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_UNSUPPORTED  there is no heap, and none
 *                                                 can be created
 */
ucxpool_status_t ucxpool_heap_set_failure_handler(
    ucxpool_t *pool, ucxpool_heap_failure_handler_t handler, void *arg);

/*
 * Return the heap's statistics as a string, in the formats of
 * ucxpool_stats_string(), with two more numbers: heap_fragmentation and
 * heap_fragmentation_stitched (stats.h). Text and JSON also have the
 * allocations and free ranges by size. The text also lists every range of the
 * home.
 *
 * format  An unknown format is treated as UCXPOOL_STATS_TEXT.
 *
 * Returns the text, which the caller must release with ucxpool_string_free().
 * Returns NULL if pool is NULL or memory ran out; ucxpool_error_detail() has
 * the cause.
 */
char *ucxpool_heap_string(ucxpool_t *pool, ucxpool_stats_format_t format);

/* Print the text of ucxpool_heap_string() to a stream. */
void ucxpool_heap_print(ucxpool_t *pool, FILE *stream,
                        ucxpool_stats_format_t format);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
