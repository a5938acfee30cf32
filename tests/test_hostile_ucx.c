/*
 * An authenticated peer that breaks the protocol on the `ucx` wire: it sends
 * fragments that do not belong to the message, each in all forms in which UCX
 * may deliver it. Pool b of the pair is hostile; the test sends its messages.
 */
#include "base/crc32c.h"
#include "core/request.h"
#include "pair.h"
#include "test.h"
#include "wire/wire.h"

#include <string.h>

#define MESSAGE  7u
#define SIZE     300000u
#define PART     60000u /* a fifth of it */
#define GUARD    4096u
#define SENT_MAX 400u
#define ALL_BITS UINT64_MAX

/* The initial bytes of the memory, and the bytes that the peer sends. */
#define POISON 0xfe
#define BYTE   0x5a

#define SETTINGS "WIRE=ucx DEPTH=4 CREDITS=8 LOG_LEVEL=none"

/* How the bytes arrive: with their header; by rendezvous to their destination;
 * by rendezvous to a block, because of a checksum. */
typedef enum way { WAY_EAGER, WAY_IN_PLACE, WAY_BLOCK, NUM_WAYS } way_t;

typedef struct scene {
    pair_t             pair;
    pair_t             honest;
    way_t              way;
    ucxpool_channel_t *victim;
    ucxpool_channel_t *channel;
    ucxpool_request_t *recv;
    unsigned           num_sent;
    void              *sent[SENT_MAX];
    proto_fixed_t fixed[SENT_MAX]; /* must not change until they are sent */
    uint8_t       bytes[2 * PART];
    uint8_t       memory[GUARD + SIZE + GUARD];
} scene_t;

static scene_t scene;

/* --- messages of the hostile pool ---------------------------------------- */

static void say(unsigned id, const proto_fixed_t *fixed, const void *data,
                size_t data_size, unsigned flags)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags        = flags,
    };
    unsigned number = scene.num_sent++;
    void    *request;

    ck_assert_uint_lt(number, SENT_MAX);
    scene.fixed[number]              = *fixed;
    scene.fixed[number].head.version = PROTO_VERSION;
    if (fixed->head.key == 0) {
        scene.fixed[number].head.channel = scene.victim->number;
        scene.fixed[number].head.key     = scene.victim->key;
    }
    request = ucp_am_send_nbx(
        scene.channel->conn.endpoint->ep, id, &scene.fixed[number],
        proto_fixed_size(fixed->head.type), data, data_size, &param);
    ck_assert(!UCS_PTR_IS_ERR(request));
    scene.sent[number] = request;
}

static unsigned first_id(void)
{
    return scene.pair.a->config.am_id;
}

static void send_desc(void)
{
    static const copy_run_t whole = {SIZE, 1};
    proto_fixed_t           fixed = {.desc = {.head    = {.type = PROTO_DESC},
                                              .message = MESSAGE,
                                              .tag     = 1,
                                              .payload_size = SIZE,
                                              .num_runs     = 1}};

    say(first_id(), &fixed, &whole, sizeof(whole), UCP_AM_SEND_FLAG_EAGER);
}

static proto_data_t fragment(uint32_t index, uint64_t offset, uint64_t length)
{
    proto_data_t data = {
        .head    = {.type = PROTO_DATA},
        .message = MESSAGE,
        .receive = (scene.recv == NULL) ? 0 : scene.recv->recv->receive,
        .index   = index,
        .offset  = offset,
        .length  = length,
    };

    return data;
}

static void send_data_of(proto_data_t data, size_t data_size)
{
    unsigned flags = (scene.way == WAY_EAGER) ? UCP_AM_SEND_FLAG_EAGER
                                              : UCP_AM_SEND_FLAG_RNDV;

    if (scene.way == WAY_BLOCK) {
        data.flags |= PROTO_DATA_CHECKSUM;
        data.checksum = base_crc32c(0, scene.bytes, data_size);
    }
    say(first_id() + 1, &(proto_fixed_t){.data = data}, scene.bytes, data_size,
        flags);
}

static void post_data(proto_data_t data)
{
    send_data_of(data, data.length);
}

static void send_fragment(uint32_t index, uint64_t offset, uint64_t length)
{
    post_data(fragment(index, offset, length));
}

