#include "base/lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread char base_lock_me;

void base_lock_await(base_lock_t *lock)
{
    /* This thread sets the state AWAITED when it takes the lock, because it
     * does not know whether other threads sleep. At worst, a wake() finds no
     * sleeping thread. */
    while (__atomic_exchange_n(&lock->state, BASE_LOCK_AWAITED,
                               __ATOMIC_ACQUIRE) != BASE_LOCK_FREE) {
        /* The call returns at once if the state is no longer AWAITED. */
        (void)syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE,
                      BASE_LOCK_AWAITED, NULL, NULL, 0);
    }
}

void base_lock_wake(base_lock_t *lock)
{
    (void)syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL,
                  0);
}
