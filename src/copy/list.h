/*
 * Functions that copy with the CPU. They execute the copies of a list, or copy
 * between the memory of a plan and a block.
 */
#ifndef COPY_LIST_H
#define COPY_LIST_H

#include "copy/plan.h"

#include <stdbool.h>
#include <stddef.h>

/* One copy in a list. */
typedef struct copy_entry {
    void       *target;
    const void *source;
    size_t      length;
} copy_entry_t;

/* Copy a list. Sources and targets of later entries are prefetched while
 * earlier entries are copied. Entries must not overlap. */
void copy_list(const copy_entry_t *copies, size_t num_copies);

/*
 * Like copy_list(), but writes the targets with non-temporal stores, which
 * bypass the cache. The CPU then does not read each line before writing it.
 * This is faster only if the line would be evicted before it is used: see
 * copy_streams().
 */
void copy_list_stream(const copy_entry_t *copies, size_t num_copies);

/* Returns true if targets of `total_size` bytes should be written with
 * non-temporal stores. */
bool copy_streams(size_t total_size);

/* The minimum total for which copy_streams() returns true. Measured between two
 * processes on two kinds of CPU. On both, shorter messages are still in a cache
 * when the receiver reads them. */
#define COPY_STREAM_TOTAL ((size_t)32 << 20)

/*
 * Gather: copy the range [offset, offset + length) of the stream from the
 * plan's memory to `block`. Padding is zeroed.
 *
 * UCXPOOL_ERR_IO  a file among the ranges could not be read; see copy/file.h
 */
ucxpool_status_t copy_gather(copy_plan_t *plan, uint64_t offset,
                             uint64_t length, void *block);

/* Scatter: copy the range [offset, offset + length) of the stream from `block`
 * to the plan's memory. */
void copy_scatter(copy_plan_t *plan, uint64_t offset, uint64_t length,
                  const void *block);

#endif
