#include "pool/nap.h"

#include "base/clock.h"
#include "base/lock.h"
#include "core/wakeup.h"

#include <sched.h>

/* How often others have polled before it is for them to see to the pool, and
 * how long they are trusted to go on. */
#define POLLS_MIN 4u
#define NAP_NS    UINT64_C(100000)

static uint64_t num_polls(const ucxpool_t *pool)
{
    return __atomic_load_n(&pool->wakeup.num_polls, __ATOMIC_RELAXED);
}

static void know_polls(ucxpool_t *pool)
{
    __atomic_store_n(&pool->wakeup.num_known, num_polls(pool),
                     __ATOMIC_RELAXED);
}

/* Have others polled since? */
static bool is_polled(const ucxpool_t *pool)
{
    uint64_t known = __atomic_load_n(&pool->wakeup.num_known, __ATOMIC_RELAXED);

    return num_polls(pool) - known >= POLLS_MIN;
}

static bool is_waiter(const ucxpool_t *pool)
{
    return __atomic_load_n(&pool->wakeup.waiter, __ATOMIC_RELAXED) ==
           &base_lock_me;
}

void pool_nap_enter(ucxpool_t *pool)
{
    if (!is_waiter(pool)) {
        know_polls(pool);
        __atomic_store_n(&pool->wakeup.waiter, &base_lock_me, __ATOMIC_RELAXED);
    }
}

void pool_nap_note(ucxpool_t *pool)
{
    if (!is_waiter(pool)) {
        __atomic_store_n(&pool->wakeup.num_polls, num_polls(pool) + 1,
                         __ATOMIC_RELAXED);
    }
}

void pool_nap_wake(ucxpool_t *pool)
{
    const core_wakeup_t *wakeup = &pool->wakeup;

    if ((__atomic_load_n(&wakeup->num_naps, __ATOMIC_SEQ_CST) != 0) &&
        ((__atomic_load_n(&wakeup->nap_events, __ATOMIC_RELAXED) !=
          core_event_counted(pool)) ||
         core_event_is_pending(pool))) {
        pool_wake_others(pool);
    }
}

/* Until they stop, or have found something. A round of theirs may take longer
 * than a nap. */
static void look_on(ucxpool_t *pool, const pool_goal_t *goal, uint64_t until)
{
    core_wakeup_t *wakeup = &pool->wakeup;
    uint64_t       now    = base_clock_now();
    uint64_t       polls  = num_polls(pool) - 1;
    uint64_t       num_wakes;

    pthread_mutex_lock(&wakeup->leader_lock);
    num_wakes = wakeup->num_wakes;
    while (
        (wakeup->num_wakes == num_wakes) && (now < until) &&
        (core_event_counted(pool) == goal->num_events) &&
        ((num_polls(pool) != polls) || base_own_lock_is_taken(&pool->lock))) {
        polls = num_polls(pool);
        pool_follow(pool, base_min(now + NAP_NS, until));
        now = base_clock_now();
    }
    pthread_mutex_unlock(&wakeup->leader_lock);
}

void pool_nap_take(ucxpool_t *pool, const pool_goal_t *goal, uint64_t until)
{
    core_wakeup_t *wakeup = &pool->wakeup;

    while (base_own_lock_is_taken(&pool->lock) && !is_polled(pool)) {
        sched_yield();
    }
    if (is_polled(pool)) {
        __atomic_store_n(&wakeup->nap_events, goal->num_events,
                         __ATOMIC_RELAXED);
        __atomic_add_fetch(&wakeup->num_naps, 1, __ATOMIC_SEQ_CST);
        look_on(pool, goal, until);
        __atomic_sub_fetch(&wakeup->num_naps, 1, __ATOMIC_SEQ_CST);
        know_polls(pool);
    }
}
