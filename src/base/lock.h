/*
 * A lock for short critical sections with little contention. Locking and
 * unlocking cost one atomic operation each, about half of the cost of a C
 * library mutex. If another thread has the lock, the calling thread sleeps.
 *
 * A zero-initialized lock is unlocked. A lock works within one process only. A
 * base_own_lock_t is recursive: the owning thread may take it again.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BASE_LOCK_FREE,
    BASE_LOCK_TAKEN,
    BASE_LOCK_AWAITED /* taken; threads may be sleeping */
};

typedef struct base_lock {
    uint32_t state; /* atomic */
} base_lock_t;

/* Slow paths. await() sleeps until the calling thread has the lock. wake()
 * wakes a thread that sleeps in await(). */
void base_lock_await(base_lock_t *lock);
void base_lock_wake(base_lock_t *lock);

static inline void base_lock_take(base_lock_t *lock)
{
    uint32_t expected = BASE_LOCK_FREE;

    if (!__atomic_compare_exchange_n(&lock->state, &expected, BASE_LOCK_TAKEN,
                                     false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED)) {
        base_lock_await(lock);
    }
}

static inline void base_lock_give(base_lock_t *lock)
{
    if (__atomic_exchange_n(&lock->state, BASE_LOCK_FREE, __ATOMIC_RELEASE) ==
        BASE_LOCK_AWAITED) {
        base_lock_wake(lock);
    }
}

/* The address of this variable identifies the thread. */
extern __thread char base_lock_me
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

typedef struct base_own_lock {
    base_lock_t lock;
    unsigned    depth; /* nested takes by the owner */
    const char *owner; /* NULL: none; atomic, other threads read it */
} base_own_lock_t;

static inline void base_own_lock_take(base_own_lock_t *lock)
{
    const char *me = &base_lock_me;

    if (__atomic_load_n(&lock->owner, __ATOMIC_RELAXED) == me) {
        lock->depth++;
        return;
    }
    base_lock_take(&lock->lock);
    __atomic_store_n(&lock->owner, me, __ATOMIC_RELAXED);
}

static inline void base_own_lock_give(base_own_lock_t *lock)
{
    if (lock->depth != 0) {
        lock->depth--;
        return;
    }
    __atomic_store_n(&lock->owner, (const char *)NULL, __ATOMIC_RELAXED);
    base_lock_give(&lock->lock);
}

/* Returns true if another thread holds the lock. That thread may release the
 * lock at any time. */
static inline bool base_own_lock_is_taken(const base_own_lock_t *lock)
{
    const char *owner = __atomic_load_n(&lock->owner, __ATOMIC_RELAXED);

    return (owner != NULL) && (owner != &base_lock_me);
}

#endif
