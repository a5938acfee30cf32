/*
 * The heap as an allocator for PyTorch, CuPy, RMM and Numba: functions with the
 * signatures that these libraries call, so that all of them share one pool and
 * its free memory. The Python package in python/ installs them in one line;
 * docs/guide/frameworks.md has the details, also for C++. The functions are in
 * a separate library, libucxpool-framework (pkg-config ucxpool-framework),
 * which uses libucxpool.
 *
 *     PyTorch   CuPy   RMM   Numba        allocate by device and stream
 *        \       |      |      /
 *         pool of device 0, of device 1, ...   one each, created on first use
 *
 * Pools. Each device has one pool for all frameworks: the pool that was set by
 * ucxpool_framework_set_pool(), or one that is created on first use with the
 * settings of the environment (UCXPOOL_*). If the environment sets none of
 * COMM_SIZE, BLOCK_SIZE and REGION_SIZE, COMM_SIZE is 8m, because little is
 * sent. If it does not set HEAP_ALIGNMENT, that is 512, which PyTorch and CuPy
 * rely on. Such a pool is never destroyed, because frameworks free memory until
 * the process exits. Devices are numbered as the CUDA driver numbers them in
 * this process.
 *
 * An allocation of size 0 returns NULL. This is not an error, and NULL may be
 * freed.
 *
 * Errors. A function that cannot allocate returns NULL, or throws if its name
 * says so. ucxpool_error_detail() in the same thread then has the reason. The
 * first failure is logged as a warning and later ones at level debug, because a
 * framework frees its caches and retries.
 *
 * Streams are CUstream, or cudaStream_t; 0 and 1 both name the legacy default
 * stream. Memory is freed in stream order, see heap.h.
 *
 * Threads. All functions may be called from any thread.
 *
 * Fork. A child has no pools. Freeing memory of the parent in a child is
 * ignored. As always with CUDA, the child cannot use a GPU that the parent has
 * used.
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

/* Use instead of a device number: host memory, which needs no GPU. */
#define UCXPOOL_FRAMEWORK_HOST (-1)

/* Devices are numbered from 0 to this number minus 1. */
#define UCXPOOL_FRAMEWORK_MAX_DEVICES 64

/*
 * Get the pool of a device, and create it if there is none. The caller may use
 * the pool but must not destroy it.
 *
 * device      A GPU, or UCXPOOL_FRAMEWORK_HOST.
 * pool_p [out] Unchanged after an error.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such device, or an invalid setting in the
 *                            environment
 * others                     as for ucxpool_create()
 */
ucxpool_status_t ucxpool_framework_pool(int device, ucxpool_t **pool_p);

/*
 * Let the frameworks allocate from a pool of the caller, created for that
 * device. The pool must live until all memory from it has been freed. To
 * destroy it before the process exits, set NULL first.
 *
 * pool  NULL: the device has no pool, as at the start.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such device
 * UCXPOOL_ERR_BUSY           the device has another pool, which may be in use.
 *                            If it is not, set NULL first
 */
ucxpool_status_t ucxpool_framework_set_pool(int device, ucxpool_t *pool);

/*
 * PyTorch: for torch.cuda.memory.CUDAPluggableAllocator, under a MemPool.
 *
 * size    Bytes; 0 returns NULL.
 * device  As numbered by PyTorch.
 *
 * Returns memory for that stream, or NULL. After NULL, PyTorch frees its cached
 * memory, retries, and raises torch.OutOfMemoryError.
 */
void *ucxpool_torch_alloc(ssize_t size, int device, void *stream);

/*
 * As ucxpool_torch_alloc(), for an allocator that replaces PyTorch's own.
 * PyTorch does not check for NULL there, so this throws. Python code sees a
 * RuntimeError with "CUDA out of memory" and the detail. C++ programs without
 * libc10 see std::bad_alloc. Not for C: in a process without a C++ library this
 * returns NULL.
 */
void *ucxpool_torch_alloc_or_throw(ssize_t size, int device, void *stream);

/*
 * Free memory from either function; NULL is allowed. The memory can be reused
 * after the work that is now in the stream, and in the streams that
 * ucxpool_torch_record_stream() has named.
 */
void ucxpool_torch_free(void *address, ssize_t size, int device, void *stream);

/*
 * Tensor.record_stream(): work in this stream also uses the memory.
 *
 * address  From one of the allocating functions; other addresses are ignored.
 */
void ucxpool_torch_record_stream(void *address, void *stream);

/*
 * torch.cuda.empty_cache(): return free memory of all devices to the driver.
 * Waits for work in streams in which memory was freed.
 */
void ucxpool_torch_empty_cache(void);

/*
 * For PyTorch's hooks that capture CUDA graphs. A graph needs memory that stays
 * in place between replays, which this allocator does not support. Throws as
 * ucxpool_torch_alloc_or_throw() does. Ignores the hook's arguments.
 */
void ucxpool_torch_refuse_graph(void);

/*
 * CuPy: for cupy.cuda.memory.CFunctionAllocator, which passes neither the
 * stream nor, when it frees, the size. Its parameter, which these functions
 * receive as stream_p, therefore gives the stream:
 *
 * stream_p  Address of a variable of type void * that holds the stream. It is
 *           read at each call, so that the stream may change. The variable must
 *           live as long as the memory. NULL: the legacy default stream.
 *
 * Returns NULL if it cannot allocate. CuPy does not check for NULL: its caller
 * must.
 */
void *ucxpool_cupy_malloc(void *stream_p, size_t size, int device);
void  ucxpool_cupy_free(void *stream_p, void *address, int device);

/*
 * RMM: for rmm::mr::callback_memory_resource, which wraps the stream.
 *
 * pool  The pool, given to the resource as the callbacks' argument; NULL: the
 *       pool of device 0.
 *
 * Throws std::bad_alloc if it cannot allocate. Not for C: in a process without
 * a C++ library this returns NULL.
 */
void *ucxpool_rmm_alloc(size_t size, void *stream, void *pool);
void  ucxpool_rmm_free(void *address, size_t size, void *stream, void *pool);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
