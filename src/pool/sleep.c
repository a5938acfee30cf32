/*
 * Sleeping and waking: the event descriptor, arming it, and the wait that the
 * public wait functions use.
 */
#include <config.h>

#include "pool/pool.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "copy/engine.h"
#include "core/local.h"
#include "core/wakeup.h"
#include "ucx/context.h"
#include "wireup/wireup.h"
#include "xfer/recv.h"
#include "xfer/state.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

/* A waiting call polls for this time. After that, it yields the CPU after each
 * poll. */
#define PURE_SPIN_NS UINT64_C(2000)

/* The interval at which a closed channel is polled. */
#define POLL_NS UINT64_C(10000000)

/*
 * Several threads may sleep on one pool while other threads use the pool.
 * Whenever a thread sleeps,
 *
 *     the pool is armed, or event_fd is readable
 *
 * So a thread that disarms the pool wakes the sleeping threads. A thread that
 * posts a request also wakes them, because the pool was armed before the
 * request.
 *
 * One of the threads that wait in this library is the leader: it sleeps on the
 * descriptors. When it wakes up, it wakes the others, which check whether their
 * goals are reached. While there is a leader, only the leader resets event_fd,
 * so a wakeup always reaches it.
 */

/* Reset event_fd. The caller must then check for every kind of work that a
 * wakeup can signal. */
static void forget_wake(ucxpool_t *pool)
{
    eventfd_t number;

    if (__atomic_exchange_n(&pool->wakeup.is_woken, false, __ATOMIC_SEQ_CST)) {
        eventfd_read(pool->wakeup.event_fd, &number);
    }
}

static bool has_work(ucxpool_t *pool)
{
    ucxpool_channel_t *channel;

    if (!base_list_is_empty(&pool->requests.runnable) ||
        !base_list_is_empty(&pool->requests.completed) ||
        core_link_has_work(&pool->links[CORE_LINK_OUT]) ||
        core_link_has_work(&pool->links[CORE_LINK_IN])) {
        return true;
    }
    base_list_for_each(channel, &pool->channels.open, ucxpool_channel_t, link) {
        if ((core_channel_is_readable(channel) &&
             core_ring_has_input(&channel->ring)) ||
            (core_channel_is_live(channel) &&
             core_channel_is_broken(channel)) ||
            xfer_message_has_turn(channel) ||
            core_channel_must_settle(channel)) {
            return true;
        }
    }
    return false;
}

/*
 * Drain the doorbell that may have woken this thread. Otherwise the next sleep
 * would return immediately. A peer that has written to the ring has probably
 * rung the doorbell; if not, draining costs one check.
 */
static void take_doorbell(ucxpool_channel_t *channel)
{
    if (core_ring_was_read_since_sleep(&channel->ring)) {
        core_local_progress(channel);
    }
}

static void set_sleeping(ucxpool_t *pool, bool sleeping)
{
    ucxpool_channel_t *channel, *next;

    base_list_for_each_safe(channel, next, &pool->channels.open,
                            ucxpool_channel_t, link) {
        if (core_channel_is_live(channel) &&
            core_channel_is_readable(channel)) {
            if (sleeping) {
                take_doorbell(channel);
                core_ring_sleep(&channel->ring);
            } else {
                core_ring_awake(&channel->ring);
            }
        }
    }
    pool->wakeup.is_armed = sleeping;
}

/* Disarm the pool. From now on this thread progresses the pool, until it arms
 * the pool again. */
static void disarm(ucxpool_t *pool)
{
    set_sleeping(pool, false);
    if (pool->wakeup.has_many ||
        !pthread_equal(pool->wakeup.armed_by, pthread_self())) {
        core_wake(pool);
    }
}

/*
 * Record that the event loop has seen all events up to now. After a sleep, the
 * loop calls progress and handles every event that it finds. Events that arrive
 * while the loop arms the pool again have not been seen, so the loop must not
 * sleep.
 */
static void note_seen(ucxpool_t *pool)
{
    if (pthread_equal(pool->wakeup.armed_by, pthread_self())) {
        pool->wakeup.num_seen = pool->wakeup.num_events;
    }
}

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){
        .tv_sec  = (time_t)(ns / 1000000000u),
        .tv_nsec = (long)(ns % 1000000000u),
    };
}

