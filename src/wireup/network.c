/*
 * The networks that a pool's UCX uses. UCX's TCP transport listens on all these
 * networks, and does not check the secret of connecting processes. So UCX
 * starts on loopback only, and other networks are added when the pool first
 * needs them.
 */
#include "wireup/wireup.h"

#include "base/error.h"
#include "base/log.h"
#include "bootstrap/listener.h"
#include "core/endpoint.h"
#include "core/inbox.h"
#include "core/memory.h"
#include "mem/system.h"
#include "ucx/context.h"
#include "ucx/reg.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

/* --- replacing UCX's context ---------------------------------------------- */

ucxpool_status_t wireup_network_watch(ucxpool_t *pool)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = pool};
    int                fd    = -1;

    /* UCX 1.22 returns UCS_OK even if it sets no descriptor. */
    if (ucp_worker_get_efd(pool->ucx.worker, &fd) != UCS_OK) {
        fd = -1;
    }
    if ((fd >= 0) &&
        (epoll_ctl(pool->wakeup.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)) {
        return base_error_errno(errno, "cannot watch UCX's worker");
    }
    pool->wakeup.worker_fd    = fd;
    pool->wakeup.is_ucx_armed = false;
    ucx_tcp_watch_init(&pool->wakeup.tcp_watch, pool->name, fd,
                       pool->config.peer_timeout_ns);
    return UCXPOOL_OK;
}

static void unwatch(ucxpool_t *pool)
{
    ucx_tcp_watch_cleanup(&pool->wakeup.tcp_watch);
    if (pool->wakeup.worker_fd >= 0) {
        (void)epoll_ctl(pool->wakeup.epoll_fd, EPOLL_CTL_DEL,
                        pool->wakeup.worker_fd, NULL);
        pool->wakeup.worker_fd = -1;
    }
    pool->wakeup.tcp_watch.worker_fd = -1;
}

/* Returns true if the pool's address may be in flight to the channel's peer. */
static bool is_connecting(const ucxpool_channel_t *channel)
{
    return (channel->state == UCXPOOL_CHANNEL_CONNECTING) &&
           ((channel->wireup.client != NULL) || (channel->conn.remote != NULL));
}

/* Returns true if UCX's context cannot be replaced. Clients of listeners may
 * have received the pool's address, but have not been accepted yet. */
static bool is_in_use(ucxpool_t *pool)
{
    const ucxpool_channel_t *channel;

    if (!base_list_is_empty(&pool->channels.endpoints) ||
        (pool->num_operations != 0) || (pool->wireup.num_early != 0) ||
        pool->wireup.is_shared || (pool->stats.window_registered_bytes != 0) ||
        wireup_listeners_have_callers(pool)) {
        return true;
    }
    base_list_find(channel, &pool->channels.open, ucxpool_channel_t, link,
                   is_connecting(channel));
    return channel != NULL;
}

/* Release the registrations of the old context before the new context registers
 * memory, because there may not be room for both. Also destroy the old context,
 * because UCX may keep released registrations until then. */
static void leave(ucxpool_t *pool, mem_regions_t *regions)
{
    unwatch(pool);
    ucx_dereg_regions(regions, pool->ucx.context);
    ucx_context_settle_worker(&pool->ucx);
    ucx_context_destroy_worker(&pool->ucx, pool->name);
    ucx_context_cleanup(&pool->ucx);
}

static ucxpool_status_t enter(ucxpool_t *pool, const ucx_context_t *fresh,
                              mem_regions_t *regions)
{
    ucxpool_status_t status = UCXPOOL_OK;

    pool->ucx = *fresh;
    base_list_init(&pool->ucx.claim.link);
    if (regions->num_regions != 0) {
        status = core_memory_register(pool, regions);
    }
    if (status == UCXPOOL_OK) {
        status = core_inbox_init(pool);
    }
    if (status == UCXPOOL_OK) {
        status = wireup_network_watch(pool);
    }
    return status;
}

/* Move all objects of the pool that depend on a context or its worker to a new
 * context. *moved_p is set when the old context is no longer used. */
