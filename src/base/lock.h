/*
 * A lock that is held for a moment, and seldom wanted by two at once: one
 * atomic operation takes it and one gives it back, about half of what a mutex
 * of the C library takes. A thread that finds it taken sleeps.
 *
 * Zeroed memory is a lock that is free. It belongs to one process. The second
 * kind is recursive: the thread that has it may take it again.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BASE_LOCK_FREE,
    BASE_LOCK_TAKEN,
    BASE_LOCK_AWAITED /* taken, and somebody may sleep until it is free */
};

typedef struct base_lock {
    uint32_t state; /* atomic */
} base_lock_t;

/* When it cannot be taken at once, and when somebody may sleep. */
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

/* Its address names the thread. */
extern __thread char base_lock_me
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

typedef struct base_own_lock {
    base_lock_t lock;
    unsigned    depth; /* how often its owner has taken it besides */
    const char *owner; /* NULL: nobody; atomic, since others look at it */
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

/* Has another thread taken it? It may have given it back since. */
static inline bool base_own_lock_is_taken(const base_own_lock_t *lock)
{
    const char *owner = __atomic_load_n(&lock->owner, __ATOMIC_RELAXED);

    return (owner != NULL) && (owner != &base_lock_me);
}

#endif
