/*
 * A running pool: creation and destruction, rounds of progress, sleeping and
 * waking, and the dispatch of received messages.
 */
#ifndef POOL_POOL_H
#define POOL_POOL_H

#include "core/inbox.h"
#include "core/pool.h"
#include "core/request.h"

#include <ucxpool/pool.h>

/* --- lifetime: lifetime.c ----------------------------------------------------
 * The pool's memory and its UCX context (ucx/context.h) are created before
 * pool_init() and destroyed after pool_cleanup().
 */

/* Set up lists, identity, UCX's handlers and the event descriptor. */
ucxpool_status_t pool_init(ucxpool_t *pool);

/* The time limit for a forced close. This is local work, but UCX may need
 * several rounds for it. */
#define POOL_FORCED_NS UINT64_C(1000000000)

/* End all requests, notify the peers, and wait for the peers for at most
 * CLOSE_TIMEOUT. On a borrowed worker, UCX may still have operations of the
 * pool afterwards. */
void pool_shutdown(ucxpool_t *pool);

void pool_cleanup(ucxpool_t *pool);

/* --- progress ------------------------------------------------------------- */

extern const core_dispatch_t pool_dispatch;

/* One round of progress, with the lock held. Calls no callbacks. */
unsigned pool_progress(ucxpool_t *pool);

/* Call the callbacks of completed requests. The lock must be held exactly once;
 * it is released around each callback. */
unsigned pool_call_back(ucxpool_t *pool);

/* Returns false if the borrowed UCX context has no descriptor to sleep on. */
bool pool_can_sleep(const ucxpool_t *pool);

/* Returns true if UCX is armed and nothing was posted since. UCX then has no
 * work before its descriptor becomes readable. Also returns true if UCX is
 * unusable (see core_network_open()). */
bool pool_ucx_sleeps(const ucxpool_t *pool);

/* One round of progress that skips nothing, with the lock held. */
unsigned pool_progress_all(ucxpool_t *pool);

/* --- waiting: sleep.c ----------------------------------------------------- */

/*
 * The goal of a waiting thread. If is_reached is NULL, the thread waits for any
 * progress, by any thread, or for an event to report.
 */
typedef struct pool_goal {
    bool (*is_reached)(const void *object);
    const void *object;
    uint64_t    num_events; /* event count when the wait began; set by
                             * pool_wait() */
} pool_goal_t;

/*
 * Make progress until the goal is reached, or until the time `until`. Called
 * without the lock. Returns UCXPOOL_INPROGRESS if the goal is not reached in
 * time.
 */
ucxpool_status_t pool_wait(ucxpool_t *pool, const pool_goal_t *wanted,
                           uint64_t until);

/* For threads that do not sleep on the descriptors. pool_wake_others() wakes
 * all of them. pool_follow() sleeps until the thread is woken, or until
 * `until`, and returns false on timeout. The caller holds leader_lock. */
void pool_wake_others(ucxpool_t *pool);
bool pool_follow(ucxpool_t *pool, uint64_t until);

/* Returns the time at which the sockets need progress even if no event
 * arrives. */
uint64_t pool_sockets_deadline(ucxpool_t *pool);

/* --- naps: sleep.c -------------------------------------------------------- */

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

/* Record that this thread waits for any event. From now on, its polls between
 * waits do not count as polls of other threads. */
void pool_nap_enter(ucxpool_t *pool);

/* Nap until no other thread polls, until an event was found, or until `until`;
 * at most one millisecond. Called without the lock. Returns true if the thread
 * has napped: the caller must then make a full round of progress. */
bool pool_nap_take(ucxpool_t *pool, const pool_goal_t *goal, uint64_t until);

/* Called with the lock held, in each round of a polling thread. pool_nap_note()
 * counts the poll. pool_nap_wake() ends naps if the round has found an
 * event. */
void pool_nap_note(ucxpool_t *pool);
void pool_nap_wake(ucxpool_t *pool);

#endif
