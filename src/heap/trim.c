/*
 * Memory given back to the driver.
 */
#include <config.h>

#include "heap/heap_inside.h"

#include "base/math.h"

/* Give back a chunk or a page. What cannot be given back is passed over. */
static ucxpool_status_t release(heap_t *heap, uint64_t offset, uint64_t size)
{
    heap_range_t    *range = heap_space_cover(&heap->space, offset);
    uint64_t         done  = 0;
    ucxpool_status_t status;

    status = heap_stitcher_purge(&heap->stitcher, offset, size);
    if (status == UCXPOOL_ERR_BUSY) {
        return UCXPOOL_OK;
    }
    if (status == UCXPOOL_OK) {
        status = heap_space_release(&heap->space, range, offset, size, &done);
    }
    heap->trimmed += done;
    return status;
}

/* All of one free range, from its end, so that the heap becomes shorter. */
static ucxpool_status_t trim_range(heap_t *heap, const heap_range_t *range,
                                   size_t keep_size)
{
    const heap_home_t *home   = &heap->space.home;
    uint64_t           offset = range->offset;
    uint64_t           end    = heap_range_end(range);
    uint64_t           size;
    ucxpool_status_t   status = UCXPOOL_OK;

    while ((status == UCXPOOL_OK) && (offset < end) &&
           (home->reserved > keep_size)) {
        range = heap_space_cover(&heap->space, offset);
        if (heap_range_state(range) != HEAP_FREE) {
            offset = heap_range_end(range);
        } else if (!heap_space_unit(&heap->space, range, &offset, &size)) {
            offset = heap_range_end(range);
        } else {
            status = release(heap, offset, size);
            offset += size;
        }
    }
    return status;
}

static ucxpool_status_t trim(heap_t *heap, size_t keep_size)
{
    uint64_t           offset = 0;
    const heap_home_t *home   = &heap->space.home;
    heap_range_t      *range;
    ucxpool_status_t   status = heap_settle(heap, NULL);

    while ((status == UCXPOOL_OK) && (offset < home->size) &&
           (home->reserved > keep_size)) {
        range  = heap_space_cover(&heap->space, offset);
        offset = heap_range_end(range);
        if (heap_range_state(range) == HEAP_FREE) {
            status = trim_range(heap, range, keep_size);
        }
    }
    return status;
}

ucxpool_status_t heap_trim(heap_t *heap, size_t keep_size, size_t *released_p)
{
    uint64_t         before;
    ucxpool_status_t status;

    pthread_mutex_lock(&heap->lock);
    before = heap->trimmed;
    status = trim(heap, keep_size);
    if (heap->trimmed > before) {
        __atomic_store_n(&heap->is_tight, false, __ATOMIC_RELAXED);
    }
    if (released_p != NULL) {
        *released_p = heap->trimmed - before;
    }
    pthread_mutex_unlock(&heap->lock);
    return status;
}
