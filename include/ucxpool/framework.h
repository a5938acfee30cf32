/*
 * The heap as the allocator of array libraries: functions of the shapes that
 * PyTorch, CuPy, RMM and Numba call, so that one pool holds what they all
 * allocate, and fragmentation no longer matters. In Python the package in
 * python/ passes them on in one line; docs/guide/frameworks.md describes that
 * and the use from C++. They are in a separate library, libucxpool-framework
 * (pkg-config ucxpool-framework), which calls libucxpool.
 *
 *     PyTorch   CuPy   RMM   Numba        ask by device and stream
 *        \       |      |      /
 *         pool of device 0, of device 1, ...   one each, made on first use
 *
 * Pools. Each device has one pool for all frameworks: that which was given with
 * ucxpool_framework_set_pool(), or one that is made when it is first asked for,
 * with the settings of the environment (UCXPOOL_*). Where that sets none of
 * COMM_SIZE, BLOCK_SIZE and REGION_SIZE, COMM_SIZE is 8m, as little is sent,
 * and where it does not set HEAP_ALIGNMENT, that is 512, which PyTorch and CuPy
 * count on. Such a pool is never destroyed: frameworks free memory until the
 * very end of a process. Devices are counted as the CUDA driver counts them in
 * this process.
 *
 * Size 0 gives NULL, which is no error and may be freed.
 *
 * Errors. A function that cannot allocate returns NULL, or throws where its
 * name says so. ucxpool_error_detail() of the same thread then tells why. The
 * log is told once; later failures are logged at level debug, because a
 * framework frees its caches and asks again.
 *
 * Streams are CUstream, or cudaStream_t; 0 and 1 both name the legacy default
 * stream. Memory is freed in the order of a stream, see heap.h.
 *
 * Threads. All functions may be called from any thread.
 *
 * Fork. A child has no pools: what its copies of the parent's objects free is
 * ignored. As with all of CUDA, it cannot use a GPU that the parent has used.
 */
#ifndef UCXPOOL_FRAMEWORK_H
#define UCXPOOL_FRAMEWORK_H

#include <ucxpool/pool.h>

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Instead of a device: the memory of this machine, which needs no GPU. */
#define UCXPOOL_FRAMEWORK_HOST (-1)

/* Devices are 0 to one less than this. */
#define UCXPOOL_FRAMEWORK_MAX_DEVICES 64

/*
 * The pool of a device; made where there is none. It is the caller's to use,
 * not to destroy.
 *
 * device      A GPU, or UCXPOOL_FRAMEWORK_HOST.
 * pool_p [out] Untouched after an error.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such device, or a wrong setting in the
 *                            environment
 * others                     as for ucxpool_create()
 */
ucxpool_status_t ucxpool_framework_pool(int device, ucxpool_t **pool_p);

/*
 * Let the frameworks allocate from a pool of the caller's, made for that
 * device. It must live until nobody holds or frees memory of it: to destroy it
 * before the process ends, set NULL first.
 *
 * pool  NULL: the device has no pool, as at the start.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such device
 * UCXPOOL_ERR_BUSY           it has another pool, which may be in use: set NULL
 *                            first if it is not
 */
ucxpool_status_t ucxpool_framework_set_pool(int device, ucxpool_t *pool);

/*
 * PyTorch: for torch.cuda.memory.CUDAPluggableAllocator, under a MemPool.
 *
 * size    Bytes; 0 gives NULL.
 * device  As torch counts.
 *
 * Returns memory for that stream, or NULL: then PyTorch frees what it caches,
 * asks again, and raises torch.OutOfMemoryError.
 */
void *ucxpool_torch_alloc(ssize_t size, int device, void *stream);

/*
 * The same for an allocator that replaces PyTorch's own: there nobody looks at
 * NULL, so this throws. What Python sees is a RuntimeError with "CUDA out of
 * memory" and the detail in it; other C++ programs, which have no libc10, see
 * std::bad_alloc. Not for C: where the process has no C++ library, this
 * returns NULL.
 */
void *ucxpool_torch_alloc_or_throw(ssize_t size, int device, void *stream);

/*
 * Free what either gave; NULL is allowed. Reusable after what is in the stream
 * by now, and in those that ucxpool_torch_record_stream() named.
 */
void ucxpool_torch_free(void *address, ssize_t size, int device, void *stream);

/*
 * Tensor.record_stream(): work in this stream, too, uses the memory.
 *
 * address  As one of the allocating functions gave it; others are ignored.
 */
void ucxpool_torch_record_stream(void *address, void *stream);

/*
 * torch.cuda.empty_cache(): give free memory of all devices back to the
 * driver. Waits for work in streams in which memory was freed.
 */
void ucxpool_torch_empty_cache(void);

/*
 * For what PyTorch offers and this does not: it captures CUDA graphs into
 * memory that must stay where it is between replays. Throws as
 * ucxpool_torch_alloc_or_throw() does. Its own parameters are not looked at.
 */
void ucxpool_torch_refuse_graph(void);

/*
 * CuPy: for cupy.cuda.memory.CFunctionAllocator, which tells neither the stream
 * nor, when it frees, the size. So its parameter names the stream:
 *
 * stream_p  Address of a variable of type void * that holds the stream, read at
 *           each call, so that the stream may be changed; it must live as long
 *           as memory does. NULL: the legacy default stream.
 *
 * Returns NULL where there is no memory. CuPy does not look at that: its caller
 * must.
 */
void *ucxpool_cupy_malloc(void *stream_p, size_t size, int device);
void  ucxpool_cupy_free(void *stream_p, void *address, int device);

/*
 * RMM: for rmm::mr::callback_memory_resource, which wraps the stream.
 *
 * pool  The pool, as the callbacks' argument; NULL: that of device 0.
 *
 * Throws std::bad_alloc where there is no memory. Not for C, likewise.
 */
void *ucxpool_rmm_alloc(size_t size, void *stream, void *pool);
void  ucxpool_rmm_free(void *address, size_t size, void *stream, void *pool);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
