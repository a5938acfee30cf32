/*
 * Who owns an address: a table from addresses to allocations.
 */
#ifndef REPLAY_OWNERS_H
#define REPLAY_OWNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct owners_entry {
    uint64_t address; /* 0: nobody's */
    uint32_t allocation;
} owners_entry_t;

/* Open addressing; zeroed memory is an empty table. */
typedef struct owners {
    owners_entry_t *entries;
    size_t          num;
    size_t          room; /* 0 or a power of two */
} owners_t;

void owners_cleanup(owners_t *owners);

/* Put in an address that is not 0 and not there. 0, or -1 when there is no
 * memory. */
int owners_add(owners_t *owners, uint64_t address, uint32_t allocation);
/* False: nobody owns it. */
bool owners_find(const owners_t *owners, uint64_t address,
                 uint32_t *allocation_p);
/* Take out what is there. */
void owners_remove(owners_t *owners, uint64_t address);

#endif
