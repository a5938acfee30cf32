#include "pool/nap.h"

#include "base/clock.h"
#include "base/lock.h"
#include "core/wakeup.h"

#include <sched.h>

/* A thread naps if other threads have polled POLLS_MIN times, and the last of
 * these polls is at most TRUST_NS ago. A nap takes at most NAP_NS. */
#define POLLS_MIN 4u
#define TRUST_NS  UINT64_C(100000)
#define NAP_NS    UINT64_C(1000000)

/* How long to spin, instead of sleeping, while another thread has the lock:
 * waking a sleeping thread would cost the other thread a system call. */
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

/* Returns true if other threads poll now. */
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

void pool_nap_enter(ucxpool_t *pool)
{
    if (waiter(pool) != &base_lock_me) {
        note_polls(pool);
        __atomic_store_n(&pool->wakeup.waiter, &base_lock_me, __ATOMIC_RELAXED);
    }
}

void pool_nap_note(ucxpool_t *pool)
{
    const char *other = waiter(pool);

    if ((other != NULL) && (other != &base_lock_me)) {
        __atomic_store_n(&pool->wakeup.polled_at, base_clock_now(),
                         __ATOMIC_RELAXED);
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

/* Nap until the other threads stop polling or have found an event. One round of
 * these threads may take longer than TRUST_NS. */
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
        pool_follow(pool, base_min(now + TRUST_NS, until));
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

bool pool_nap_take(ucxpool_t *pool, const pool_goal_t *goal, uint64_t until)
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
