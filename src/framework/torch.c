/*
 * PyTorch's functions. Exceptions pass through those that may throw.
 */
#include <config.h>

#include "base/error.h"
#include "framework/alloc.h"
#include "framework/drain.h"
#include "framework/pools.h"
#include "framework/throw.h"
#include "framework/uses.h"

#include <ucxpool/heap.h>

#include <stdlib.h>

static ucxpool_status_t allocate(ssize_t size, int device, void *stream,
                                 void **address_p)
{
    base_log_level_t level;
    ucxpool_status_t status;

    if (size < 0) {
        *address_p = NULL;
        level      = base_error_log_at(BASE_LOG_WARN);
        status =
            base_error(UCXPOOL_ERR_INVALID_PARAM,
                       "%zd bytes were asked for on device %d", size, device);
        (void)base_error_log_at(level);
        return status;
    }
    return framework_alloc(device, (size_t)size, stream, address_p);
}

void *ucxpool_torch_alloc(ssize_t size, int device, void *stream)
{
    void *address;

    (void)allocate(size, device, stream, &address);
    return address;
}

void *ucxpool_torch_alloc_or_throw(ssize_t size, int device, void *stream)
{
    void            *address;
    ucxpool_status_t status = allocate(size, device, stream, &address);

    if (status != UCXPOOL_OK) {
        framework_throw_torch(status);
    }
    return address;
}

/* The stream to free in: where others use the memory, too, one that waits for
 * all of them. */
static void *stream_to_free_in(int device, const void *address, void *stream)
{
    framework_use_t *use;
    bool             is_known = framework_uses_take(address, &use);
    ucxpool_status_t status   = UCXPOOL_OK;

    if (device == UCXPOOL_FRAMEWORK_HOST) {
        free(use);
        return stream;
    }
    if (use != NULL) {
        status = framework_drain_wait(device, stream, use->streams,
                                      use->num_streams, &stream);
        free(use);
    }
    if (!is_known || (status != UCXPOOL_OK)) {
        framework_drain_synchronize(device);
    }
    return stream;
}

void ucxpool_torch_free(void *address, ssize_t size, int device, void *stream)
{
    base_log_level_t level;

    (void)size;
    if ((address != NULL) && (framework_pools_find(device) != NULL)) {
        level  = base_error_log_at(BASE_LOG_WARN);
        stream = framework_stream(stream);
        framework_free(device, address,
                       stream_to_free_in(device, address, stream));
        (void)base_error_log_at(level);
    }
}

typedef struct search {
    const void *address;
    bool        is_found;
} search_t;

static void search_pool(ucxpool_t *pool, void *arg)
{
    search_t *search = arg;
    size_t    size;

    if (!search->is_found) {
        search->is_found = ucxpool_heap_usable_size(pool, search->address,
                                                    &size) == UCXPOOL_OK;
    }
}

void ucxpool_torch_record_stream(void *address, void *stream)
{
    search_t         search = {.address = address};
    base_log_level_t level;

    if (address == NULL) {
        return;
    }
    level = base_error_log_at(BASE_LOG_DEBUG);
    framework_pools_each(search_pool, &search);
    (void)base_error_log_at(level);
    if (search.is_found) {
        framework_uses_add(address, framework_stream(stream));
    }
}

static void trim_pool(ucxpool_t *pool, void *arg)
{
    base_log_level_t level = base_error_log_at(BASE_LOG_WARN);

    (void)arg;
    (void)ucxpool_heap_trim(pool, 0, NULL);
    (void)base_error_log_at(level);
}

void ucxpool_torch_empty_cache(void)
{
    framework_pools_each(trim_pool, NULL);
}

void ucxpool_torch_refuse_graph(void)
{
    framework_throw_torch(
        base_error(UCXPOOL_ERR_UNSUPPORTED,
                   "CUDA graphs are not captured while libucxpool is "
                   "PyTorch's allocator: give it to a MemPool instead, and "
                   "leave what the graph allocates to PyTorch's own"));
}
