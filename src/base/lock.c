#include <config.h>

#include "base/lock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread char base_lock_me;

void base_lock_await(base_lock_t *lock)
{
    /* It stays marked as awaited once it is had: whether others sleep is not
     * known. At worst one call of wake() is for nobody. */
    while (__atomic_exchange_n(&lock->state, BASE_LOCK_AWAITED,
                               __ATOMIC_ACQUIRE) != BASE_LOCK_FREE) {
        /* Returns at once if it is no longer so. */
        (void)syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE,
                      BASE_LOCK_AWAITED, NULL, NULL, 0);
    }
}

void base_lock_wake(base_lock_t *lock)
{
    (void)syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL,
                  0);
}
