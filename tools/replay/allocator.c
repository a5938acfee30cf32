#include "replay/allocator.h"
#include "common/error.h"
#include "common/system.h"
#include "common/pool.h"

#include <ucxpool/heap.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* --- devices ------------------------------------------------------------- */

/* The other name of the default stream, from the CUDA runtime. */
#define LEGACY_STREAM 1

static bool is_host(const device_t *device)
{
    return device->ordinal == DEVICE_HOST;
}

/* Create streams for the trace. The default stream of the log stays the default
 * stream. A new stream is created for each other stream of the log. */
static int make_streams(device_t *device, const trace_t *trace)
{
    device->streams = tool_calloc(trace->num_streams, sizeof(void *));
    for (unsigned i = 0; i < trace->num_streams; i++) {
        CUstream stream = (CUstream)(((uintptr_t)i + 1) << 8);

        device->num_streams++;
        if (trace->streams[i] <= LEGACY_STREAM) {
            continue;
        }
        if (!is_host(device) && (GPU_CALL(&device->gpu, cuStreamCreate, &stream,
                                          CU_STREAM_NON_BLOCKING) != 0)) {
            return -1;
        }
        device->streams[i] = stream;
    }
    return 0;
}

int device_open(device_t *device, int ordinal, const trace_t *trace)
{
    memset(device, 0, sizeof(*device));
    device->ordinal = ordinal;
    if (!is_host(device) && (gpu_open(&device->gpu, ordinal) != 0)) {
        return -1;
    }
    if (make_streams(device, trace) != 0) {
        device_close(device);
        return -1;
    }
    return 0;
}

void device_close(device_t *device)
{
    for (unsigned i = 0; i < device->num_streams; i++) {
        if (!is_host(device) && (device->streams[i] != NULL)) {
            device->gpu.driver.cuStreamDestroy(device->streams[i]);
        }
    }
    free(device->streams);
    gpu_close(&device->gpu);
    memset(device, 0, sizeof(*device));
}

