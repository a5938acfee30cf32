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
static entry_t entry_get(const mem_copy_list_t *list, uint32_t index,
                         uint64_t *next_p)
{
    void   *entries = (void *)(uintptr_t)list->entries;
    entry_t entry;

    entry.offset = *next_p;
    if (list->form == MEM_COPY_UNIFORM) {
        entry.address = (uint64_t *)entries + index;
        entry.length  = list->length;
    } else if (list->form == MEM_COPY_SEGMENTS) {
        mem_copy_segment_t *segment = (mem_copy_segment_t *)entries + index;

        entry.address = &segment->address;
        entry.length  = segment->length;
    } else {
        mem_copy_exact_t *exact = (mem_copy_exact_t *)entries + index;

        entry.address = &exact->address;
        entry.length  = exact->length;
        entry.offset  = exact->offset;
    }
    *next_p = base_align_up(entry.offset + entry.length, MEM_COPY_UNIT);
    return entry;
}

/* The driver fails only where nothing works any more: then whatever follows
 * tells. */
static bool is_host(const mem_cuda_driver_t *driver, uint64_t address)
{
    mem_cuda_pointer_t pointer;

    return (mem_cuda_pointer_query(driver, address, &pointer) == UCXPOOL_OK) &&
           ((pointer.place == MEM_CUDA_PAGEABLE) ||
            (pointer.place == MEM_CUDA_PINNED));
}

void xfer_bounce_segments(const mem_cuda_driver_t *driver, mem_cuda_job_t *job,
                          pack_launch_t *launch, bool is_gather,
                          xfer_copy_t *copy)
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
            copy->rest[copy->num_rest++] = (mem_copy_t){memory, place, length};
        }
        *entry.address = (uintptr_t)place;
    }
}

uint64_t xfer_bounce_block(mem_cuda_job_t *job, const void *block,
                           uint64_t length)
{
    char *place = job->bounce + XFER_BOUNCE_HALF;

    memcpy(place, block, (size_t)length);
    return (uintptr_t)place;
}