static ucxpool_status_t move_to(ucxpool_t *pool, const char *devices,
                                mem_regions_t *regions, bool *moved_p)
{
    ucx_context_params_t params = {
        .for_gpu         = pool->memory.regions.device >= 0,
        .has_rdma        = mem_has_rdma_device(),
        .peer_timeout_ns = pool->config.peer_timeout_ns,
        .devices         = devices,
    };
    ucx_context_t    fresh;
    ucxpool_status_t status = ucx_context_init(&fresh, &params);

    *moved_p = status == UCXPOOL_OK;
    if (status != UCXPOOL_OK) {
        return status;
    }
    leave(pool, regions);
    status = enter(pool, &fresh, regions);
    ucx_child_close_on_exec(&pool->wakeup.child);
    return status;
}

/* Record that UCX could not be restarted. The worker is kept until UCX is
 * restarted or the pool is destroyed. It has no handlers and no registrations,
 * sends no messages, and the pool no longer progresses it. */
static void set_lost(ucxpool_t *pool, const char *devices)
{
    unwatch(pool);
    memcpy(pool->ucx.devices, devices, sizeof(pool->ucx.devices));
    pool->ucx.is_lost = true;
    base_warn("%s: UCX could not be restarted, neither with other network "
              "devices nor with %s: the ucx wire is unavailable until a later "
              "connection restarts UCX; set UCX_NET_DEVICES so that the "
              "devices do not change",
              pool->name, devices);
}

static ucxpool_status_t replace(ucxpool_t *pool, const char *devices,
                                bool *moved_p)
{
    mem_regions_t   *regions  = core_memory_registered(pool);
    bool             was_lost = pool->ucx.is_lost;
    char             old[UCX_DEVICES_SIZE];
    bool             is_back;
    ucxpool_status_t status;

    memcpy(old, pool->ucx.devices, sizeof(old));
    status = move_to(pool, devices, regions, moved_p);
    if ((status != UCXPOOL_OK) && *moved_p &&
        (was_lost || (move_to(pool, old, regions, &is_back) != UCXPOOL_OK))) {
        set_lost(pool, old);
    }
    return status;
}

/* Return the error for a change of UCX's devices while UCX is in use. */
static ucxpool_status_t refuse(const ucxpool_t *pool, const char *device)
{
    return base_error(UCXPOOL_ERR_UNSUPPORTED,
                      "UCX is in use on %.80s alone, and cannot add %s now; "
                      "listen or connect there before other channels are "
                      "opened and before the pool's address is exported, or "
                      "set UCX_NET_DEVICES",
                      pool->ucx.devices,
                      (device != NULL) ? device : "other devices");
}

/* --- choosing networks ---------------------------------------------------- */

/* Make listeners send the new address to their clients, if the address has
 * changed or the listeners still have an old address. */
static ucxpool_status_t renew(ucxpool_t *pool, bool moved,
                              ucxpool_status_t status)
{
    ucxpool_status_t renewed;

    if (moved || pool->wireup.is_stale) {
        renewed               = wireup_listeners_renew(pool);
        pool->wireup.is_stale = renewed != UCXPOOL_OK;
        status                = (status == UCXPOOL_OK) ? renewed : status;
    }
    return status;
}

/* Restart UCX if it must not be used any more (ucx.is_lost). If the restart
 * fails, only the `map` wire is available. */
static void restart(ucxpool_t *pool)
{
    char devices[UCX_DEVICES_SIZE];
    bool moved = false;

    if (pool->ucx.is_lost && !is_in_use(pool)) {
        memcpy(devices, pool->ucx.devices, sizeof(devices));
        (void)replace(pool, devices, &moved);
    }
    (void)renew(pool, moved, UCXPOOL_OK);
}

/*
 * Let UCX use a device, or all devices if `device` is NULL. Does nothing if UCX
 * is not limited to certain devices, or already uses the requested ones.
 * Otherwise UCX's context and worker are replaced, and the pool's addresses
 * change: *moved_p is set, even after an error. All registrations are released
 * first and then repeated.
 *
 * UCXPOOL_ERR_UNSUPPORTED  UCX is in use: the pool has endpoints, connecting
 *                          channels, callers or windows registered with UCX, or
 *                          its address was exported
 * others                   those of ucx_context_init() and ucx_reg_regions().
 *                          UCX keeps its devices if it can register the memory
 *                          again. Otherwise the pool has no usable UCX until a
 *                          restart succeeds: only channels on the `map` wire
 *                          work, and core_endpoint_check() fails
 */
