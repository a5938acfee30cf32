#include <config.h>

#include "tools/shuffle/store.h"
#include "tools/shuffle/complaint.h"

#include <assert.h>
#include <stdlib.h>

#define STORE_ALIGNMENT 64u

size_t store_round(size_t size)
{
    return (size + STORE_ALIGNMENT - 1) & ~(size_t)(STORE_ALIGNMENT - 1);
}

/* Asked first, because to be refused would be a warning in the log. */
static bool store_fits(ucxpool_t *pool, size_t size)
{
    ucxpool_stats_t              stats;
    const ucxpool_share_stats_t *user = &stats.blocks[UCXPOOL_SHARE_USER];

    ucxpool_stats_get(pool, &stats);
    return user->free >= (size + stats.block_size - 1) / stats.block_size;
}

int store_init(store_t *store, ucxpool_t *pool, size_t size)
{
    void *address = NULL;

    store->pool = pool;
    store->size = store_round(size);
    store->used = 0;
    store->is_registered =
        store_fits(pool, store->size) &&
        (ucxpool_comm_alloc(pool, store->size, &address) == UCXPOOL_OK);
    if (!store->is_registered) {
        address = aligned_alloc(STORE_ALIGNMENT, store->size);
    }
    store->address = address;
    if (address == NULL) {
        return complain("out of memory for %zu bytes of batches: use fewer "
                        "workers (-w) or partitions (-p)",
                        store->size);
    }
    return 0;
}

void store_cleanup(store_t *store)
{
    if (store->is_registered) {
        ucxpool_comm_free(store->pool, store->address);
    } else {
        free(store->address);
    }
    store->address = NULL;
}

char *store_take(store_t *store, size_t size)
{
    char *address = store->address + store->used;

    store->used += store_round(size);
    assert(store->used <= store->size);
    return address;
}
