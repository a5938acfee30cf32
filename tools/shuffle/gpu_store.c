#include <config.h>

#include "tools/shuffle/gpu_store.h"

#include "common/error.h"

#include "gpu/gpu.h"

#include <stdlib.h>

/* Minimum number of places: one to hold a message, the others to receive. */
#define STORE_PLACES_MIN 4u
/* Maximum number of places to receive into: as many as the exchange has without
 * a GPU. */
#define STORE_IDLE_MAX  8u
#define STORE_STAGES    2u
#define STORE_ALIGNMENT 64u

typedef struct gpu_store_stage {
    char    *memory; /* pinned */
    batch_t *batch;  /* its message is being copied here; or NULL */
} gpu_store_stage_t;

struct gpu_store {
    gpu_t             gpu;        /* its stream is for copies to the GPU */
    CUstream          stream_out; /* for copies from the GPU */
    unsigned          num_gpus;
    char             *memory; /* of the GPU */
    batch_list_t      list;
    unsigned          num_reserved; /* places that are not for holding */
    batch_t          *oldest;       /* oldest batch that is held */
    batch_t         **end;
    gpu_store_stage_t stages[STORE_STAGES];
    unsigned          turn;      /* stage of the oldest batch */
    uint64_t          num_bytes; /* held now */
    gpu_store_stats_t stats;
};

static int gpu_store_fail(const gpu_store_t *gpu_store)
{
    return keep_error("%s", gpu_store->gpu.error);
}

static int gpu_store_check(gpu_store_t *gpu_store, CUresult result,
                           const char *what)
{
    if (result == CUDA_SUCCESS) {
        return 0;
    }
    gpu_fail(&gpu_store->gpu, result, "%s", what);
    return gpu_store_fail(gpu_store);
}

/* --- memory and copies -------------------------------------------------- */

char *gpu_store_host_alloc(gpu_store_t *gpu_store, size_t size)
{
    void *address = NULL;

    size = (size + STORE_ALIGNMENT - 1) / STORE_ALIGNMENT * STORE_ALIGNMENT;
    if (gpu_store != NULL) {
        if (gpu_host_alloc(&gpu_store->gpu, size, &address) != 0) {
            gpu_store_fail(gpu_store);
            return NULL;
        }
        return address;
    }
    address = aligned_alloc(STORE_ALIGNMENT, size);
    if (address == NULL) {
        keep_error("out of memory for %zu bytes of batches: use fewer workers "
                   "(-w) or partitions (-p)",
                   size);
    }
    return address;
}

void gpu_store_host_free(gpu_store_t *gpu_store, char *address)
{
    if (gpu_store == NULL) {
        free(address);
    } else if (address != NULL) {
        gpu_host_free(&gpu_store->gpu, address);
    }
}

char *gpu_store_alloc(gpu_store_t *gpu_store, size_t size)
{
    void *address;

    if (gpu_alloc(&gpu_store->gpu, size, &address) != 0) {
        gpu_store_fail(gpu_store);
        return NULL;
    }
    return address;
}

void gpu_store_free(gpu_store_t *gpu_store, char *address)
{
    gpu_free(&gpu_store->gpu, address);
}

static int gpu_store_copy(gpu_store_t *gpu_store, char *target,
                          const char *source, size_t size, CUstream stream)
{
    return size == 0 ? 0
                     : gpu_store_check(gpu_store,
                                       gpu_store->gpu.driver.cuMemcpyAsync(
                                           gpu_address(target),
                                           gpu_address(source), size, stream),
                                       "a copy of a batch");
}

int gpu_store_copy_in(gpu_store_t *gpu_store, char *target, batch_t *batch)
{
    const ucxpool_segment_t *segments;
    size_t                   num    = batch_segments(batch, &segments);
    int                      result = 0;

    for (size_t i = 0; (i < num) && (result == 0); i++) {
        result = gpu_store_copy(gpu_store, target, segments[i].address,
                                segments[i].length, gpu_store->gpu.stream);
        target += segments[i].length;
    }
    return result;
}

void *gpu_store_stream(const gpu_store_t *gpu_store)
{
    return gpu_store->gpu.stream;
}

static int gpu_store_wait_for(gpu_store_t *gpu_store, CUstream stream)
{
    return gpu_wait(&gpu_store->gpu, stream) == 0 ? 0
                                                  : gpu_store_fail(gpu_store);
}

