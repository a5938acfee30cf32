/*
 * A thread that waits for anything beside others that poll. Each of their
 * rounds would wake it, for which both pay with system calls, and it would have
 * the lock while they want it. So it stands back while they go on: it naps, and
 * looks from time to time whether they still do. Their rounds look at rings
 * most of all; it looks at all there is, once in a while.
 *
 * What they find for it ends a nap, or the look that follows within 100 us.
 * What is posted does not: who polls before and after it needs nobody.
 */
#ifndef POOL_NAP_H
#define POOL_NAP_H

#include "pool/pool.h"

/* This thread waits for anything: what it does from now on, between its waits
 * too, is no other's. */
void pool_nap_enter(ucxpool_t *pool);

/* Without the lock: until nobody polls, or something was found, or `until`; for
 * a millisecond at most. Returns whether it has napped: all there is wants
 * looking at. */
bool pool_nap_take(ucxpool_t *pool, const pool_goal_t *goal, uint64_t until);

/* Of a thread that polls, in each of its rounds, with the lock: that it does,
 * and what it has found. */
void pool_nap_note(ucxpool_t *pool);
void pool_nap_wake(ucxpool_t *pool);

#endif
