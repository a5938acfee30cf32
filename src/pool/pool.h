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

/* The time limit for a forced close. A forced close needs no answer from a
 * peer, but UCX may need several rounds for it. */
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

/* Returns true if the pool's own worker is armed, and the pool has no endpoints
 * and no UCX operations. UCX then has nothing to do until the worker's
 * descriptor becomes readable. Also returns true if UCX is unusable (see
 * ucx/context.h). */
bool pool_ucx_sleeps(const ucxpool_t *pool);

/* One round of progress that also checks everything that most rounds skip.
 * Called with the lock held. */
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

/* Returns the time at which the sockets need progress even if no event
 * arrives. */
uint64_t pool_sockets_deadline(ucxpool_t *pool);

#endif
