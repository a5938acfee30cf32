/* Which wire is chosen, and the reason reported if it is not the
 * requested one. */
#include "core/channel.h"
#include "caught.h"
#include "pair.h"
#include "test.h"
#include "wireup/wireup.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define TAG    UINT64_C(0x77)
#define LENGTH 200000u

static pair_t pair;

static void check_reason(const ucxpool_channel_t *channel, const char *reason)
{
    ucxpool_channel_attr_t attr = pair_attr(channel);

    ck_assert_str_eq(attr.wire_reason, reason);
}

/* The channel fails because its peer has refused it for this reason. */
static void check_refused(ucxpool_channel_t *channel, const char *reason)
{
    char                   expected[UCXPOOL_REASON_SIZE];
    ucxpool_channel_attr_t attr;

    pair_until(&pair, pair_attr(channel).state >= UCXPOOL_CHANNEL_CLOSED);
    snprintf(expected, sizeof(expected), "the peer refused the channel: %s",
             reason);
    attr = pair_attr(channel);
    ck_assert_str_eq(attr.reason, expected);
    ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_FAILED);
    assert_error_detail(ucxpool_channel_wait(channel, 0), UNSUPPORTED,
                        expected);
    assert_error_detail(ucxpool_send_buffer(channel, "x", 1, TAG, NULL, NULL),
                        UNSUPPORTED, expected);
}

TEST_SETTINGS(.timeout = 60);

TEST(pools_on_one_host_read_each_others_blocks)
{
    pair_begin(&pair, NULL, NULL);
    ck_assert_int_eq(pair_attr(pair.to_b).wire, UCXPOOL_WIRE_MAP);
    ck_assert_int_eq(pair_attr(pair.to_a).wire, UCXPOOL_WIRE_MAP);
    check_reason(pair.to_b,
                 "same host and user, each side reads the other's blocks");
    pair_exchange(&pair, LENGTH);
}

TEST(ucx_is_used_if_one_side_requires_it_and_both_report_why)
{
    pair_begin(&pair, "WIRE=ucx", NULL);
    ck_assert_int_eq(pair_attr(pair.to_b).wire, UCXPOOL_WIRE_UCX);
    ck_assert_int_eq(pair_attr(pair.to_a).wire, UCXPOOL_WIRE_UCX);
    check_reason(pair.to_b, "UCXPOOL_WIRE=ucx is set");
    check_reason(pair.to_a,
                 "the peer's memory cannot be mapped: the owner does not offer "
                 "its memory");
    pair_exchange(&pair, LENGTH);
}

TEST(requiring_map_where_it_is_impossible_fails_with_a_reason)
{
    ucxpool_channel_attr_t attr;

    pair_begin(&pair, "WIRE=map", "WIRE=ucx");
    attr = pair_attr(pair.to_b);
    ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_FAILED);
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_UNSUPPORTED);
    ck_assert_str_eq(attr.reason,
                     "UCXPOOL_WIRE=map, but the peer's memory cannot be "
                     "mapped: the owner does not offer its memory");
    assert_error(ucxpool_send_buffer(pair.to_b, "x", 1, TAG, NULL, NULL),
                 UNSUPPORTED);
    check_refused(pair.to_a, attr.reason);
    pair_check_blocks(&pair);
}

static const struct {
    const char *a;
    const char *b;
    const char *reason; /* NULL: the channel opens */
} requirements[] = {
    {"REQUIRE=map", "", NULL},
    {"REQUIRE=map,rma", "", NULL},
    {"REQUIRE=direct", "", NULL},
    {"REQUIRE=direct,rma", "", NULL},
    {"REQUIRE=any", "WIRE=ucx", NULL},
    {"REQUIRE=direct", "WIRE=ucx",
     "the channel requires direct, but the peer's memory cannot be mapped: the "
     "owner does not offer its memory; allow rma, or any path"},
    {"REQUIRE=map", "WIRE=ucx",
     "the channel requires map, but the peer's memory cannot be mapped: the "
     "owner does not offer its memory; allow rma, or any path"},
    {"REQUIRE=rma", "",
     "the channel requires rma, but uses the map wire; set UCXPOOL_WIRE=ucx, "
     "or allow map"},
    {"REQUIRE=rma WIRE=ucx", "",
     "the channel requires rma, but UCX has no RDMA "
     "transport to the peer; check UCX_TLS and UCX_NET_DEVICES"},
    {"REQUIRE=map,rma WIRE=ucx", "",
     "the channel requires map or rma, but UCX has no RDMA transport to the "
     "peer, and UCXPOOL_WIRE=ucx is set; allow any path"},
};
#define NUM_REQUIREMENTS (int)(sizeof(requirements) / sizeof(requirements[0]))