int device_settle(device_t *device)
{
    for (unsigned i = 0; !is_host(device) && (i < device->num_streams); i++) {
        if (gpu_wait(&device->gpu, device->streams[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

int device_free_bytes(device_t *device, uint64_t *bytes_p)
{
    size_t left, total;

    if (is_host(device)) {
        return meminfo_get("MemAvailable", bytes_p) == 0
                   ? 0
                   : tool_error("cannot read from /proc/meminfo how much "
                                "memory is available");
    }
    if (GPU_CALL(&device->gpu, cuMemGetInfo, &left, &total) != 0) {
        return -1;
    }
    *bytes_p = left;
    return 0;
}

/* --- the heap of a pool, which has next to no blocks ---------------------- */

/* Sizes of the pool's unused blocks. On a GPU a block is one page. */
#define HOST_COMM_SIZE  (UINT64_C(1) << 20)
#define HOST_BLOCK_SIZE "64k"
#define GPU_COMM_SIZE   (UINT64_C(8) << 20)
#define GPU_BLOCK_SIZE  "2m"
/* The smallest valid MEMORY_LIMIT. */
#define LEAST_LIMIT (UINT64_C(4) << 20)

static int pool_error(void)
{
    return tool_error("%s", ucxpool_error_detail());
}

/* Returns the size of the blocks. If the capacity is below the smallest limit,
 * blocks occupy the difference. */
static uint64_t comm_size(const device_t *device, uint64_t capacity)
{
    uint64_t size = is_host(device) ? HOST_COMM_SIZE : GPU_COMM_SIZE;

    return (capacity != 0) && (capacity + size < LEAST_LIMIT)
               ? LEAST_LIMIT - capacity
               : size;
}

/* Create the pool with the smallest size of blocks, regardless of the
 * environment. */
static int heap_init(allocator_t *allocator, uint64_t capacity)
{
    const device_t        *device = allocator->device;
    uint64_t               comm   = comm_size(device, capacity);
    char                   comm_text[32], limit_text[32];
    const setting_change_t changes[] = {
        {"BLOCK_SIZE", is_host(device) ? HOST_BLOCK_SIZE : GPU_BLOCK_SIZE},
        {"REGION_SIZE", "auto"},
        {"FRAG_SIZE", "auto"},
        {"HUGE_PAGES", "try"},
        {"COMM_SIZE", comm_text},
        {"MEMORY_LIMIT", capacity != 0 ? limit_text : NULL},
        /* Failed allocations are results, which the report shows. They are not
         * logged. */
        {"LOG_LEVEL", getenv("UCXPOOL_LOG_LEVEL") == NULL ? "error" : NULL},
        {NULL, NULL},
    };
    ucxpool_params_t params = {.field_mask  = UCXPOOL_PARAM_FIELD_MEMORY_KIND,
                               .memory_kind = UCXPOOL_MEMORY_HOST};

    snprintf(comm_text, sizeof(comm_text), "%llu", (unsigned long long)comm);
    snprintf(limit_text, sizeof(limit_text), "%llu",
             (unsigned long long)(capacity + comm));
    if (!is_host(device)) {
        params.field_mask |= UCXPOOL_PARAM_FIELD_DEVICE;
        params.memory_kind = UCXPOOL_MEMORY_CUDA;
        params.device      = device->ordinal;
    }
    return settings_create_pool(changes, false, &params, &allocator->pool) ==
                   UCXPOOL_OK
               ? 0
               : pool_error();
}

static void heap_cleanup(allocator_t *allocator)
{
    ucxpool_destroy(allocator->pool);
}

static int heap_reserve(allocator_t *allocator, uint64_t bytes)
{
    return ucxpool_heap_reserve(allocator->pool, bytes) == UCXPOOL_OK
               ? 0
               : pool_error();
}

static allocator_answer_t heap_alloc(allocator_t *allocator, size_t size,
                                     void *stream, void **address_p)
{
    ucxpool_status_t status =
        ucxpool_heap_alloc(allocator->pool, size, stream, address_p);

    if (status == UCXPOOL_OK) {
        return ALLOCATOR_OK;
    }
    if (status == UCXPOOL_ERR_NO_MEMORY) {
        return ALLOCATOR_FULL;
    }
    pool_error();
    return ALLOCATOR_BROKEN;
}

static allocator_answer_t heap_free(allocator_t *allocator, void *address,
                                    size_t size, void *stream)
{
    if (ucxpool_heap_free(allocator->pool, address, stream) != UCXPOOL_OK) {
        pool_error();
        return ALLOCATOR_BROKEN;
    }
    return ALLOCATOR_OK;
}

static uint64_t heap_peak_reserved(allocator_t *allocator)
{
    return pool_stat(allocator->pool, "heap_peak_reserved_bytes");
}

const allocator_kind_t allocator_heap = {
    .name          = "heap",
    .doc           = "the heap of a pool: ucxpool_heap_alloc()",
    .init          = heap_init,
    .cleanup       = heap_cleanup,
    .reserve       = heap_reserve,
    .alloc         = heap_alloc,
    .free          = heap_free,
    .peak_reserved = heap_peak_reserved,
};

/* --- ballast: GPU memory that is occupied to limit other allocators ------- */

static void ballast_drop(allocator_t *allocator)
{
    if (allocator->ballast != 0) {
        allocator->device->gpu.driver.cuMemFree(allocator->ballast);
        allocator->ballast = 0;
    }
}

/* Occupy GPU memory so that `capacity` bytes are free; 0: occupy nothing. */
static int ballast_take(allocator_t *allocator, uint64_t capacity)
{
    device_t *device = allocator->device;
    uint64_t  left;

    if (device_free_bytes(device, &left) != 0) {
        return -1;
    }
    if (capacity > left) {
        return tool_error(
            "GPU %d has %llu MiB free, but -c needs %llu: lower -c",
            device->ordinal, (unsigned long long)left >> 20,
            (unsigned long long)capacity >> 20);
    }
    if ((capacity != 0) && (left > capacity) &&
        (gpu_check(&device->gpu,
                   device->gpu.driver.cuMemAlloc(&allocator->ballast,
                                                 left - capacity),
                   "cannot allocate the memory above the capacity") != 0)) {
        allocator->ballast = 0;
        return -1;
    }
    if (device_free_bytes(device, &allocator->free_bytes) != 0) {
        ballast_drop(allocator);
        return -1;
    }
    return 0;
}

/* Returns the bytes taken from the GPU since ballast_take(). */
static uint64_t ballast_used(allocator_t *allocator)
{
    uint64_t left;

    return (device_free_bytes(allocator->device, &left) == 0) &&
                   (left <= allocator->free_bytes)
               ? allocator->free_bytes - left
               : 0;
}

/* --- the driver's memory pools -------------------------------------------- */

static allocator_answer_t cuda_answer(allocator_t *allocator, CUresult result,
                                      const char *call)
{
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        return ALLOCATOR_FULL;
    }
    return gpu_check(&allocator->device->gpu, result, "%s", call) == 0
               ? ALLOCATOR_OK
               : ALLOCATOR_BROKEN;
}

static int make_driver_pool(allocator_t *allocator)
{
    gpu_t         *gpu       = &allocator->device->gpu;
    uint64_t       threshold = UINT64_MAX;
    CUmemPoolProps props     = {
            .allocation_type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .location_type   = CU_MEM_LOCATION_TYPE_DEVICE,
            .location_id     = gpu->device,
    };

    if (GPU_CALL(gpu, cuMemPoolCreate, &allocator->driver_pool, &props) != 0) {
        return -1;
    }
    if (GPU_CALL(gpu, cuMemPoolSetAttribute, allocator->driver_pool,
                 CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) != 0) {
        gpu->driver.cuMemPoolDestroy(allocator->driver_pool);
        return -1;
    }
    return 0;
}

static int async_init(allocator_t *allocator, uint64_t capacity)
{
    if (allocator->device->gpu.driver.cuMemPoolCreate == NULL) {
        return tool_error(
            "the CUDA driver has no cuMemPoolCreate: it is too old");
    }
    if (ballast_take(allocator, capacity) != 0) {
        return -1;
    }
    if (make_driver_pool(allocator) != 0) {
        ballast_drop(allocator);
        return -1;
    }
    return 0;
}

static void async_cleanup(allocator_t *allocator)
{
    allocator->device->gpu.driver.cuMemPoolDestroy(allocator->driver_pool);
    ballast_drop(allocator);
}

static allocator_answer_t async_alloc(allocator_t *allocator, size_t size,
                                      void *stream, void **address_p)
{
    CUdeviceptr address = 0;
    CUresult    result  = allocator->device->gpu.driver.cuMemAllocFromPoolAsync(
            &address, size, allocator->driver_pool, stream);

    *address_p = (void *)(size_t)address;
    return cuda_answer(allocator, result, "cuMemAllocFromPoolAsync");
}

static allocator_answer_t async_free(allocator_t *allocator, void *address,
                                     size_t size, void *stream)
{
    return cuda_answer(allocator,
                       allocator->device->gpu.driver.cuMemFreeAsync(
                           gpu_address(address), stream),
                       "cuMemFreeAsync");
}

static uint64_t async_peak_reserved(allocator_t *allocator)
{
    uint64_t value = 0;

    return GPU_CALL(&allocator->device->gpu, cuMemPoolGetAttribute,
                    allocator->driver_pool, CU_MEMPOOL_ATTR_RESERVED_HIGH,
                    &value) == 0
               ? value
               : 0;
}

const allocator_kind_t allocator_async = {
    .name          = "async",
    .doc           = "a memory pool of the driver: cuMemAllocAsync(), release "
                     "threshold unlimited",
    .needs_gpu     = true,
    .init          = async_init,
    .cleanup       = async_cleanup,
    .alloc         = async_alloc,
    .free          = async_free,
    .peak_reserved = async_peak_reserved,
};

/* --- plug-ins ------------------------------------------------------------ */

static const plugin_t *plugin_of(const allocator_t *allocator)
{
    return (const plugin_t *)allocator->kind;
}

/* Initialize a plug-in. A plug-in with an init function enforces the capacity
 * itself. For other plug-ins, all memory beyond the capacity is occupied, as
 * for async. */
static int plugin_init(allocator_t *allocator, uint64_t capacity)
{
    const plugin_t *plugin  = plugin_of(allocator);
    int             ordinal = allocator->device->ordinal;
    int             code;

    if (!is_host(allocator->device) &&
        (ballast_take(allocator, plugin->init == NULL ? capacity : 0) != 0)) {
        return -1;
    }
    code = plugin->init == NULL ? 0 : plugin->init(ordinal, capacity);
    if (code != 0) {
        ballast_drop(allocator);
        return tool_error("%s: plugin_init(%d, %llu) returned %d", plugin->path,
                          ordinal, (unsigned long long)capacity, code);
    }
    return 0;
}

static void plugin_cleanup(allocator_t *allocator)
{
    if (plugin_of(allocator)->end != NULL) {
        plugin_of(allocator)->end();
    }
    ballast_drop(allocator);
}

static allocator_answer_t plugin_alloc(allocator_t *allocator, size_t size,
                                       void *stream, void **address_p)
{
    *address_p = plugin_of(allocator)->alloc(
        (ssize_t)size, allocator->device->ordinal, stream);
    return *address_p == NULL ? ALLOCATOR_FULL : ALLOCATOR_OK;
}

static allocator_answer_t plugin_free(allocator_t *allocator, void *address,
                                      size_t size, void *stream)
{
    plugin_of(allocator)->free(address, (ssize_t)size,
                               allocator->device->ordinal, stream);
    return ALLOCATOR_OK;
}

static uint64_t plugin_reserved(allocator_t *allocator)
{
    if (plugin_of(allocator)->reserved != NULL) {
        return plugin_of(allocator)->reserved();
    }
    return is_host(allocator->device) ? 0 : ballast_used(allocator);
}

int plugin_name(plugin_t *plugin, const char *text)
{
    const char *equals = strchr(text, '=');
    size_t      length = strspn(text, "abcdefghijklmnopqrstuvwxyz"
                                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                           "0123456789_-.");

    memset(plugin, 0, sizeof(*plugin));
    /* A path may also contain a "=", after a slash. */
    if ((equals == NULL) || (memchr(text, '/', (size_t)(equals - text)))) {
        strcpy(plugin->name, "plugin");
        plugin->path = text;
    } else if ((length == 0) || (length >= sizeof(plugin->name)) ||
               (text + length != equals)) {
        return -1;
    } else {
        memcpy(plugin->name, text, length);
        plugin->path = equals + 1;
    }
    if (plugin->path[0] == '\0') {
        return -1;
    }
    plugin->kind = (allocator_kind_t){.name     = plugin->name,
                                      .doc      = plugin->path,
                                      .init     = plugin_init,
                                      .cleanup  = plugin_cleanup,
                                      .alloc    = plugin_alloc,
                                      .free     = plugin_free,
                                      .reserved = plugin_reserved};
    return 0;
}

/* Find a function, and write its address to the pointer at function_p. */
static void find(const plugin_t *plugin, const char *symbol, void *function_p)
{
    void *function = dlsym(plugin->library, symbol);

    memcpy(function_p, &function, sizeof(function));
}

int plugin_load(plugin_t *plugin)
{
    char path[4096];

    /* If the path had no slash, the loader would search other directories for
     * the file. */
    if (snprintf(path, sizeof(path), "%s%s",
                 strchr(plugin->path, '/') == NULL ? "./" : "",
                 plugin->path) >= (int)sizeof(path)) {
        return tool_error("%s: the path is too long", plugin->path);
    }
    plugin->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin->library == NULL) {
        return tool_error("cannot load the plug-in %s: %s", plugin->path,
                          dlerror());
    }
    find(plugin, "plugin_alloc", &plugin->alloc);
    find(plugin, "plugin_free", &plugin->free);
    find(plugin, "plugin_init", &plugin->init);
    find(plugin, "plugin_end", &plugin->end);
    find(plugin, "plugin_reserved", &plugin->reserved);
    if ((plugin->alloc == NULL) || (plugin->free == NULL)) {
        return tool_error(
            "%s has no function %s(): see ucxpool_replay(1)", plugin->path,
            plugin->alloc == NULL ? "plugin_alloc" : "plugin_free");
    }
    return 0;
}

/* --- any kind ------------------------------------------------------------ */

allocator_t *allocator_create(const allocator_kind_t *kind, device_t *device,
                              uint64_t capacity)
{
    allocator_t *allocator = tool_calloc(1, sizeof(*allocator));

    allocator->kind   = kind;
    allocator->device = device;
    if (kind->init(allocator, capacity) != 0) {
        free(allocator);
        return NULL;
    }
    return allocator;
}

void allocator_destroy(allocator_t *allocator)
{
    allocator->kind->cleanup(allocator);
    free(allocator);
}
