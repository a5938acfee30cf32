/* A thread that waits for anything while another thread polls: see
 * pool/pool.h. */
#include "core/pool.h"
#include "pair.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>

#define TAG          UINT64_C(7)
#define ALL_BITS     UINT64_MAX
#define MILLISECOND  UINT64_C(1000000)
#define WITHOUT_SPIN "WIRE=map SPIN=0us"

static pair_t pair;

static pthread_t poller;
static bool      is_polled; /* atomic */

/* The waiting thread, its arguments, and the result of its wait. */
static pthread_t          waiter;
static bool               asks_for_events;
static uint64_t           timeout_ns;
static bool               is_over; /* atomic */
static ucxpool_status_t   status;
static ucxpool_message_t *message;

static void *wait_for_message(void *arg)
{
    ucxpool_event_t event;
    size_t          num = 0;

    if (asks_for_events) {
        (void)ucxpool_event_get(pair.a, &event, 1, &num);
    }
    /* The wait returns when anything happens in the pool. */
    do {
        status = ucxpool_wait(pair.a, timeout_ns);
    } while ((status == UCXPOOL_OK) &&
             (ucxpool_probe(pair.a, pair.to_b, TAG, ALL_BITS, &message) !=
              UCXPOOL_OK));
    __atomic_store_n(&is_over, true, __ATOMIC_SEQ_CST);
    return NULL;
}

static bool is_napping(void)
{
    return __atomic_load_n(&pair.a->wakeup.num_naps, __ATOMIC_SEQ_CST) == 1;
}

static bool has_ended(void)
{
    return __atomic_load_n(&is_over, __ATOMIC_SEQ_CST);
}

/* A short wait may return before it is seen to nap. */
static bool naps_or_has_ended(void)
{
    return is_napping() || has_ended();
}

static void *poll_until_notified(void *arg)
{
    while (__atomic_load_n(&is_polled, __ATOMIC_SEQ_CST)) {
        ucxpool_progress(pair.a);
    }
    return NULL;
}

static void start_thread(pthread_t *thread, void *(*run)(void *))
{
    ck_assert_int_eq(pthread_create(thread, NULL, run, NULL), 0);
}

static void stop_polling(void)
{
    __atomic_store_n(&is_polled, false, __ATOMIC_SEQ_CST);
    ck_assert_int_eq(pthread_join(poller, NULL), 0);
}

/* Progresses pool b until is_so(), for at most ten seconds. */
static void until(bool (*is_so)(void))
{
    uint64_t deadline = pair_deadline();

    while (!is_so()) {
        ucxpool_progress(pair.b);
        sched_yield();
        ck_assert(!pair_is_late(deadline));
    }
}

/* One thread polls pool a. Another waits on it, and therefore naps. */
static void begin(bool with_events, uint64_t time_ns)
{
    asks_for_events = with_events;
    timeout_ns      = time_ns;
    is_over         = false;
    is_polled       = true;
    start_thread(&poller, poll_until_notified);
    start_thread(&waiter, wait_for_message);
    until(naps_or_has_ended);
}

static void start(void)
{
    pair_init(&pair, WITHOUT_SPIN, WITHOUT_SPIN);
}

static void stop(void)
{
    pair_cleanup(&pair);
}

/* Post a send from b to a. */
static ucxpool_request_t *post(void)
{
    static char        byte = 'x';
    ucxpool_request_t *send;

    send = pair_send(pair.to_a, &byte, 1, TAG);
    return send;
}

static void finish(ucxpool_request_t *send)
{
    ck_assert_int_eq(pthread_join(waiter, NULL), 0);
    assert_ok(status);
    ucxpool_message_refuse(message, NULL);
    (void)pair_finish(&pair, send);
}

TEST_SETTINGS(.setup = start, .teardown = stop);

TEST_EACH(a_nap_ends_when_the_polling_thread_finds_work, 2)
{
    ucxpool_request_t *send;

    begin(_i == 1, UCXPOOL_FOREVER);
    send = post();
    until(has_ended);
    stop_polling();
    finish(send);
}

/* Run the same scenario in one thread. */
TEST_EACH(napping_threads_wake_for_events_found_by_the_polling_thread, 2)
{
    core_wakeup_t     *wakeup = &pair.a->wakeup;
    ucxpool_event_t    events[4];
    size_t             num = 0;
    uint64_t           num_wakes;
    ucxpool_request_t *send;

    if (_i == 1) {
        (void)ucxpool_event_get(pair.a, events, 4, &num);
    }
    wakeup->num_naps   = 1;
    wakeup->nap_events = wakeup->num_events;
    num_wakes          = wakeup->num_wakes;
    pair_progress(&pair);
    ck_assert_uint_eq(wakeup->num_wakes, num_wakes);
    send = post();
    pair_until(&pair, wakeup->num_wakes != num_wakes);
    wakeup->num_naps = 0;
    assert_ok(ucxpool_probe(pair.a, pair.to_b, TAG, ALL_BITS, &message));
    ucxpool_message_refuse(message, NULL);
    (void)pair_finish(&pair, send);
}

TEST_EACH(a_napping_thread_progresses_the_pool_when_polling_stops, 2)
{
    ucxpool_request_t *send;

    begin(_i == 1, UCXPOOL_FOREVER);
    stop_polling();
    send = post();
    until(has_ended);
    finish(send);
}

TEST(a_nap_times_out_while_another_thread_polls)
{
    begin(false, 200 * MILLISECOND);
    until(has_ended);
    stop_polling();
    ck_assert_int_eq(pthread_join(waiter, NULL), 0);
    ck_assert_int_eq(status, UCXPOOL_INPROGRESS);
}

/* A thread that polls between its waits does not count as another thread. */
TEST(a_thread_that_polls_between_its_waits_does_not_nap)
{
    uint64_t num_polls;

    (void)ucxpool_wait(pair.a, 1);
    num_polls = pair.a->wakeup.num_polls;
    for (int i = 0; i < 100; i++) {
        ucxpool_progress(pair.a);
        (void)ucxpool_wait(pair.a, 1);
    }
    ck_assert_uint_eq(pair.a->wakeup.num_polls, num_polls);
}