TEST_EACH(a_channel_fails_unless_its_path_is_allowed, NUM_REQUIREMENTS)
{
    const char            *reason = requirements[_i].reason;
    ucxpool_channel_attr_t attr;

    pair_begin(&pair, requirements[_i].a, requirements[_i].b);
    attr = pair_attr(pair.to_b);
    if (reason == NULL) {
        ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_OPEN);
        pair_exchange(&pair, LENGTH);
    } else {
        ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_FAILED);
        ck_assert_int_eq(attr.status, UCXPOOL_ERR_UNSUPPORTED);
        ck_assert_str_eq(attr.reason, reason);
        check_refused(pair.to_a, reason);
    }
    pair_check_blocks(&pair);
}

TEST(sends_posted_before_the_path_is_known_fail_with_the_reason)
{
    ucxpool_request_attr_t attr;
    ucxpool_request_t     *send;
    uint64_t               num_received;

    pair.a    = pair_pool("REQUIRE=rma");
    pair.b    = pair_pool("");
    pair.to_b = pair_meet(pair.a, pair.b);
    send      = pair_send(pair.to_b, "word", 5, TAG);
    pair.to_a = pair_meet(pair.b, pair.a);
    pair_until(&pair, ucxpool_request_test(send) != UCXPOOL_INPROGRESS);
    ucxpool_request_query(send, &attr, sizeof(attr));
    assert_error(attr.status, UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(attr.detail, "requires rma"));
    ucxpool_request_release(send);
    pair_until(&pair, pair_attr(pair.to_a).state >= UCXPOOL_CHANNEL_CLOSED);
    assert_ok(ucxpool_stats_get(pair.b, "messages_received", &num_received));
    ck_assert_uint_eq(num_received, 0);
    pair_check_blocks(&pair);
}

static const ucxpool_channel_params_t any_path = {
    .field_mask = UCXPOOL_CHANNEL_PARAM_FIELD_REQUIRE,
    .require    = 0,
};
static const ucxpool_channel_params_t map_only = {
    .field_mask = UCXPOOL_CHANNEL_PARAM_FIELD_REQUIRE,
    .require    = UCXPOOL_PATH_MAP,
};
static const ucxpool_channel_params_t map_or_rma = {
    .field_mask = UCXPOOL_CHANNEL_PARAM_FIELD_REQUIRE,
    .require    = UCXPOOL_PATH_MAP | UCXPOOL_PATH_RMA,
};

/* Connect a to b's listener. The params are those of the two channels. */
static void connect_with(ucxpool_listener_t             *listener,
                         const ucxpool_channel_params_t *of_a,
                         const ucxpool_channel_params_t *of_b)
{
    char where[UCXPOOL_HOST_PORT_SIZE];

    snprintf(where, sizeof(where), "127.0.0.1:%u",
             (unsigned)ucxpool_listener_port(listener));
    assert_ok(ucxpool_channel_connect(pair.a, where, of_a, &pair.to_b));
    pair_until(&pair, ucxpool_listener_accept(listener, of_b, &pair.to_a) ==
                          UCXPOOL_OK);
    pair_until(&pair, pair_attr(pair.to_b).state != UCXPOOL_CHANNEL_CONNECTING);
    pair_until(&pair, pair_attr(pair.to_a).state != UCXPOOL_CHANNEL_CONNECTING);
}

TEST(a_channels_own_requirement_replaces_the_setting)
{
    ucxpool_listener_t *listener;

    pair.a   = pair_pool("REQUIRE=map");
    pair.b   = pair_pool("WIRE=ucx");
    listener = pair_listen(pair.b, "127.0.0.1:0");
    connect_with(listener, &map_or_rma, NULL);
    assert_error(pair_attr(pair.to_b).status, UNSUPPORTED);
    ucxpool_channel_close(pair.to_b);
    ucxpool_channel_close(pair.to_a);
    connect_with(listener, &any_path, NULL);
    ck_assert_int_eq(pair_attr(pair.to_b).state, UCXPOOL_CHANNEL_OPEN);
    pair_cleanup(&pair);
}

static const struct {
    const char                     *setting; /* of the accepting pool */
    const ucxpool_channel_params_t *params;  /* of the accepted channel */
    const char                     *reason;  /* NULL: the channel opens */
} acceptances[] = {
    {"REQUIRE=map", NULL, "the channel requires map, but "},
    {"", &map_only, "the channel requires map, but "},
    {"REQUIRE=any", &map_or_rma, "the channel requires map or rma, but "},
    {"REQUIRE=map", &any_path, NULL},
};
#define NUM_ACCEPTANCES (int)(sizeof(acceptances) / sizeof(acceptances[0]))

