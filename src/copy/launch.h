/*
 * A range of the stream as the list of one launch of a GPU's copy kernel
 * (copy/tiles.h).
 */
#ifndef COPY_LAUNCH_H
#define COPY_LAUNCH_H

#include "copy/plan.h"
#include "copy/tiles.h"

typedef struct copy_launch {
    copy_table_t list;    /* its stream is for the caller to fill */
    uint64_t     covered; /* bytes of the stream, from the range's start */
    size_t       first;   /* number of the list's first segment or piece, */
                          /* with COPY_UNIFORM */
} copy_launch_t;

/*
 * Fill a list with the plan's memory behind [offset, offset + length) of the
 * stream, as far as there is room for entries: at least one fits. A gather
 * clears the padding in what was covered, if its offset is a multiple of
 * COPY_ALIGNMENT and its end is one or the stream's. A scatter takes any range.
 *
 * The list may be a part of the pieces' own, where these are pinned: then
 * nobody has looked at them, and the kernel tells of a NULL.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the address of a piece in it is NULL; the detail
 *                            names the piece
 */
ucxpool_status_t copy_launch_fill(copy_plan_t *plan, uint64_t offset,
                                  uint64_t length, bool is_gather,
                                  void *entries, size_t entries_size,
                                  copy_launch_t *launch_p);

/* The error of a piece that has no address. */
ucxpool_status_t copy_launch_no_address(size_t piece);

#endif
