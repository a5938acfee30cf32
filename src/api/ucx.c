/* The public function that lists the memory domains of a pool's UCX context. */
#include "base/error.h"
#include "core/memory.h"
#include "ucx/reg.h"

#include <ucxpool/private.h>

#include <string.h>

static uint32_t flags_of(const ucx_domain_t *domain, bool is_needed)
{
    return (domain->is_known ? UCXPOOL_DOMAIN_KNOWN : 0u) |
           (domain->is_network ? UCXPOOL_DOMAIN_NETWORK : 0u) |
           (domain->registers ? UCXPOOL_DOMAIN_REGISTERS : 0u) |
           (domain->needs_keys ? UCXPOOL_DOMAIN_NEEDS_KEYS : 0u) |
           (is_needed ? UCXPOOL_DOMAIN_NEEDED : 0u);
}

static uint32_t count_regions(const mem_regions_t *regions, uint64_t bit)
{
    uint32_t count = 0;

    for (unsigned i = 0; i < regions->num_regions; i++) {
        count += (regions->regions[i].domains & bit) != 0;
    }
    return count;
}

size_t ucxpool_domains_query(ucxpool_t *pool, ucxpool_domain_t *domains,
                             size_t max_domains)
{
    const mem_regions_t *regions;
    const ucx_domains_t *all;

    if (base_missing(pool) || ((max_domains != 0) && base_missing(domains))) {
        return 0;
    }
    regions = core_memory_registered(pool);
    all     = regions->domains;
    if (all == NULL) {
        return 0; /* a pool without blocks */
    }
    for (unsigned i = 0; (i < all->num) && (i < max_domains); i++) {
        const ucx_domain_t *domain = &all->domains[i];
        uint64_t            bit    = UINT64_C(1) << i;

        memset(&domains[i], 0, sizeof(domains[i]));
        strcpy(domains[i].name, domain->name);
        strcpy(domains[i].component, domain->component);
        domains[i].flags       = flags_of(domain, (all->needed & bit) != 0);
        domains[i].num_regions = count_regions(regions, bit);
    }
    return all->num;
}
