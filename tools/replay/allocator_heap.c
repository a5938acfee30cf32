/* The heap of a pool, which has next to no blocks. */
#include "replay/allocator.h"
#include "common/number.h"
#include "common/settings.h"
#include "replay/error.h"

#include <ucxpool/heap.h>
#include <ucxpool/pool.h>

#include <stdlib.h>
#include <string.h>

/* Blocks are not what this is about. Those of a GPU are pages of it. */
#define HOST_COMM_SIZE  (UINT64_C(1) << 20)
#define HOST_BLOCK_SIZE "64k"
#define GPU_COMM_SIZE   (UINT64_C(8) << 20)
#define GPU_BLOCK_SIZE  "2m"
/* The least that MEMORY_LIMIT can be. */
#define LEAST_LIMIT (UINT64_C(4) << 20)

typedef struct heap_allocator {
    allocator_t super;
    ucxpool_t  *pool;
} heap_allocator_t;

/* Blocks take what is missing of the least limit. */
static uint64_t comm_size(const device_t *device, uint64_t capacity)
{
    uint64_t size =
        device->ordinal == DEVICE_HOST ? HOST_COMM_SIZE : GPU_COMM_SIZE;

    return (capacity != 0) && (capacity + size < LEAST_LIMIT)
               ? LEAST_LIMIT - capacity
               : size;
}

static ucxpool_status_t set_bytes(ucxpool_config_t *config, const char *key,
                                  uint64_t bytes)
{
    char text[32];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
    return ucxpool_config_modify(config, key, text);
}

/* Blocks as small as they can be, whatever the environment says of theirs. */
static ucxpool_status_t set_blocks(ucxpool_config_t *config,
                                   const device_t *device, uint64_t comm_size)
{
    const char *const changes[][2] = {
        {"BLOCK_SIZE",
         device->ordinal == DEVICE_HOST ? HOST_BLOCK_SIZE : GPU_BLOCK_SIZE},
        {"REGION_SIZE", "auto"},
        {"FRAG_SIZE", "auto"},
        {"HUGE_PAGES", "try"},
    };
    ucxpool_status_t status = set_bytes(config, "COMM_SIZE", comm_size);

    for (size_t i = 0;
         (status == UCXPOOL_OK) && (i < sizeof(changes) / sizeof(changes[0]));
         i++) {
        status = ucxpool_config_modify(config, changes[i][0], changes[i][1]);
    }
    return status;
}

static ucxpool_status_t set(ucxpool_config_t *config, const device_t *device,
                            uint64_t capacity)
{
    uint64_t         comm   = comm_size(device, capacity);
    ucxpool_status_t status = set_blocks(config, device, comm);

    if ((status == UCXPOOL_OK) && (capacity != 0)) {
        status = set_bytes(config, "MEMORY_LIMIT", capacity + comm);
    }
    /* That an allocation fails is a result, and is told as one. */
    if ((status == UCXPOOL_OK) && (getenv("UCXPOOL_LOG_LEVEL") == NULL)) {
        status = ucxpool_config_modify(config, "LOG_LEVEL", "error");
    }
    return status;
}

/* The setting, as the environment has it; 0: auto. */
static int read_memory_limit(uint64_t *bytes_p)
{
    ucxpool_config_t *config;
    settings_t        settings;
    const char       *value;
    bool              is_read;

    if (ucxpool_config_read(&config) != UCXPOOL_OK) {
        return replay_error("%s", ucxpool_error_detail());
    }
    is_read = settings_init(&settings, config);
    ucxpool_config_release(config);
    if (!is_read) {
        return replay_error("out of memory");
    }
    *bytes_p = 0;
    value    = settings_find(&settings, "MEMORY_LIMIT")->value;
    if (strcmp(value, "auto") != 0) {
        (void)number_parse_size(value, UINT64_MAX, bytes_p);
    }
    settings_cleanup(&settings);
    return 0;
}

int allocator_heap_limit(device_t *device, uint64_t *bytes_p)
{
    uint64_t blocks = comm_size(device, 0);
    uint64_t total, limit;

    if ((read_memory_limit(&limit) != 0) ||
        (device_total_bytes(device, &total) != 0)) {
        return -1;
    }
    if (limit == 0) {
        limit = device->ordinal == DEVICE_HOST ? total / 2 : total;
    }
    *bytes_p = limit > blocks + ALLOCATOR_UNIT
                   ? (limit - blocks) / ALLOCATOR_UNIT * ALLOCATOR_UNIT
                   : ALLOCATOR_UNIT;
    return 0;
}