/* Wake all threads that sleep on leader_woke. */
static void wake_others(ucxpool_t *pool)
{
    pthread_mutex_lock(&pool->wakeup.leader_lock);
    pool->wakeup.num_wakes++;
    pthread_cond_broadcast(&pool->wakeup.leader_woke);
    pthread_mutex_unlock(&pool->wakeup.leader_lock);
}

/* Sleep until wake_others(), or until `until`; returns false on timeout. The
 * caller holds leader_lock. */
static bool wait_for_leader(ucxpool_t *pool, uint64_t until)
{
    core_wakeup_t  *wakeup = &pool->wakeup;
    struct timespec moment = to_timespec(until);

    if (until == BASE_CLOCK_FOREVER) {
        return pthread_cond_wait(&wakeup->leader_woke, &wakeup->leader_lock) ==
               0;
    }
    return pthread_cond_timedwait(&wakeup->leader_woke, &wakeup->leader_lock,
                                  &moment) == 0;
}

/* --- naps ----------------------------------------------------------------- */

/*
 * Naps: short sleeps of a thread that waits for any event while other threads
 * poll the pool. If the waiting thread slept on the pool's descriptors, each
 * poll would wake it. This would cost both sides system calls, and the waiting
 * thread would take the lock while the polling threads need it. Instead the
 * waiting thread naps, and checks from time to time whether the other threads
 * still poll. Their rounds mostly check the rings, so the napping thread makes
 * a full round of progress after each nap.
 *
 * A nap ends when the polling threads find an event, or within 100 us after
 * they stop polling, or after one millisecond. A posted request does not end a
 * nap: the thread that posts it polls before and after.
 */

/* A thread naps if other threads have polled POLLS_MIN times, and the last of
 * these polls is at most TRUST_NS ago. A nap takes at most NAP_NS. */
#define POLLS_MIN 4u
#define TRUST_NS  UINT64_C(100000)
#define NAP_NS    UINT64_C(1000000)

/* The time to spin, instead of sleeping, while another thread has the lock. To
 * wake a sleeping thread, the other thread would need a system call. */
#define YIELD_NS UINT64_C(20000)

static uint64_t num_polls(const ucxpool_t *pool)
{
    return __atomic_load_n(&pool->wakeup.num_polls, __ATOMIC_RELAXED);
}

static void note_polls(ucxpool_t *pool)
{
    __atomic_store_n(&pool->wakeup.num_known, num_polls(pool),
                     __ATOMIC_RELAXED);
}

static bool is_polled(const ucxpool_t *pool)
{
    uint64_t known = __atomic_load_n(&pool->wakeup.num_known, __ATOMIC_RELAXED);
    uint64_t last  = __atomic_load_n(&pool->wakeup.polled_at, __ATOMIC_RELAXED);

    return (num_polls(pool) - known >= POLLS_MIN) &&
           (base_clock_now() < last + TRUST_NS);
}

static const char *waiter(const ucxpool_t *pool)
{
    return __atomic_load_n(&pool->wakeup.waiter, __ATOMIC_RELAXED);
}

/* Record that this thread waits for any event. From now on, its polls between
 * waits do not count as polls of other threads. */
static void nap_enter(ucxpool_t *pool)
{
    if (waiter(pool) != &base_lock_me) {
        note_polls(pool);
        __atomic_store_n(&pool->wakeup.waiter, &base_lock_me, __ATOMIC_RELAXED);
    }
}

/* Count a poll by this thread. */
static void nap_note(ucxpool_t *pool)
{
    const char *other = waiter(pool);

    if ((other != NULL) && (other != &base_lock_me)) {
        __atomic_store_n(&pool->wakeup.polled_at, base_clock_now(),
                         __ATOMIC_RELAXED);
        __atomic_store_n(&pool->wakeup.num_polls, num_polls(pool) + 1,
                         __ATOMIC_RELAXED);
    }
}

/* End naps if an event was found. */
static void nap_wake(ucxpool_t *pool)
{
    const core_wakeup_t *wakeup = &pool->wakeup;

    if ((__atomic_load_n(&wakeup->num_naps, __ATOMIC_SEQ_CST) != 0) &&
        ((__atomic_load_n(&wakeup->nap_events, __ATOMIC_RELAXED) !=
          core_event_counted(pool)) ||
         core_event_is_pending(pool))) {
        wake_others(pool);
    }
}

/* Nap until the other threads stop polling or have found an event. One round of
 * these threads may take longer than TRUST_NS, so a taken lock also counts as
 * polling. */
