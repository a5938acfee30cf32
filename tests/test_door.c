/* The door: strangers in, proven peers out. */
#include <config.h>

#include "loopback.h"
#include "net_calls.h"

#include "base/clock.h"
#include "base/log.h"
#include "xfer/handshake.h"

#include <ucxpool/ucxpool.h>

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#define SECRET "a secret of at least 16 bytes\n"

static xfer_secret_t *secret;

static void setup(void)
{
    base_log_set_level(BASE_LOG_NONE);
    secret = loopback_secret(SECRET);
}

static void teardown(void)
{
    net_call_reset();
    xfer_secret_release(secret);
}

static void assert_peer_waits(xfer_door_t *door)
{
    xfer_door_peer_t peer;

    loopback_settle(door);
    ck_assert_int_eq(xfer_door_take(door, &peer), UCXPOOL_OK);
    ck_assert_uint_eq(peer.length, sizeof(LOOPBACK_CALLER_BLOB));
    ck_assert_mem_eq(peer.blob, LOOPBACK_CALLER_BLOB, peer.length);
    ck_assert_int_eq(strncmp(peer.name, "127.0.0.1:", 10), 0);
}

static void assert_nobody_waits(xfer_door_t *door)
{
    xfer_door_peer_t peer;

    loopback_settle(door);
    ck_assert_int_eq(xfer_door_take(door, &peer), UCXPOOL_INPROGRESS);
}

static unsigned num_half_open(const xfer_door_t *door)
{
    xfer_door_stats_t stats;

    xfer_door_get_stats(door, &stats);
    return stats.num_half_open;
}

/* A caller with the right secret gets through. */
static void assert_open(xfer_door_t *door)
{
    xfer_greet_t *greet = loopback_caller(door, secret);
    const void   *blob;
    size_t        length;

    ck_assert_int_eq(loopback_meet(door, greet), UCXPOOL_OK);
    xfer_greet_peer(greet, &blob, &length);
    ck_assert_uint_eq(length, sizeof(LOOPBACK_DOOR_BLOB));
    ck_assert_mem_eq(blob, LOOPBACK_DOOR_BLOB, length);
    assert_peer_waits(door);
    xfer_greet_destroy(greet);
}

START_TEST(a_caller_with_the_secret_is_let_in_and_both_have_the_blobs)
{
    xfer_door_t *door = loopback_door(secret);

    assert_open(door);
    ck_assert_uint_eq(xfer_door_num_refused(door), 0);
    ck_assert_uint_eq(num_half_open(door), 0);
    assert_nobody_waits(door);
    xfer_door_destroy(door);
}
END_TEST

START_TEST(a_caller_with_another_secret_is_refused_and_told_so)
{
    xfer_secret_t *other = loopback_secret("quite another secret, wrong\n");
    xfer_door_t   *door  = loopback_door(secret);
    xfer_greet_t  *greet = loopback_caller(door, other);

    ck_assert_int_eq(loopback_meet(door, greet), UCXPOOL_ERR_PERMISSION);
    ck_assert_ptr_nonnull(
        strstr(xfer_greet_reason(greet), "the secrets differ"));
    xfer_greet_destroy(greet);
    assert_nobody_waits(door);
    ck_assert_uint_eq(xfer_door_num_refused(door), 1);
    assert_open(door);
    xfer_door_destroy(door);
    xfer_secret_release(other);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("door");
    TCase *tcase = tcase_create("door");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase,
                   a_caller_with_the_secret_is_let_in_and_both_have_the_blobs);
    tcase_add_test(tcase,
                   a_caller_with_another_secret_is_refused_and_told_so);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(make_suite());
    int      num_failed;

    srunner_run_all(runner, CK_NORMAL);
    num_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return num_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
