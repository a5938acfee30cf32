/*
 * Sleeping and waking: waiting, the event descriptor, arming.
 */
#include "base/clock.h"
#include "base/error.h"
#include "mem/ucx_status.h"
#include "xfer/connect.h"
#include "xfer/progress.h"
#include "xfer/wire.h"

#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

/* How long a waiting call polls without offering its processor to others. */
#define PURE_SPIN_NS UINT64_C(2000)

static bool has_work(ucxpool_t *pool)
{
    ucxpool_channel_t *channel;

    if (!base_list_is_empty(&pool->runnable) ||
        !base_list_is_empty(&pool->completed)) {
        return true;
    }
    base_list_for_each(channel, &pool->channels, ucxpool_channel_t, link) {
        if (((channel->wire == &xfer_wire_map) &&
             xfer_channel_is_live(channel) &&
             xfer_ring_has_input(&channel->ring)) ||
            (xfer_channel_is_live(channel) &&
             xfer_channel_ep_failed(channel))) {
            return true;
        }
    }
    return false;
}

static void set_sleeping(ucxpool_t *pool, bool sleeping)
{
    ucxpool_channel_t *channel;

    base_list_for_each(channel, &pool->channels, ucxpool_channel_t, link) {
        if ((channel->wire == &xfer_wire_map) &&
            xfer_channel_is_live(channel)) {
            if (sleeping) {
                xfer_ring_sleep(&channel->ring);
            } else {
                xfer_ring_awake(&channel->ring);
            }
        }
    }
    pool->asleep = sleeping;
}

unsigned ucxpool_progress(ucxpool_t *pool)
{
    unsigned count;

    xfer_lock(pool);
    if (pool->asleep) {
        set_sleeping(pool, false);
        count = xfer_progress_all(pool);
    } else {
        count = xfer_progress(pool);
    }
    xfer_unlock(pool);
    return count + xfer_call_back(pool);
}

static ucxpool_status_t arm(ucxpool_t *pool)
{
    ucs_status_t status;

    if (pool->worker_fd < 0) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the borrowed UCX context was made without "
                          "UCP_FEATURE_WAKEUP");
    }
    set_sleeping(pool, true);
    if (!has_work(pool) && (xfer_progress_all(pool) == 0) && !has_work(pool)) {
        status = ucp_worker_arm(pool->worker);
        if (status == UCS_OK) {
            return UCXPOOL_OK;
        }
        if (status != UCS_ERR_BUSY) {
            set_sleeping(pool, false);
            return base_error(mem_ucx_status(status),
                              "UCX could not arm its worker: %s",
                              ucs_status_string(status));
        }
    }
    set_sleeping(pool, false);
    return UCXPOOL_ERR_BUSY;
}

/* When something is to be done though nothing happens. */
static uint64_t next_moment(ucxpool_t *pool)
{
    uint64_t           moment = base_min(pool->next_deadline,
                                         xfer_connect_deadline(pool));
    ucxpool_channel_t *channel;

    base_list_for_each(channel, &pool->channels, ucxpool_channel_t, link) {
        if (channel->closing && !channel->ep_closing) {
            moment = base_min(moment, channel->close_deadline);
        }
    }
    return moment;
}

/* Let the event descriptor become readable at that moment. */
static void set_timer(ucxpool_t *pool)
{
    uint64_t          moment = next_moment(pool);
    struct itimerspec timer;

    memset(&timer, 0, sizeof(timer));
    if (moment != BASE_CLOCK_FOREVER) {
        moment                 = base_max(moment, (uint64_t)1);
        timer.it_value.tv_sec  = (time_t)(moment / 1000000000u);
        timer.it_value.tv_nsec = (long)(moment % 1000000000u);
    }
    if (moment != pool->timer_moment) {
        pool->timer_moment = moment;
        timerfd_settime(pool->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
    }
}

ucxpool_status_t ucxpool_arm(ucxpool_t *pool)
{
    ucxpool_status_t status;

    xfer_lock(pool);
    status = arm(pool);
    if (status == UCXPOOL_OK) {
        set_timer(pool);
    }
    xfer_unlock(pool);
    return status;
}

ucxpool_status_t ucxpool_event_fd(ucxpool_t *pool, int *fd_p)
{
    if (pool->worker_fd < 0) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the borrowed UCX context was made without "
                          "UCP_FEATURE_WAKEUP");
    }
    *fd_p = pool->epoll_fd;
    return UCXPOOL_OK;
}

