/*
 * A lock that is held for a moment, and seldom wanted by two at once: one
 * atomic operation takes it and one gives it back, about half of what a mutex
 * of the C library takes. A thread that finds it taken sleeps.
 *
 * Zeroed memory is a lock that is free. It belongs to one process, and is not
 * recursive.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdbool.h>
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

#endif
