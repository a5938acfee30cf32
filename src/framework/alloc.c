#include <config.h>

#include "framework/alloc.h"
#include "base/error.h"
#include "framework/pools.h"
#include "mem/cuda_api.h"

#include <ucxpool/heap.h>

#include <stdatomic.h>
#include <stdbool.h>

/* An allocation of this process has failed, and the log has been told. */
static atomic_bool is_told;

void *framework_stream(void *stream)
{
    return stream == (void *)CU_STREAM_LEGACY ? NULL : stream;
}

/* Allocate from a pool, or from that of a device where it is NULL. */
static ucxpool_status_t allocate(ucxpool_t *pool, int device, size_t size,
                                 void *stream, void **address_p)
{
    ucxpool_status_t status = UCXPOOL_OK;

    if (pool == NULL) {
        status = ucxpool_framework_pool(device, &pool);
    }
    if (status == UCXPOOL_OK) {
        status =
            ucxpool_heap_alloc(pool, size, framework_stream(stream), address_p);
    }
    return status;
}

/* A framework that has run out of memory once will do so again: it asks to find
 * out what it must free. */
static ucxpool_status_t allocate_and_tell(ucxpool_t *pool, int device,
                                          size_t size, void *stream,
                                          void **address_p)
{
    base_log_level_t level;
    ucxpool_status_t status;

    *address_p = NULL;
    if (size == 0) {
        return UCXPOOL_OK;
    }
    level = base_error_log_at(
        atomic_load_explicit(&is_told, memory_order_relaxed) ? BASE_LOG_DEBUG
                                                             : BASE_LOG_WARN);
    status = allocate(pool, device, size, stream, address_p);
    (void)base_error_log_at(level);
    if (status != UCXPOOL_OK) {
        atomic_store_explicit(&is_told, true, memory_order_relaxed);
    }
    return status;
}

ucxpool_status_t framework_alloc(int device, size_t size, void *stream,
                                 void **address_p)
{
    return allocate_and_tell(framework_pools_find(device), device, size, stream,
                             address_p);
}

ucxpool_status_t framework_alloc_from(ucxpool_t *pool, size_t size,
                                      void *stream, void **address_p)
{
    return allocate_and_tell(pool, 0, size, stream, address_p);
}

void framework_free_to(ucxpool_t *pool, void *address, void *stream)
{
    base_log_level_t level = base_error_log_at(BASE_LOG_WARN);

    (void)ucxpool_heap_free(pool, address, framework_stream(stream));
    (void)base_error_log_at(level);
}

void framework_free(int device, void *address, void *stream)
{
    ucxpool_t *pool = framework_pools_find(device);

    if ((address != NULL) && (pool != NULL)) {
        framework_free_to(pool, address, stream);
    }
}