TEST_EACH(an_accepted_channel_fails_unless_its_path_is_allowed, NUM_ACCEPTANCES)
{
    const char            *reason = acceptances[_i].reason;
    ucxpool_channel_attr_t accepted;

    pair.a = pair_pool("WIRE=ucx");
    pair.b = pair_pool(acceptances[_i].setting);
    connect_with(pair_listen(pair.b, "127.0.0.1:0"), NULL,
                 acceptances[_i].params);
    if (reason == NULL) {
        pair_exchange(&pair, LENGTH);
        pair_cleanup(&pair);
        return;
    }
    accepted = pair_attr(pair.to_a);
    ck_assert_int_eq(accepted.status, UCXPOOL_ERR_UNSUPPORTED);
    ck_assert_ptr_eq(strstr(accepted.reason, reason), accepted.reason);
    check_refused(pair.to_b, accepted.reason);
    pair_check_blocks(&pair);
    pair_cleanup(&pair);
}

TEST(an_unknown_path_is_rejected)
{
    ucxpool_t               *pool   = pair_pool("");
    ucxpool_channel_params_t params = {
        .field_mask = UCXPOOL_CHANNEL_PARAM_FIELD_REQUIRE,
        .require    = 8,
    };
    ucxpool_channel_t *channel;

    assert_error(
        ucxpool_channel_connect(pool, "127.0.0.1:1", &params, &channel),
        INVALID_PARAM);
    ck_assert_str_eq(ucxpool_error_detail(),
                     "a channel requires invalid paths (0x8); use bits of "
                     "ucxpool_path_t");
    ucxpool_destroy(pool);
}

TEST_EACH(ucx_by_choice_is_not_warned_of, 2)
{
    static const char *const sides[] = {"LOG_LEVEL=warn",
                                        "WIRE=ucx LOG_LEVEL=warn"};

    caught_begin();
    pair_begin(&pair, sides[_i], sides[1]);
    ck_assert_ptr_null(strstr(caught_text(), "the peer is on this host"));
    caught_end();
    pair_exchange(&pair, LENGTH);
}

TEST(requests_waiting_for_a_channel_fail_with_it)
{
    pair_t pools = {pair_pool("WIRE=map"), pair_pool("WIRE=ucx"), NULL, NULL};
    ucxpool_request_t *send;

    pools.to_b = pair_meet(pools.a, pools.b);
    send       = pair_send(pools.to_b, "x", 1, TAG);
    pools.to_a = pair_meet(pools.b, pools.a);
    assert_error(pair_finish(&pools, send), UNSUPPORTED);
    pair_cleanup(&pools);
}

TEST_EACH(two_pools_can_reconnect_after_closing, 2)
{
    static const char *const wires[] = {"WIRE=map", "WIRE=ucx"};
    ucxpool_channel_t       *old;

    pair_begin(&pair, wires[_i], wires[_i]);
    for (int i = 0; i < 3; i++) {
        ucxpool_channel_close(pair.to_b);
        pair_until(&pair, pair_attr(pair.to_a).state == UCXPOOL_CHANNEL_CLOSED);
        /* One side keeps its old handle longer than the other. */
        old       = pair.to_a;
        pair.to_b = pair_meet(pair.a, pair.b);
        pair.to_a = pair_meet(pair.b, pair.a);
        pair_until(&pair, pair_attr(pair.to_b).state == UCXPOOL_CHANNEL_OPEN);
        pair_until(&pair, pair_attr(pair.to_a).state == UCXPOOL_CHANNEL_OPEN);
        pair_exchange(&pair, LENGTH);
        ucxpool_channel_close(old);
    }
    pair_check_blocks(&pair);
}

/* Without pidfds, checking whether a peer lives takes a descriptor. */
TEST(a_peer_that_cannot_be_checked_is_not_lost)
{
    struct rlimit limit;
    struct rlimit none = {0};

    pair_begin(&pair, NULL, NULL);
    core_lock(pair.a);
    wireup_process_watch_stop(pair.to_b);
    pair.to_b->peer.next_check = 0;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none.rlim_max = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert_uint_eq(wireup_process_watch_look(pair.to_b), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert(!pair.to_b->peer.has_ended);
    /* It is checked again later. */
    ck_assert_uint_ne(pair.to_b->peer.next_check, BASE_CLOCK_FOREVER);
    core_unlock(pair.a);
    pair_exchange(&pair, LENGTH);
}
