/*
 * How soon UCX notices that a peer is gone, for who asks.
 */
#include <ucxpool/ucx.h>

#include "base/config.h"
#include "base/error.h"
#include "base/math.h"
#include "ucx/peer_timeout.h"
#include "ucx/tcp_watch.h"

#include <stdio.h>
#include <string.h>

/* As the kernel has it, where it does not tell. */
#define TCP_RETRIES2 15u

static ucxpool_status_t read_time(const ucxpool_config_t *config,
                                  uint64_t               *time_ns_p)
{
    ucxpool_config_t *own = NULL;
    ucxpool_status_t  status;

    if (config == NULL) {
        status = ucxpool_config_read(&own);
        if (status != UCXPOOL_OK) {
            return status;
        }
        config = own;
    }
    *time_ns_p = base_config_values(config)->peer_timeout_ns;
    ucxpool_config_release(own);
    return UCXPOOL_OK;
}

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
    uint64_t                 time_ns;
    uint64_t                 tcp_ns;
    ucxpool_status_t         status;

    if (base_missing(num_p) ||
        ((max_timeouts != 0) && base_missing(timeouts))) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = read_time(config, &time_ns);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = ucx_peer_timeout_query(time_ns, facts, &num);
    if (status != UCXPOOL_OK) {
        return status;
    }
    tcp_ns = base_min(ucx_tcp_watch_notice(time_ns),
                      ucx_peer_timeout_kernel(ucx_peer_timeout_sysctl(
                          "tcp_retries2", TCP_RETRIES2)));
    for (unsigned i = 0; (i < num) && (i < max_timeouts); i++) {
        fill(&facts[i], tcp_ns, &timeouts[i]);
    }
    *num_p = num;
    return UCXPOOL_OK;
}
