#include "core/domains.h"

#include "core/memory.h"

#include "base/error.h"
#include "base/log.h"

#include <stdlib.h>

void core_domains_init(core_domains_t *domains)
{
    domains->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    base_list_init(&domains->list);
}

static void domain_remove(core_domains_t *domains, ucxpool_verbs_t *domain)
{
    base_list_del(&domain->link);
    __atomic_fetch_sub(&domains->num_domains, 1, __ATOMIC_RELAXED);
    mem_verbs_destroy(domain->registration);
    free(domain);
}

void core_domains_close(core_domains_t *domains)
{
    ucxpool_verbs_t *domain;
    ucxpool_verbs_t *next;

    base_list_for_each_safe(domain, next, &domains->list, ucxpool_verbs_t,
                            link) {
        if (mem_verbs_deregister(domain->registration) != UCXPOOL_OK) {
            base_warn("%s: its memory stays registered with a device until the "
                      "protection domain is deallocated",
                      domain->pool->name);
        }
        domain_remove(domains, domain);
    }
}

void core_domains_cleanup(core_domains_t *domains)
{
    pthread_mutex_destroy(&domains->lock);
}

static ucxpool_verbs_t *find_domain(core_domains_t      *domains,
                                    const struct ibv_pd *pd)
{
    ucxpool_verbs_t *domain;

    base_list_for_each(domain, &domains->list, ucxpool_verbs_t, link) {
        if (domain->pd == pd) {
            return domain;
        }
    }
    return NULL;
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
    ucxpool_verbs_t *domain = find_domain(&pool->domains, pd);

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

ucxpool_status_t core_domain_get(ucxpool_t *pool, struct ibv_pd *pd, int access,
                                 ucxpool_verbs_t **domain_p)
{
    ucxpool_status_t status;

    pthread_mutex_lock(&pool->domains.lock);
    status = domain_get(pool, pd, access, domain_p);
    pthread_mutex_unlock(&pool->domains.lock);
    return status;
}

ucxpool_status_t core_domain_put(ucxpool_verbs_t *domain)
{
    core_domains_t  *domains = &domain->pool->domains;
    ucxpool_status_t status  = UCXPOOL_OK;

    pthread_mutex_lock(&domains->lock);
    if (domain->num_users > 1) {
        domain->num_users--;
    } else {
        status = mem_verbs_deregister(domain->registration);
        if (status == UCXPOOL_OK) {
            domain_remove(domains, domain);
        }
    }
    pthread_mutex_unlock(&domains->lock);
    return status;
}

static uint64_t load(const uint64_t *number)
{
    return __atomic_load_n(number, __ATOMIC_RELAXED);
}

void core_domains_stats(const core_domains_t *domains, core_stats_t *stats_p)
{
    const uint64_t *regions = domains->counts.num_regions;
    const uint64_t *bytes   = domains->counts.bytes;

    stats_p->verbs_domains        = load(&domains->num_domains);
    stats_p->verbs_registrations  = load(&domains->counts.num_calls);
    stats_p->verbs_register_ns    = load(&domains->counts.ns);
    stats_p->verbs_host_regions   = load(&regions[MEM_VERBS_HOST]);
    stats_p->verbs_host_bytes     = load(&bytes[MEM_VERBS_HOST]);
    stats_p->verbs_dmabuf_regions = load(&regions[MEM_VERBS_DMABUF]);
    stats_p->verbs_dmabuf_bytes   = load(&bytes[MEM_VERBS_DMABUF]);
    stats_p->verbs_peer_regions   = load(&regions[MEM_VERBS_PEER]);
    stats_p->verbs_peer_bytes     = load(&bytes[MEM_VERBS_PEER]);
}
