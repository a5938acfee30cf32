/*
 * The protection domains (verbs) that a pool's regions are registered in: each
 * of them once, however many asked for it.
 *
 * Threads: any. Registering takes a lock of its own, so that transfers go on
 * meanwhile.
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
    unsigned       num_users; /* that have not let it go */
    mem_verbs_t   *registration;
};

/* Cannot fail. */
void core_domains_init(core_domains_t *domains);
/* Deregister what is registered: nobody may use the handles any more. To be
 * called before the memory goes; twice is allowed. */
void core_domains_close(core_domains_t *domains);
void core_domains_cleanup(core_domains_t *domains);

/* What is registered now, and has been, into the fields for it. */
void core_domains_stats(const core_domains_t *domains, core_stats_t *stats_p);

/*
 * The domain, registered now if it is not yet.
 *
 * UCXPOOL_ERR_INVALID_PARAM  it is registered with other access
 * others                     as mem_verbs_create()
 */
ucxpool_status_t core_domain_get(ucxpool_t *pool, struct ibv_pd *pd, int access,
                                 ucxpool_verbs_t **domain_p);

/* As mem_verbs_deregister(), when the last user lets it go. */
ucxpool_status_t core_domain_put(ucxpool_verbs_t *domain);

#endif
