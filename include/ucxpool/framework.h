/*
 * Functions that let PyTorch, CuPy, RMM and Numba allocate from a pool's heap
 * (heap.h). All these frameworks then share one pool and its free memory. The
 * Python package in python/ installs the allocators with one line of code.
 * docs/guide/frameworks.md has the details for Python and C++. The functions
 * are in a separate library, libucxpool-framework (pkg-config
 * ucxpool-framework), which uses libucxpool.
 *
 *     PyTorch   CuPy   RMM   Numba        allocate by device and stream
 *        \       |      |      /
 *         pool of device 0, of device 1, ...   each created on first use
 *
 * Pools. Each device has one pool for all frameworks.
 * ucxpool_framework_set_pool() sets this pool. Otherwise a pool is created on
 * first use, configured from the environment variables UCXPOOL_*. If the
 * environment sets none of COMM_SIZE, BLOCK_SIZE and REGION_SIZE, COMM_SIZE is
 * 8m, because such a pool sends little data. If the environment does not set
 * HEAP_ALIGNMENT, it is 512, because PyTorch and CuPy rely on this alignment. A
 * pool created on first use is never destroyed, because frameworks free memory
 * until the process exits. Devices are numbered as the CUDA driver numbers them
 * in this process.
 *
 * An allocation of size 0 returns NULL. This is not an error, and NULL may be
 * freed.
 *
 * Errors. A function that cannot allocate returns NULL, or throws if its
 * description below says so. ucxpool_error_detail() in the same thread then
 * returns the reason. The first failure is logged as a warning. Later failures
 * are logged at level debug, because frameworks free their caches and retry.
 *
 * Streams. A stream is a CUstream or cudaStream_t; 0 and 1 both name the legacy
 * default stream. Memory is freed in stream order, see heap.h.
 *
 * Threads. All functions may be called from any thread.
 *
 * Fork. A child process has no pools. If a child frees the parent's memory,
 * this has no effect. As always with CUDA, the child cannot use a GPU that the
 * parent has used.
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

/* Pass this instead of a device number for host memory, which needs no GPU. */
#define UCXPOOL_FRAMEWORK_HOST (-1)

/* Devices are numbered from 0 to this number minus 1. */
#define UCXPOOL_FRAMEWORK_MAX_DEVICES 64

/*
 * Get the pool of a device. Creates the pool if the device has none. The caller
 * may use the pool but must not destroy it.
 *
 * device      A GPU, or UCXPOOL_FRAMEWORK_HOST.
 * pool_p [out] The pool; unchanged on error.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such device, or an invalid setting in the
 *                            environment
 * others                     as for ucxpool_create()
 */
ucxpool_status_t ucxpool_framework_pool(int device, ucxpool_t **pool_p);

/*
 * Make the frameworks allocate from a pool that the caller has created. The
 * pool must have been created for this device. The pool must live until all
 * memory from it has been freed. To destroy the pool before the process exits,
 * call this function with NULL first.
 *
 * pool  NULL: remove the device's pool. The next use then creates a pool from
 *       the environment variables.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such device
 * UCXPOOL_ERR_BUSY           the device already has another pool, which may be
 *                            in use. If that pool is not in use, call this
 *                            function with NULL first
 */
ucxpool_status_t ucxpool_framework_set_pool(int device, ucxpool_t *pool);

/*
 * Allocate for PyTorch. Pass this function to a
 * torch.cuda.memory.CUDAPluggableAllocator that serves a MemPool.
 *
 * size    Bytes. If 0, the function returns NULL.
 * device  As numbered by PyTorch.
 *
 * Returns memory for that stream, or NULL. If NULL is returned, PyTorch frees
 * its cached memory and retries. If the retry also fails, PyTorch raises
 * torch.OutOfMemoryError.
 */
void *ucxpool_torch_alloc(ssize_t size, int device, void *stream);

/*
 * Allocate as ucxpool_torch_alloc() does, for an allocator that replaces
 * PyTorch's own. PyTorch does not check the result of such an allocator for
 * NULL, so this function throws instead. Python code sees a RuntimeError with
 * "CUDA out of memory" and the detail. C++ programs without libc10 see
 * std::bad_alloc. Do not call this function from C: in a process without a C++
 * library it returns NULL.
 */
void *ucxpool_torch_alloc_or_throw(ssize_t size, int device, void *stream);

/*
 * Free memory from ucxpool_torch_alloc() or ucxpool_torch_alloc_or_throw().
 * NULL is allowed. ucxpool_torch_record_stream() may have recorded other
 * streams for the memory. The memory is reused only after the work that is now
 * in this stream, and in all recorded streams, has completed.
 */
void ucxpool_torch_free(void *address, ssize_t size, int device, void *stream);

/*
 * Record that work in this stream also uses the memory. PyTorch calls this
 * function for Tensor.record_stream().
 *
 * address  From one of the allocating functions; other addresses are ignored.
 */
void ucxpool_torch_record_stream(void *address, void *stream);

/*
 * Return free memory of all devices to the driver. PyTorch calls this function
 * for torch.cuda.empty_cache(). Like PyTorch's own allocator, the function
 * waits, with no timeout, for the work in streams in which memory was freed.
 */
void ucxpool_torch_empty_cache(void);

/*
 * Reject the capture of a CUDA graph. PyTorch calls this function if it is set
 * as one of the hooks for a capture. A graph needs memory that is not reused
 * between replays. This allocator does not provide such memory. Throws like
 * ucxpool_torch_alloc_or_throw(). Ignores the hook's arguments.
 */
void ucxpool_torch_refuse_graph(void);

/*
 * Allocate and free for CuPy's cupy.cuda.memory.CFunctionAllocator. CuPy does
 * not pass the stream to these functions, nor the size to ucxpool_cupy_free().
 * The functions therefore get the stream from the allocator's parameter, which
 * CuPy passes as stream_p:
 *
 * stream_p  Address of a variable of type void * that holds the stream. The
 *           functions read it at each call, so its value may change. The
 *           variable must live as long as the memory. NULL: the legacy default
 *           stream.
 *
 * ucxpool_cupy_malloc() returns NULL if it cannot allocate. CuPy does not check
 * for NULL, so code that calls CuPy's allocator must check.
 */
void *ucxpool_cupy_malloc(void *stream_p, size_t size, int device);
void  ucxpool_cupy_free(void *stream_p, void *address, int device);

/*
 * Allocate and free for an rmm::mr::callback_memory_resource. RMM passes a
 * stream in a C++ wrapper, so its callbacks must unwrap the stream. For RMM
 * 26.10 and later, ucxpool/rmm.hpp has a resource that needs no callbacks.
 *
 * pool  The pool, which the resource passes as the argument of the callbacks.
 *       NULL: the pool of device 0.
 *
 * ucxpool_rmm_alloc() throws std::bad_alloc if it cannot allocate. Do not call
 * it from C: in a process without a C++ library it returns NULL.
 */
void *ucxpool_rmm_alloc(size_t size, void *stream, void *pool);
void  ucxpool_rmm_free(void *address, size_t size, void *stream, void *pool);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
