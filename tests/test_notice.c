/* How soon UCX notices that a peer is gone: the arithmetic. */
#include "ucx/peer_timeout.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define MS  UINT64_C(1000000)
#define SEC UINT64_C(1000000000)

/* From the shortest that the setting PEER_TIMEOUT takes to a day. */
static const uint64_t times[] = {SEC,      1500 * MS,  2 * SEC,    3 * SEC,
                                 7 * SEC,  10 * SEC,   20 * SEC,   50 * SEC,
                                 60 * SEC, 3600 * SEC, 86400 * SEC};
#define NUM_TIMES ((int)(sizeof(times) / sizeof(times[0])))

START_TEST(a_card_is_noticed_within_three_quarters_of_the_time)
{
    static const xfer_notice_kind_t kinds[] = {XFER_NOTICE_RC, XFER_NOTICE_UD};

    for (int i = 0; i < 2; i++) {
        xfer_notice_t notice = xfer_notice_choose(kinds[i], times[_i]);
        uint64_t      busy   = xfer_notice_busy(kinds[i], &notice, 15);

        ck_assert_uint_le(busy, times[_i] / 2);
        ck_assert_uint_gt(busy, times[_i] / 8);
        ck_assert_uint_le(xfer_notice_idle(kinds[i], &notice, 15),
                          times[_i] / 4 * 3);
    }
}
END_TEST

START_TEST(ten_seconds_are_these_settings)
{
    xfer_notice_t rc  = xfer_notice_choose(XFER_NOTICE_RC, 10 * SEC);
    xfer_notice_t ud  = xfer_notice_choose(XFER_NOTICE_UD, 10 * SEC);
    xfer_notice_t tcp = xfer_notice_choose(XFER_NOTICE_TCP, 10 * SEC);

    ck_assert_uint_eq(rc.keepalive_ns, 2500 * MS);
    ck_assert_uint_eq(rc.timeout_ns, UINT64_C(4096) << 16);
    ck_assert_uint_eq(rc.count, 3);
    ck_assert_uint_eq(ud.timeout_ns, 3750 * MS);
    ck_assert_uint_eq(tcp.keepalive_ns, 2500 * MS);
    ck_assert_uint_eq(tcp.timeout_ns, XFER_NOTICE_NEVER);
}
END_TEST

/* A second is 2^18 of the card's units, and a little. */
START_TEST(ucxs_own_settings_take_most_of_a_minute)
{
    xfer_notice_t rc = {20 * SEC, SEC, 7};
    xfer_notice_t ud = {20 * SEC, 30 * SEC, 0};

    ck_assert_uint_eq(xfer_notice_busy(XFER_NOTICE_RC, &rc, 15),
                      (UINT64_C(4096) << 18) * 4 * 8);
    ck_assert_uint_eq(xfer_notice_idle(XFER_NOTICE_UD, &ud, 15), 60 * SEC);
}
END_TEST

/* Linux's documentation of tcp_retries2 has this number for 15. */
START_TEST(the_kernel_sends_again_for_a_quarter_of_an_hour)
{
    ck_assert_uint_eq(xfer_notice_kernel(15), 924600 * MS);
    ck_assert_uint_eq(xfer_notice_kernel(0), 200 * MS);
    ck_assert_uint_lt(xfer_notice_kernel(UINT32_MAX), 86400 * SEC);
}
END_TEST

START_TEST(tcp_is_given_up_by_who_is_first)
{
    xfer_notice_t notice = xfer_notice_choose(XFER_NOTICE_TCP, SEC);

    ck_assert_uint_eq(xfer_notice_busy(XFER_NOTICE_TCP, &notice, 7 * SEC),
                      7 * SEC);
    ck_assert_uint_eq(xfer_notice_idle(XFER_NOTICE_TCP, &notice, 7 * SEC),
                      7250 * MS);
    notice.timeout_ns = 3 * SEC;
    ck_assert_uint_eq(xfer_notice_busy(XFER_NOTICE_TCP, &notice, 7 * SEC),
                      3 * SEC);
}
END_TEST

START_TEST(a_card_takes_the_nearest_power)
{
    uint64_t      unit = UINT64_C(4096) << 10;
    xfer_notice_t rc   = {0, unit, 0};

    ck_assert_uint_eq(xfer_notice_busy(XFER_NOTICE_RC, &rc, 0), 4 * unit);
    rc.timeout_ns = unit * 14 / 10;
    ck_assert_uint_eq(xfer_notice_busy(XFER_NOTICE_RC, &rc, 0), 4 * unit);
    rc.timeout_ns = unit * 15 / 10;
    ck_assert_uint_eq(xfer_notice_busy(XFER_NOTICE_RC, &rc, 0), 8 * unit);
    rc.timeout_ns = 1;
    ck_assert_uint_eq(xfer_notice_busy(XFER_NOTICE_RC, &rc, 0), 4 * 8192);
}
END_TEST

