/*
 * Finds the files that contain memory of the pool: blocks are parts of its
 * regions, and heap allocations are parts of the heap's file.
 */
#ifndef CORE_FILES_H
#define CORE_FILES_H

#include "core/pool.h"

/* A part of memory in a file. */
typedef struct core_file_part {
    int      fd;     /* owned by the pool */
    uint32_t region; /* from 1 on; 0: the heap's file */
    uint64_t offset;
    uint64_t length;
} core_file_part_t;

/* Append a part, or extend the last one. Returns false if there are already
 * max_parts parts. */
bool core_file_part_add(core_file_part_t *parts, unsigned max_parts,
                        unsigned *num_parts, const core_file_part_t *part);

/*
 * Find the parts of memory, in order. The memory must not be freed during the
 * call.
 *
 * num_parts_p  [out] 0: some of the memory does not belong to the pool, or has
 *              no file.
 *
 * Returns false if there are more than max_parts parts.
 */
bool core_files_find(ucxpool_t *pool, const void *address, uint64_t length,
                     core_file_part_t *parts, unsigned max_parts,
                     unsigned *num_parts_p);

#endif
