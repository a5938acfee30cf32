#include "pool/pool.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/random.h"
#include "core/control.h"
#include "core/remote.h"
#include "ipc/host.h"
#include "ucx/context.h"
#include "wire/wire.h"
#include "wireup/wireup.h"
#include "window/service.h"
#include "window/window.h"
#include "xfer/send.h"
#include "xfer/state.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* --- the event descriptor ------------------------------------------------- */

static ucxpool_status_t watch(ucxpool_t *pool, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

    if (epoll_ctl(pool->wakeup.epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        return base_error_errno(errno, "cannot watch a descriptor of the pool");
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t create_error(const char *what)
{
    return base_error_errno(errno, "cannot create the pool's %s", what);
}

static void descriptors_cleanup(ucxpool_t *pool)
{
    ucx_tcp_watch_cleanup(&pool->wakeup.tcp_watch);
    ucx_child_remove(&pool->wakeup.child);
    close(pool->wakeup.event_fd);
    close(pool->wakeup.timer_fd);
    close(pool->wakeup.epoll_fd);
}

static ucxpool_status_t descriptors_init(ucxpool_t *pool)
{
    ucxpool_status_t status = UCXPOOL_OK;

    pool->wakeup.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (pool->wakeup.epoll_fd < 0) {
        return create_error("epoll");
    }
    pool->wakeup.timer_fd =
        timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (pool->wakeup.timer_fd < 0) {
        status = create_error("timer");
        goto err_close_epoll;
    }
    pool->wakeup.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pool->wakeup.event_fd < 0) {
        status = create_error("eventfd");
        goto err_close_timer;
    }
    pool->wakeup.spin_ns = pool->config.spin_ns;
    status               = wireup_network_watch(pool);
    if (status == UCXPOOL_OK) {
        status = watch(pool, pool->wakeup.timer_fd);
    }
    if (status == UCXPOOL_OK) {
        status = watch(pool, pool->wakeup.event_fd);
    }
    if (status == UCXPOOL_OK) {
        pool->wakeup.child.epoll_fd = pool->wakeup.epoll_fd;
        ucx_child_add(&pool->wakeup.child);
        ucx_child_close_on_exec(&pool->wakeup.child);
        return UCXPOOL_OK;
    }
    close(pool->wakeup.event_fd);
err_close_timer:
    close(pool->wakeup.timer_fd);
err_close_epoll:
    close(pool->wakeup.epoll_fd);
    return status;
}

/* --- creating and destroying ---------------------------------------------- */

/* The time allowed for the data in flight of one message (a few MiB at most) to
 * arrive. The data takes longer only if the peer makes no progress. */
#define DRAIN_NS UINT64_C(250000000)

/* The time that an eager message waits for a credit before it is announced
 * instead. A receiver that receives messages as they arrive returns credits
 * much sooner. An announced message costs as much as several eager messages. */
#define ANNOUNCE_NS UINT64_C(1000000)

/* The time that the destruction of a pool waits for UCX to complete operations
 * on endpoints that no channel uses. */
#define IDLE_NS UINT64_C(50000000)

static void init_lists(ucxpool_t *pool)
{
    base_list_t *lists[] = {
        &pool->channels.open,      &pool->channels.unreferenced,
        &pool->wireup.early,       &pool->wireup.listeners,
        &pool->wireup.clients,     &pool->requests.runnable,
        &pool->requests.stalled,   &pool->requests.completed,
        &pool->requests.deadlines, &pool->free.plans,
        &pool->requests.all,       &pool->channels.remotes,
        &pool->wireup.fd_imports,  &pool->channels.endpoints,
        &pool->channels.events,    &pool->channels.held,
        &pool->requests.to_report,
    };

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        base_list_init(lists[i]);
    }
    for (unsigned i = 0; i < CORE_CONTROL_SIZES; i++) {
        base_list_init(&pool->free.controls[i]);
    }
    for (unsigned i = 0; i < CORE_NUM_LINKS; i++) {
        core_link_init(&pool->links[i]);
    }
    pool->requests.next_deadline = BASE_CLOCK_FOREVER;
    pool->wireup.next_hello      = BASE_CLOCK_FOREVER;
    pool->wakeup.timer_moment    = BASE_CLOCK_FOREVER;
    pool->drain_ns               = DRAIN_NS;
    pool->announce_ns            = ANNOUNCE_NS;
}

/* Claim the two active message IDs that the pool handles. Other pools may share
 * a borrowed worker, and must use other IDs. */
static ucxpool_status_t take_ids(ucxpool_t *pool)
{
    if (pool->ucx.own_worker) {
        return UCXPOOL_OK;
    }
    pool->ucx.claim = (ucx_claim_t){
        .worker = pool->ucx.worker,
        .first  = pool->config.am_id,
        .count  = 2,
        .name   = pool->name,
    };
    return ucx_claim_take(&pool->ucx.claim);
}

static ucxpool_status_t make_id(ucxpool_t *pool)
{
    ucxpool_status_t status = base_random(pool->id, sizeof(pool->id));

    if (status == UCXPOOL_OK) {
        status = base_random(pool->key, sizeof(pool->key));
    }
    return status;
}

static void release_ids(ucxpool_t *pool)
{
    ucx_claim_release(&pool->ucx.claim);
}

/* The parts of a pool, in the order in which they are created. */
static const struct part {
    ucxpool_status_t (*create)(ucxpool_t *pool);
    void (*destroy)(ucxpool_t *pool);
} parts[] = {
    {descriptors_init, descriptors_cleanup},
    {xfer_pool_create, xfer_pool_destroy},
    {wire_pool_create, wire_pool_destroy},
    {window_pool_create, window_pool_destroy},
    {take_ids, release_ids},
    {core_inbox_init, core_inbox_cleanup},
    {wireup_fd_export_create, wireup_fd_export_destroy},
};

#define NUM_PARTS (sizeof(parts) / sizeof(parts[0]))

static ucxpool_status_t create_parts(ucxpool_t *pool)
{
    ucxpool_status_t status;

    for (size_t i = 0; i < NUM_PARTS; i++) {
        status = parts[i].create(pool);
        if (status != UCXPOOL_OK) {
            while (i-- > 0) {
                parts[i].destroy(pool);
            }
            return status;
        }
    }
    return UCXPOOL_OK;
}

ucxpool_status_t pool_init(ucxpool_t *pool)
{
    ucxpool_status_t status;
    ipc_host_t       host;

    init_lists(pool);
    pool->dispatch = &pool_dispatch;
    /* Read the host's identity now, because the process may have no free
     * descriptor later. */
    ipc_host_fill(&host);
    status = make_id(pool);
    if (status == UCXPOOL_OK) {
        status = base_limits_check_pool();
    }
    return (status == UCXPOOL_OK) ? create_parts(pool) : status;
}

static void close_channels(ucxpool_t *pool)
{
    ucxpool_channel_t *channel, *next;

    base_list_for_each_safe(channel, next, &pool->channels.open,
                            ucxpool_channel_t, link) {
        /* Keep the channel until the pool is destroyed, because later callbacks
         * may pass its handle to the caller. */
        core_channel_get(channel);
        if (!channel->closing.drains) {
            wireup_channel_abort(channel);
        }
    }
}

static bool has_open_channels(ucxpool_t *pool)
{
    ucxpool_channel_t *channel;

    base_list_find(channel, &pool->channels.open, ucxpool_channel_t, link,
                   channel->closing.step != CORE_CLOSE_DONE);
    return channel != NULL;
}

/* Cancel the receives that are still posted. */
static void cancel_posted(ucxpool_t *pool)
{
    core_lock(pool);
    while (!base_list_is_empty(&pool->xfer->posted)) {
        core_request_cancel(
            base_list_head(&pool->xfer->posted, ucxpool_request_t, link));
    }
    core_unlock_posted(pool);
}

/* Returns true if UCX still has operations of the pool on a borrowed worker.
 * Operations on the pool's own worker end with their endpoints. */
static bool has_borrowed_operations(const ucxpool_t *pool)
{
    return !pool->ucx.own_worker && (pool->num_operations != 0);
}

/* A shutdown that makes no progress polls for this time. Afterwards it sleeps
 * for the same time after each round, because the peers may need the CPU
 * to answer. */
#define REST_NS UINT64_C(100000)

static void rest(unsigned num_moved, uint64_t *idle_since)
{
    const struct timespec moment = {.tv_nsec = (long)REST_NS};
    uint64_t              now    = base_clock_now();

    if (num_moved != 0) {
        *idle_since = now;
    } else if (now - *idle_since > REST_NS) {
        nanosleep(&moment, NULL);
    }
}

/* End the requests that were not ended together with a channel. These requests
 * wait for a caller's stream or for a copy on a GPU. Afterwards no GPU uses the
 * pool's memory. */
static void end_requests(ucxpool_t *pool, uint64_t limit)
{
    uint64_t idle_since = base_clock_now();

    core_lock(pool);
    while (core_request_cancel_all(pool) && (base_clock_now() < limit)) {
        copy_engine_wait(pool->engine);
        rest(pool_progress(pool), &idle_since);
    }
    copy_engine_wait(pool->engine);
    /* The GPU's writes to the peers have ended. The first round of progress
     * counts them, and the second sends the BYEs that waited for them. */
    pool_progress(pool);
    pool_progress(pool);
    core_unlock(pool);
}

/* Close the endpoints that no channel uses. All messages on these endpoints
 * were answered, but UCX may keep an endpoint whose peer has exited. This
 * function does not wait for the peer timeout, which may be infinite. */
static void close_endpoints(ucxpool_t *pool, uint64_t deadline)
{
    uint64_t idle_since = base_clock_now();
    uint64_t limit      = base_clock_deadline(IDLE_NS + POOL_FORCED_NS);

    core_lock(pool);
    core_remote_close_all(pool,
                          base_min(deadline, base_clock_deadline(IDLE_NS)));
    while (core_remote_has_endpoints(pool) && (base_clock_now() < limit)) {
        rest(pool_progress(pool), &idle_since);
    }
    core_unlock(pool);
}

/* Returns true if a peer has not released a window of this pool. Rereads the
 * ring pages that the peers share. */
static bool has_importers(ucxpool_t *pool)
{
    bool all_are_free;

    core_lock(pool);
    window_revoke_all(pool);
    all_are_free = window_all_are_free(pool);
    core_unlock_posted(pool);
    return !all_are_free;
}

void pool_shutdown(ucxpool_t *pool)
{
    uint64_t deadline   = base_clock_deadline(pool->config.close_timeout_ns);
    uint64_t limit      = (deadline < BASE_CLOCK_FOREVER - POOL_FORCED_NS)
                              ? deadline + POOL_FORCED_NS
                              : BASE_CLOCK_FOREVER;
    uint64_t idle_since = base_clock_now();

    core_lock(pool);
    pool->closing = true;
    window_revoke_all(pool);
    close_channels(pool);
    cancel_posted(pool);
    pool_call_back(pool);
    core_unlock(pool);
    while ((has_open_channels(pool) && (base_clock_now() < limit)) ||
           ((has_borrowed_operations(pool) || has_importers(pool)) &&
            (base_clock_now() < deadline))) {
        rest(ucxpool_progress(pool), &idle_since);
        if (base_clock_now() >= deadline) {
            wireup_channel_end_drains(pool);
        }
    }
    core_lock(pool);
    window_abandon_all(pool);
    core_unlock(pool);
    end_requests(pool, limit);
    close_endpoints(pool, deadline);
    core_lock(pool);
    pool_call_back(pool);
    /* Progress UCX while the handlers are still registered. The handlers no
     * longer find any channel. */
    ucx_context_settle_worker(&pool->ucx);
    core_unlock(pool);
    core_inbox_cleanup(pool);
    release_ids(pool);
}

void pool_cleanup(ucxpool_t *pool)
{
    wireup_listener_destroy_all(pool);
    wireup_match_destroy_all(pool);
    wireup_channel_destroy_all(pool);
    window_pool_destroy(pool);
    core_request_destroy_all(pool);
    xfer_fragment_destroy_all(pool);
    core_control_destroy_all(pool);
    core_remote_destroy_all(pool);
    free(pool->channels.table);
    wireup_fd_export_destroy(pool);
    wire_pool_destroy(pool);
    xfer_pool_destroy(pool);
    descriptors_cleanup(pool);
}
