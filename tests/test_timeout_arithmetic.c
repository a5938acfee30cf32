/* Computation of the timeouts with which UCX detects a lost peer. */
#include "ucx/peer_timeout.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define MS  UINT64_C(1000000)
#define SEC UINT64_C(1000000000)

/* From the shortest PEER_TIMEOUT that is accepted to one day. */
static const uint64_t times[] = {SEC,      1500 * MS,  2 * SEC,    3 * SEC,
                                 7 * SEC,  10 * SEC,   20 * SEC,   50 * SEC,
                                 60 * SEC, 3600 * SEC, 86400 * SEC};
#define NUM_TIMES ((int)(sizeof(times) / sizeof(times[0])))

TEST_EACH(a_card_reports_a_lost_peer_within_three_quarters_of_the_time,
          NUM_TIMES)
{
    static const ucx_peer_timeout_kind_t kinds[] = {UCX_PEER_TIMEOUT_RC,
                                                    UCX_PEER_TIMEOUT_UD};

    for (int i = 0; i < 2; i++) {
        ucx_peer_timeout_t notice =
            ucx_peer_timeout_choose(kinds[i], times[_i]);
        uint64_t busy = ucx_peer_timeout_busy(kinds[i], &notice, 15);

        ck_assert_uint_le(busy, times[_i] / 2);
        ck_assert_uint_gt(busy, times[_i] / 8);
        ck_assert_uint_le(ucx_peer_timeout_idle(kinds[i], &notice, 15),
                          times[_i] / 4 * 3);
    }
}

TEST(ten_seconds_give_these_settings)
{
    ucx_peer_timeout_t rc =
        ucx_peer_timeout_choose(UCX_PEER_TIMEOUT_RC, 10 * SEC);
    ucx_peer_timeout_t ud =
        ucx_peer_timeout_choose(UCX_PEER_TIMEOUT_UD, 10 * SEC);
    ucx_peer_timeout_t tcp =
        ucx_peer_timeout_choose(UCX_PEER_TIMEOUT_TCP, 10 * SEC);

    ck_assert_uint_eq(rc.keepalive_ns, 2500 * MS);
    ck_assert_uint_eq(rc.timeout_ns, UINT64_C(4096) << 16);
    ck_assert_uint_eq(rc.count, 3);
    ck_assert_uint_eq(ud.timeout_ns, 3750 * MS);
    ck_assert_uint_eq(tcp.keepalive_ns, 2500 * MS);
    ck_assert_uint_eq(tcp.timeout_ns, UCX_PEER_TIMEOUT_NEVER);
}

/* A second is slightly more than 2^18 of the card's units. */
TEST(ucxs_defaults_take_most_of_a_minute)
{
    ucx_peer_timeout_t rc = {20 * SEC, SEC, 7};
    ucx_peer_timeout_t ud = {20 * SEC, 30 * SEC, 0};

    ck_assert_uint_eq(ucx_peer_timeout_busy(UCX_PEER_TIMEOUT_RC, &rc, 15),
                      (UINT64_C(4096) << 18) * 4 * 8);
    ck_assert_uint_eq(ucx_peer_timeout_idle(UCX_PEER_TIMEOUT_UD, &ud, 15),
                      60 * SEC);
}

/* The Linux documentation of tcp_retries2 gives this time for 15 retries. */
TEST(the_kernel_retransmits_for_a_quarter_of_an_hour)
{
    ck_assert_uint_eq(ucx_peer_timeout_kernel(15), 924600 * MS);
    ck_assert_uint_eq(ucx_peer_timeout_kernel(0), 200 * MS);
    ck_assert_uint_lt(ucx_peer_timeout_kernel(UINT32_MAX), 86400 * SEC);
}

TEST(the_shorter_of_ucxs_and_the_kernels_timeouts_applies_to_tcp)
{
    ucx_peer_timeout_t notice =
        ucx_peer_timeout_choose(UCX_PEER_TIMEOUT_TCP, SEC);

    ck_assert_uint_eq(
        ucx_peer_timeout_busy(UCX_PEER_TIMEOUT_TCP, &notice, 7 * SEC), 7 * SEC);
    ck_assert_uint_eq(
        ucx_peer_timeout_idle(UCX_PEER_TIMEOUT_TCP, &notice, 7 * SEC),
        7250 * MS);
    notice.timeout_ns = 3 * SEC;
    ck_assert_uint_eq(
        ucx_peer_timeout_busy(UCX_PEER_TIMEOUT_TCP, &notice, 7 * SEC), 3 * SEC);
}