static void send_last(uint32_t index, uint64_t offset, uint64_t length)
{
    proto_data_t data = fragment(index, offset, length);

    data.flags = PROTO_DATA_LAST;
    post_data(data);
}

/* --- progress ------------------------------------------------------------ */

static bool is_all_sent(void)
{
    for (unsigned i = 0; i < scene.num_sent; i++) {
        if (scene.sent[i] == NULL) {
            continue;
        }
        if (ucp_request_check_status(scene.sent[i]) == UCS_INPROGRESS) {
            return false;
        }
        ucp_request_free(scene.sent[i]);
        scene.sent[i] = NULL;
    }
    return true;
}

/* All messages have been read: the credit that was sent last has arrived. */
static void let_read(void)
{
    proto_fixed_t fixed = {.head = {.type = PROTO_CREDIT, .credits = 1}};
    uint32_t      before;

    pair_until(&scene.pair, is_all_sent());
    before = scene.victim->flow.credits;
    say(first_id(), &fixed, NULL, 0, UCP_AM_SEND_FLAG_EAGER);
    pair_until(&scene.pair, scene.victim->flow.credits == before + 1);
}

static void begin(void)
{
    send_desc();
    pair_until(&scene.pair, scene.recv->recv->receive != 0);
}

static void check_memory(void)
{
    const uint8_t *target = scene.memory + GUARD;
    size_t         num    = 0;

    ck_assert(pair_is_all(scene.memory, GUARD, POISON));
    while ((num < SIZE) && ((target[num] == POISON) || (target[num] == BYTE))) {
        num++;
    }
    ck_assert_uint_eq(num, SIZE); /* one assertion, because each is slow */
    ck_assert(pair_is_all(target + SIZE, GUARD, POISON));
}

static void exchange(ucxpool_channel_t *from, ucxpool_channel_t *to,
                     ucxpool_t *receiver)
{
    static uint8_t     source[SIZE];
    static uint8_t     target[SIZE];
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    pair_fill(source, SIZE);
    pair_poison(target, SIZE);
    recv = pair_recv(receiver, to, target, SIZE, 5);
    send = pair_send(from, source, SIZE, 5);
    pair_finish_both(&scene.honest, send, recv);
    ck_assert_mem_eq(source, target, SIZE);
}

/* The victim is unharmed, and so are its other peers. */
static void check_unharmed(void)
{
    check_memory();
    pair_until(&scene.pair, pair_is_whole(scene.pair.a));
    assert_ok(ucxpool_check(scene.pair.a));
    exchange(scene.honest.to_a, scene.honest.to_b, scene.honest.a);
    exchange(scene.honest.to_b, scene.honest.to_a, scene.honest.b);
    check_memory();
}

static void scene_cleanup(void)
{
    ucxpool_request_release(scene.recv);
    pair_until(&scene.pair, is_all_sent());
    ucxpool_destroy(scene.honest.b);
    pair_cleanup(&scene.pair);
}

static void scene_init(way_t way)
{
    memset(&scene, 0, sizeof(scene));
    scene.way = way;
    pair_init(&scene.pair, SETTINGS, SETTINGS);
    scene.victim   = scene.pair.to_b;
    scene.channel  = scene.pair.to_a;
    scene.honest.a = scene.pair.a;
    pair_join(&scene.honest, SETTINGS);
    /* The tests must not depend on RDMA devices of the machine. */
    scene.pair.a->needs_registration = false;
    memset(scene.memory, POISON, sizeof(scene.memory));
    memset(scene.bytes, BYTE, sizeof(scene.bytes));
    scene.recv =
        pair_recv(scene.pair.a, scene.victim, scene.memory + GUARD, SIZE, 1);
    test_at_end(scene_cleanup);
}

/* --- messages that fail the channel -------------------------------------- */

/* A fragment, the bytes that are sent with it, and whether it is the last. */
typedef struct sent {
    uint32_t index;
    uint64_t offset;
    uint64_t length;
    size_t   size;
    bool     is_last;
} sent_t;

/* The fragments of a whole message. */
#define PART_OF(_index) \
    { \
        _index, _index *PART, PART, PART, false \
    }
#define LAST_PART \
    { \
        4, 4 * PART, PART, PART, true \
    }

