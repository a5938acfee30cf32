/*
 * How a stitched range comes into being.
 */
#ifndef HEAP_STITCH_MAP_H
#define HEAP_STITCH_MAP_H

#include "heap/plan.h"
#include "heap/stitch.h"

/*
 * Map what a plan names; it is kept, and in no use. Where there is no room,
 * others that are kept go.
 *
 * *stitched_p  NULL: there is no room all the same.
 *
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO  as heap_stitch()
 */
ucxpool_status_t heap_stitched_create(heap_stitcher_t   *stitcher,
                                      const heap_plan_t *plan,
                                      heap_stream_t     *stream,
                                      heap_stitched_t  **stitched_p);

#endif
