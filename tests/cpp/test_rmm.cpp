/*
 * RMM's resource on the heap (ucxpool/rmm.hpp), by itself and under RMM's
 * adaptors; on a real GPU also RMM's buffers in several streams. Not part of
 * the build, since it needs the headers of RMM and CUDA;
 * tests/make_rmm_plugins.sh compiles it. With UCXPOOL_CUDA_DRIVER, that driver
 * is a stand-in: only the tests that do not need CUDA's runtime library run.
 * Exit status 77: no GPU.
 */
#include <ucxpool/framework.h>
#include <ucxpool/rmm.hpp>

#include <rmm/cuda_stream.hpp>
#include <rmm/device_buffer.hpp>
#include <rmm/mr/callback_memory_resource.hpp>
#include <rmm/mr/failure_callback_resource_adaptor.hpp>
#include <rmm/mr/limiting_resource_adaptor.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#include <rmm/resource_ref.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <list>
#include <random>
#include <string>
#include <vector>

#include <dlfcn.h>

using ucxpool::heap_resource;

#define REQUIRE(_what) \
    do { \
        if (!(_what)) { \
            std::printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #_what); \
            std::exit(1); \
        } \
    } while (0)

static constexpr std::size_t MIB   = 1 << 20;
static constexpr std::size_t ALIGN = rmm::CUDA_ALLOCATION_ALIGNMENT;
static ucxpool_t            *pool;

static const cuda::stream_ref default_stream{cudaStream_t{}};

static std::uint64_t stat(const char *name)
{
    std::uint64_t value = 0;

    REQUIRE(ucxpool_stats_get(pool, name, &value) == UCXPOOL_OK);
    return value;
}

/* Returns what an allocation throws: "out of memory: ..." or "failed: ...". */
template <typename Resource>
static std::string error_of(Resource resource, cuda::stream_ref stream,
                            std::size_t bytes, std::size_t alignment = ALIGN)
{
    try {
        (void)resource.allocate(stream, bytes, alignment);
    } catch (const rmm::out_of_memory &error) {
        return std::string("out of memory: ") + error.what();
    } catch (const rmm::bad_alloc &error) {
        return std::string("failed: ") + error.what();
    }
    return "it did not throw";
}

static bool has(const std::string &text, const char *part)
{
    return text.find(part) != std::string::npos;
}

/* Make GPU 0 current, as a program of RMM does. The stand-in only has the
 * driver's functions. */
