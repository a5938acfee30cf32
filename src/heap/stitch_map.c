/*
 * The mappings of stitched ranges.
 */
#include <config.h>

#include "heap/stitch_map.h"

#include "base/error.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void heap_stitcher_init(heap_stitcher_t *stitcher, heap_space_t *space,
                        uint64_t begin, uint64_t end)
{
    *stitcher = (heap_stitcher_t){.space   = space,
                                  .address = space->home.address,
                                  .begin   = begin,
                                  .end     = end};
    base_list_init(&stitcher->all);
}

/* Chunks and pages in a part of the home. */
static size_t count_units(const heap_home_t *home, uint64_t offset,
                          uint64_t size)
{
    size_t count = 0;

    for (uint64_t done = 0; done < size; count++) {
        done += heap_home_grain(home, offset + done);
    }
    return count;
}

static size_t count_mappings(const heap_stitcher_t *stitcher,
                             const heap_stitched_t *stitched)
{
    size_t count = 0;

    for (size_t i = 0; i < stitched->num_runs; i++) {
        count += count_units(&stitcher->space->home, stitched->runs[i].home,
                             stitched->runs[i].size);
    }
    return count;
}

/* Unmap the first bytes of one, mapping by mapping. */
static ucxpool_status_t unmap(const heap_stitcher_t *stitcher,
                              const heap_stitched_t *stitched, uint64_t size)
{
    mem_vmm_t       *vmm    = stitcher->space->home.vmm;
    ucxpool_status_t status = UCXPOOL_OK;

    if (size > 0) {
        status =
            vmm->calls->unmap(vmm, stitcher->address + stitched->offset, size);
    }
    return status;
}