int gpu_store_wait(gpu_store_t *gpu_store)
{
    return gpu_store_wait_for(gpu_store, gpu_store->gpu.stream);
}

/* --- making it ---------------------------------------------------------- */

size_t gpu_store_least_size(size_t batch_size)
{
    return STORE_PLACES_MIN * batch_memory_size(batch_size);
}

static int gpu_store_open(gpu_store_t              *gpu_store,
                          const gpu_store_params_t *params)
{
    gpu_t *gpu   = &gpu_store->gpu;
    int    count = 0;

    if (gpu_driver_load(&gpu->driver, gpu->error, sizeof(gpu->error)) != 0) {
        return gpu_store_fail(gpu_store);
    }
    if ((gpu->driver.cuDeviceGetCount(&count) != CUDA_SUCCESS) || (count < 1)) {
        return keep_error("the CUDA driver shows no GPU: is one hidden by "
                          "CUDA_VISIBLE_DEVICES?");
    }
    gpu_store->num_gpus  = (unsigned)count;
    gpu_store->stats.gpu = params->gpu >= 0
                               ? params->gpu
                               : (int32_t)(params->turn % gpu_store->num_gpus);
    if (gpu_open(gpu, gpu_store->stats.gpu) != 0) {
        return gpu_store_fail(gpu_store);
    }
    return gpu_store_check(gpu_store,
                           gpu->driver.cuStreamCreate(&gpu_store->stream_out,
                                                      CU_STREAM_NON_BLOCKING),
                           "cuStreamCreate");
}

/* Choose the number of places: enough for all of the input, if there is enough
 * memory. This includes batches that are sent before they are full. */
static int gpu_store_choose_places(gpu_store_t              *gpu_store,
                                   const gpu_store_params_t *params,
                                   unsigned                 *num_p)
{
    uint64_t useful = params->num_bytes / (params->batch_size / 2 + 1) +
                      4 * (uint64_t)params->num_workers + STORE_IDLE_MAX;
    unsigned sharers = params->num_workers;
    size_t   size;
    size_t   total;
    uint64_t num;

    if (gpu_store_check(gpu_store,
                        gpu_store->gpu.driver.cuMemGetInfo(&size, &total),
                        "cuMemGetInfo") != 0) {
        return -1;
    }
    if (params->gpu < 0) {
        sharers = (sharers + gpu_store->num_gpus - 1) / gpu_store->num_gpus;
    }
    num = (params->most != 0 ? params->most : size / 2 / sharers) /
          batch_memory_size(params->batch_size);
    num    = num > useful ? useful : num;
    num    = num > INT32_MAX ? INT32_MAX : num;
    *num_p = num < STORE_PLACES_MIN ? STORE_PLACES_MIN : (unsigned)num;
    return 0;
}

/* Allocate as many places as possible, at most num. */
static int gpu_store_take_memory(gpu_store_t *gpu_store, size_t batch_size,
                                 unsigned num)
{
    size_t place = batch_memory_size(batch_size);

    while ((gpu_store->memory = gpu_store_alloc(gpu_store, num * place)) ==
           NULL) {
        if (num == STORE_PLACES_MIN) {
            return keep_error("%s: use fewer workers (-w), or another GPU",
                              kept_error());
        }
        num = num / 2 < STORE_PLACES_MIN ? STORE_PLACES_MIN : num / 2;
    }
    gpu_store->stats.size   = num * place;
    gpu_store->num_reserved = num / STORE_PLACES_MIN < STORE_IDLE_MAX
                                  ? num / STORE_PLACES_MIN
                                  : STORE_IDLE_MAX;
    batch_list_init(&gpu_store->list, gpu_store->memory, num, batch_size);
    return 0;
}

static int gpu_store_init(gpu_store_t              *gpu_store,
                          const gpu_store_params_t *params)
{
    unsigned num;

    gpu_store->end = &gpu_store->oldest;
    if ((gpu_store_open(gpu_store, params) != 0) ||
        (gpu_store_choose_places(gpu_store, params, &num) != 0) ||
        (gpu_store_take_memory(gpu_store, params->batch_size, num) != 0)) {
        return -1;
    }
    for (unsigned i = 0; i < STORE_STAGES; i++) {
        gpu_store->stages[i].memory = gpu_store_host_alloc(
            gpu_store, batch_memory_size(params->batch_size));
        if (gpu_store->stages[i].memory == NULL) {
            return -1;
        }
    }
    return 0;
}

