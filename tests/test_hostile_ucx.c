/*
 * An authenticated peer that breaks the protocol on the `ucx` wire: it sends
 * fragments that do not belong to the message, each in all forms in which UCX
 * may deliver it. Pool b of the pair is hostile; the test sends its messages.
 */
#include "base/crc32c.h"
#include "core/request.h"
#include "pair.h"
#include "test.h"
#include "wire/recv.h"

#include <stdlib.h>
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

static ucxpool_channel_state_t state_of(const ucxpool_channel_t *channel)
{
    ucxpool_channel_attr_t attr;

    ucxpool_channel_query(channel, &attr, sizeof(attr));
    return attr.state;
}

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
    ck_assert_int_eq(ucxpool_recv_buffer(scene.pair.a, scene.victim,
                                         scene.memory + GUARD, SIZE, 1,
                                         ALL_BITS, NULL, &scene.recv),
                     UCXPOOL_OK);
}

/* Is every byte one of two? */
static bool holds(const uint8_t *bytes, size_t length, int one, int other)
{
    for (size_t i = 0; i < length; i++) {
        if ((bytes[i] != one) && (bytes[i] != other)) {
            return false;
        }
    }
    return true;
}

static void check_memory(void)
{
    const uint8_t *target = scene.memory + GUARD;

    ck_assert(holds(scene.memory, GUARD, POISON, POISON));
    ck_assert(holds(target, SIZE, POISON, BYTE));
    ck_assert(holds(target + SIZE, GUARD, POISON, POISON));
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
    ck_assert_int_eq(ucxpool_recv_buffer(receiver, to, target, SIZE, 5,
                                         ALL_BITS, NULL, &recv),
                     UCXPOOL_OK);
    ck_assert_int_eq(ucxpool_send_buffer(from, source, SIZE, 5, NULL, &send),
                     UCXPOOL_OK);
    ck_assert_int_eq(pair_finish(&scene.honest, send), UCXPOOL_OK);
    ck_assert_int_eq(pair_finish(&scene.honest, recv), UCXPOOL_OK);
    ck_assert_mem_eq(source, target, SIZE);
}

