#include <config.h>

#include "tools/shuffle/store.h"
#include "tools/shuffle/error.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define STORE_ALIGNMENT 64u

size_t store_round(size_t size)
{
    return (size + STORE_ALIGNMENT - 1) & ~(size_t)(STORE_ALIGNMENT - 1);
}

/* Asked first, because to be refused would be a warning in the log. */
static bool store_fits(ucxpool_t *pool, size_t size)
{
    uint64_t block_size = 1, num_free = 0;

    (void)ucxpool_stats_get(pool, "block_size", &block_size);
    (void)ucxpool_stats_get(pool, "blocks_user_free", &num_free);
    return num_free >= (size + block_size - 1) / block_size;
}

int store_init_plain(store_t *store, size_t size)
{
    memset(store, 0, sizeof(*store));
    store->size    = store_round(size);
    store->origin  = STORE_OF_PROCESS;
    store->address = aligned_alloc(STORE_ALIGNMENT, store->size);
    if (store->address == NULL) {
        return say_error("out of memory for %zu bytes of batches: use fewer "
                         "workers (-w) or partitions (-p)",
                         store->size);
    }
    return 0;
}

int store_init(store_t *store, ucxpool_t *pool, device_t *device, size_t size)
{
    void *address;

    memset(store, 0, sizeof(*store));
    store->pool   = pool;
    store->device = device;
    store->size   = store_round(size);
    if (store_fits(pool, store->size) &&
        (ucxpool_comm_alloc(pool, store->size, &address) == UCXPOOL_OK)) {
        store->origin  = STORE_OF_POOL;
        store->address = address;
        return 0;
    }
    if (device == NULL) {
        return store_init_plain(store, size);
    }
    store->origin = STORE_OF_DEVICE;
    return device_alloc(device, store->size, &store->address);
}

int store_init_pinned(store_t *store, device_t *device, size_t size)
{
    memset(store, 0, sizeof(*store));
    store->origin = STORE_PINNED;
    store->device = device;
    store->size   = store_round(size);
    return device_pin(device, store->size, &store->address);
}

void store_cleanup(store_t *store)
{
    if (store->address == NULL) {
        return;
    }
    switch (store->origin) {
    case STORE_OF_NOBODY:
        break;
    case STORE_OF_POOL:
        ucxpool_comm_free(store->pool, store->address);
        break;
    case STORE_OF_PROCESS:
        free(store->address);
        break;
    case STORE_OF_DEVICE:
        device_free(store->device, store->address);
        break;
    case STORE_PINNED:
        device_unpin(store->device, store->address);
        break;
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
