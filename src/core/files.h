/*
 * Which files lie behind memory of the pool's own: communication buffers are
 * parts of its regions, and allocations of the heap are parts of the heap's
 * file.
 */
#ifndef CORE_FILES_H
#define CORE_FILES_H

#include "core/pool.h"

/* A part of some memory. */
typedef struct core_file_part {
    int      fd;     /* the pool's */
    uint32_t region; /* counted from 1 on; 0: it is in the heap's file */
    uint64_t offset;
    uint64_t length;
} core_file_part_t;

/* Put a part behind the others, or make the last one longer by it; false: there
 * are max_parts. */
bool core_file_part_add(core_file_part_t *parts, unsigned max_parts,
                        unsigned *num_parts, const core_file_part_t *part);

/*
 * The parts of some memory, in its order. Nobody frees it meanwhile.
 *
 * num_parts_p [out]  0: not all of it is the pool's, or it has no file.
 *
 * False: there are more than max_parts.
 */
bool core_files_find(ucxpool_t *pool, const void *address, uint64_t length,
                     core_file_part_t *parts, unsigned max_parts,
                     unsigned *num_parts_p);

#endif
