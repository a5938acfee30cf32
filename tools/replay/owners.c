#include "replay/owners.h"
#include "replay/error.h"

#include <stdlib.h>
#include <string.h>

void owners_cleanup(owners_t *owners)
{
    free(owners->entries);
    memset(owners, 0, sizeof(*owners));
}

/* Where an address would stand if nothing were in its way. */
static size_t home_of(const owners_t *owners, uint64_t address)
{
    return (size_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 20) &
           (owners->room - 1);
}

static size_t next_of(const owners_t *owners, size_t place)
{
    return (place + 1) & (owners->room - 1);
}

/* Where it stands, or could. */
static size_t place_of(const owners_t *owners, uint64_t address)
{
    size_t place = home_of(owners, address);

    while ((owners->entries[place].address != 0) &&
           (owners->entries[place].address != address)) {
        place = next_of(owners, place);
    }
    return place;
}

static int grow(owners_t *owners)
{
    owners_t larger = {.room = owners->room == 0 ? 1024 : 2 * owners->room};

    larger.num     = owners->num;
    larger.entries = calloc(larger.room, sizeof(*larger.entries));
    if (larger.entries == NULL) {
        return replay_error("out of memory for %zu live allocations",
                            larger.room);
    }
    for (size_t i = 0; i < owners->room; i++) {
        if (owners->entries[i].address != 0) {
            larger.entries[place_of(&larger, owners->entries[i].address)] =
                owners->entries[i];
        }
    }
    free(owners->entries);
    *owners = larger;
    return 0;
}

int owners_add(owners_t *owners, uint64_t address, uint32_t allocation)
{
    if ((2 * owners->num >= owners->room) && (grow(owners) != 0)) {
        return -1;
    }
    owners->entries[place_of(owners, address)] =
        (owners_entry_t){address, allocation};
    owners->num++;
    return 0;
}

bool owners_find(const owners_t *owners, uint64_t address,
                 uint32_t *allocation_p)
{
    size_t place;

    if (owners->room == 0) {
        return false;
    }
    place = place_of(owners, address);
    if (owners->entries[place].address == 0) {
        return false;
    }
    *allocation_p = owners->entries[place].allocation;
    return true;
}

void owners_remove(owners_t *owners, uint64_t address)
{
    size_t hole = place_of(owners, address);

    /* What stands behind, and would rather stand here, moves up. */
    for (size_t i = next_of(owners, hole); owners->entries[i].address != 0;
         i        = next_of(owners, i)) {
        size_t home = home_of(owners, owners->entries[i].address);

        if (((i - home) & (owners->room - 1)) >=
            ((i - hole) & (owners->room - 1))) {
            owners->entries[hole] = owners->entries[i];
            hole                  = i;
        }
    }
    owners->entries[hole].address = 0;
    owners->num--;
}
