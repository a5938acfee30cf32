#include <config.h>

#include "heap/plan.h"

#include "base/error.h"
#include "base/math.h"

#include <stdlib.h>

static ucxpool_status_t add(heap_plan_t *plan, uint64_t offset, uint64_t size)
{
    heap_run_t *last =
        (plan->num_runs > 0) ? &plan->runs[plan->num_runs - 1] : NULL;
    heap_run_t *runs;
    size_t      capacity;

    plan->size += size;
    plan->num_mappings++;
    if ((last != NULL) && (last->home + last->size == offset)) {
        last->size += size;
        return UCXPOOL_OK;
    }
    if (plan->num_runs == plan->capacity) {
        capacity = base_max(2 * plan->capacity, (size_t)32);
        runs     = realloc(plan->runs, capacity * sizeof(runs[0]));
        if (runs == NULL) {
            return base_error(UCXPOOL_ERR_NO_MEMORY,
                              "no host memory to plan a stitched range of %zu "
                              "runs",
                              capacity);
        }
        plan->runs     = runs;
        plan->capacity = capacity;
    }
    plan->runs[plan->num_runs++] = (heap_run_t){offset, size};
    return UCXPOOL_OK;
}

/* Add units of one size, until less than `stop` bytes are missing. */
static ucxpool_status_t add_all(const heap_space_t  *space,
                                const heap_stream_t *stream, uint64_t unit,
                                uint64_t size, uint64_t stop, heap_plan_t *plan)
{
    const heap_index_t *index = &stream->index;
    const heap_range_t *range = heap_index_first(index, unit);
    uint64_t            offset, length;
    ucxpool_status_t    status;

    for (; range != NULL; range = heap_index_next(index, range, unit)) {
        for (offset = range->offset;
             heap_space_unit(space, range, &offset, &length);
             offset += length) {
            if (plan->size + stop > size) {
                return UCXPOOL_OK;
            }
            if (length == unit) {
                status = add(plan, offset, length);
                if (status != UCXPOOL_OK) {
                    return status;
                }
            }
        }
    }
    return UCXPOOL_OK;
}

/* One more chunk, that is used in part, where there are too few pages. */
static ucxpool_status_t add_last(const heap_space_t  *space,
                                 const heap_stream_t *stream, heap_plan_t *plan)
{
    uint64_t            unit  = space->home.slot_size;
    const heap_index_t *index = &stream->index;
    const heap_range_t *range = heap_index_first(index, unit);
    uint64_t            offset, length;

    for (; range != NULL; range = heap_index_next(index, range, unit)) {
        for (offset = range->offset;
             heap_space_unit(space, range, &offset, &length);
             offset += length) {
            bool is_new = length == unit;

            for (size_t i = 0; is_new && (i < plan->num_runs); i++) {
                is_new = (offset < plan->runs[i].home) ||
                         (offset >= plan->runs[i].home + plan->runs[i].size);
            }
            if (is_new) {
                return add(plan, offset, length);
            }
        }
    }
    return UCXPOOL_OK;
}

ucxpool_status_t heap_plan_make(const heap_space_t  *space,
                                const heap_stream_t *stream, uint64_t size,
                                heap_plan_t *plan)
{
    uint64_t         chunk  = space->home.slot_size;
    ucxpool_status_t status = UCXPOOL_OK;

    *plan = (heap_plan_t){.runs = NULL};
    if (chunk > HEAP_PAGE) {
        status = add_all(space, stream, chunk, size, chunk, plan);
    }
    if (status == UCXPOOL_OK) {
        status = add_all(space, stream, HEAP_PAGE, size, 1, plan);
    }
    if ((status == UCXPOOL_OK) && (plan->size < size) && (chunk > HEAP_PAGE)) {
        status = add_last(space, stream, plan);
    }
    return status;
}

void heap_plan_cleanup(heap_plan_t *plan)
{
    free(plan->runs);
}

uint64_t heap_plan_stitchable(const heap_space_t  *space,
                              const heap_stream_t *stream)
{
    const heap_index_t *index = &stream->index;
    const heap_range_t *range = heap_index_first(index, HEAP_PAGE);
    uint64_t            sum   = 0;
    uint64_t            offset, length;

    for (; range != NULL; range = heap_index_next(index, range, HEAP_PAGE)) {
        for (offset = range->offset;
             heap_space_unit(space, range, &offset, &length);
             offset += length) {
            sum += length;
        }
    }
    return sum;
}
