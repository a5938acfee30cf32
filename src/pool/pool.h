/*
 * A pool at work: its begin and its end, its rounds of progress, sleeping and
 * waking, and where a message goes that has arrived.
 */
#ifndef POOL_POOL_H
#define POOL_POOL_H

#include "core/inbox.h"
#include "core/pool.h"
#include "core/request.h"

#include <ucxpool/pool.h>

/* --- begin and end: lifetime.c ----------------------------------------------
 * The pool's memory and its UCX context (ucx/context.h) are there before, and
 * go after.
 */

/* Lists, identity, UCX's handlers, the event descriptor. */
ucxpool_status_t pool_init(ucxpool_t *pool);

/* Forced closes are local work, but UCX may need some rounds for them. */
#define POOL_FORCED_NS UINT64_C(1000000000)

/* End everything and tell the peers; waits for CLOSE_TIMEOUT at most. UCX may
 * still have operations of a pool over a borrowed worker then. */
void pool_shutdown(ucxpool_t *pool);

void pool_cleanup(ucxpool_t *pool);

/* --- progress ------------------------------------------------------------- */

extern const core_dispatch_t pool_dispatch;

/* One round of everything, with the lock held. Calls no callback. */
unsigned pool_progress(ucxpool_t *pool);

/* Call the callbacks of what has completed. To be called with the lock held,
 * once; it is released around each callback. */
unsigned pool_call_back(ucxpool_t *pool);

/* False: the borrowed UCX context has no descriptor to sleep on. */
bool pool_can_sleep(const ucxpool_t *pool);

/* Is UCX armed, and nothing posted to it: will its descriptor tell before there
 * is anything for it to do? True also if UCX is lost. */
bool pool_ucx_sleeps(const ucxpool_t *pool);

/* A round that leaves nothing out; with the lock held. */
unsigned pool_progress_all(ucxpool_t *pool);

/* --- waiting: sleep.c ----------------------------------------------------- */

/*
 * What a thread waits for. is_reached NULL: that anything moves, in this thread
 * or another; or that there is an event to be told.
 */
typedef struct pool_goal {
    bool (*is_reached)(const void *object);
    const void *object;
    uint64_t    num_events; /* counted when the wait began; by pool_wait() */
} pool_goal_t;

/*
 * Progress until the goal is reached, or the moment `until` has come. The lock
 * is not held.
 */
ucxpool_status_t pool_wait(ucxpool_t *pool, const pool_goal_t *wanted,
                           uint64_t until);

/* Of threads that sleep without the descriptors: wake all; and sleep, with
 * leader_lock held, until that or `until`. False: the time is over. */
void pool_wake_others(ucxpool_t *pool);
bool pool_follow(ucxpool_t *pool, uint64_t until);

/* When the sockets want to be looked after though nothing happens. */
uint64_t pool_sockets_deadline(ucxpool_t *pool);

#endif
