/* Events that end a wait. */
#include "pool/pool.h"
#include "test.h"
#include "replace.h"

#include <ucxpool/ucxpool.h>

#include <stdlib.h>

/* Number of events that the next progress call reports, once. */
static unsigned num_moved;

REPLACE(unsigned, pool_progress_all, ucxpool_t *pool)
{
    unsigned moved = num_moved;

    num_moved = 0;
    return __real_pool_progress_all(pool) + moved;
}

static ucxpool_t *pool;

static void start(void)
{
    setenv("UCXPOOL_COMM_SIZE", "4m", 1);
    setenv("UCXPOOL_BLOCK_SIZE", "64k", 1);
    setenv("UCXPOOL_SPIN", "0us", 1);
    assert_ok(ucxpool_create(NULL, &pool));
    while (ucxpool_progress(pool) != 0) {
    }
}

static void stop(void)
{
    ucxpool_destroy(pool);
}

TEST_SETTINGS(.setup = start, .teardown = stop);

TEST(an_event_just_before_sleeping_ends_a_wait)
{
    num_moved = 1;
    assert_ok(ucxpool_wait(pool, UCXPOOL_FOREVER));
    ck_assert_uint_eq(num_moved, 0);
}

TEST(a_wait_for_nothing_times_out)
{
    ck_assert_int_eq(ucxpool_wait(pool, 1000000), UCXPOOL_INPROGRESS);
}

TEST(arming_returns_busy_after_an_event)
{
    num_moved = 1;
    assert_error(ucxpool_arm(pool), BUSY);
    assert_ok(ucxpool_arm(pool));
}