static const struct {
    const char *name;
    unsigned    num;
    sent_t      sent[7];
} rejected[] = {
    {"no bytes", 1, {{0, 0, 0, 0, false}}},
    {"fewer bytes than announced", 1, {{0, 0, 5000, 4000, false}}},
    {"more bytes than announced", 1, {{0, 0, 4000, 5000, false}}},
    {"longer than a block", 1, {{0, 0, 65537, 65537, false}}},
    {"behind the message", 1, {{0, SIZE, 16, 16, false}}},
    {"over the end", 1, {{0, SIZE - 15, 16, 16, false}}},
    {"offset that overflows", 1, {{0, UINT64_MAX - 15, 32, 32, false}}},
    {"length that overflows", 1, {{0, 16, UINT64_MAX - 15, 32, false}}},
    {"highest index", 1, {{UINT32_MAX, 0, 16, 16, false}}},
    {"index behind the last", 2, {LAST_PART, {5, 0, PART, PART, false}}},
    {"two last ones", 2, {LAST_PART, {3, 3 * PART, PART, PART, true}}},
    {"last too early", 1, {{0, 0, 4096, 4096, true}}},
    {"the same bytes again and again",
     6,
     {{0, 0, PART, PART, false},
      {1, 0, PART, PART, false},
      {2, 0, PART, PART, false},
      {3, 0, PART, PART, false},
      {4, 0, PART, PART, false},
      {5, 0, PART, PART, false}}},
    {"one fragment twice",
     6,
     {PART_OF(0), PART_OF(1), PART_OF(2), PART_OF(3), PART_OF(2), LAST_PART}},
    /* The right number of bytes, and one more fragment. */
    {"index twice instead of another",
     7,
     {PART_OF(0),
      PART_OF(1),
      PART_OF(2),
      PART_OF(3),
      {2, 2 * PART, PART / 2, PART / 2, false},
      {2, 2 * PART, PART / 4, PART / 4, false},
      {4, 4 * PART, PART / 4, PART / 4, true}}},
};
#define NUM_REJECTED ((int)(sizeof(rejected) / sizeof(rejected[0])))

static void send_one(const sent_t *sent)
{
    proto_data_t data = fragment(sent->index, sent->offset, sent->length);

    if (sent->is_last) {
        data.flags = PROTO_DATA_LAST;
    }
    send_data_of(data, sent->size);
}

/* Only the victim progresses, so none of its operations completes. */
static void send_more_than_any_window(void)
{
    for (uint32_t i = 0; i < 300; i++) {
        send_fragment(i, i, 1);
    }
    for (int i = 0; i < 1000; i++) {
        ucxpool_progress(scene.pair.a);
        ck_assert_uint_le(scene.recv->recv->pending, 256);
    }
}

/* --- messages that are ignored ------------------------------------------- */

static void send_unknown(uint64_t message, uint64_t receive)
{
    proto_data_t data = fragment(0, 0, PART);

    data.message = message;
    data.receive = receive;
    post_data(data);
}

static void fragments_of_no_message(void)
{
    uint64_t receive = scene.recv->recv->receive;

    send_unknown(MESSAGE + 1, receive);
    send_unknown(MESSAGE, receive + 1);
    send_unknown(MESSAGE, receive + PROTO_SENDS_MAX);
    send_unknown(MESSAGE, 0);
    send_unknown(0, 0);
    send_unknown(UINT64_MAX, UINT64_MAX);
}

static void with_a_wrong_key(void)
{
    proto_data_t data = fragment(0, 0, PART);

    data.head.channel = scene.victim->number;
    data.head.key     = scene.victim->key ^ 1;
    post_data(data);
    data.head.channel = UINT32_MAX;
    data.head.key     = scene.victim->key;
    post_data(data);
    data.head.channel = scene.honest.to_b->number;
    post_data(data);
}

static void with_the_other_id(void)
{
    proto_fixed_t fixed = {.data = fragment(0, 0, 4096)};

    say(first_id(), &fixed, scene.bytes, 4096, UCP_AM_SEND_FLAG_EAGER);
    say(first_id(), &fixed, scene.bytes, PART, UCP_AM_SEND_FLAG_RNDV);
    fixed.head.type = PROTO_BYE;
    say(first_id() + 1, &fixed, NULL, 0, UCP_AM_SEND_FLAG_EAGER);
}

