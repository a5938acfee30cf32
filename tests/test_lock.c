/* A lock: one thread holds it at a time, and waiting threads sleep. */
#include "base/lock.h"
#include "rounds.h"
#include "test.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NUM_THREADS 4

static base_lock_t lock;
static unsigned    count; /* protected by the lock */
static unsigned    num_each;

static void *count_up(void *arg)
{
    for (unsigned i = 0; i < num_each; i++) {
        base_lock_take(&lock);
        count++;
        base_lock_give(&lock);
    }
    return NULL;
}

TEST(one_thread_holds_the_lock_at_a_time)
{
    num_each = rounds(100) * 1000;
    for (unsigned i = 0; i < NUM_THREADS; i++) {
        test_thread(count_up, NULL);
    }
    test_join(NUM_THREADS);
    ck_assert_uint_eq(count, NUM_THREADS * num_each);
    ck_assert_uint_eq(lock.state, BASE_LOCK_FREE);
}

static base_own_lock_t own_lock;

/* A second time while holding it. */
static void *count_up_twice(void *arg)
{
    for (unsigned i = 0; i < num_each; i++) {
        base_own_lock_take(&own_lock);
        base_own_lock_take(&own_lock);
        count++;
        base_own_lock_give(&own_lock);
        count++;
        base_own_lock_give(&own_lock);
    }
    return NULL;
}

TEST(owner_may_take_the_lock_again)
{
    num_each = rounds(100) * 1000;
    for (unsigned i = 0; i < NUM_THREADS; i++) {
        test_thread(count_up_twice, NULL);
    }
    test_join(NUM_THREADS);
    ck_assert_uint_eq(count, 2 * NUM_THREADS * num_each);
    ck_assert_uint_eq(own_lock.lock.state, BASE_LOCK_FREE);
    ck_assert_ptr_null(own_lock.owner);
}

typedef struct waiter {
    pid_t number; /* atomic; 0: not yet known */
} waiter_t;

static bool has_it; /* atomic */

static void *take_once(void *arg)
{
    waiter_t *waiter = arg;

    __atomic_store_n(&waiter->number, (pid_t)syscall(SYS_gettid),
                     __ATOMIC_RELEASE);
    base_lock_take(&lock);
    __atomic_store_n(&has_it, true, __ATOMIC_RELEASE);
    base_lock_give(&lock);
    return NULL;
}

/* The thread's state as the kernel reports it. */
static bool is_asleep(waiter_t *waiter)
{
    pid_t       number    = __atomic_load_n(&waiter->number, __ATOMIC_ACQUIRE);
    char        text[256] = "";
    const char *end;
    FILE       *file;

    snprintf(text, sizeof(text), "/proc/self/task/%d/stat", (int)number);
    file = fopen(text, "r");
    if (file == NULL) {
        return false;
    }
    end = (fgets(text, sizeof(text), file) != NULL) ? strrchr(text, ')') : NULL;
    fclose(file);
    return (end != NULL) && (strncmp(end, ") S", 3) == 0);
}

/* Several threads sleep; each is woken in turn. */
TEST(waiter_sleeps_until_the_lock_is_released)
{
    waiter_t waiters[NUM_THREADS] = {{.number = 0}};

    base_lock_take(&lock);
    for (unsigned i = 0; i < NUM_THREADS; i++) {
        test_thread(take_once, &waiters[i]);
    }
    for (unsigned i = 0; i < NUM_THREADS; i++) {
        /* A spinning thread never sleeps, and then Check's timeout fails the
         * test. */
        while (!is_asleep(&waiters[i])) {
            sched_yield();
        }
    }
    ck_assert(!__atomic_load_n(&has_it, __ATOMIC_ACQUIRE));
    base_lock_give(&lock);
    test_join(NUM_THREADS);
    ck_assert(__atomic_load_n(&has_it, __ATOMIC_ACQUIRE));
    ck_assert_uint_eq(lock.state, BASE_LOCK_FREE);
}