static void nap_while_polled(ucxpool_t *pool, const pool_goal_t *goal,
                             uint64_t until)
{
    core_wakeup_t *wakeup = &pool->wakeup;
    uint64_t       now    = base_clock_now();
    uint64_t       polls  = num_polls(pool) - 1;
    uint64_t       num_wakes;

    until = base_min(until, now + NAP_NS);
    pthread_mutex_lock(&wakeup->leader_lock);
    num_wakes = wakeup->num_wakes;
    while (
        (wakeup->num_wakes == num_wakes) && (now < until) &&
        (core_event_counted(pool) == goal->num_events) &&
        ((num_polls(pool) != polls) || base_own_lock_is_taken(&pool->lock))) {
        polls = num_polls(pool);
        wait_for_leader(pool, base_min(now + TRUST_NS, until));
        now = base_clock_now();
    }
    pthread_mutex_unlock(&wakeup->leader_lock);
}

/* Spin while another thread has the lock and is not known to be polling. */
static void yield(const ucxpool_t *pool)
{
    uint64_t until;

    if (!base_own_lock_is_taken(&pool->lock)) {
        return; /* the usual case; avoids reading the clock */
    }
    until = base_clock_now() + YIELD_NS;
    while (base_own_lock_is_taken(&pool->lock) && !is_polled(pool) &&
           (base_clock_now() < until)) {
        sched_yield();
    }
}

/* Nap until no other thread polls, until an event was found, or until `until`.
 * Called without the lock. Returns true if the thread has napped. */
static bool nap_take(ucxpool_t *pool, const pool_goal_t *goal, uint64_t until)
{
    core_wakeup_t *wakeup = &pool->wakeup;

    yield(pool);
    if (!is_polled(pool) || core_event_is_pending(pool)) {
        return false;
    }
    __atomic_store_n(&wakeup->nap_events, goal->num_events, __ATOMIC_RELAXED);
    __atomic_add_fetch(&wakeup->num_naps, 1, __ATOMIC_SEQ_CST);
    nap_while_polled(pool, goal, until);
    __atomic_sub_fetch(&wakeup->num_naps, 1, __ATOMIC_SEQ_CST);
    note_polls(pool);
    return true;
}

/* --- progress and arming -------------------------------------------------- */

typedef enum round {
    ROUND_POLL, /* by a thread that does not wait */
    ROUND_WAIT,
    ROUND_ALL /* by a waiting thread that has made no full round for a while */
} round_t;

static unsigned progress(ucxpool_t *pool, round_t round)
{
    unsigned count;

    core_lock(pool);
    if (round == ROUND_POLL) {
        nap_note(pool);
    }
    if (pool->wakeup.is_armed) {
        /* Most sleeps end with a message in a ring. Other descriptors that have
         * events remain readable, so the next sleep is short. */
        disarm(pool);
        count = pool_progress(pool);
        if (count == 0) {
            count = pool_progress_all(pool);
        }
        count += pool_call_back(pool);
        note_seen(pool);
    } else {
        count = (round == ROUND_ALL) ? pool_progress_all(pool)
                                     : pool_progress(pool);
        count += pool_call_back(pool);
    }
    nap_wake(pool);
    core_unlock(pool);
    return count;
}

unsigned ucxpool_progress(ucxpool_t *pool)
{
    return base_missing(pool) ? 0 : progress(pool, ROUND_POLL);
}

static void note_sleeper(ucxpool_t *pool)
{
    if (pool->wakeup.was_armed &&
        !pthread_equal(pool->wakeup.armed_by, pthread_self())) {
        pool->wakeup.has_many = true;
    }
    pool->wakeup.was_armed = true;
    pool->wakeup.armed_by  = pthread_self();
}

bool pool_can_sleep(const ucxpool_t *pool)
{
    return (pool->wakeup.worker_fd >= 0) || pool->ucx.is_lost;
}

/* num_moved_p [out] The number of events and steps processed; if it is not 0,
 *                    the function returns UCXPOOL_ERR_BUSY. */
