#include <config.h>

#include "tools/shuffle/memory.h"
#include "tools/shuffle/complaint.h"

#include <assert.h>
#include <stdlib.h>

#define MEMORY_ALIGNMENT 64u

size_t memory_round(size_t size)
{
    return (size + MEMORY_ALIGNMENT - 1) & ~(size_t)(MEMORY_ALIGNMENT - 1);
}

/* Asked first, because to be refused would be a warning in the log. */
static bool memory_fits(ucxpool_t *pool, size_t size)
{
    ucxpool_stats_t              stats;
    const ucxpool_share_stats_t *user = &stats.blocks[UCXPOOL_SHARE_USER];

    ucxpool_stats_get(pool, &stats);
    return user->free >= (size + stats.block_size - 1) / stats.block_size;
}

int memory_init(memory_t *memory, ucxpool_t *pool, size_t size)
{
    void *address = NULL;

    memory->pool = pool;
    memory->size = memory_round(size);
    memory->used = 0;
    memory->is_registered =
        memory_fits(pool, memory->size) &&
        (ucxpool_comm_alloc(pool, memory->size, &address) == UCXPOOL_OK);
    if (!memory->is_registered) {
        address = aligned_alloc(MEMORY_ALIGNMENT, memory->size);
    }
    memory->address = address;
    if (address == NULL) {
        return complain("out of memory for %zu bytes of batches: use fewer "
                        "workers (-w) or partitions (-p)",
                        memory->size);
    }
    return 0;
}

void memory_cleanup(memory_t *memory)
{
    if (memory->is_registered) {
        ucxpool_comm_free(memory->pool, memory->address);
    } else {
        free(memory->address);
    }
    memory->address = NULL;
}

char *memory_take(memory_t *memory, size_t size)
{
    char *address = memory->address + memory->used;

    memory->used += memory_round(size);
    assert(memory->used <= memory->size);
    return address;
}
