/*
 * The protection domains (verbs) in which a pool's regions are registered. A
 * domain has one registration, for any number of users.
 *
 * Threads: any. Registration uses its own lock, so that transfers continue.
 */
#ifndef CORE_DOMAINS_H
#define CORE_DOMAINS_H

#include "core/pool.h"
#include "mem/reg_verbs.h"

#include <ucxpool/verbs.h>

struct ucxpool_verbs {
    base_list_t    link;
    ucxpool_t     *pool;
    struct ibv_pd *pd;
    int            access;
    unsigned       num_users; /* users that have not released the domain */
    mem_verbs_t   *registration;
};

/* Initialize an empty list. Cannot fail. */
void core_domains_init(core_domains_t *domains);
/* Deregister all domains; their handles must not be used any more. Must be
 * called before the memory is freed; may be called twice. */
void core_domains_close(core_domains_t *domains);
void core_domains_cleanup(core_domains_t *domains);

/* Write the current and past registrations to the statistics. */
void core_domains_stats(const core_domains_t *domains, core_stats_t *stats_p);

/*
 * Get the handle of the domain. Registers the regions in the domain first, if
 * necessary.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the domain is registered with other access flags
 * others                     those of mem_verbs_create()
 */
ucxpool_status_t core_domain_get(ucxpool_t *pool, struct ibv_pd *pd, int access,
                                 ucxpool_verbs_t **domain_p);

/* Release the domain. The last release deregisters the regions, and returns the
 * same errors as mem_verbs_deregister(). */
ucxpool_status_t core_domain_put(ucxpool_verbs_t *domain);

#endif
