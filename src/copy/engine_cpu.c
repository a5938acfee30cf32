/* The copy engine of a pool in host memory. */
#include <config.h>

#include "copy/engine.h"

#include "base/clock.h"
#include "base/error.h"

#include <stdlib.h>

static void host_destroy(copy_engine_t *engine)
{
    free(engine);
}

static uint64_t host_deadline(const copy_engine_t *engine)
{
    return BASE_CLOCK_FOREVER;
}

static ucxpool_status_t host_start(copy_engine_t *engine, copy_job_t *copy,
                                   const copy_work_t *work, uint64_t *covered_p)
{
    uint64_t length = copy_walk_clip(work->plan, work->offset, work->length);
    ucxpool_status_t status = UCXPOOL_OK;

    if (work->is_gather) {
        base_range_begin(work->range, BASE_RANGE_GATHER, length);
        status = copy_gather(work->plan, work->offset, length,
                             (void *)(uintptr_t)work->block);
    } else {
        copy_scatter(work->plan, work->offset, length, work->block);
    }
    copy->job  = NULL;
    *covered_p = length;
    return status;
}

static ucxpool_status_t host_pairs_get(copy_engine_t *engine, copy_job_t *copy,
                                       copy_room_t *room_p)
{
    return base_error(UCXPOOL_ERR_UNSUPPORTED, "the pool is not on a GPU");
}

static ucxpool_status_t host_pairs_start(copy_engine_t      *engine,
                                         copy_job_t         *copy,
                                         const copy_table_t *list,
                                         uint64_t size, bool is_to_other)
{
    return host_pairs_get(engine, copy, NULL);
}

static ucxpool_status_t host_clear_flags(copy_engine_t *engine, void *first,
                                         size_t stride, unsigned num)
{
    return host_pairs_get(engine, NULL, NULL);
}

static unsigned host_progress(copy_engine_t *engine)
{
    return 0;
}

/* The CPU can access all mapped memory. */
static ucxpool_status_t host_memtypes(const copy_engine_t *engine,
                                      const copy_memory_t *memory,
                                      unsigned            *memtypes_p)
{
    *memtypes_p = 0;
    return UCXPOOL_OK;
}

static bool host_is_even(const copy_engine_t *engine,
                         const copy_memory_t *memory, bool is_declared)
{
    return false;
}

static bool host_takes_even(const copy_engine_t *engine,
                            const copy_memory_t *memory)
{
    return false;
}

static bool host_reaches_array(const copy_engine_t *engine, const void *array,
                               size_t num, size_t size)
{
    return false; /* no kernel exists */
}

static bool host_shares_device(const copy_engine_t *engine, const void *uuid)
{
    return true;
}

static const copy_engine_calls_t host_calls = {
    .memory_kind   = UCXPOOL_MEMORY_HOST,
    .batch         = 64,
    .depth_factor  = 1,
    .memtypes      = host_memtypes,
    .is_even       = host_is_even,
    .takes_even    = host_takes_even,
    .reaches_array = host_reaches_array,
    .shares_device = host_shares_device,
    .destroy       = host_destroy,
    .deadline      = host_deadline,
    .start         = host_start,
    .pairs_get     = host_pairs_get,
    .pairs_start   = host_pairs_start,
    .clear_flags   = host_clear_flags,
    .progress      = host_progress,
};

ucxpool_status_t copy_engine_create_host(copy_engine_t **engine_p)
{
    copy_engine_t *engine = calloc(1, sizeof(*engine));

    if (engine == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a copy engine");
    }
    base_list_init(&engine->copies);
    base_list_init(&engine->marked);
    engine->calls = &host_calls;
    *engine_p     = engine;
    return UCXPOOL_OK;
}
