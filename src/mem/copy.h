/*
 * The host copy engine.
 */
#ifndef MEM_COPY_H
#define MEM_COPY_H

#include <stddef.h>

/* One copy of a list. */
typedef struct mem_copy {
    void       *target;
    const void *source;
    size_t      length;
} mem_copy_t;

/*
 * Copy a list. Sources of later entries are prefetched while earlier ones are
 * copied. Entries must not overlap.
 */
void mem_copy_list(const mem_copy_t *copies, size_t num_copies);

#endif