START_TEST(for_ever_stays_for_ever)
{
    xfer_notice_t never = {XFER_NOTICE_NEVER, XFER_NOTICE_NEVER,
                           XFER_NOTICE_NEVER};
    xfer_notice_t some  = {SEC, SEC, XFER_NOTICE_NEVER};

    for (int kind = XFER_NOTICE_RC; kind <= XFER_NOTICE_TCP; kind++) {
        ck_assert_uint_eq(xfer_notice_idle((xfer_notice_kind_t)kind, &never, 0),
                          XFER_NOTICE_NEVER);
    }
    ck_assert_uint_eq(xfer_notice_busy(XFER_NOTICE_RC, &never, 15),
                      XFER_NOTICE_NEVER);
    ck_assert_uint_eq(xfer_notice_busy(XFER_NOTICE_UD, &never, 15),
                      XFER_NOTICE_NEVER);
    ck_assert_uint_eq(xfer_notice_busy(XFER_NOTICE_RC, &some, 15),
                      XFER_NOTICE_NEVER);
}
END_TEST

START_TEST(each_kind_has_its_settings)
{
    xfer_notice_setting_t settings[XFER_NOTICE_MAX_SETTINGS];
    xfer_notice_t         notice = {1, 2, 3};

    ck_assert_uint_eq(xfer_notice_settings(XFER_NOTICE_UD, settings), 1);
    ck_assert_str_eq(settings[0].name, "TIMEOUT");
    ck_assert_uint_eq(*xfer_notice_value(&notice, &settings[0]), 2);
    ck_assert_uint_eq(xfer_notice_settings(XFER_NOTICE_RC, settings), 2);
    ck_assert_str_eq(settings[0].name, "TIMEOUT");
    ck_assert_str_eq(settings[1].name, "RETRY_COUNT");
    ck_assert(!settings[1].is_time);
    ck_assert_uint_eq(*xfer_notice_value(&notice, &settings[1]), 3);
    ck_assert_uint_eq(xfer_notice_settings(XFER_NOTICE_TCP, settings), 1);
    ck_assert_str_eq(settings[0].name, "USER_TIMEOUT");
}
END_TEST

START_TEST(values_are_written_as_ucx_reads_them)
{
    static const struct {
        uint64_t    value;
        bool        is_time;
        const char *text;
    } cases[] = {
        {3, false, "3"},
        {2 * SEC, true, "2s"},
        {2500 * MS, true, "2500ms"},
        {268435456, true, "268435us"},
        {0, true, "0s"},
        {XFER_NOTICE_NEVER, true, "inf"},
        {XFER_NOTICE_NEVER, false, "inf"},
    };
    char text[XFER_NOTICE_VALUE_SIZE];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        xfer_notice_format(cases[i].value, cases[i].is_time, text);
        ck_assert_str_eq(text, cases[i].text);
    }
}
END_TEST

START_TEST(values_are_read_as_ucx_writes_them)
{
    static const struct {
        const char *text;
        bool        is_time;
        uint64_t    value;
    } good[] = {
        {"20000000.00us", true, 20 * SEC},
        {"1,50ms", true, MS},
        {"7", false, 7},
        {"inf", true, XFER_NOTICE_NEVER},
        {"inf", false, XFER_NOTICE_NEVER},
        {"3m", true, 180 * SEC},
        {"99999999999999999m", true, XFER_NOTICE_NEVER},
    };
    static const struct {
        const char *text;
        bool        is_time;
    } bad[] = {{"auto", true}, {"", true},    {"5", true},  {"-1s", true},
               {"5x", true},   {"5s", false}, {"x", false}, {" 5s", true}};
    uint64_t value = 0;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ck_assert(xfer_notice_parse(good[i].text, good[i].is_time, &value));
        ck_assert_uint_eq(value, good[i].value);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(!xfer_notice_parse(bad[i].text, bad[i].is_time, &value),
                      "'%s'", bad[i].text);
    }
}
END_TEST

int main(void)
{
    Suite   *suite = suite_create("notice");
    TCase   *tcase = tcase_create("notice");
    SRunner *runner;
    int      num_failed;

    tcase_add_loop_test(tcase,
                        a_card_is_noticed_within_three_quarters_of_the_time, 0,
                        NUM_TIMES);
    tcase_add_test(tcase, ten_seconds_are_these_settings);
    tcase_add_test(tcase, ucxs_own_settings_take_most_of_a_minute);
    tcase_add_test(tcase, the_kernel_sends_again_for_a_quarter_of_an_hour);
    tcase_add_test(tcase, tcp_is_given_up_by_who_is_first);
    tcase_add_test(tcase, a_card_takes_the_nearest_power);
    tcase_add_test(tcase, for_ever_stays_for_ever);
    tcase_add_test(tcase, each_kind_has_its_settings);
    tcase_add_test(tcase, values_are_written_as_ucx_reads_them);
    tcase_add_test(tcase, values_are_read_as_ucx_writes_them);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return num_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
