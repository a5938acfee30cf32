/*
 * The public functions for the UCX of a pool: how soon UCX detects a failed
 * peer, and which memory domains it uses.
 */
#include "api/config.h"
#include "base/error.h"
#include "base/math.h"
#include "core/memory.h"
#include "ucx/peer_timeout.h"
#include "ucx/reg.h"

#include <ucxpool/private.h>

#include <stdio.h>
#include <string.h>

/* --- detection of failed peers -------------------------------------------- */

/* The kernel's default, used if the value cannot be read. */
#define TCP_RETRIES2 15u

static void fill(const ucx_peer_timeout_facts_t *facts, uint64_t tcp_ns,
                 ucxpool_peer_timeout_t *timeout)
{
    ucx_peer_timeout_kind_t kind = facts->transport->kind;

    memset(timeout, 0, sizeof(*timeout));
    snprintf(timeout->transport, sizeof(timeout->transport), "%s",
             facts->transport->name);
    snprintf(timeout->settings, sizeof(timeout->settings), "%s",
             facts->settings);
    timeout->idle_ns = ucx_peer_timeout_idle(kind, &facts->own, tcp_ns);
    timeout->busy_ns = ucx_peer_timeout_busy(kind, &facts->own, tcp_ns);
    timeout->borrowed_idle_ns = UINT64_MAX;
    timeout->borrowed_busy_ns = UINT64_MAX;
    if (facts->is_known) {
        timeout->borrowed_idle_ns =
            ucx_peer_timeout_idle(kind, &facts->now, tcp_ns);
        timeout->borrowed_busy_ns =
            ucx_peer_timeout_busy(kind, &facts->now, tcp_ns);
    }
}

ucxpool_status_t ucxpool_peer_timeouts_query(const ucxpool_config_t *config,
                                             ucxpool_peer_timeout_t *timeouts,
                                             size_t max_timeouts, size_t *num_p)
{
    ucx_peer_timeout_facts_t facts[UCX_PEER_TIMEOUT_NUM_TRANSPORTS];
    unsigned                 num;
    base_config_t            values;
    uint64_t                 tcp_ns;
    ucxpool_status_t         status;

    if (base_missing(num_p) ||
        ((max_timeouts != 0) && base_missing(timeouts))) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = api_config_values(config, &values);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = ucx_peer_timeout_query(values.peer_timeout_ns, facts, &num);
    if (status != UCXPOOL_OK) {
        return status;
    }
    tcp_ns = base_min(ucx_tcp_watch_detection_time(values.peer_timeout_ns),
                      ucx_peer_timeout_kernel(ucx_peer_timeout_sysctl(
                          "tcp_retries2", TCP_RETRIES2)));
    for (unsigned i = 0; (i < num) && (i < max_timeouts); i++) {
        fill(&facts[i], tcp_ns, &timeouts[i]);
    }
    *num_p = num;
    return UCXPOOL_OK;
}

/* --- memory domains ------------------------------------------------------- */

static uint32_t flags_of(const ucx_domain_t *domain, bool is_needed)
{
    const struct {
        bool     is_present;
        uint32_t flag;
    } flags[] = {
        {domain->is_known, UCXPOOL_DOMAIN_KNOWN},
        {domain->is_network, UCXPOOL_DOMAIN_NETWORK},
        {domain->registers, UCXPOOL_DOMAIN_REGISTERS},
        {domain->needs_keys, UCXPOOL_DOMAIN_NEEDS_KEYS},
        {is_needed, UCXPOOL_DOMAIN_NEEDED},
    };
    uint32_t set = 0;

    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        set |= flags[i].is_present ? flags[i].flag : 0;
    }
    return set;
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