/* One sleep, until an event or `until`; the lock is not held. */
static void sleep_until(ucxpool_t *pool, uint64_t until)
{
    struct epoll_event events[1];
    uint64_t           now     = base_clock_now();
    int                timeout = -1;

    if (until != BASE_CLOCK_FOREVER) {
        /* Rounded up: to wake a little late is better than to spin. */
        uint64_t milliseconds = (until <= now)
                                    ? 0
                                    : (until - now + 999999u) / 1000000u;

        timeout = (int)base_min(milliseconds, (uint64_t)INT32_MAX);
    }
    epoll_wait(pool->epoll_fd, events, 1, timeout);
}

static bool has_ended(const ucxpool_request_t *request)
{
    return (request != NULL) &&
           (ucxpool_request_test(request) != UCXPOOL_INPROGRESS);
}

/*
 * Nothing has moved since `idle_since`: poll on, or sleep. Polling makes an
 * answer quick; but who could give it may need this very processor, so it is
 * offered after a while.
 */
static void be_idle(ucxpool_t *pool, uint64_t idle_since, uint64_t until)
{
    uint64_t now = base_clock_now();

    if (now - idle_since < base_min(PURE_SPIN_NS, pool->config.spin_ns)) {
        return;
    }
    if ((now - idle_since < pool->config.spin_ns) || (pool->worker_fd < 0)) {
        sched_yield();
    } else if (ucxpool_arm(pool) == UCXPOOL_OK) {
        sleep_until(pool, until);
    }
}

ucxpool_status_t xfer_wait(ucxpool_t *pool, const ucxpool_request_t *request,
                           uint64_t until)
{
    uint64_t idle_since = 0;

    for (;;) {
        unsigned count = ucxpool_progress(pool);

        if (has_ended(request) || ((count != 0) && (request == NULL))) {
            return UCXPOOL_OK;
        }
        if (count != 0) {
            idle_since = 0;
            continue;
        }
        if (idle_since == 0) {
            idle_since = base_clock_now();
        }
        if ((until != BASE_CLOCK_FOREVER) && (base_clock_now() >= until)) {
            return UCXPOOL_ERR_TIMED_OUT;
        }
        be_idle(pool, idle_since, until);
    }
}

ucxpool_status_t ucxpool_wait(ucxpool_t *pool, uint64_t timeout_ns)
{
    return xfer_wait(pool, NULL, base_clock_deadline(timeout_ns));
}

ucxpool_status_t ucxpool_request_wait(ucxpool_request_t *request,
                                      uint64_t timeout_ns)
{
    if (ucxpool_request_test(request) == UCXPOOL_INPROGRESS) {
        xfer_wait(request->pool, request, base_clock_deadline(timeout_ns));
    }
    return ucxpool_request_test(request);
}

ucxpool_status_t ucxpool_channel_wait(ucxpool_channel_t *channel,
                                      uint64_t timeout_ns)
{
    uint64_t                until = base_clock_deadline(timeout_ns);
    ucxpool_channel_attr_t  attr;
    ucxpool_status_t        status = UCXPOOL_OK;

    for (;;) {
        ucxpool_channel_query(channel, &attr);
        if (attr.state == UCXPOOL_CHANNEL_OPEN) {
            return UCXPOOL_OK;
        }
        if (attr.state != UCXPOOL_CHANNEL_CONNECTING) {
            return base_error(attr.status, "%s: %s", attr.name, attr.reason);
        }
        if (status == UCXPOOL_ERR_TIMED_OUT) {
            return base_error(status, "%s: no answer from the peer yet",
                              attr.name);
        }
        status = xfer_wait(attr.pool, NULL, until);
    }
}