static void use_gpu(bool is_stand_in)
{
    if (!is_stand_in) {
        REQUIRE(cudaSetDevice(0) == cudaSuccess);
        return;
    }

    void     *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUcontext context;

    REQUIRE(driver != nullptr);
    auto retain = reinterpret_cast<decltype(&cuDevicePrimaryCtxRetain)>(
        dlsym(driver, "cuDevicePrimaryCtxRetain"));
    auto set = reinterpret_cast<decltype(&cuCtxSetCurrent)>(
        dlsym(driver, "cuCtxSetCurrent"));
    REQUIRE(retain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(set(context) == CUDA_SUCCESS);
}

/* --- by itself ------------------------------------------------------------ */

static void a_resource_needs_a_pool_on_a_gpu()
{
    ucxpool_t *host = nullptr;
    int        num  = 0;

    REQUIRE(ucxpool_framework_pool(UCXPOOL_FRAMEWORK_HOST, &host) ==
            UCXPOOL_OK);
    for (ucxpool_t *wrong : {host, (ucxpool_t *)nullptr}) {
        try {
            heap_resource resource(wrong);
        } catch (const rmm::invalid_argument &) {
            num++;
        }
    }
    REQUIRE(num == 2);
}

static void memory_comes_from_the_heap()
{
    heap_resource                  resource(pool);
    rmm::device_async_resource_ref ref(resource);
    std::size_t                    usable = 0;
    void *address = ref.allocate(default_stream, 1000, ALIGN);

    REQUIRE(ucxpool_heap_usable_size(pool, address, &usable) == UCXPOOL_OK);
    REQUIRE(usable >= 1000 && stat("heap_num_live") == 1);
    REQUIRE((std::uintptr_t)address % ALIGN == 0);
    ref.deallocate(default_stream, address, 1000, ALIGN);
    REQUIRE(stat("heap_num_live") == 0);
    REQUIRE(resource.allocate(default_stream, 0) == nullptr);
    resource.deallocate(default_stream, nullptr, 0);
}

/* For versions of RMM before 26.10, docs/guide/frameworks.md has this code. */
static void callbacks_allocate_from_the_heap()
{
    rmm::mr::callback_memory_resource heap{
        [](std::size_t size, cuda::stream_ref stream, void *arg) {
            return ucxpool_rmm_alloc(size, stream.get(), arg);
        },
        [](void *address, std::size_t size, cuda::stream_ref stream,
           void *arg) { ucxpool_rmm_free(address, size, stream.get(), arg); },
        pool, pool};
    void *address = heap.allocate(default_stream, 1000, ALIGN);

    REQUIRE(address != nullptr && stat("heap_num_live") == 1);
    heap.deallocate(default_stream, address, 1000, ALIGN);
    REQUIRE(stat("heap_num_live") == 0);
}

static void copies_are_equal_and_free_each_others_memory()
{
    heap_resource                                       one(pool);
    cuda::mr::any_resource<cuda::mr::device_accessible> any(one);
    cuda::mr::any_resource<cuda::mr::device_accessible> copy = any;
    void *address = any.allocate(default_stream, MIB, ALIGN);

    REQUIRE(one == heap_resource(pool) && !(one != heap_resource(pool)));
    REQUIRE(any == copy);
    copy.deallocate(default_stream, address, MIB, ALIGN);
    REQUIRE(stat("heap_num_live") == 0);
}

static void errors_have_their_type_and_detail()
{
    heap_resource    resource(pool);
    cuda::stream_ref per_thread{cudaStreamPerThread};

    REQUIRE(has(error_of(resource, default_stream, std::size_t(1) << 46),
                "out of memory: "));
    REQUIRE(has(error_of(resource, per_thread, 1),
                "failed: std::bad_alloc: CU_STREAM_PER_THREAD"));

    /* One of two addresses that are 256 bytes apart is not a multiple of 512.
     */
    void       *address = resource.allocate(default_stream, 256);
    std::string errors  = error_of(resource, default_stream, 256, 64 * MIB);

    REQUIRE(has(errors, "failed: std::bad_alloc: the alignment"));
    REQUIRE(stat("heap_num_live") == 1);
    resource.deallocate(default_stream, address, 256);
}

static void memory_is_allocated_without_a_stream()
{
    heap_resource            resource(pool);
    rmm::device_resource_ref ref(resource);
    void                    *address = ref.allocate_sync(MIB, ALIGN);

    REQUIRE(stat("heap_num_live") == 1);
    ref.deallocate_sync(address, MIB, ALIGN);
    REQUIRE(stat("heap_num_live") == 0);
}

/* --- under RMM's adaptors ------------------------------------------------- */

static void adaptors_use_the_resource()
{
    heap_resource                        resource(pool);
    rmm::mr::statistics_resource_adaptor counting(resource);
    rmm::mr::limiting_resource_adaptor   limiting(resource, 4 * MIB);
    void *address = counting.allocate(default_stream, MIB, ALIGN);

    REQUIRE(counting.get_bytes_counter().value == (std::int64_t)MIB);
    counting.deallocate(default_stream, address, MIB, ALIGN);
    REQUIRE(counting.get_bytes_counter().value == 0);
    address = limiting.allocate(default_stream, 3 * MIB, ALIGN);
    REQUIRE(has(error_of(limiting, default_stream, 2 * MIB), "out of memory"));
    limiting.deallocate(default_stream, address, 3 * MIB, ALIGN);
}

/* The heap is full until the callback frees this. */
static void *ballast;

static bool free_ballast(std::size_t, void *resource)
{
    if (ballast == nullptr) {
        return false;
    }
    static_cast<heap_resource *>(resource)->deallocate(default_stream, ballast,
                                                       1);
    ballast = nullptr;
    return true;
}

static void the_failure_callback_runs_when_memory_is_out()
{
    heap_resource                                resource(pool);
    rmm::mr::failure_callback_resource_adaptor<> retrying(
        resource, free_ballast, &resource);
    std::size_t half = stat("heap_limit_bytes") / 2 + MIB;

    ballast       = resource.allocate(default_stream, half, ALIGN);
    void *address = retrying.allocate(default_stream, half, ALIGN);

    REQUIRE(ballast == nullptr);
    retrying.deallocate(default_stream, address, half, ALIGN);
    REQUIRE(has(error_of(retrying, default_stream, std::size_t(1) << 46),
                "out of memory: "));
}

static void the_resource_serves_a_device()
{
    const rmm::cuda_device_id device{0};

    rmm::mr::set_per_device_resource(device, heap_resource(pool));

    rmm::device_async_resource_ref ref =
        rmm::mr::get_per_device_resource_ref(device);
    void *address = ref.allocate(default_stream, MIB, ALIGN);

    REQUIRE(stat("heap_num_live") == 1);
    ref.deallocate(default_stream, address, MIB, ALIGN);
    rmm::mr::reset_per_device_resource(device);
}

/* --- on a GPU ------------------------------------------------------------- */

struct filled {
    rmm::device_buffer buffer;
    unsigned char      value;
};

/* Fill buffers in several streams, and check each before it is freed: memory
 * that is freed in one stream is not reused too early in another. */
static void buffers_keep_their_bytes_in_all_streams()
{
    std::vector<rmm::cuda_stream> streams(4);
    std::list<filled>             live;
    std::mt19937                  random(7);
    const std::size_t sizes[] = {1, 1000, 100000, 3 * MIB, 20 * MIB};

    rmm::mr::set_current_device_resource(heap_resource(pool));
    for (int round = 0; round < 3000; round++) {
        auto &stream = streams[random() % streams.size()];

        live.push_back({rmm::device_buffer(sizes[random() % 5], stream),
                        (unsigned char)round});
        REQUIRE(cudaMemsetAsync(live.back().buffer.data(), live.back().value,
                                live.back().buffer.size(),
                                stream.value()) == cudaSuccess);
        if (live.size() > 20) {
            filled                    &oldest = live.front();
            std::vector<unsigned char> bytes(oldest.buffer.size());
            cudaStream_t               used = oldest.buffer.stream().get();

            REQUIRE(cudaMemcpyAsync(bytes.data(), oldest.buffer.data(),
                                    bytes.size(), cudaMemcpyDeviceToHost,
                                    used) == cudaSuccess);
            REQUIRE(cudaStreamSynchronize(used) == cudaSuccess);
            REQUIRE(bytes ==
                    std::vector<unsigned char>(bytes.size(), oldest.value));
            live.pop_front();
        }
    }
    live.clear();
    REQUIRE(stat("heap_num_live") == 0);
    for (rmm::cuda_stream &stream : streams) {
        REQUIRE(ucxpool_heap_stream_end(pool, stream.value()) == UCXPOOL_OK);
    }
    rmm::mr::reset_current_device_resource();
}

static void buffers_copy_and_grow()
{
    std::vector<char>  bytes(5 * MIB, 'a'), got(bytes.size());
    rmm::cuda_stream   stream;
    heap_resource      resource(pool);
    rmm::device_buffer buffer(bytes.data(), bytes.size(), stream, resource);

    buffer.resize(10 * MIB, stream);
    REQUIRE(cudaMemcpyAsync(got.data(), buffer.data(), got.size(),
                            cudaMemcpyDeviceToHost,
                            stream.value()) == cudaSuccess);
    stream.synchronize();
    REQUIRE(got == bytes);
    buffer = rmm::device_buffer(0, stream, resource);
    REQUIRE(ucxpool_heap_stream_end(pool, stream.value()) == UCXPOOL_OK);
}

/* -------------------------------------------------------------------------- */

#define RUN(_test) \
    do { \
        std::printf("%s\n", #_test); \
        std::fflush(stdout); \
        _test(); \
        REQUIRE(stat("heap_num_live") == 0); \
    } while (0)

int main()
{
    const bool is_stand_in = std::getenv("UCXPOOL_CUDA_DRIVER") != nullptr;

    setenv("UCXPOOL_MEMORY_LIMIT", is_stand_in ? "256m" : "1g", 0);
    if (ucxpool_framework_pool(0, &pool) != UCXPOOL_OK) {
        std::printf("no pool on a GPU: %s\n", ucxpool_error_detail());
        return 77;
    }
    use_gpu(is_stand_in);
    RUN(a_resource_needs_a_pool_on_a_gpu);
    RUN(memory_comes_from_the_heap);
    RUN(callbacks_allocate_from_the_heap);
    RUN(copies_are_equal_and_free_each_others_memory);
    RUN(errors_have_their_type_and_detail);
    RUN(memory_is_allocated_without_a_stream);
    RUN(adaptors_use_the_resource);
    RUN(the_failure_callback_runs_when_memory_is_out);
    RUN(the_resource_serves_a_device);
    if (!is_stand_in) {
        RUN(buffers_keep_their_bytes_in_all_streams);
        RUN(buffers_copy_and_grow);
    }
    std::printf("ok\n");
    return 0;
}
