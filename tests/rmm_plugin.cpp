/*
 * RMM's pool resource, or with -DRMM_PLUGIN_ARENA its arena resource, as a
 * plug-in of ucxpool_replay: its functions are documented in
 * man/ucxpool_replay.1. Not part of the build, since it needs the headers of
 * RMM and CUDA; tests/make_rmm_plugins.sh compiles it.
 *
 * Memory comes from cudaMalloc(), as in RMM's own benchmark. The resource
 * allocates all of it on creation: the whole capacity, or without one half of
 * the free memory.
 */
#include <rmm/cuda_device.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>

#include <cuda_runtime_api.h>
#include <sys/types.h>

#ifdef RMM_PLUGIN_ARENA
using resource_t = rmm::mr::arena_memory_resource;
#else
using resource_t = rmm::mr::pool_memory_resource;
#endif

/* RMM's CUDA_ALLOCATION_ALIGNMENT. */
static constexpr std::size_t alignment = 256;

/* Without a capacity: percent of the free memory. */
static constexpr int half = 50;

static std::optional<resource_t> resource;
static std::size_t               pool_size;

static void tell(const char *call, const char *why)
{
    std::fprintf(stderr, "rmm_plugin: %s: %s\n", call, why);
}

extern "C" {

int plugin_init(int device, std::size_t capacity)
{
    try {
        RMM_CUDA_TRY(cudaSetDevice(device));
        pool_size =
            capacity != 0 ? capacity : rmm::percent_of_free_device_memory(half);
        rmm::mr::cuda_memory_resource upstream;
#ifdef RMM_PLUGIN_ARENA
        resource.emplace(upstream, pool_size);
#else
        resource.emplace(upstream, pool_size, pool_size);
#endif
        return 0;
    } catch (const std::exception &error) {
        tell("plugin_init", error.what());
        return -1;
    }
}

void plugin_end(void)
{
    resource.reset();
}

void *plugin_alloc(ssize_t size, int, cudaStream_t stream)
{
    try {
        return resource->allocate(cuda::stream_ref{stream},
                                  static_cast<std::size_t>(size), alignment);
    } catch (const std::bad_alloc &) {
        return nullptr;
    } catch (const std::exception &error) {
        tell("plugin_alloc", error.what());
        return nullptr;
    }
}

void plugin_free(void *address, ssize_t size, int, cudaStream_t stream)
{
    resource->deallocate(cuda::stream_ref{stream}, address,
                         static_cast<std::size_t>(size), alignment);
}

/* The resource allocated everything at the start. */
std::size_t plugin_reserved(void)
{
    return pool_size;
}

} /* extern "C" */
