#include "core/network.h"

#include "base/error.h"
#include "base/log.h"
#include "core/channel.h"
#include "core/inbox.h"
#include "core/memory.h"
#include "mem/system.h"
#include "ucx/context.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

ucxpool_status_t core_network_watch(ucxpool_t *pool)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = pool};
    int                fd    = -1;

    /* UCX 1.22 says OK, and gives none. */
    if (ucp_worker_get_efd(pool->ucx.worker, &fd) != UCS_OK) {
        fd = -1;
    }
    if ((fd >= 0) &&
        (epoll_ctl(pool->wakeup.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)) {
        return base_error_errno(errno, "UCX's worker cannot be watched");
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
    }
}

/* Is the name in a list with commas? */
static bool has_device(const char *devices, const char *name)
{
    size_t length = strlen(name);

    for (;; devices++) {
        if ((strncmp(devices, name, length) == 0) &&
            ((devices[length] == ',') || (devices[length] == '\0'))) {
            return true;
        }
        devices = strchr(devices, ',');
        if (devices == NULL) {
            return false;
        }
    }
}

/* Its address may be on the way to a peer. */
static bool is_connecting(const ucxpool_channel_t *channel)
{
    return (channel->state == UCXPOOL_CHANNEL_CONNECTING) &&
           ((channel->wireup.client != NULL) || (channel->conn.remote != NULL));
}

static bool is_in_use(const ucxpool_t *pool)
{
    const ucxpool_channel_t *channel;

    if (!base_list_is_empty(&pool->channels.endpoints) ||
        (pool->num_operations != 0) || (pool->wireup.num_early != 0) ||
        pool->wireup.is_shared || (pool->stats.window_registered_bytes != 0)) {
        return true;
    }
    base_list_for_each(channel, &pool->channels.open, ucxpool_channel_t, link) {
        if (is_connecting(channel)) {
            return true;
        }
    }
    return false;
}

/* Nothing refers to it any more. */
static void discard(ucxpool_t *pool, ucx_context_t *ucx)
{
    ucx_context_settle_worker(ucx);
    ucx_context_destroy_worker(ucx, pool->name);
    ucx_context_cleanup(ucx);
}

static void use(ucxpool_t *pool, const ucx_context_t *ucx)
{
    pool->ucx = *ucx;
    base_list_init(&pool->ucx.claim.link);
}

/* Everything of the pool's that is tied to a context or its worker goes to
 * another one, or stays all together. */
static ucxpool_status_t move_to(ucxpool_t *pool, const ucx_context_t *fresh)
{
    const ucx_context_t old = pool->ucx;
    ucxpool_status_t    status;

    use(pool, fresh);
    status = core_memory_move(pool, old.context);
    if (status != UCXPOOL_OK) {
        goto err_use_old;
    }
    status = core_inbox_init(pool);
    if (status != UCXPOOL_OK) {
        goto err_move_memory;
    }
    unwatch(pool);
    status = core_network_watch(pool);
    if (status != UCXPOOL_OK) {
        goto err_watch_old;
    }
    return UCXPOOL_OK;

err_watch_old:
    use(pool, &old);
    (void)core_network_watch(pool);
err_move_memory:
    use(pool, &old);
    (void)core_memory_move(pool, fresh->context);
err_use_old:
    use(pool, &old);
    return status;
}

static ucxpool_status_t replace(ucxpool_t *pool, const char *devices)
{
    ucx_context_params_t params = {
        .for_gpu         = pool->memory.regions.device >= 0,
        .has_rdma        = mem_has_rdma_device(),
        .peer_timeout_ns = pool->config.peer_timeout_ns,
        .devices         = devices,
    };
    ucx_context_t    old = pool->ucx;
    ucx_context_t    fresh;
    ucxpool_status_t status = ucx_context_init(&fresh, &params);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = move_to(pool, &fresh);
    discard(pool, (status == UCXPOOL_OK) ? &old : &fresh);
    ucx_child_close_on_exec(&pool->wakeup.child);
    return status;
}

ucxpool_status_t core_network_open(ucxpool_t *pool, const char *device,
                                   bool *moved_p)
{
    const char      *limit = pool->ucx.devices;
    char             devices[UCX_DEVICES_SIZE];
    ucxpool_status_t status;

    *moved_p = false;
    if ((limit[0] == '\0') || ((device != NULL) && has_device(limit, device))) {
        return UCXPOOL_OK;
    }
    if (is_in_use(pool)) {
        return base_error(
            UCXPOOL_ERR_UNSUPPORTED,
            "UCX is in use on %.80s alone, and cannot add %s "
            "now: listen or connect there first, before other "
            "channels are opened and the pool's address is handed "
            "out, or set UCX_NET_DEVICES",
            limit, (device != NULL) ? device : "other devices");
    }
    if (device == NULL) {
        devices[0] = '\0';
    } else if (snprintf(devices, sizeof(devices), "%s,%s", limit, device) >=
               (int)sizeof(devices)) {
        return base_error(UCXPOOL_ERR_LIMIT,
                          "UCX is limited to more devices than %zu bytes name: "
                          "set UCX_NET_DEVICES",
                          sizeof(devices));
    }
    status = replace(pool, devices);
    if (status == UCXPOOL_OK) {
        *moved_p = true;
    }
    return status;
}