/* The victim is unharmed, and so are its other peers. */
static void check_unharmed(void)
{
    check_memory();
    pair_until(&scene.pair, pair_is_whole(scene.pair.a));
    ck_assert_int_eq(ucxpool_check(scene.pair.a), UCXPOOL_OK);
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

/* --- messages that fail the channel -------------------------------------- */

static void no_bytes(void)
{
    send_fragment(0, 0, 0);
}

static void fewer_bytes_than_announced(void)
{
    send_data_of(fragment(0, 0, 5000), 4000);
}

static void more_bytes_than_announced(void)
{
    send_data_of(fragment(0, 0, 4000), 5000);
}

static void longer_than_a_block(void)
{
    send_fragment(0, 0, 65537);
}

static void behind_the_message(void)
{
    send_fragment(0, SIZE, 16);
}

static void over_the_end(void)
{
    send_fragment(0, SIZE - 15, 16);
}

static void offset_that_overflows(void)
{
    send_fragment(0, UINT64_MAX - 15, 32);
}

static void length_that_overflows(void)
{
    send_data_of(fragment(0, 16, UINT64_MAX - 15), 32);
}

static void highest_index(void)
{
    send_fragment(UINT32_MAX, 0, 16);
}

static void index_behind_the_last(void)
{
    send_last(4, 4 * PART, PART);
    send_fragment(5, 0, PART);
}

static void two_last_ones(void)
{
    send_last(4, 4 * PART, PART);
    send_last(3, 3 * PART, PART);
}

static void last_too_early(void)
{
    send_last(0, 0, 4096);
}

static void the_same_bytes_again_and_again(void)
{
    for (uint32_t i = 0; i < 6; i++) {
        send_fragment(i, 0, PART);
    }
}

static void one_fragment_twice(void)
{
    for (uint32_t i = 0; i < 4; i++) {
        send_fragment(i, i * PART, PART);
    }
    send_fragment(2, 2 * PART, PART);
    send_last(4, 4 * PART, PART);
}

static void index_twice_instead_of_another(void)
{
    /* The right number of bytes, and one more fragment. */
    for (uint32_t i = 0; i < 4; i++) {
        send_fragment(i, i * PART, PART);
    }
    send_fragment(2, 2 * PART, PART / 2);
    send_fragment(2, 2 * PART, PART / 4);
    send_last(4, 4 * PART, PART / 4);
}

/* Only the victim progresses, so none of its operations completes. */
static void more_at_once_than_any_window(void)
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

static void nothing(void)
{
}

/* --- runs ------------------------------------------------------------------
 */

typedef struct attack {
    const char *name;
    void (*act)(void);
    way_t from; /* the first form that triggers the case */
} attack_t;

#define ATTACK(_name) \
    { \
#_name, _name, WAY_EAGER \
    }
#define DEED_LATER(_name) \
    { \
#_name, _name, WAY_IN_PLACE \
    }

static const attack_t rejected_attacks[] = {
    ATTACK(no_bytes),
    ATTACK(fewer_bytes_than_announced),
    ATTACK(more_bytes_than_announced),
    ATTACK(longer_than_a_block),
    ATTACK(behind_the_message),
    ATTACK(over_the_end),
    ATTACK(offset_that_overflows),
    ATTACK(length_that_overflows),
    ATTACK(highest_index),
    ATTACK(index_behind_the_last),
    ATTACK(two_last_ones),
    ATTACK(last_too_early),
    ATTACK(the_same_bytes_again_and_again),
    ATTACK(one_fragment_twice),
    ATTACK(index_twice_instead_of_another),
    DEED_LATER(more_at_once_than_any_window),
};
#define NUM_CRIMES \
    ((int)(sizeof(rejected_attacks) / sizeof(rejected_attacks[0])))

static const attack_t tolerated_attacks[] = {
    ATTACK(fragments_of_no_message),
    ATTACK(with_a_wrong_key),
    ATTACK(with_the_other_id),
    ATTACK(nothing),
};
#define NUM_NOISES \
    ((int)(sizeof(tolerated_attacks) / sizeof(tolerated_attacks[0])))

TEST_SETTINGS(.timeout = 60);

TEST_EACH(violation_fails_only_its_channel, NUM_CRIMES *NUM_WAYS)
{
    const attack_t *attack = &rejected_attacks[_i / NUM_WAYS];

    if ((way_t)(_i % NUM_WAYS) < attack->from) {
        return;
    }
    scene_init((way_t)(_i % NUM_WAYS));
    begin();
    attack->act();
    pair_until(&scene.pair, state_of(scene.victim) != UCXPOOL_CHANNEL_OPEN);
    ck_assert_msg(scene.victim->status == UCXPOOL_ERR_PROTOCOL, "%s: %s",
                  attack->name, scene.victim->reason);
    pair_until(&scene.pair, pair_ended(scene.recv));
    ck_assert_int_eq(ucxpool_request_test(scene.recv), UCXPOOL_ERR_PROTOCOL);
    check_unharmed();
    scene_cleanup();
}

static void check_whole_message(void)
{
    for (uint32_t i = 0; i < 4; i++) {
        send_fragment(i, i * PART, PART);
    }
    send_last(4, 4 * PART, PART);
    pair_until(&scene.pair, pair_ended(scene.recv));
    ck_assert_int_eq(ucxpool_request_test(scene.recv), UCXPOOL_OK);
    ck_assert(holds(scene.memory + GUARD, SIZE, BYTE, BYTE));
}

TEST_EACH(ignored_message_keeps_the_channel_open, NUM_NOISES *NUM_WAYS)
{
    scene_init((way_t)(_i % NUM_WAYS));
    begin();
    tolerated_attacks[_i / NUM_WAYS].act();
    let_read();
    ck_assert_int_eq(state_of(scene.victim), UCXPOOL_CHANNEL_OPEN);
    ck_assert_uint_eq(scene.recv->recv->num_seen, 0);
    check_whole_message();
    check_unharmed();
    scene_cleanup();
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
    scene_cleanup();
}

TEST_EACH(fragment_after_the_end_is_ignored, NUM_WAYS)
{
    uint64_t receive;

    scene_init((way_t)_i);
    begin();
    receive = scene.recv->recv->receive;
    check_whole_message();
    memset(scene.memory + GUARD, POISON, SIZE);
    send_unknown(MESSAGE, receive);
    let_read();
    ck_assert(holds(scene.memory, sizeof(scene.memory), POISON, POISON));
    ck_assert_int_eq(state_of(scene.victim), UCXPOOL_CHANNEL_OPEN);
    check_unharmed();
    scene_cleanup();
}

TEST_EACH(fragment_after_a_cancel_is_ignored, NUM_WAYS)
{
    uint64_t receive;

    scene_init((way_t)_i);
    begin();
    receive = scene.recv->recv->receive;
    ucxpool_request_cancel(scene.recv);
    ck_assert_int_eq(ucxpool_request_test(scene.recv), UCXPOOL_ERR_CANCELED);
    send_unknown(MESSAGE, receive);
    let_read();
    ck_assert(holds(scene.memory, sizeof(scene.memory), POISON, POISON));
    ck_assert_int_eq(state_of(scene.victim), UCXPOOL_CHANNEL_OPEN);
    check_unharmed();
    scene_cleanup();
}