int gpu_store_create(const gpu_store_params_t *params,
                     gpu_store_t             **gpu_store_p)
{
    gpu_store_t *gpu_store = tool_calloc(1, sizeof(*gpu_store));

    if (gpu_store_init(gpu_store, params) != 0) {
        gpu_store_destroy(gpu_store);
        return -1;
    }
    *gpu_store_p = gpu_store;
    return 0;
}

void gpu_store_destroy(gpu_store_t *gpu_store)
{
    if (gpu_store == NULL) {
        return;
    }
    batch_list_cleanup(&gpu_store->list);
    /* After a failure, a copy of a message to a stage may still be running. */
    if (gpu_store->stream_out != NULL) {
        gpu_store_wait_for(gpu_store, gpu_store->stream_out);
        gpu_store->gpu.driver.cuStreamDestroy(gpu_store->stream_out);
    }
    for (unsigned i = 0; i < STORE_STAGES; i++) {
        gpu_store_host_free(gpu_store, gpu_store->stages[i].memory);
    }
    if (gpu_store->memory != NULL) {
        gpu_store_free(gpu_store, gpu_store->memory);
    }
    gpu_close(&gpu_store->gpu);
    free(gpu_store);
}

batch_list_t *gpu_store_list(gpu_store_t *gpu_store)
{
    return &gpu_store->list;
}

const gpu_store_stats_t *gpu_store_stats(const gpu_store_t *gpu_store)
{
    return &gpu_store->stats;
}

/* --- holding ------------------------------------------------------------ */

void gpu_store_hold(gpu_store_t *gpu_store, batch_t *batch)
{
    batch->next     = NULL;
    *gpu_store->end = batch;
    gpu_store->end  = &batch->next;
    gpu_store->num_bytes += batch_length(batch);
    gpu_store->stats.held += batch_length(batch);
    if (gpu_store->num_bytes > gpu_store->stats.held_max) {
        gpu_store->stats.held_max = gpu_store->num_bytes;
    }
}

int gpu_store_hold_batch(gpu_store_t *gpu_store, batch_t *batch)
{
    batch_t *held = batch_list_get(&gpu_store->list);

    held->peer = batch->peer;
    if ((batch_prepare(held, batch->num_records, batch_length(batch)) != 0) ||
        (gpu_store_copy_in(gpu_store, held->memory, batch) != 0) ||
        (gpu_store_wait(gpu_store) != 0)) {
        batch_list_put(&gpu_store->list, held);
        return -1;
    }
    gpu_store_hold(gpu_store, held);
    return 0;
}

bool gpu_store_is_full(const gpu_store_t *gpu_store)
{
    return (gpu_store->oldest != NULL) &&
           (gpu_store->list.num_idle < gpu_store->num_reserved);
}

size_t gpu_store_oldest_size(const gpu_store_t *gpu_store)
{
    return batch_length(gpu_store->oldest);
}

/* Start to copy the oldest batch to a stage, unless the copy is already
 * running. */
static int gpu_store_start(gpu_store_t *gpu_store, gpu_store_stage_t *stage)
{
    if ((stage->batch != NULL) || (gpu_store->oldest == NULL)) {
        return 0;
    }
    stage->batch = gpu_store->oldest;
    return gpu_store_copy(gpu_store, stage->memory, stage->batch->memory,
                          batch_length(stage->batch), gpu_store->stream_out);
}

int gpu_store_bring(gpu_store_t *gpu_store, batch_t **batch_p)
{
    gpu_store_stage_t *stage = &gpu_store->stages[gpu_store->turn];
    batch_t           *batch = gpu_store->oldest;

    if (batch == NULL) {
        return 0;
    }
    if ((gpu_store_start(gpu_store, stage) != 0) ||
        (gpu_store_wait_for(gpu_store, gpu_store->stream_out) != 0)) {
        return -1;
    }
    stage->batch = NULL;
    gpu_store->num_bytes -= batch_length(batch);
    gpu_store->oldest = batch->next;
    if (gpu_store->oldest == NULL) {
        gpu_store->end = &gpu_store->oldest;
    }
    gpu_store->turn = (gpu_store->turn + 1) % STORE_STAGES;
    if (gpu_store_start(gpu_store, &gpu_store->stages[gpu_store->turn]) != 0) {
        return -1;
    }
    batch_parse(batch, stage->memory);
    *batch_p = batch;
    return 1;
}