static ucxpool_status_t arm(ucxpool_t *pool, unsigned *num_moved_p)
{
    ucs_status_t status;

    *num_moved_p = 0;
    if (!pool_can_sleep(pool)) {
        return base_error(
            UCXPOOL_ERR_UNSUPPORTED,
            "the borrowed UCX context was created without UCP_FEATURE_WAKEUP");
    }
    note_sleeper(pool);
    if (!pool->wakeup.has_leader) {
        forget_wake(pool);
    }
    set_sleeping(pool, true);
    if (!has_work(pool)) {
        /* If UCX sleeps, new work makes the descriptor of UCX or of a socket
         * readable. */
        *num_moved_p = pool_ucx_sleeps(pool) ? pool_progress(pool)
                                             : pool_progress_all(pool);
    }
    if ((*num_moved_p == 0) && !has_work(pool)) {
        status =
            pool_ucx_sleeps(pool) ? UCS_OK : ucp_worker_arm(pool->ucx.worker);
        if (status == UCS_OK) {
            pool->wakeup.is_ucx_armed = true;
            return UCXPOOL_OK;
        }
        if (status != UCS_ERR_BUSY) {
            disarm(pool);
            return base_error(ucx_status(status),
                              "UCX could not arm its worker: %s",
                              ucs_status_string(status));
        }
    }
    disarm(pool);
    return UCXPOOL_ERR_BUSY;
}

/* Returns the time at which the pool needs progress even if no event
 * arrives. */
static uint64_t next_moment(ucxpool_t *pool)
{
    uint64_t moment = base_min(
        base_min(pool->requests.next_deadline, pool->wireup.next_hello),
        base_min(pool_sockets_deadline(pool),
                 copy_engine_deadline(pool->engine)));
    ucxpool_channel_t *channel;

    moment = base_min(moment, pool->xfer->next_announce);
    moment = base_min(moment, wire_delivery_deadline(pool));
    base_list_for_each(channel, &pool->channels.open, ucxpool_channel_t, link) {
        moment = base_min(moment, wireup_channel_close_deadline(channel));
        moment = base_min(moment, core_local_deadline(channel));
        moment = base_min(moment, channel->conn.lifeline.deadline);
        if (!channel->peer.is_detached) {
            moment = base_min(moment, channel->peer.next_check);
        }
        if (!core_channel_is_live(channel) &&
            core_channel_is_readable(channel)) {
            /* The channel's endpoint is closed, so the peer cannot ring the
             * doorbell. */
            moment = base_min(moment, base_clock_deadline(POLL_NS));
        }
    }
    return moment;
}

/* Set the timer, which makes the event descriptor readable when the pool needs
 * progress. */
