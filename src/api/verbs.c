/*
 * The public functions for callers that use verbs directly: registration, and
 * the keys of blocks and buffers. A protection domain has one registration, for
 * any number of users. Registration uses its own lock, so that transfers
 * continue.
 */
#include <ucxpool/verbs.h>

#include "api/api.h"
#include "base/error.h"
#include "base/math.h"
#include "core/memory.h"
#include "core/pool.h"
#include "mem/reg_verbs.h"

#include <stdlib.h>

struct ucxpool_verbs {
    base_list_t    link;
    ucxpool_t     *pool;
    struct ibv_pd *pd;
    int            access;
    unsigned       num_users; /* users that have not released the domain */
    mem_verbs_t   *registration;
};

static void domain_remove(core_domains_t *domains, ucxpool_verbs_t *domain)
{
    base_list_del(&domain->link);
    __atomic_fetch_sub(&domains->num_domains, 1, __ATOMIC_RELAXED);
    mem_verbs_destroy(domain->registration);
    free(domain);
}

void api_verbs_close(ucxpool_t *pool)
{
    core_domains_t  *domains = &pool->domains;
    ucxpool_verbs_t *domain, *next;

    base_list_for_each_safe(domain, next, &domains->list, ucxpool_verbs_t,
                            link) {
        if (mem_verbs_deregister(domain->registration) != UCXPOOL_OK) {
            base_warn("%s: its memory stays registered with a device until the "
                      "protection domain is deallocated",
                      pool->name);
        }
        domain_remove(domains, domain);
    }
}

static ucxpool_status_t domain_create(ucxpool_t *pool, struct ibv_pd *pd,
                                      int access, ucxpool_verbs_t **domain_p)
{
    core_domains_t  *domains = &pool->domains;
    ucxpool_verbs_t *domain;
    ucxpool_status_t status = core_memory_check(pool);

    if (status != UCXPOOL_OK) {
        return status;
    }
    domain = calloc(1, sizeof(*domain));
    if (domain == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for a protection domain's registration");
    }
    domain->pool      = pool;
    domain->pd        = pd;
    domain->access    = access;
    domain->num_users = 1;

    status = mem_verbs_create(&pool->memory.regions, pd, access,
                              &domains->counts, &domain->registration);
    if (status != UCXPOOL_OK) {
        free(domain);
        return status;
    }
    base_list_add_tail(&domains->list, &domain->link);
    __atomic_fetch_add(&domains->num_domains, 1, __ATOMIC_RELAXED);
    *domain_p = domain;
    return UCXPOOL_OK;
}

/* Get or create a domain. The lock must be held. */
static ucxpool_status_t domain_get(ucxpool_t *pool, struct ibv_pd *pd,
                                   int access, ucxpool_verbs_t **domain_p)
{
    ucxpool_verbs_t *domain;

    base_list_find(domain, &pool->domains.list, ucxpool_verbs_t, link,
                   domain->pd == pd);
    if (domain == NULL) {
        return domain_create(pool, pd, access, domain_p);
    }
    if (domain->access != access) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the pool is already registered in this protection "
                          "domain with access 0x%x, not 0x%x; use the same "
                          "access, or another protection domain",
                          (unsigned)domain->access, (unsigned)access);
    }
    domain->num_users++;
    *domain_p = domain;
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_verbs_register(ucxpool_t *pool, struct ibv_pd *pd,
                                        int access, ucxpool_verbs_t **verbs_p)
{
    ucxpool_status_t status;

    if (base_missing(pool) || base_missing(pd) || base_missing(verbs_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    pthread_mutex_lock(&pool->domains.lock);
    status = domain_get(pool, pd, access, verbs_p);
    pthread_mutex_unlock(&pool->domains.lock);
    return status;
}

ucxpool_status_t ucxpool_verbs_deregister(ucxpool_verbs_t *verbs)
{
    core_domains_t  *domains;
    ucxpool_status_t status = UCXPOOL_OK;

    if (verbs == NULL) {
        return UCXPOOL_OK;
    }
    domains = &verbs->pool->domains;
    pthread_mutex_lock(&domains->lock);
    if (verbs->num_users > 1) {
        verbs->num_users--;
    } else {
        status = mem_verbs_deregister(verbs->registration);
        if (status == UCXPOOL_OK) {
            domain_remove(domains, verbs);
        }
    }
    pthread_mutex_unlock(&domains->lock);
    return status;
}

/* Find an address in the regions: in a block, or in a buffer made of blocks.
 * Returns false if the address is not in the regions. */
static bool locate(ucxpool_t *pool, const void *address, size_t length,
                   mem_piece_t *piece_p)
{
    const mem_regions_t *regions = &pool->memory.regions;
    size_t offset = (uintptr_t)address - (uintptr_t)regions->address;
    block_comm_buffer_t *ignored;

    if (offset < mem_regions_size(regions)) {
        piece_p->region = (uint32_t)(offset / regions->region_size);
        piece_p->offset = offset % regions->region_size;
        piece_p->length =
            base_min(regions->region_size - piece_p->offset, length);
        return true;
    }
    return block_comm_find(pool->memory.comm, address, length, piece_p,
                           &ignored);
}

ucxpool_status_t ucxpool_verbs_keys(const ucxpool_verbs_t *verbs,
                                    const void *address, size_t length,
                                    ucxpool_verbs_piece_t *piece_p)
{
    ucxpool_t  *pool;
    mem_piece_t where;
    uint32_t    lkey;
    uint32_t    rkey;

    if (base_missing(verbs) || base_missing(piece_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    pool = verbs->pool;
    if ((length == 0) || !locate(pool, address, length, &where)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%zu bytes at %p are not in a block or buffer of the "
                          "pool: only blocks and buffers have keys",
                          length, address);
    }
    if (!mem_verbs_keys(verbs->registration, where.region, &lkey, &rkey)) {
        return base_error(UCXPOOL_ERR_CLOSED,
                          "region %u is deregistered: register again",
                          where.region);
    }
    *piece_p = (ucxpool_verbs_piece_t){
        .address =
            (uintptr_t)pool->memory.regions.regions[where.region].address +
            where.offset,
        .length = where.length,
        .lkey   = lkey,
        .rkey   = rkey,
    };
    return UCXPOOL_OK;
}