static ucxpool_status_t open_device(ucxpool_t *pool, const char *device,
                                    bool *moved_p)
{
    const char *limit = pool->ucx.devices;
    char        devices[UCX_DEVICES_SIZE];

    *moved_p = false;
    if (pool->ucx.is_lost) {
        return core_endpoint_check(pool);
    }
    if ((limit[0] == '\0') || ucx_tune_has_device(limit, device)) {
        return UCXPOOL_OK;
    }
    if (is_in_use(pool)) {
        return refuse(pool, device);
    }
    if (device == NULL) {
        devices[0] = '\0';
    } else if (snprintf(devices, sizeof(devices), "%s,%s", limit, device) >=
               (int)sizeof(devices)) {
        return base_error(UCXPOOL_ERR_LIMIT,
                          "the names of UCX's devices exceed %zu bytes; set "
                          "UCX_NET_DEVICES",
                          sizeof(devices));
    }
    return replace(pool, devices, moved_p);
}

/* Like open_device(), but also make listeners send the new address, and log a
 * warning if UCX listens on more devices than before. `why` is a clause for the
 * warning, or "". */
static ucxpool_status_t open_and_warn(ucxpool_t *pool, const char *device,
                                      const char *why)
{
    char             names[UCX_DEVICES_SIZE];
    bool             moved;
    ucxpool_status_t status;

    if (device != NULL) {
        snprintf(names, sizeof(names), "%s", device);
    } else if (!ucx_tune_other_devices(pool->ucx.devices, names,
                                       sizeof(names))) {
        snprintf(names, sizeof(names), "all devices");
    }
    status = open_device(pool, device, &moved);
    status = renew(pool, moved, status);
    if (moved && (status == UCXPOOL_OK)) {
        base_warn("%s: UCX also listens on %s%s: any process that can reach "
                  "its ports can read and write the memory of this process "
                  "without the secret. Block these ports with a firewall; to "
                  "avoid this warning, set UCX_NET_DEVICES to the devices that "
                  "UCX may use",
                  pool->name, names, why);
    }
    return status;
}

/* Let UCX use the device that has the address, or all devices if no device has
 * the address. */
static ucxpool_status_t open_address(ucxpool_t                 *pool,
                                     const bootstrap_address_t *address)
{
    char name[IF_NAMESIZE];

    if (bootstrap_address_is_loopback(address)) {
        return UCXPOOL_OK;
    }
    return open_and_warn(
        pool, bootstrap_address_device(address, name) ? name : NULL, "");
}

ucxpool_status_t wireup_network_listen(ucxpool_t               *pool,
                                       const bootstrap_where_t *where)
{
    ucxpool_status_t status = UCXPOOL_OK;

    restart(pool);
    for (size_t i = 0; (i < where->num_addresses) && (status == UCXPOOL_OK);
         i++) {
        status = open_address(pool, &where->addresses[i]);
    }
    return status;
}

/* Let UCX use the device of the route from source to the address. If this
 * fails, logs a warning and returns false. */
static bool open_way(ucxpool_t *pool, const bootstrap_address_t *address,
                     const bootstrap_address_t *source)
{
    char name[BOOTSTRAP_ADDRESS_NAME_SIZE];

    if (open_address(pool, source) == UCXPOOL_OK) {
        return true;
    }
    bootstrap_address_format(address, name);
    base_warn("%s: the ucx wire cannot reach %s: %s", pool->name, name,
              ucxpool_error_detail());
    return false;
}

bool wireup_network_connect(ucxpool_t *pool, const bootstrap_where_t *where)
{
    bool                has_way   = false;
    bool                has_route = false;
    bootstrap_address_t source;

    restart(pool);
    for (size_t i = 0; i < where->num_addresses; i++) {
        if (bootstrap_address_source(&where->addresses[i], &source)) {
            has_route = true;
            has_way |= open_way(pool, &where->addresses[i], &source);
        }
    }
    return has_way || !has_route;
}

ucxpool_status_t wireup_network_share(ucxpool_t *pool)
{
    ucxpool_status_t status;

    restart(pool);
    status =
        open_and_warn(pool, NULL, ", because the pool's address is exported");
    if ((status == UCXPOOL_ERR_UNSUPPORTED) || pool->ucx.is_lost) {
        status = UCXPOOL_OK; /* peers can use the open networks */
    }
    pool->wireup.is_shared |= status == UCXPOOL_OK;
    return status;
}