static void goodbye_with_a_long_reason(void)
{
    proto_fixed_t fixed = {.bye = {.head   = {.type = PROTO_BYE},
                                   .status = UCXPOOL_ERR_UNSUPPORTED}};

    say(first_id(), &fixed, scene.bytes, PROTO_REASON_MAX + 1,
        UCP_AM_SEND_FLAG_EAGER);
}

static void nothing(void)
{
}

static void (*const tolerated_attacks[])(void) = {
    fragments_of_no_message,    with_a_wrong_key, with_the_other_id,
    goodbye_with_a_long_reason, nothing,
};
#define NUM_NOISES 5

/* --- runs ---------------------------------------------------------------- */

static void check_rejected(const char *name)
{
    pair_until(&scene.pair, pair_state(scene.victim) != UCXPOOL_CHANNEL_OPEN);
    ck_assert_msg(scene.victim->status == UCXPOOL_ERR_PROTOCOL, "%s: %s", name,
                  scene.victim->reason);
    pair_until(&scene.pair, pair_ended(scene.recv));
    assert_error(ucxpool_request_test(scene.recv), PROTOCOL);
    /* The hostile peer receives the reason. */
    pair_until(&scene.pair,
               pair_state(scene.channel) == UCXPOOL_CHANNEL_FAILED);
    assert_error_detail(ucxpool_channel_wait(scene.channel, 0), PEER_LOST,
                        "the channel has failed at the peer: the peer ");
    check_unharmed();
}

TEST_SETTINGS(.timeout = 60);

TEST_EACH(violation_fails_only_its_channel, NUM_REJECTED *NUM_WAYS)
{
    scene_init((way_t)(_i % NUM_WAYS));
    begin();
    for (unsigned i = 0; i < rejected[_i / NUM_WAYS].num; i++) {
        send_one(&rejected[_i / NUM_WAYS].sent[i]);
    }
    check_rejected(rejected[_i / NUM_WAYS].name);
}

TEST_WITH(more_fragments_than_any_window_fail_the_channel,
          .first = WAY_IN_PLACE, .end = NUM_WAYS)
{
    scene_init((way_t)_i);
    begin();
    send_more_than_any_window();
    check_rejected("more at once than any window");
}

static void check_whole_message(void)
{
    for (uint32_t i = 0; i < 4; i++) {
        send_fragment(i, i * PART, PART);
    }
    send_last(4, 4 * PART, PART);
    pair_until(&scene.pair, pair_ended(scene.recv));
    assert_ok(ucxpool_request_test(scene.recv));
    ck_assert(pair_is_all(scene.memory + GUARD, SIZE, BYTE));
}

TEST_EACH(ignored_message_keeps_the_channel_open, NUM_NOISES *NUM_WAYS)
{
    scene_init((way_t)(_i % NUM_WAYS));
    begin();
    tolerated_attacks[_i / NUM_WAYS]();
    let_read();
    ck_assert_int_eq(pair_state(scene.victim), UCXPOOL_CHANNEL_OPEN);
    ck_assert_uint_eq(scene.recv->recv->num_seen, 0);
    check_whole_message();
    check_unharmed();
}

TEST_EACH(fragment_before_accept_is_ignored, NUM_WAYS)
{
    scene_init((way_t)_i);
    send_unknown(MESSAGE, 1);
    send_unknown(MESSAGE, 0);
    let_read();
    begin();
    ck_assert_uint_eq(scene.recv->recv->num_seen, 0);
    check_whole_message();
    check_unharmed();
}

/* The receive has succeeded, or was canceled. */
TEST_EACH(fragment_after_the_end_is_ignored, 2 * NUM_WAYS)
{
    uint64_t receive;

    scene_init((way_t)(_i / 2));
    begin();
    receive = scene.recv->recv->receive;
    if (_i % 2 == 0) {
        check_whole_message();
        memset(scene.memory + GUARD, POISON, SIZE);
    } else {
        ucxpool_request_cancel(scene.recv);
        assert_error(ucxpool_request_test(scene.recv), CANCELED);
    }
    send_unknown(MESSAGE, receive);
    let_read();
    ck_assert(pair_is_all(scene.memory, sizeof(scene.memory), POISON));
    ck_assert_int_eq(pair_state(scene.victim), UCXPOOL_CHANNEL_OPEN);
    check_unharmed();
}
