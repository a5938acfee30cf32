#include "core/stats.h"

#include "core/channel.h"
#include "core/domains.h"
#include "core/memory.h"
#include "ucx/reg.h"

#include <string.h>

static uint64_t registered_bytes(const mem_regions_t *regions)
{
    uint64_t num = 0;

    for (unsigned i = 0; i < regions->num_regions; i++) {
        num += regions->regions[i].memh != NULL;
    }
    return num * regions->region_size;
}

void core_counters_add(core_counters_t *to, const core_counters_t *from)
{
    uint64_t       *sums    = &to->messages_sent;
    const uint64_t *numbers = &from->messages_sent;

    for (size_t i = 0; i < sizeof(*to) / sizeof(*sums); i++) {
        sums[i] += numbers[i];
    }
}

static void add_channels(const ucxpool_t *pool, core_counters_t *sum)
{
    for (uint32_t i = 0; i < pool->channels.table_size; i++) {
        if (pool->channels.table[i] != NULL) {
            core_counters_add(sum, &pool->channels.table[i]->counts);
        }
    }
}

void core_stats_get(ucxpool_t *pool, core_stats_t *stats_p)
{
    core_lock(pool);
    *stats_p = pool->stats;
    add_channels(pool, &stats_p->counts);
    stats_p->block_size       = block_pool_block_size(pool->memory.blocks);
    stats_p->num_regions      = pool->memory.regions.num_regions;
    stats_p->registered_bytes = registered_bytes(&pool->memory.regions) +
                                registered_bytes(&pool->memory.pinned_regions);
    ucx_reg_verified(core_memory_registered(pool), &stats_p->domains_needed,
                     &stats_p->regions_verified);
    core_unlock(pool);
    core_domains_stats(&pool->domains, stats_p);
    for (int i = 0; i < BLOCK_SHARE_LAST; i++) {
        block_pool_stats(pool->memory.blocks, (block_share_t)i,
                         &stats_p->blocks[i]);
    }
}

void core_heap_stats_get(ucxpool_t *pool, heap_stats_t *stats_p)
{
    heap_t *heap = __atomic_load_n(&pool->heap, __ATOMIC_ACQUIRE);

    memset(stats_p, 0, sizeof(*stats_p));
    if (heap != NULL) {
        heap_stats(heap, stats_p);
    }
}