static ucxpool_status_t map_run(const heap_stitcher_t *stitcher,
                                const heap_run_t *run, uint64_t offset,
                                uint64_t *mapped_p)
{
    const heap_home_t *home = &stitcher->space->home;
    uint64_t           done, grain;

    for (done = 0; done < run->size; done += grain) {
        ucxpool_status_t status;

        grain  = heap_home_grain(home, run->home + done);
        status = home->vmm->calls->map(
            home->vmm, stitcher->address + offset + done,
            heap_home_chunk(home, run->home + done), grain);
        if (status != UCXPOOL_OK) {
            return status;
        }
        *mapped_p += grain;
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t map(const heap_stitcher_t *stitcher,
                            const heap_stitched_t *stitched)
{
    mem_vmm_t       *vmm    = stitcher->space->home.vmm;
    uint64_t         mapped = 0;
    ucxpool_status_t status = UCXPOOL_OK;

    for (size_t i = 0; (status == UCXPOOL_OK) && (i < stitched->num_runs);
         i++) {
        status = map_run(stitcher, &stitched->runs[i],
                         stitched->offset + mapped, &mapped);
    }
    if (status == UCXPOOL_OK) {
        status = vmm->calls->allow(vmm, stitcher->address + stitched->offset,
                                   stitched->size);
    }
    if (status != UCXPOOL_OK) {
        (void)unmap(stitcher, stitched, mapped);
    }
    return status;
}

/* Take one that is kept out of the mappings. */
static ucxpool_status_t drop(heap_stitcher_t *stitcher,
                             heap_stitched_t *stitched)
{
    size_t           num = count_mappings(stitcher, stitched);
    ucxpool_status_t status;

    assert(stitched->range == NULL);
    status = unmap(stitcher, stitched, stitched->size);
    if (status == UCXPOOL_OK) {
        base_list_del(&stitched->link);
        stitcher->num_kept--;
        stitcher->mapped -= stitched->size;
        stitcher->num_mappings -= num;
        free(stitched);
    }
    return status;
}

void heap_stitcher_cleanup(heap_stitcher_t *stitcher)
{
    heap_stitched_t *stitched, *next;

    base_list_for_each_safe(stitched, next, &stitcher->all, heap_stitched_t,
                            link) {
        (void)unmap(stitcher, stitched, stitched->size);
        base_list_del(&stitched->link);
        free(stitched);
    }
}

/* A gap of `size` bytes: its offset, and the stitched range behind it. */
static bool find_gap(const heap_stitcher_t *stitcher, uint64_t size,
                     uint64_t *offset_p, base_list_t **behind_p)
{
    heap_stitched_t *stitched;
    uint64_t         offset = stitcher->begin;

    base_list_for_each(stitched, &stitcher->all, heap_stitched_t, link) {
        if (stitched->offset - offset >= size) {
            break;
        }
        offset = stitched->offset + stitched->size;
    }
    *offset_p = offset;
    *behind_p = base_list_link(stitched, heap_stitched_t, link);
    return (*behind_p != &stitcher->all) || (stitcher->end - offset >= size);
}

static bool is_over(const heap_stitched_t *stitched)
{
    return heap_stream_is_over(stitched->stream, stitched->ticket);
}

/* Unmap what has been kept for the longest time; false: nothing can be. */
static bool make_room(heap_stitcher_t *stitcher)
{
    heap_stitched_t *stitched;
    heap_stitched_t *oldest = NULL;

    base_list_for_each(stitched, &stitcher->all, heap_stitched_t, link) {
        if ((stitched->range == NULL) && is_over(stitched) &&
            ((oldest == NULL) || (stitched->turn < oldest->turn))) {
            oldest = stitched;
        }
    }
    return (oldest != NULL) && (drop(stitcher, oldest) == UCXPOOL_OK);
}

ucxpool_status_t heap_stitched_create(heap_stitcher_t   *stitcher,
                                      const heap_plan_t *plan,
                                      heap_stream_t     *stream,
                                      heap_stitched_t  **stitched_p)
{
    heap_stitched_t *stitched;
    base_list_t     *behind;
    uint64_t         offset;
    size_t           runs_size = plan->num_runs * sizeof(plan->runs[0]);
    ucxpool_status_t status;

    *stitched_p = NULL;
    while (!find_gap(stitcher, plan->size, &offset, &behind)) {
        if (!make_room(stitcher)) {
            return UCXPOOL_OK;
        }
    }
    stitched = calloc(1, sizeof(*stitched) + runs_size);
    if (stitched == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no host memory to describe a stitched range");
    }
    stitched->offset   = offset;
    stitched->size     = plan->size;
    stitched->stream   = stream;
    stitched->num_runs = plan->num_runs;
    memcpy(stitched->runs, plan->runs, runs_size);
    status = map(stitcher, stitched);
    if (status != UCXPOOL_OK) {
        free(stitched);
        return status;
    }
    base_list_add_tail(behind, &stitched->link);
    stitcher->num_kept++;
    stitcher->mapped += stitched->size;
    stitcher->num_mappings += plan->num_mappings;
    *stitched_p = stitched;
    return UCXPOOL_OK;
}

static bool has_part(const heap_stitched_t *stitched, uint64_t offset,
                     uint64_t size)
{
    for (size_t i = 0; i < stitched->num_runs; i++) {
        const heap_run_t *run = &stitched->runs[i];

        if ((run->home < offset + size) && (offset < run->home + run->size)) {
            return true;
        }
    }
    return false;
}

ucxpool_status_t heap_stitcher_purge(heap_stitcher_t *stitcher, uint64_t offset,
                                     uint64_t size)
{
    heap_stitched_t *stitched, *next;

    base_list_for_each_safe(stitched, next, &stitcher->all, heap_stitched_t,
                            link) {
        ucxpool_status_t status = UCXPOOL_OK;

        if (has_part(stitched, offset, size)) {
            /* The part may be over, and others not. */
            status = ((stitched->range != NULL) || !is_over(stitched))
                         ? UCXPOOL_ERR_BUSY
                         : drop(stitcher, stitched);
        }
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    return UCXPOOL_OK;
}

const heap_stitched_t *heap_stitched_around(const heap_stitcher_t *stitcher,
                                            uint64_t               offset)
{
    heap_stitched_t *stitched;

    base_list_for_each(stitched, &stitcher->all, heap_stitched_t, link) {
        if ((offset >= stitched->offset) &&
            (offset - stitched->offset < stitched->size)) {
            return (stitched->range != NULL) ? stitched : NULL;
        }
    }
    return NULL;
}
