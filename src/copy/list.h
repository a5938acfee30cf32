/*
 * Copies by the processor: of a list, and between the memory of a plan and a
 * block.
 */
#ifndef COPY_LIST_H
#define COPY_LIST_H

#include "copy/plan.h"

#include <stdbool.h>
#include <stddef.h>

/* One copy of a list. */
typedef struct copy_entry {
    void       *target;
    const void *source;
    size_t      length;
} copy_entry_t;

/*
 * Copy a list. Sources and targets of later entries are prefetched while
 * earlier ones are copied. Entries must not overlap.
 */
void copy_list(const copy_entry_t *copies, size_t num_copies);

/*
 * The same, but targets are written past the cache. That saves reading each
 * line before it is written, and pays only where the line would be gone from
 * the cache anyway before somebody reads it: see copy_streams().
 */
void copy_list_stream(const copy_entry_t *copies, size_t num_copies);

/*
 * Should targets of so many bytes in all be written past the cache?
 */
bool copy_streams(size_t total_size);

/* Measured between two processes on two kinds of processor: shorter messages
 * are read again while they are in a cache, however large it says it is. */
#define COPY_STREAM_TOTAL ((size_t)32 << 20)

/*
 * Gather: copy the range [offset, offset + length) of the stream from the
 * plan's memory to `block`. Padding becomes zeros.
 *
 * UCXPOOL_ERR_IO  a file among the ranges could not be read; see copy/file.h
 */
ucxpool_status_t copy_gather(copy_plan_t *plan, uint64_t offset,
                             uint64_t length, void *block);

/* Scatter: copy such a range from `block` into the plan's memory. */
void copy_scatter(copy_plan_t *plan, uint64_t offset, uint64_t length,
                  const void *block);

#endif
