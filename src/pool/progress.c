/*
 * The pool's round of progress.
 */
#include "pool/progress.h"

#include "base/clock.h"
#include "base/error.h"
#include "copy/engine.h"
#include "core/inbox.h"
#include "core/remote.h"
#include "core/wire.h"
#include "wireup/close.h"
#include "wireup/connect.h"
#include "wireup/fd_export.h"
#include "wireup/fd_import.h"
#include "wireup/hello.h"
#include "wireup/listener.h"
#include "xfer/delivery.h"
#include "xfer/recv.h"
#include "xfer/rndv.h"
#include "xfer/send.h"

/* While rings are busy, UCX (which may make a system call) is asked once in so
 * many rounds; so are the descriptors, in any case. */
#define UCX_EVERY    16u
#define EVENTS_EVERY 256u
/* The same while there is a listener, or descriptors are handed over. */
#define STRANGERS_EVERY 16u

static unsigned progress_ucx(ucxpool_t *pool)
{
    unsigned count = 0;

    while ((count < 64) && (ucp_worker_progress(pool->ucx.worker) != 0)) {
        count++;
    }
    return count;
}

static void expire(ucxpool_request_t *request)
{
    static const char text[] = "the deadline passed";

    core_request_stop(request, UCXPOOL_ERR_TIMED_OUT, text);
    core_request_reuse(request);
}

static unsigned progress_deadlines(ucxpool_t *pool)
{
    uint64_t           now;
    unsigned           count = 0;
    base_list_t        late;
    ucxpool_request_t *request;
    ucxpool_request_t *next;

    if (pool->requests.next_deadline == BASE_CLOCK_FOREVER) {
        return 0;
    }
    now = base_clock_now();
    if (now < pool->requests.next_deadline) {
        return 0;
    }
    base_list_init(&late);
    pool->requests.next_deadline = BASE_CLOCK_FOREVER;
    base_list_for_each_safe(request, next, &pool->requests.deadlines,
                            ucxpool_request_t, deadline_link) {
        if (request->deadline <= now) {
            base_list_del(&request->deadline_link);
            base_list_add_tail(&late, &request->deadline_link);
        } else {
            pool->requests.next_deadline =
                base_min(pool->requests.next_deadline, request->deadline);
        }
    }
    /* Ending one may end others, which then leave the list by themselves. */
    while (!base_list_is_empty(&late)) {
        request = base_list_head(&late, ucxpool_request_t, deadline_link);
        base_list_del(&request->deadline_link);
        expire(request);
        count++;
    }
    return count;
}

static unsigned progress_runnable(ucxpool_t *pool)
{
    unsigned           count = 0;
    base_list_t        round;
    ucxpool_request_t *request;

    base_list_init(&round);
    base_list_splice_tail(&round, &pool->requests.runnable);
    base_list_splice_tail(&round, &pool->requests.stalled);
    while (!base_list_is_empty(&round)) {
        request = base_list_head(&round, ucxpool_request_t, run_link);
        base_list_del(&request->run_link);
        count += xfer_send_advance(request) ? 1 : 0;
        core_request_reuse(request);
    }
    return count;
}

static unsigned progress_channels(ucxpool_t *pool)
{
    unsigned           count = 0;
    ucxpool_channel_t *channel;
    ucxpool_channel_t *next;

    base_list_for_each_safe(channel, next, &pool->channels.open,
                            ucxpool_channel_t, link) {
        count += wireup_channel_progress(channel);
    }
    if (!base_list_is_empty(&pool->channels.gone)) {
        wireup_channel_destroy_gone(pool);
    }
    return count;
}

static bool has_strangers(const ucxpool_t *pool)
{
    return !base_list_is_empty(&pool->wireup.clients) ||
           !base_list_is_empty(&pool->wireup.listeners) ||
           !base_list_is_empty(&pool->wireup.fd_imports) ||
           wireup_fd_export_is_busy(pool);
}

static bool has_endpoints(const ucxpool_t *pool)
{
    return !base_list_is_empty(&pool->channels.endpoints);
}

/* Those whose descriptors are watched, and UCX's. */
static unsigned progress_sockets(ucxpool_t *pool)
{
    unsigned count = core_source_progress(pool);

    count += wireup_connect_progress(pool);
    count += wireup_listener_progress(pool);
    count += wireup_fd_export_progress(pool);
    count += wireup_fd_import_progress(pool);
    if (has_endpoints(pool)) {
        count += ucx_tcp_watch_progress(&pool->wakeup.tcp_watch);
    }
    return count;
}

uint64_t pool_sockets_deadline(ucxpool_t *pool)
{
    const uint64_t deadlines[] = {
        wireup_connect_deadline(pool),
        wireup_listener_deadline(pool),
        wireup_fd_import_deadline(pool),
        wireup_fd_export_deadline(pool),
        has_endpoints(pool) ? ucx_tcp_watch_deadline(&pool->wakeup.tcp_watch)
                            : BASE_CLOCK_FOREVER,
    };
    uint64_t first = BASE_CLOCK_FOREVER;

    for (size_t i = 0; i < sizeof(deadlines) / sizeof(deadlines[0]); i++) {
        first = base_min(first, deadlines[i]);
    }
    return first;
}

static unsigned progress(ucxpool_t *pool)
{
    unsigned count = 0;

    pool->progress_count++;
    count += core_inbox_progress(pool);
    count += copy_engine_progress(pool->engine);
    count += core_request_markers_progress(pool);
    count += xfer_delivery_progress(pool);
    if ((pool->channels.num_mapped != pool->channels.count) ||
        (pool->channels.num_mapped == 0) ||
        (pool->progress_count % UCX_EVERY == 0)) {
        count += progress_ucx(pool);
    }
    if ((pool->progress_count % EVENTS_EVERY == 0) ||
        (has_strangers(pool) &&
         (pool->progress_count % STRANGERS_EVERY == 0))) {
        count += progress_sockets(pool);
    }
    count += xfer_rndv_progress(pool);
    count += xfer_send_wake_waiters(pool);
    count += progress_runnable(pool);
    count += progress_deadlines(pool);
    count += wireup_hello_progress(pool);
    count += progress_channels(pool);
    count += core_remote_progress(pool);
    return count;
}

unsigned pool_progress(ucxpool_t *pool)
{
    base_log_level_t level = base_error_log_at(BASE_LOG_WARN);
    unsigned         count = progress(pool);

    base_error_log_at(level);
    return count;
}

/* A round that leaves nothing out. */
unsigned pool_progress_all(ucxpool_t *pool)
{
    base_log_level_t level = base_error_log_at(BASE_LOG_WARN);
    unsigned         count = progress_ucx(pool);

    count += progress_sockets(pool);
    count += progress(pool);
    base_error_log_at(level);
    return count;
}

unsigned pool_call_back(ucxpool_t *pool)
{
    unsigned             count = 0;
    ucxpool_request_t   *request;
    ucxpool_request_cb_t callback;
    void                *arg;

    while (!base_list_is_empty(&pool->requests.completed)) {
        request = base_list_head(&pool->requests.completed, ucxpool_request_t,
                                 done_link);
        base_list_del(&request->done_link);
        callback = request->callback;
        arg      = request->callback_arg;
        core_unlock(pool);
        callback(request, core_request_status(request), arg);
        core_lock(pool);
        request->called_back = true;
        core_request_reuse(request);
        count++;
    }
    return count;
}