static int make_pool(device_t *device, uint64_t capacity, ucxpool_t **pool_p)
{
    ucxpool_params_t  params = {0};
    ucxpool_config_t *config;
    ucxpool_status_t  status;

    status = ucxpool_config_read(&config);
    if (status != UCXPOOL_OK) {
        return replay_error("%s", ucxpool_error_detail());
    }
    status = set(config, device, capacity);
    if (status == UCXPOOL_OK) {
        params.field_mask =
            UCXPOOL_PARAM_FIELD_CONFIG | UCXPOOL_PARAM_FIELD_MEMORY_KIND;
        params.config      = config;
        params.memory_kind = UCXPOOL_MEMORY_HOST;
        if (device->ordinal != DEVICE_HOST) {
            params.field_mask |= UCXPOOL_PARAM_FIELD_DEVICE;
            params.memory_kind = UCXPOOL_MEMORY_CUDA;
            params.device      = device->ordinal;
        }
        status = ucxpool_create(&params, pool_p);
    }
    ucxpool_config_release(config);
    return status == UCXPOOL_OK ? 0
                                : replay_error("%s", ucxpool_error_detail());
}

static int create(const allocator_kind_t *kind, device_t *device,
                  uint64_t capacity, allocator_t **allocator_p)
{
    heap_allocator_t *self = calloc(1, sizeof(*self));

    if (self == NULL) {
        return replay_error("out of memory");
    }
    self->super.kind   = kind;
    self->super.device = device;
    if (make_pool(device, capacity, &self->pool) != 0) {
        free(self);
        return -1;
    }
    *allocator_p = &self->super;
    return 0;
}

static void destroy(allocator_t *allocator)
{
    heap_allocator_t *self = (heap_allocator_t *)allocator;

    ucxpool_destroy(self->pool);
    free(self);
}

static int reserve(allocator_t *allocator, uint64_t bytes)
{
    heap_allocator_t *self = (heap_allocator_t *)allocator;

    return ucxpool_heap_reserve(self->pool, bytes) == UCXPOOL_OK
               ? 0
               : replay_error("%s", ucxpool_error_detail());
}

static allocator_answer_t take(allocator_t *allocator, size_t size,
                               void *stream, void **address_p)
{
    heap_allocator_t *self = (heap_allocator_t *)allocator;
    ucxpool_status_t  status =
        ucxpool_heap_alloc(self->pool, size, stream, address_p);

    if (status == UCXPOOL_OK) {
        return ALLOCATOR_OK;
    }
    if (status == UCXPOOL_ERR_NO_MEMORY) {
        return ALLOCATOR_FULL;
    }
    replay_error("%s", ucxpool_error_detail());
    return ALLOCATOR_BROKEN;
}

static allocator_answer_t give(allocator_t *allocator, void *address,
                               size_t size, void *stream)
{
    heap_allocator_t *self = (heap_allocator_t *)allocator;

    (void)size;
    if (ucxpool_heap_free(self->pool, address, stream) != UCXPOOL_OK) {
        replay_error("%s", ucxpool_error_detail());
        return ALLOCATOR_BROKEN;
    }
    return ALLOCATOR_OK;
}

static uint64_t reserved(allocator_t *allocator)
{
    heap_allocator_t *self  = (heap_allocator_t *)allocator;
    uint64_t          value = 0;

    (void)ucxpool_stats_get(self->pool, "heap_reserved", &value);
    return value;
}

static uint64_t peak_reserved(allocator_t *allocator)
{
    heap_allocator_t *self  = (heap_allocator_t *)allocator;
    uint64_t          value = 0;

    (void)ucxpool_stats_get(self->pool, "heap_peak_reserved", &value);
    return value;
}

const allocator_kind_t allocator_heap = {
    .name          = "heap",
    .doc           = "the heap of a pool: ucxpool_heap_alloc()",
    .create        = create,
    .destroy       = destroy,
    .reserve       = reserve,
    .alloc         = take,
    .free          = give,
    .reserved      = reserved,
    .peak_reserved = peak_reserved,
};