static void set_timer(ucxpool_t *pool)
{
    uint64_t          moment = next_moment(pool);
    struct itimerspec timer  = {.it_value = {0}};

    if (moment != BASE_CLOCK_FOREVER) {
        moment         = base_max(moment, (uint64_t)1);
        timer.it_value = to_timespec(moment);
    }
    if (moment != pool->wakeup.timer_moment) {
        pool->wakeup.timer_moment = moment;
        timerfd_settime(pool->wakeup.timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
    }
}

static ucxpool_status_t arm_with_timer(ucxpool_t *pool, unsigned *num_moved_p)
{
    ucxpool_status_t status = arm(pool, num_moved_p);

    if (status == UCXPOOL_OK) {
        set_timer(pool);
    }
    return status;
}

ucxpool_status_t ucxpool_arm(ucxpool_t *pool)
{
    unsigned         num_moved;
    ucxpool_status_t status;

    if (base_missing(pool)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    core_lock(pool);
    status = arm_with_timer(pool, &num_moved);
    if ((status == UCXPOOL_OK) &&
        ((pool->wakeup.num_seen != pool->wakeup.num_events) ||
         core_event_is_pending(pool))) {
        core_wake(pool);
    }
    core_unlock(pool);
    return status;
}

/* Sleep once as the leader, until an event arrives or until `until`. */
static void lead(ucxpool_t *pool, uint64_t until)
{
    struct pollfd   event   = {.fd = pool->wakeup.epoll_fd, .events = POLLIN};
    uint64_t        now     = base_clock_now();
    struct timespec timeout = to_timespec((until > now) ? until - now : 0);

    pool->wakeup.has_leader = true;
    core_unlock(pool);
    ppoll(&event, 1, (until == BASE_CLOCK_FOREVER) ? NULL : &timeout, NULL);
    core_lock(pool);
    pool->wakeup.has_leader = false;
    wake_others(pool);
}

/* Sleep once without being the leader, until the leader wakes up or until
 * `until`. The leader cannot wake up before this thread releases the pool's
 * lock, so no wakeup is lost. */
static void follow(ucxpool_t *pool, uint64_t until)
{
    core_wakeup_t *wakeup  = &pool->wakeup;
    bool           is_time = false;
    uint64_t       num_wakes;

    pthread_mutex_lock(&wakeup->leader_lock);
    num_wakes = wakeup->num_wakes;
    core_unlock(pool);
    while ((wakeup->num_wakes == num_wakes) && !is_time) {
        is_time = !wait_for_leader(pool, until);
    }
    pthread_mutex_unlock(&wakeup->leader_lock);
    core_lock(pool);
}

static bool is_goal_reached(ucxpool_t *pool, const pool_goal_t *goal)
{
    if (goal->is_reached != NULL) {
        return goal->is_reached(goal->object);
    }
    return (core_event_counted(pool) != goal->num_events) ||
           core_event_is_pending(pool);
}

/* Sleep until the leader wakes up. If there is no leader, sleep as the leader.
 * Returns the number of events and steps processed before the sleep. If it is
 * not 0, a caller that waits for any event must stop waiting. */
static unsigned sleep_once(ucxpool_t *pool, const pool_goal_t *goal,
                           uint64_t until)
{
    unsigned num_moved = 0;

    core_lock(pool);
    /* Another thread may have reached the goal since the last check. */
    if (!is_goal_reached(pool, goal)) {
        if (pool->wakeup.has_leader) {
            follow(pool, until);
        } else if ((arm_with_timer(pool, &num_moved) == UCXPOOL_OK) &&
                   !is_goal_reached(pool, goal)) {
            lead(pool, until);
        }
    }
    core_unlock(pool);
    return num_moved;
}

/*
 * Adapt the spin time after a wait that slept. If the event arrived within
 * SPIN, spinning would have avoided the sleep, so the next wait spins twice as
 * long, up to SPIN. Otherwise the next wait spins half as long, because rare
 * events do not justify a busy CPU.
 */
static void adapt_spin(ucxpool_t *pool, uint64_t waited_ns)
{
    uint64_t max   = pool->config.spin_ns;
    uint64_t least = base_min(PURE_SPIN_NS, max);
    uint64_t spin  = __atomic_load_n(&pool->wakeup.spin_ns, __ATOMIC_RELAXED);

    spin =
        (waited_ns < max) ? base_min(spin * 2, max) : base_max(spin / 2, least);
    __atomic_store_n(&pool->wakeup.spin_ns, spin, __ATOMIC_RELAXED);
}

/*
 * Keep polling, or sleep, when there was no progress since `idle_since`.
 * Polling shortens the wait for an answer. But the sender of the answer may
 * need this CPU, so after a while each poll yields the CPU. Returns
 * the number of events and steps processed.
 */
static unsigned be_idle(ucxpool_t *pool, const pool_goal_t *goal,
                        uint64_t idle_since, uint64_t until)
{
    uint64_t now  = base_clock_now();
    uint64_t spin = __atomic_load_n(&pool->wakeup.spin_ns, __ATOMIC_RELAXED);
    unsigned num_moved;

    if (now - idle_since < base_min(PURE_SPIN_NS, spin)) {
        return 0;
    }
    if ((now - idle_since < spin) || !pool_can_sleep(pool)) {
        sched_yield();
        return 0;
    }
    num_moved = sleep_once(pool, goal, until);
    adapt_spin(pool, base_clock_now() - idle_since);
    return num_moved;
}

ucxpool_status_t pool_wait(ucxpool_t *pool, const pool_goal_t *wanted,
                           uint64_t until)
{
    pool_goal_t goal       = *wanted;
    bool        is_any     = goal.is_reached == NULL;
    bool        has_napped = false;
    uint64_t    idle_since = 0;
    unsigned    count      = 0;

    goal.num_events = core_event_counted(pool);
    if (is_any) {
        nap_enter(pool);
    }
    for (;;) {
        if (is_any) {
            has_napped = nap_take(pool, &goal, until);
        }
        count += progress(pool, has_napped ? ROUND_ALL : ROUND_WAIT);
        if (is_goal_reached(pool, &goal) || (is_any && (count != 0))) {
            return UCXPOOL_OK;
        }
        if ((until != BASE_CLOCK_FOREVER) && (base_clock_now() >= until)) {
            return UCXPOOL_INPROGRESS;
        }
        if (count != 0) {
            idle_since = 0;
            count      = 0;
            continue;
        }
        if (idle_since == 0) {
            idle_since = base_clock_now();
        }
        count = be_idle(pool, &goal, idle_since, until);
    }
}
