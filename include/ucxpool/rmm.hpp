/*
 * A memory resource for RMM 26.10 and later. With it, RMM, cuDF and other
 * programs that accept a cuda::mr resource allocate from a pool's heap
 * (heap.h).
 *
 *     ucxpool_t *pool;
 *     ucxpool_framework_pool(0, &pool);
 *     rmm::mr::set_current_device_resource(ucxpool::heap_resource(pool));
 *
 * Needs RMM's headers and library, CUDA's headers, and libucxpool. A resource
 * can be copied, because its only state is the pool. The pool must live until
 * all memory has been freed. The pool returned by ucxpool_framework_pool(), a
 * function of libucxpool-framework, lives until the process exits.
 *
 * docs/guide/frameworks.md compares this class with the callbacks of
 * framework.h for older versions of RMM.
 */
#ifndef UCXPOOL_RMM_HPP
#define UCXPOOL_RMM_HPP

#include <ucxpool/heap.h>

#include <rmm/aligned.hpp>
#include <rmm/error.hpp>
#include <rmm/version_config.hpp>

#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include <cstddef>
#include <cstdint>

#if RMM_VERSION_MAJOR * 100 + RMM_VERSION_MINOR < 2610
#error "ucxpool/rmm.hpp needs RMM 26.10 or later; see ucxpool/framework.h"
#endif

#pragma GCC visibility push(default)

namespace ucxpool
{

/*
 * Allocates memory on the pool's GPU in stream order, following the rules in
 * heap.h. Before the program destroys a stream, it must pass the stream to
 * ucxpool_heap_stream_end(). The default stream of each thread
 * (cudaStreamPerThread) is rejected.
 */
class heap_resource
{
public:
    /* Throws rmm::invalid_argument if the pool is not on a GPU. */
    explicit heap_resource(ucxpool_t *pool) : pool_(pool)
    {
        ucxpool_attr_t attr;

        ucxpool_query(pool, &attr, sizeof(attr));
        if (pool == nullptr || attr.memory_kind != UCXPOOL_MEMORY_CUDA) {
            throw rmm::invalid_argument(
                "the resource needs a pool of UCXPOOL_MEMORY_CUDA");
        }
    }

    /*
     * Returns memory that work in the stream may use, or nullptr for 0 bytes.
     * Throws rmm::out_of_memory if the heap has too little memory. After other
     * errors it throws rmm::bad_alloc. Both contain the error detail. An
     * allocation with an alignment greater than HEAP_ALIGNMENT may fail.
     */
    [[nodiscard]] void *
    allocate(cuda::stream_ref stream, std::size_t bytes,
             std::size_t alignment = rmm::CUDA_ALLOCATION_ALIGNMENT)
    {
        void            *address = nullptr;
        ucxpool_status_t status;

        if (bytes == 0) {
            return nullptr;
        }
        status = ucxpool_heap_alloc(pool_, bytes, stream.get(), &address);
        if (status == UCXPOOL_ERR_NO_MEMORY) {
            throw rmm::out_of_memory(ucxpool_error_detail());
        }
        if (status != UCXPOOL_OK) {
            throw rmm::bad_alloc(ucxpool_error_detail());
        }
        if (reinterpret_cast<std::uintptr_t>(address) % alignment != 0) {
            (void)ucxpool_heap_free(pool_, address, stream.get());
            throw rmm::bad_alloc(
                "the alignment exceeds UCXPOOL_HEAP_ALIGNMENT");
        }
        return address;
    }

    /*
     * Free memory. Other streams reuse it only after the work that is now in
     * this stream has completed. Errors are logged.
     */
    void deallocate(cuda::stream_ref stream, void *address, std::size_t,
                    std::size_t = rmm::CUDA_ALLOCATION_ALIGNMENT) noexcept
    {
        (void)ucxpool_heap_free(pool_, address, stream.get());
    }

    /*
     * Returns memory that work in any stream may use. The function waits for
     * the default stream, so the pool's GPU must be the current device.
     */
    [[nodiscard]] void *
    allocate_sync(std::size_t bytes,
                  std::size_t alignment = rmm::CUDA_ALLOCATION_ALIGNMENT)
    {
        const cuda::stream_ref stream{cudaStream_t{}};
        void                  *address = allocate(stream, bytes, alignment);

        try {
            stream.sync();
        } catch (...) {
            deallocate(stream, address, bytes, alignment);
            throw;
        }
        return address;
    }

    /* Free memory that no stream uses. */
    void deallocate_sync(
        void *address, std::size_t bytes,
        std::size_t alignment = rmm::CUDA_ALLOCATION_ALIGNMENT) noexcept
    {
        deallocate(cuda::stream_ref{cudaStream_t{}}, address, bytes, alignment);
    }

    ucxpool_t *pool() const noexcept { return pool_; }

    /* Resources of one pool can free each other's memory. */
    friend bool operator==(const heap_resource &a,
                           const heap_resource &b) noexcept
    {
        return a.pool_ == b.pool_;
    }

    friend bool operator!=(const heap_resource &a,
                           const heap_resource &b) noexcept
    {
        return a.pool_ != b.pool_;
    }

    friend constexpr void get_property(const heap_resource &,
                                       cuda::mr::device_accessible) noexcept
    {
    }

private:
    ucxpool_t *pool_;
};

static_assert(
    cuda::mr::resource_with<heap_resource, cuda::mr::device_accessible>);

} /* namespace ucxpool */

#pragma GCC visibility pop

#endif
