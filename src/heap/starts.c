#include <config.h>

#include "heap/starts.h"

#include "base/error.h"

#include <assert.h>
#include <stdlib.h>

ucxpool_status_t heap_starts_init(heap_starts_t *starts, uint64_t size)
{
    starts->num_pages = size / HEAP_PAGE;
    starts->pages     = calloc(starts->num_pages, sizeof(starts->pages[0]));
    if (starts->pages == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no host memory (%zu bytes) for the heap's table of "
                          "addresses",
                          starts->num_pages * sizeof(starts->pages[0]));
    }
    return UCXPOOL_OK;
}

void heap_starts_cleanup(heap_starts_t *starts)
{
    free(starts->pages);
    starts->pages = NULL;
}

heap_range_t *heap_starts_find(const heap_starts_t *starts, uint64_t offset)
{
    heap_start_t *entries = starts->pages[offset / HEAP_PAGE].starts;

    for (size_t i = 0; i < HEAP_STARTS_MAX; i++) {
        if (__atomic_load_n(&entries[i].key, __ATOMIC_ACQUIRE) == offset + 1) {
            return __atomic_load_n(&entries[i].range, __ATOMIC_RELAXED);
        }
    }
    return NULL;
}

heap_page_t *heap_starts_page(const heap_starts_t *starts, uint64_t offset)
{
    return __atomic_load_n(&starts->pages[offset / HEAP_PAGE].small,
                           __ATOMIC_ACQUIRE);
}

void heap_starts_open(heap_starts_t *starts, uint64_t offset, uint64_t size)
{
    for (uint64_t done = 0; done < size; done += HEAP_PAGE) {
        heap_starts_set_page(starts, offset + done, NULL);
    }
}

/* The entry with that key. */
static heap_start_t *entry(const heap_starts_t *starts, uint64_t offset,
                           uint64_t key)
{
    heap_start_t *entries = starts->pages[offset / HEAP_PAGE].starts;
    size_t        i       = 0;

    while (entries[i].key != key) {
        i++;
        assert(i < HEAP_STARTS_MAX);
    }
    return &entries[i];
}

void heap_starts_add(heap_starts_t *starts, heap_range_t *range)
{
    heap_start_t *start = entry(starts, range->offset, 0);

    __atomic_store_n(&start->range, range, __ATOMIC_RELAXED);
    __atomic_store_n(&start->key, range->offset + 1, __ATOMIC_RELEASE);
}

void heap_starts_remove(heap_starts_t *starts, const heap_range_t *range)
{
    heap_start_t *start = entry(starts, range->offset, range->offset + 1);

    __atomic_store_n(&start->key, 0, __ATOMIC_RELEASE);
}

void heap_starts_set_page(heap_starts_t *starts, uint64_t offset,
                          heap_page_t *page)
{
    __atomic_store_n(&starts->pages[offset / HEAP_PAGE].small, page,
                     __ATOMIC_RELEASE);
}