TEST(a_cards_timeout_is_rounded_to_the_nearest_power)
{
    uint64_t           unit = UINT64_C(4096) << 10;
    ucx_peer_timeout_t rc   = {0, unit, 0};

    ck_assert_uint_eq(ucx_peer_timeout_busy(UCX_PEER_TIMEOUT_RC, &rc, 0),
                      4 * unit);
    rc.timeout_ns = unit * 14 / 10;
    ck_assert_uint_eq(ucx_peer_timeout_busy(UCX_PEER_TIMEOUT_RC, &rc, 0),
                      4 * unit);
    rc.timeout_ns = unit * 15 / 10;
    ck_assert_uint_eq(ucx_peer_timeout_busy(UCX_PEER_TIMEOUT_RC, &rc, 0),
                      8 * unit);
    rc.timeout_ns = 1;
    ck_assert_uint_eq(ucx_peer_timeout_busy(UCX_PEER_TIMEOUT_RC, &rc, 0),
                      4 * 8192);
}

TEST(forever_stays_forever)
{
    ucx_peer_timeout_t never = {UCX_PEER_TIMEOUT_NEVER, UCX_PEER_TIMEOUT_NEVER,
                                UCX_PEER_TIMEOUT_NEVER};
    ucx_peer_timeout_t some  = {SEC, SEC, UCX_PEER_TIMEOUT_NEVER};

    for (int kind = UCX_PEER_TIMEOUT_RC; kind <= UCX_PEER_TIMEOUT_TCP; kind++) {
        ck_assert_uint_eq(
            ucx_peer_timeout_idle((ucx_peer_timeout_kind_t)kind, &never, 0),
            UCX_PEER_TIMEOUT_NEVER);
    }
    ck_assert_uint_eq(ucx_peer_timeout_busy(UCX_PEER_TIMEOUT_RC, &never, 15),
                      UCX_PEER_TIMEOUT_NEVER);
    ck_assert_uint_eq(ucx_peer_timeout_busy(UCX_PEER_TIMEOUT_UD, &never, 15),
                      UCX_PEER_TIMEOUT_NEVER);
    ck_assert_uint_eq(ucx_peer_timeout_busy(UCX_PEER_TIMEOUT_RC, &some, 15),
                      UCX_PEER_TIMEOUT_NEVER);
}

TEST(each_transport_has_its_settings)
{
    ucx_peer_timeout_setting_t settings[UCX_PEER_TIMEOUT_MAX_SETTINGS];
    ucx_peer_timeout_t         notice = {1, 2, 3};

    ck_assert_uint_eq(ucx_peer_timeout_settings(UCX_PEER_TIMEOUT_UD, settings),
                      1);
    ck_assert_str_eq(settings[0].name, "TIMEOUT");
    ck_assert_uint_eq(*ucx_peer_timeout_value(&notice, &settings[0]), 2);
    ck_assert_uint_eq(ucx_peer_timeout_settings(UCX_PEER_TIMEOUT_RC, settings),
                      2);
    ck_assert_str_eq(settings[0].name, "TIMEOUT");
    ck_assert_str_eq(settings[1].name, "RETRY_COUNT");
    ck_assert(!settings[1].is_time);
    ck_assert_uint_eq(*ucx_peer_timeout_value(&notice, &settings[1]), 3);
    ck_assert_uint_eq(ucx_peer_timeout_settings(UCX_PEER_TIMEOUT_TCP, settings),
                      1);
    ck_assert_str_eq(settings[0].name, "USER_TIMEOUT");
}

TEST(values_are_written_as_ucx_reads_them)
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
        {UCX_PEER_TIMEOUT_NEVER, true, "inf"},
        {UCX_PEER_TIMEOUT_NEVER, false, "inf"},
    };
    char text[UCX_PEER_TIMEOUT_VALUE_SIZE];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ucx_peer_timeout_format(cases[i].value, cases[i].is_time, text);
        ck_assert_str_eq(text, cases[i].text);
    }
}

TEST(values_are_read_as_ucx_writes_them)
{
    static const struct {
        const char *text;
        bool        is_time;
        uint64_t    value;
    } good[] = {
        {"20000000.00us", true, 20 * SEC},
        {"1,50ms", true, MS},
        {"7", false, 7},
        {"inf", true, UCX_PEER_TIMEOUT_NEVER},
        {"inf", false, UCX_PEER_TIMEOUT_NEVER},
        {"3m", true, 180 * SEC},
        {"99999999999999999m", true, UCX_PEER_TIMEOUT_NEVER},
    };
    static const struct {
        const char *text;
        bool        is_time;
    } bad[] = {{"auto", true}, {"", true},    {"5", true},  {"-1s", true},
               {"5x", true},   {"5s", false}, {"x", false}, {" 5s", true}};
    uint64_t value = 0;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ck_assert(
            ucx_peer_timeout_parse(good[i].text, good[i].is_time, &value));
        ck_assert_uint_eq(value, good[i].value);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(
            !ucx_peer_timeout_parse(bad[i].text, bad[i].is_time, &value),
            "'%s'", bad[i].text);
    }
}
