/*
 * Which free chunks and pages to stitch: as few mappings as possible, so large
 * chunks first, and of pages only as many as are missing.
 */
#ifndef HEAP_PLAN_H
#define HEAP_PLAN_H

#include "heap/stitch.h"

typedef struct heap_plan {
    heap_run_t *runs;
    size_t      num_runs;
    size_t      capacity;
    size_t      num_mappings;
    uint64_t    size; /* of all runs */
} heap_plan_t;

/*
 * Look among what a stream has free. The plan has less than `size` bytes where
 * that is all there is. Cleaned up by the caller in any case.
 *
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t heap_plan_make(const heap_space_t  *space,
                                const heap_stream_t *stream, uint64_t size,
                                heap_plan_t *plan);
void             heap_plan_cleanup(heap_plan_t *plan);

/* Bytes that could be stitched of what a stream has free. */
uint64_t heap_plan_stitchable(const heap_space_t  *space,
                              const heap_stream_t *stream);

#endif
