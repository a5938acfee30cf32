/*
 * Naps: short sleeps of a thread that waits for any event while other threads
 * poll the pool. If the waiting thread slept on the pool's descriptors, each
 * poll would wake it. This costs both sides system calls, and the waiting
 * thread would take the lock while the polling threads need it. Instead the
 * waiting thread naps, and checks from time to time whether the other threads
 * still poll. Their rounds mostly check the rings, so the napping thread makes
 * a full round of progress after each nap.
 *
 * A nap ends when the polling threads find an event, or within 100 us after
 * they stop polling, or after one millisecond. A posted request does not end a
 * nap: the thread that posts it polls before and after.
 */
#ifndef POOL_NAP_H
#define POOL_NAP_H

#include "pool/pool.h"

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
