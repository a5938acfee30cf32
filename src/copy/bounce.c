#include "copy/bounce.h"

#include "base/math.h"
#include "copy/memtype.h"

#include <string.h>

/* An entry of a list, whatever its form. */
typedef struct entry {
    uint64_t *address;
    uint64_t  length;
    uint64_t  offset; /* in the range */
} entry_t;

/* Number `index` of a list; next_p is where one begins that follows this. */
static entry_t entry_get(const copy_table_t *list, uint32_t index,
                         uint64_t *next_p)
{
    void   *entries = (void *)(uintptr_t)list->entries;
    entry_t entry;

    entry.offset = *next_p;
    if (list->form == COPY_UNIFORM) {
        entry.address = (uint64_t *)entries + index;
        entry.length  = list->length;
    } else if (list->form == COPY_SEGMENTS) {
        copy_segment_t *segment = (copy_segment_t *)entries + index;

        entry.address = &segment->address;
        entry.length  = segment->length;
    } else {
        copy_exact_t *exact = (copy_exact_t *)entries + index;

        entry.address = &exact->address;
        entry.length  = exact->length;
        entry.offset  = exact->offset;
    }
    *next_p = base_align_up(entry.offset + entry.length, COPY_UNIT);
    return entry;
}

/* The driver fails only where nothing works any more: then whatever follows
 * tells. */
static bool is_host(const mem_cuda_driver_t *driver, uint64_t address)
{
    copy_pointer_t pointer;

    return (copy_pointer_query(driver, address, &pointer) == UCXPOOL_OK) &&
           ((pointer.place == COPY_MEMTYPE_PAGEABLE) ||
            (pointer.place == COPY_MEMTYPE_PINNED));
}

void copy_bounce_segments(const mem_cuda_driver_t *driver, copy_cuda_job_t *job,
                          copy_launch_t *launch, bool is_gather,
                          copy_job_t *copy)
{
    uint64_t next = 0;

    for (uint32_t i = 0; i < launch->list.num_entries; i++) {
        entry_t entry = entry_get(&launch->list, i, &next);
        char   *place = job->bounce + entry.offset;
        /* The last of a uniform list may be cut short by the range's end. */
        size_t length =
            (size_t)base_min(entry.length, launch->covered - entry.offset);
        void *memory = (void *)(uintptr_t)*entry.address;

        if ((length == 0) || !is_host(driver, *entry.address)) {
            continue;
        }
        if (is_gather) {
            memcpy(place, memory, length);
        } else {
            copy->rest[copy->num_rest++] =
                (copy_entry_t){memory, place, length};
        }
        *entry.address = (uintptr_t)place;
    }
}

uint64_t copy_bounce_block(copy_cuda_job_t *job, const void *block,
                           uint64_t length)
{
    char *place = job->bounce + COPY_BOUNCE_HALF;

    memcpy(place, block, (size_t)length);
    return (uintptr_t)place;
}
