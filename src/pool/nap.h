/*
 * A thread that waits for any event while other threads poll the pool. If it
 * slept on the pool's descriptors, each of their polls would wake it, which
 * costs both sides system calls, and it would take the lock while they need it.
 * Instead it naps while they poll, and checks from time to time whether they
 * still do. Their rounds mostly check the rings; the napping thread checks
 * everything once in a while.
 *
 * A nap ends when the polling threads find an event, or at the next check,
 * within 100 us. A posted request does not end a nap: the thread that posts it
 * polls before and after.
 */
#ifndef POOL_NAP_H
#define POOL_NAP_H

#include "pool/pool.h"

/* This thread waits for any event. From now on, its own polls between waits do
 * not count as those of other threads. */
void pool_nap_enter(ucxpool_t *pool);

/* Nap until no thread polls, an event was found, or `until`; at most one
 * millisecond. Called without the lock. Returns true if it has napped: the
 * caller must then make a full round of progress. */
bool pool_nap_take(ucxpool_t *pool, const pool_goal_t *goal, uint64_t until);

/* Called with the lock held, by each round of a polling thread: note counts the
 * poll, wake ends naps if the round has found something. */
void pool_nap_note(ucxpool_t *pool);
void pool_nap_wake(ucxpool_t *pool);

#endif
