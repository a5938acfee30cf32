/*
 * An authenticated peer that breaks the protocol on the `map` wire. Its channel
 * fails with UCXPOOL_ERR_PROTOCOL, or the message is ignored. The victim leaks
 * nothing, and its other channels keep working.
 */
#include "hostile.h"
#include "test.h"
#include "wire/wire.h"
#include "xfer/recv.h"
#include "xfer/send.h"
#include "xfer/state.h"

#include <string.h>

#define MESSAGE \
    7u /* the peer's number of the message that the victim receives */

/* The settings that most tests use: eight fragments of 64k in flight. */
#define SETTINGS "WIRE=map DEPTH=4 CREDITS=8 MAX_UNEXPECTED=8 MAX_SEGMENTS=2000"

static const copy_run_t whole[] = {{HOSTILE_SIZE, 1}};

/* --- messages of the peer ------------------------------------------------ */

static void send_desc(proto_desc_t desc, const void *data, size_t size)
{
    proto_fixed_t fixed = {.desc = desc};

    hostile_post_message(PROTO_DESC, &fixed, data, size);
}

/* The victim's receive is accepted and waits for fragments. */
static void begin(void)
{
    send_desc(hostile_desc(MESSAGE, 0), whole, sizeof(whole));
    hostile_let_peer_read();
    ck_assert_uint_ne(hostile_receive(MESSAGE), 0);
}

static proto_data_t fragment(uint32_t index, uint64_t offset, uint64_t length)
{
    return (proto_data_t){
        .message = MESSAGE,
        .receive = hostile_receive(MESSAGE),
        .index   = index,
        .offset  = offset,
        .length  = length,
    };
}

static void post_data(proto_data_t data)
{
    proto_fixed_t fixed = {.data = data};

    hostile_post_message(PROTO_DATA, &fixed, NULL, 0);
}

static void send_fragment(uint32_t index, uint64_t offset, uint64_t length)
{
    post_data(fragment(index, offset, length));
}

static void send_accept(uint64_t message, uint64_t frag_size, uint32_t window)
{
    proto_fixed_t fixed = {.accept = {.message   = message,
                                      .receive   = 1,
                                      .frag_size = frag_size,
                                      .window    = window}};

    hostile_post_message(PROTO_ACCEPT, &fixed, NULL, 0);
}

static void send_taken(uint64_t message, uint32_t piece)
{
    proto_fixed_t fixed = {.taken = {.message = message, .piece = piece}};

    hostile_post_message(PROTO_TAKEN, &fixed, NULL, 0);
}

static void send_done(uint64_t message, int32_t status)
{
    proto_fixed_t fixed = {.done = {.message = message, .status = status}};

    hostile_post_message(PROTO_DONE, &fixed, "because", 7);
}

static void send_head(proto_type_t type)
{
    proto_fixed_t fixed = {.head = {.credits = 0}};

    hostile_post_message(type, &fixed, NULL, 0);
}

static void send_runs(uint64_t sequence, uint32_t first, uint32_t num_runs)
{
    static copy_run_t runs[512];
    proto_fixed_t     fixed = {
            .runs = {.sequence = sequence, .first = first, .num_runs = num_runs}};

    for (unsigned i = 0; i < 512; i++) {
        runs[i] = (copy_run_t){i % 2 + 1, 1};
    }
    hostile_post_message(PROTO_RUNS, &fixed, runs, num_runs * sizeof(runs[0]));
}

static proto_desc_t desc_with_runs(uint64_t sequence, uint32_t num_runs)
{
    proto_desc_t desc = hostile_desc(sequence + 1, sequence);

    desc.tag          = 99;
    desc.flags        = PROTO_DESC_RUNS;
    desc.num_runs     = num_runs;
    desc.payload_size = num_runs / 2 * 3;
    return desc;
}

/* Open a channel to an honest peer next to the one of the hostile peer, and
 * attack. */
static void begin_attack(pair_t *honest, void (*attack)(void), int row)
{
    hostile_init(SETTINGS);
    honest->a = hostile.pair.a;
    pair_join(honest, SETTINGS);
    hostile_let_peer_read();
    hostile.row = row;
    attack();
    hostile_let_peer_read();
}

/* The channel of the honest peer still works. */
static void end_attack(pair_t *honest)
{
    hostile_check();
    pair_exchange(honest, 200000);
    ucxpool_destroy(honest->b);
    hostile_cleanup();
}

/* The channel fails, and no other one. */
static void check_rejected(void (*attack)(void), int row)
{
    pair_t honest;

    begin_attack(&honest, attack, row);
    ck_assert(pair_attr(hostile.victim).state == UCXPOOL_CHANNEL_FAILED);
    ck_assert_int_eq(hostile.victim->status, UCXPOOL_ERR_PROTOCOL);
    ck_assert_int_lt(ucxpool_request_test(hostile.recv), 0);
    ck_assert_int_lt(ucxpool_request_test(hostile.send), 0);
    end_attack(&honest);
}

/* The channel stays open. */
static void check_ignored(void (*attack)(void), int row)
{
    pair_t honest;

    begin_attack(&honest, attack, row);
    ck_assert(!hostile_is_over());
    pair_exchange(&honest, 200000);
    /* A BYE in the middle of everything. */
    send_head(PROTO_BYE);
    hostile_let_peer_read();
    ck_assert(hostile_is_over());
    end_attack(&honest);
}

TEST_SETTINGS(.timeout = 60);

/* --- messages that fail the channel -------------------------------------- */

static const struct {
    uint64_t frag_size;
    uint32_t window;
} wrong_accepts[] = {{0, 4}, {16, 4}, {65536, 0}};

REJECTED_EACH(accept_without_room, NUM_ROWS(wrong_accepts))
{
    send_accept(hostile_send(), wrong_accepts[hostile.row].frag_size,
                wrong_accepts[hostile.row].window);
}

/* The first fragment. */
#define AT_THE_END UINT64_C(1) /* the offset of the region that is too high */
static const struct {
    uint64_t offset;
    uint64_t length;
    uint32_t region;
    uint64_t region_offset;
} wrong_fragments[] = {
    {.length = 0},
    {.length = 65537},
    {.offset = HOSTILE_SIZE, .length = 16},
    {.offset = UINT64_MAX - 15, .length = 32},
    {.length = 4096, .region = UINT32_MAX},
    {.length = 4096, .region_offset = AT_THE_END},
    {.length = 4096, .region_offset = UINT64_MAX - 4000},
};

REJECTED_EACH(fragment_in_a_wrong_place, NUM_ROWS(wrong_fragments))
{
    const core_mapping_t *mapping = hostile.victim->peer.mapping;
    proto_data_t          data;

    begin();
    data               = fragment(0, wrong_fragments[hostile.row].offset,
                                  wrong_fragments[hostile.row].length);
    data.region        = wrong_fragments[hostile.row].region;
    data.region_offset = wrong_fragments[hostile.row].region_offset;
    if (data.region_offset == AT_THE_END) {
        data.region_offset = mapping->region_sizes[0] - 4095;
    }
    post_data(data);
}

REJECTED(nonsense_after_accept)
{
    /* Blocks are in flight when the channel fails. */
    send_accept(hostile_send(), UINT64_MAX, UINT32_MAX);
    hostile_let_peer_read();
    ck_assert_uint_ne(hostile.send->send->busy, 0);
    send_fragment(0, 0, 0);
    begin();
    send_fragment(0, 0, 0);
}

REJECTED(fragment_over_the_end)
{
    begin();
    for (uint32_t i = 0; i < 4; i++) {
        send_fragment(i, i * 65536, 65536);
    }
    send_fragment(4, 4 * 65536, HOSTILE_SIZE - 4 * 65536 + 1);
}

REJECTED_CALLS(index_twice, begin(), send_fragment(0, 0, 4096),
               send_fragment(0, 4096, 4096));

REJECTED_CALLS(index_left_out, begin(), send_fragment(1, 0, 4096));

REJECTED_CALLS(overlapping_fragments, begin(), send_fragment(0, 0, 4096),
               send_fragment(1, 4080, 4096));

REJECTED_CALLS(gap_between_fragments, begin(), send_fragment(0, 0, 4096),
               send_fragment(1, 4112, 4096));

REJECTED(single_bytes_backwards)
{
    begin();
    for (uint32_t i = 0; i < 5000; i++) {
        send_fragment(i, HOSTILE_SIZE - 1 - i, 1);
    }
}

REJECTED(last_too_early)
{
    begin();

    proto_data_t data = fragment(0, 0, 4096);

    data.flags = PROTO_DATA_LAST;
    post_data(data);
}

REJECTED_CALLS(descriptor_twice,
               send_desc(hostile_desc(MESSAGE, 0), whole, sizeof(whole)),
               send_desc(hostile_desc(MESSAGE + 1, 0), whole, sizeof(whole)));

/* The victim reads the message and has no receive for it. */
static void report_unsent(uint64_t i, uint32_t flags, size_t metadata_size)
{
    static uint8_t data[sizeof(whole) + 4096];
    proto_desc_t   desc = hostile_desc(i + 1, i);

    ck_assert(!hostile_is_over());
    desc.tag           = 99;
    desc.flags         = flags;
    desc.metadata_size = (uint32_t)metadata_size;
    if (flags & PROTO_DESC_EAGER) {
        desc.message      = 0;
        desc.payload_size = 0;
        desc.num_runs     = 0;
        send_desc(desc, NULL, 0);
    } else {
        memcpy(data, whole, sizeof(whole));
        send_desc(desc, data, sizeof(whole) + metadata_size);
    }
    hostile_let_peer_read();
}

static void send_cancel(uint64_t message)
{
    proto_fixed_t cancel = {
        .cancel = {.message = message, .status = UCXPOOL_ERR_CANCELED}};

    hostile_post_message(PROTO_CANCEL, &cancel, NULL, 0);
    hostile_let_peer_read();
}

REJECTED(descriptors_beyond_max_unexpected)
{
    for (uint64_t i = 0; i < 9; i++) {
        report_unsent(i, 0, 0);
    }
}

REJECTED(eager_descriptors_beyond_the_credits)
{
    for (uint64_t i = 0; i < 9; i++) {
        report_unsent(i, PROTO_DESC_EAGER, 0);
    }
}

/* They count as five and four units. */
REJECTED_CALLS(descriptors_of_more_bytes_than_max_unexpected,
               report_unsent(0, 0, 4 * PROTO_DESC_UNIT),
               report_unsent(1, 0, 3 * PROTO_DESC_UNIT));

/* Descriptors out of order are kept even if they are canceled. */
REJECTED(canceled_descriptors_out_of_turn)
{
    for (uint64_t i = 1; i < 10; i++) {
        report_unsent(i, 0, 0);
        send_cancel(i + 1);
    }
}

REJECTED_CALLS(message_number_0,
               send_desc(hostile_desc(0, 0), whole, sizeof(whole)));

REJECTED(payload_that_differs_from_runs)
{
    copy_run_t runs[] = {{HOSTILE_SIZE - 1, 1}};

    send_desc(hostile_desc(MESSAGE, 0), runs, sizeof(runs));
}

REJECTED(runs_that_overflow)
{
    copy_run_t   runs[] = {{UINT64_C(1) << 40, UINT64_C(1) << 40}};
    proto_desc_t desc   = hostile_desc(MESSAGE, 0);

    desc.payload_size = 0;
    send_desc(desc, runs, sizeof(runs));
}

REJECTED(more_metadata_than_is_taken)
{
    static uint8_t data[sizeof(whole) + 4096];
    proto_desc_t   desc = hostile_desc(MESSAGE, 0);

    memcpy(data, whole, sizeof(whole));
    desc.metadata_size = 4096;
    send_desc(desc, data, sizeof(data));
}

REJECTED_CALLS(more_runs_than_are_taken,
               send_desc(desc_with_runs(0, UINT32_MAX), NULL, 0));

REJECTED_CALLS(runs_twice, send_desc(desc_with_runs(0, 1000), NULL, 0),
               send_runs(0, 0, 500), send_runs(0, 0, 500));

REJECTED_CALLS(runs_out_of_range, send_desc(desc_with_runs(0, 1000), NULL, 0),
               send_runs(0, 900, 101));

REJECTED(runs_that_were_not_missing)
{
    /* It waits for number 0, which has runs. */
    send_desc(hostile_desc(MESSAGE, 1), whole, sizeof(whole));
    send_runs(1, 0, 1);
}

REJECTED_CALLS(empty_list_of_runs,
               send_desc(hostile_desc(MESSAGE, 1), whole, sizeof(whole)),
               send_runs(1, 0, 0));

REJECTED_CALLS(runs_of_no_message, send_runs(5, 0, 1));

/* data_size  0: the size that the messages need. */
static void send_shorts(uint32_t num, uint32_t length, size_t data_size)
{
    static const uint8_t bytes[PROTO_DATA_MAX];
    proto_fixed_t        fixed = {.in_short = {.num = num, .length = length}};

    if (data_size == 0) {
        data_size = num * proto_short_size(length);
    }
    hostile_post_message(PROTO_SHORT, &fixed, bytes, data_size);
}

static void send_short(uint32_t length)
{
    send_shorts(1, length, 0);
}

REJECTED_CALLS(short_without_bytes, send_short(0));

REJECTED_CALLS(short_of_more_than_fits,
               send_shorts(1, PROTO_SHORT_MAX + 1, PROTO_DATA_MAX));

REJECTED_CALLS(short_with_fewer_messages_than_it_says,
               send_shorts(3, 8, 2 * proto_short_size(8)));

REJECTED(more_shorts_than_credits)
{
    for (uint32_t i = 0; i < 8; i++) {
        send_short(i + 1);
    }
    hostile_let_peer_read();
    ck_assert(!hostile_is_over());
    send_short(PROTO_SHORT_MAX);
}

REJECTED(more_messages_in_a_short_than_credits)
{
    send_shorts(8, 8, 0);
    hostile_let_peer_read();
    ck_assert(!hostile_is_over());
    send_shorts(2, 8, 0);
}

/* After a descriptor with the highest possible number. */
REJECTED(short_with_a_number_of_before)
{
    proto_fixed_t fixed = {.desc = hostile_desc(1, UINT64_MAX)};
    copy_run_t    run   = {HOSTILE_SIZE, 1};

    send_short(1);
    hostile_post_message(PROTO_DESC, &fixed, &run, sizeof(run));
    send_short(1);
}

REJECTED_CALLS(hello_again, send_head(PROTO_HELLO));

/* A word that was read in the previous lap appears in the ring as if it were
 * new. */
REJECTED(word_of_the_lap_before)
{
    while (hostile.channel->ring.head < CORE_RING_SIZE) {
        send_head(PROTO_CREDIT);
        hostile_let_peer_read();
    }
    hostile_write_word(hostile.channel->ring.head,
                       sizeof(proto_head_t) | UINT64_C(1) << 32);
}

REJECTED_CALLS(skip_to_nothing,
               hostile_write_word(hostile.channel->ring.head,
                                  UINT16_MAX | UINT64_C(1) << 32));

REJECTED(entry_over_the_end)
{
    while (hostile.channel->ring.head < CORE_RING_SIZE - 64) {
        send_head(PROTO_CREDIT);
        hostile_let_peer_read();
    }
    hostile_write_word(hostile.channel->ring.head,
                       sizeof(proto_head_t) | (uint64_t)PROTO_DATA_MAX << 16 |
                           UINT64_C(1) << 32);
}

static char text[PROTO_REASON_MAX + 1];

static void send_bye(int32_t status, size_t size)
{
    proto_fixed_t fixed = {.bye = {.status = status}};

    hostile_post_message(PROTO_BYE, &fixed, text, size);
}

REJECTED_CALLS(goodbye_with_a_long_reason,
               send_bye(UCXPOOL_ERR_UNSUPPORTED, PROTO_REASON_MAX + 1));

REJECTED_CALLS(goodbye_with_an_invalid_status, send_bye(UCXPOOL_INPROGRESS, 0));

/* The victim answers each refused message, and the peer never reads the
 * answers. */
REJECTED(unexpected_answers)
{
    for (uint64_t i = 0; (i < 20000) && !hostile_is_over(); i++) {
        copy_run_t   runs[] = {{UINT64_C(1) << 30, 1}};
        proto_desc_t desc   = hostile_desc(i + 1, i);

        ucxpool_request_t *request;
        if (ucxpool_recv_buffer(hostile.pair.a, hostile.victim, hostile.target,
                                1, 3, UINT64_MAX, NULL,
                                &request) == UCXPOOL_OK) {
            ucxpool_request_release(request);
        }
        desc.tag          = 3;
        desc.payload_size = UINT64_C(1) << 30;
        send_desc(desc, runs, sizeof(runs));
        hostile_let_peer_read();
    }
}

/* --- messages that are ignored ------------------------------------------- */

/* UCX may deliver a short CANCEL before a long RUNS. */
IGNORED_CALLS(runs_of_a_canceled_descriptor,
              send_desc(desc_with_runs(0, 1000), NULL, 0), send_cancel(1),
              send_runs(0, 0, 500));

IGNORED(controls_for_unknown_messages)
{
    proto_fixed_t cancel = {
        .cancel = {.message = 12345, .status = UCXPOOL_ERR_CANCELED}};

    send_accept(12345, 65536, 4);
    send_taken(12345, 0);
    send_done(12345, UCXPOOL_OK);
    send_fragment(0, 0, 4096);
    hostile_post_message(PROTO_CANCEL, &cancel, NULL, 0);
    cancel.cancel.message = 0;
    hostile_post_message(PROTO_CANCEL, &cancel, NULL, 0);
    send_done(0, UCXPOOL_OK);
    send_accept(0, 65536, 4);
}

IGNORED(descriptors_canceled_over_and_over)
{
    for (uint64_t i = 0; i < 100; i++) {
        report_unsent(i, 0, 0);
        send_cancel(i + 1);
        send_cancel(i + 1);
        ck_assert_uint_eq(hostile.victim->xfer->messages.announced, 0);
    }
}

/* It stops counting, once, and belongs to the caller until the caller rejects
 * it. */
IGNORED(canceled_descriptor_that_was_probed)
{
    ucxpool_message_t *message;

    report_unsent(0, 0, 0);
    assert_ok(ucxpool_probe(hostile.pair.a, hostile.victim, 99, UINT64_MAX,
                            &message));
    ck_assert_uint_eq(hostile.victim->xfer->messages.announced, 1);
    send_cancel(1);
    send_cancel(1);
    ck_assert_uint_eq(hostile.victim->xfer->messages.announced, 0);
    ucxpool_message_refuse(message, NULL);
    ck_assert_uint_eq(hostile.victim->xfer->messages.announced, 0);
}

IGNORED(pieces_that_are_not_in_flight)
{
    send_accept(hostile_send(), 65536, 1);
    hostile_let_peer_read();
    send_taken(hostile_send(), 63);
    send_taken(hostile_send(), UINT32_MAX);
    hostile_let_peer_read();
    ck_assert_uint_eq(hostile.send->send->busy, 1);
}

IGNORED(pieces_taken_twice)
{
    send_accept(hostile_send(), 65536, 2);
    for (int i = 0; i < 100; i++) {
        send_taken(hostile_send(), 0);
    }
}

IGNORED(accept_twice)
{
    send_accept(hostile_send(), 65536, 1);
    hostile_let_peer_read();
    send_accept(hostile_send(), 4096, 64);
    hostile_let_peer_read();
    ck_assert_uint_eq(hostile.send->send->frag_size, 65536);
    ck_assert_uint_eq(hostile.send->send->window, 1);
}

IGNORED(ready_and_go_again)
{
    proto_fixed_t ready = {.ready = {.can_map = 0}};

    hostile_post_message(PROTO_READY, &ready, "no", 2);
    send_head(PROTO_GO);
    send_head(PROTO_GO);
}

IGNORED(credits_that_overflow)
{
    for (int i = 0; i < 200000; i++) {
        proto_fixed_t fixed = {.head = {.credits = UINT16_MAX}};

        hostile_post_message(PROTO_CREDIT, &fixed, NULL, 0);
        if (i % 1000 == 0) {
            hostile_let_peer_read();
        }
    }
    hostile_let_peer_read();
    ck_assert_uint_le(hostile.victim->flow.credits, UINT16_MAX);
}

/* Each new odd value requests a doorbell. */
IGNORED(sleeping_that_never_rests)
{
    core_ring_page_t *page = hostile.channel->ring.mine;

    for (uint32_t i = 0; i < 20000; i++) {
        __atomic_store_n(&page->sleeping, 2 * i + 1, __ATOMIC_SEQ_CST);
        send_head(PROTO_DOORBELL);
        ucxpool_progress(hostile.pair.a);
        ck_assert_uint_le(hostile.victim->control.num_in_ucx, 64);
    }
}

IGNORED(numbers_of_others_revoked)
{
    core_ring_page_t *page = hostile.channel->ring.mine;

    for (uint64_t i = 0; i < PROTO_SENDS_MAX; i++) {
        __atomic_store_n(&page->revoked[i], UINT64_MAX - i, __ATOMIC_SEQ_CST);
    }
}

IGNORED(tail_that_lies)
{
    core_ring_page_t *page = hostile.channel->ring.mine;

    __atomic_store_n(&page->tail, UINT64_MAX - 5, __ATOMIC_SEQ_CST);
    hostile_let_peer_read();
    __atomic_store_n(&page->tail, 0, __ATOMIC_SEQ_CST);
}

/* --- messages that end a request ----------------------------------------- */

static void check_said(const ucxpool_request_t *request, ucxpool_status_t end)
{
    ucxpool_request_attr_t attr = pair_request_attr(request);

    ck_assert_int_eq(attr.status, end);
    ck_assert_str_ne(attr.detail, "");
    ck_assert_int_eq(ucxpool_request_wait((ucxpool_request_t *)request, 0),
                     end);
    ck_assert_str_eq(ucxpool_error_detail(), attr.detail);
}

IGNORED(done_without_a_reason)
{
    proto_fixed_t fixed = {
        .done = {.message = hostile_send(), .status = UCXPOOL_ERR_REFUSED}};

    hostile_post_message(PROTO_DONE, &fixed, NULL, 0);
    hostile_let_peer_read();
    check_said(hostile.send, UCXPOOL_ERR_REFUSED);
}

IGNORED(canceled_without_a_reason)
{
    proto_fixed_t fixed = {.cancel = {.message = 1, .status = UCXPOOL_ERR_IO}};
    copy_run_t    run   = {HOSTILE_SIZE, 1};

    send_desc(hostile_desc(1, 0), &run, sizeof(run));
    hostile_let_peer_read();
    hostile_post_message(PROTO_CANCEL, &fixed, NULL, 0);
    hostile_let_peer_read();
    check_said(hostile.recv, UCXPOOL_ERR_CANCELED);
}

IGNORED(done_with_control_characters)
{
    proto_fixed_t fixed = {
        .done = {.message = hostile_send(), .status = UCXPOOL_ERR_REFUSED}};

    hostile_post_message(PROTO_DONE, &fixed, "\033[2J\n", 5);
    hostile_let_peer_read();
    check_said(hostile.send, UCXPOOL_ERR_REFUSED);
}

IGNORED(done_with_a_positive_status)
{
    send_done(hostile_send(), UCXPOOL_INPROGRESS);
    hostile_let_peer_read();
    assert_error(ucxpool_request_test(hostile.send), REFUSED);
}

IGNORED(done_in_the_middle)
{
    uint64_t send = hostile_send();

    send_accept(send, 65536, 3);
    hostile_let_peer_read();
    send_done(send, INT32_MIN);
    send_done(send, UCXPOOL_OK);
    send_taken(send, 0);
    hostile_let_peer_read();
    assert_error(ucxpool_request_test(hostile.send), REFUSED);
}

/* CANCEL, a late ACCEPT and DONE for the request are read together; then its
 * memory is reused for a receive. */
IGNORED(accept_of_a_canceled_send)
{
    uint64_t send = hostile_send();

    ucxpool_request_cancel(hostile.send);
    ucxpool_request_release(hostile.send);
    hostile.send = NULL;
    send_accept(send, 65536, 4);
    send_done(send, UCXPOOL_ERR_CANCELED);
    hostile_let_peer_read();
    hostile.send =
        pair_recv(hostile.pair.a, hostile.victim, hostile.source, 1, 77);
    hostile_let_peer_read();
    ucxpool_request_cancel(hostile.send);
}

IGNORED(cancel_again_and_again)
{
    proto_fixed_t cancel = {
        .cancel = {.message = MESSAGE, .status = UCXPOOL_ERR_IO}};
    ucxpool_request_attr_t attr;

    begin();
    for (int i = 0; i < 100; i++) {
        hostile_post_message(PROTO_CANCEL, &cancel, "a\nb\x80", 4);
    }
    hostile_let_peer_read();
    ucxpool_request_query(hostile.recv, &attr, sizeof(attr));
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_CANCELED);
    ck_assert_str_eq(attr.detail, "the sender ended the message: a?b?");
}

REJECTED(cancel_without_an_error)
{
    proto_fixed_t cancel = {.cancel = {.message = MESSAGE}};

    begin();
    hostile_post_message(PROTO_CANCEL, &cancel, NULL, 0);
}

/* --- pushed messages ----------------------------------------------------- */

static void push(bool is_on)
{
    hostile.victim->peer.pushes          = is_on;
    hostile.victim->pool->config.map_way = BASE_MAP_WAY_PUSH;
}

static void lend(proto_lent_t lent)
{
    proto_fixed_t fixed = {.accept = {.message   = hostile_send(),
                                      .receive   = 1,
                                      .frag_size = 65536,
                                      .window    = 4}};

    hostile_post_message(PROTO_ACCEPT, &fixed, &lent, sizeof(lent));
    hostile_let_peer_read();
}

static const proto_lent_t wrong_grants[] = {
    {.region = 1000, .length = 65536},
    {.offset = AT_THE_END, .length = 65536},
    {.offset = UINT64_MAX - 15, .length = 65536},
    {.length = UINT64_MAX},
    {.length = 16},
    {.offset = 8, .length = 65536}, /* not aligned */
};

REJECTED_EACH(wrong_grant, NUM_ROWS(wrong_grants))
{
    proto_lent_t lent = wrong_grants[hostile.row];

    if (lent.offset == AT_THE_END) {
        lent.offset = hostile.victim->peer.mapping->region_sizes[0] - 4096;
    }
    push(true);
    lend(lent);
    push(false);
}

REJECTED(grant_to_a_peer_that_does_not_push)
{
    lend((proto_lent_t){.length = 65536});
}

static void lend_mailbox(proto_mailbox_t mailbox)
{
    proto_fixed_t fixed = {.mailbox = mailbox};

    hostile_post_message(PROTO_MAILBOX, &fixed, NULL, 0);
    hostile_let_peer_read();
}

static void lend_mailbox_pushed(proto_mailbox_t mailbox)
{
    push(true);
    lend_mailbox(mailbox);
    push(false);
}

REJECTED(mailbox_for_a_peer_that_does_not_push)
{
    lend_mailbox((proto_mailbox_t){.num_slots = 8, .slot_size = 4096});
}

/* None of them lies in the hostile pool's regions or is valid. */
static const proto_mailbox_t wrong_mailboxes[] = {
    {.slot_size = 4096, .num_slots = 8, .region = 1000},
    {.slot_size = UINT64_C(1) << 40, .num_slots = 8},
    {.slot_size = 4096, .num_slots = 8, .offset = UINT64_MAX - 63},
    {.slot_size = UINT64_C(1) << 61, .num_slots = 8},
    {.slot_size = 4096, .num_slots = 0},
    {.slot_size = 4096, .num_slots = PROTO_SLOTS_MAX + 1},
    {.slot_size = 0, .num_slots = 8},
    {.slot_size = 4100, .num_slots = 8},
    {.slot_size = 4096, .num_slots = 8, .offset = 16},
};

REJECTED_EACH(invalid_mailbox_is_not_used, NUM_ROWS(wrong_mailboxes))
{
    lend_mailbox_pushed(wrong_mailboxes[hostile.row]);
}

/* The slots are inside the region, but their flags are not. */
REJECTED(mailbox_without_flags)
{
    uint64_t size = hostile.victim->peer.mapping->region_sizes[0];

    lend_mailbox_pushed(
        (proto_mailbox_t){.slot_size = size / 8, .num_slots = 8});
}

REJECTED(two_mailboxes)
{
    const proto_mailbox_t mailbox = {.num_slots = 2, .slot_size = 4096};

    lend_mailbox_pushed(mailbox);
    ck_assert(!hostile_is_over());
    lend_mailbox_pushed(mailbox);
}

static void mail(uint64_t sequence, uint64_t message, uint64_t size,
                 uint32_t slot, uint32_t flags)
{
    const copy_run_t run  = {size, 1};
    proto_desc_t     desc = hostile_desc(message, sequence);

    desc.payload_size = size;
    desc.flags        = PROTO_DESC_MAILED | flags;
    desc.slot         = slot;
    send_desc(desc, &run, (flags & PROTO_DESC_RUNS) ? 0 : sizeof(run));
    hostile_let_peer_read();
}

REJECTED_CALLS(mailed_without_a_mailbox, mail(0, MESSAGE, 100, 0, 0));

#define NUM_SLOTS 36u

/* Returns the size of the slots of a mailbox in the victim's memory. */
static uint64_t slot_size(void)
{
    const ucxpool_t *pool = hostile.victim->pool;
    size_t size = block_pool_block_size(pool->memory.blocks) / 4 / NUM_SLOTS;

    return base_min((size - PROTO_FLAG_SIZE) & ~(size_t)255, (size_t)65536);
}

static const struct {
    uint64_t num; /* full slots */
    uint64_t size;
    uint32_t slot;
    uint32_t flags;
    uint64_t message;
} wrong_mail[] = {
    {0, 100, NUM_SLOTS, 0, MESSAGE},
    {NUM_SLOTS, 1, 0, 0, MESSAGE},
    {NUM_SLOTS - 7, 1, 7, 0, MESSAGE},
    {0, 0, 0, 0, MESSAGE},
    {0, 100, 0, PROTO_DESC_RUNS, MESSAGE},
    {0, 100, 0, PROTO_DESC_WRITE, MESSAGE},
    {0, 100, 0, 0, UINT64_C(1) << 32}, /* the value of a clear flag */
};

/* A pool in host memory lends no mailbox, so the test marks one as lent. */
static void lend_to_peer(void)
{
    ucxpool_t *pool = hostile.pair.a;

    assert_ok(block_pool_get(pool->memory.blocks, BLOCK_SHARE_RECV,
                             &pool->wire->mail.block));
    pool->wire->mail.num_lent  = 1;
    pool->wire->mail.owners[0] = hostile.victim;
    hostile.victim->num_lent++;
}

REJECTED_EACH(wrong_mailed_message, NUM_ROWS(wrong_mail))
{
    lend_to_peer();
    hostile.victim->wire = &wire_map_gpu;
    mail(0, wrong_mail[hostile.row].message,
         wrong_mail[hostile.row].num * slot_size() +
             wrong_mail[hostile.row].size,
         wrong_mail[hostile.row].slot, wrong_mail[hostile.row].flags);
}

/* Returns the last slot with room for a message and its flag. */
static uint32_t last_slot(uint64_t size)
{
    const core_mapping_t *mapping = hostile.victim->peer.mapping;

    return (uint32_t)((mapping->num_regions * mapping->region_sizes[0] -
                       wire_outbox_room(size)) /
                      PROTO_FLAG_SIZE);
}

static const struct {
    uint64_t size;
    uint32_t add; /* to the last slot */
    uint64_t message;
} wrong_outbox[] = {
    {100, 1, MESSAGE},
    {65536, 1, MESSAGE},
    {100, 1u << 31, MESSAGE},
    {100, 0, UINT64_C(1) << 32}, /* the value of a clear flag */
    {0, 0, MESSAGE},
};

REJECTED_EACH(message_outside_the_outbox, NUM_ROWS(wrong_outbox))
{
    uint64_t size = wrong_outbox[hostile.row].size;

    hostile.victim->wire = &wire_map_host;
    mail(0, MESSAGE + 1, 65536, last_slot(65536), 0);
    ck_assert(!hostile_is_over());
    mail(1, wrong_outbox[hostile.row].message, size,
         last_slot(size) + wrong_outbox[hostile.row].add, 0);
}

/* The first region has a size that is not a multiple of a flag's size. */
REJECTED(message_at_an_odd_address_of_the_outbox)
{
    const core_mapping_t *mapping = hostile.victim->peer.mapping;

    ck_assert_uint_ge(mapping->num_regions, 2);
    mapping->region_sizes[0]--;
    hostile.victim->wire = &wire_map_host;
    mail(0, MESSAGE, 100,
         (uint32_t)(mapping->region_sizes[0] / PROTO_FLAG_SIZE) + 1, 0);
}

REJECTED(accept_of_a_mailed_message)
{
    uint64_t        message = hostile_send();
    xfer_mailbox_t *mailbox = &hostile.send->channel->xfer->mailbox;

    mailbox->at              = (wire_mailbox_t){(uint8_t *)mailbox, 65536, 1};
    hostile.send->send->slot = 1;
    hostile.send->send->block_size = 65536;
    send_accept(message, 65536, 4);
    hostile_let_peer_read();
    hostile.send->send->slot = 0;
}

static void send_pushed(uint32_t region, uint64_t offset)
{
    proto_data_t data = fragment(0, 0, 4096);

    data.flags         = PROTO_DATA_PUSHED;
    data.region        = region;
    data.region_offset = offset;
    post_data(data);
    hostile_let_peer_read();
}

REJECTED_CALLS(push_without_a_grant, begin(), send_pushed(0, 0));

/* The last block of all is lent last. */
REJECTED(push_to_another_block)
{
    const mem_regions_t *regions = &hostile.pair.a->memory.regions;

    push(true);
    begin();
    ck_assert_ptr_nonnull(hostile.recv->recv->loan);
    send_pushed(regions->num_regions - 1, regions->region_size - 4096);
    push(false);
}

static const struct {
    bool     is_lent;
    uint32_t slot;
    uint32_t flags;
} wrong_early[] = {
    {false, 0, PROTO_DATA_PUSHED}, /* no mailbox is lent */
    {true, 36, PROTO_DATA_PUSHED}, /* the last slot is 35 */
    {true, 0, 0},
    {true, 0, PROTO_DATA_PUSHED | PROTO_DATA_CHECKSUM},
};

REJECTED_EACH(early_fragment_without_a_flag, NUM_ROWS(wrong_early))
{
    const ucxpool_t *pool = hostile.pair.a;
    proto_data_t     data;
    mem_piece_t      where;

    push(true);
    if (wrong_early[hostile.row].is_lent) {
        lend_to_peer();
    }
    begin();
    data       = fragment(0, 0, 4096);
    data.flags = PROTO_DATA_EARLY | wrong_early[hostile.row].flags;
    data.slot  = wrong_early[hostile.row].slot;
    for (uint32_t i = 0;
         (data.flags & PROTO_DATA_PUSHED) &&
         (wire_loan_locate(hostile.recv->recv->loan, pool, &data) == NULL);
         i++) {
        block_pool_locate(pool->memory.blocks, i, &where);
        data.region        = where.region;
        data.region_offset = where.offset;
    }
    post_data(data);
    hostile_let_peer_read();
    push(false);
}

REJECTED(push_at_an_offset_that_overflows)
{
    push(true);
    begin();
    send_pushed(0, UINT64_MAX - 15);
    push(false);
}

static void send_returned(uint64_t message)
{
    proto_fixed_t fixed = {.returned = {.message = message}};

    hostile_post_message(PROTO_RETURNED, &fixed, NULL, 0);
    hostile_let_peer_read();
}

IGNORED_CALLS(return_of_an_unknown_grant, begin(), send_returned(MESSAGE),
              send_returned(0));

/* The block stays in use, and is free once the receive has ended. */
IGNORED(return_too_early_and_twice)
{
    push(true);
    begin();
    ck_assert_ptr_nonnull(hostile.recv->recv->loan);
    push(false);
    send_returned(MESSAGE);
    send_returned(MESSAGE);
    ck_assert_ptr_nonnull(hostile.recv->recv->loan);
}

/* Blocks that are not returned wait for BYE. */
IGNORED(never_returned)
{
    block_stats_t share;

    push(true);
    begin();
    push(false);
    ucxpool_request_cancel(hostile.recv);
    block_pool_stats(hostile.pair.a->memory.blocks, BLOCK_SHARE_RECV, &share);
    ck_assert_uint_ne(share.quarantined, 0);
}

/* The last descriptor is sent first. The peer stays within its limits. */
TEST(descriptors_are_matched_in_order_of_their_numbers)
{
    enum { NUM = 1000 };
    const ucxpool_message_t *message;
    uint64_t                 sequence = 0;

    hostile_init("WIRE=map MAX_UNEXPECTED=1000");
    for (uint64_t i = NUM; i-- > 0;) {
        ck_assert_uint_eq(hostile.victim->flow.expected_sequence, 0);
        report_unsent(i, 0, 0);
    }
    ck_assert(!hostile_is_over());
    ck_assert_uint_eq(hostile.victim->flow.expected_sequence, NUM);
    base_list_for_each(message, &hostile.pair.a->xfer->unexpected,
                       ucxpool_message_t, link) {
        ck_assert_uint_eq(message->desc.sequence, sequence);
        sequence++;
    }
    ck_assert_uint_eq(sequence, NUM);
    hostile_cleanup();
}

/* The peer also sends BYE, which must not be handled before the messages. */
TEST(early_messages_are_delivered_in_batches)
{
    enum { NUM = 1000, ROUND = 64 };
    uint64_t *expected;
    uint64_t  before = 0;

    hostile_init("WIRE=map MAX_UNEXPECTED=1000");
    expected = &hostile.victim->flow.expected_sequence;
    for (uint64_t i = NUM; i-- > 1;) {
        report_unsent(i, 0, 0);
    }
    send_desc(hostile_desc(1, 0), whole, sizeof(whole));
    send_head(PROTO_BYE);
    while (*expected < NUM) {
        assert_error(ucxpool_arm(hostile.pair.a), BUSY);
        ucxpool_progress(hostile.pair.a);
        ck_assert_uint_gt(*expected, before);
        /* As the messages arrive, and again. */
        ck_assert_uint_le(*expected - before, 2 * ROUND + 1);
        before = *expected;
    }
    ck_assert_uint_eq(hostile.pair.a->xfer->index.num, NUM - 1);
    hostile_let_peer_read();
    ck_assert(hostile_is_over());
    hostile_check();
    hostile_cleanup();
}

#define AT_PEER "the channel has failed at the peer: "

/* Returns the peer's reason in the reason of the victim. */
static const char *peer_reason(void)
{
    hostile_let_peer_read();
    ck_assert_int_eq(hostile.victim->state, UCXPOOL_CHANNEL_FAILED);
    ck_assert_int_eq(hostile.victim->status, UCXPOOL_ERR_PEER_LOST);
    ck_assert_int_eq(strncmp(hostile.victim->reason, AT_PEER, strlen(AT_PEER)),
                     0);
    return hostile.victim->reason + strlen(AT_PEER);
}

TEST(unprintable_bytes_of_a_reason_are_replaced)
{
    static const char raw[] = "no map\n\x1b[2J\0\xff%s";

    hostile_init(SETTINGS);
    memcpy(text, raw, sizeof(raw));
    send_bye(UCXPOOL_ERR_UNSUPPORTED, sizeof(raw));
    ck_assert_str_eq(peer_reason(), "no map??[2J??%s?");
    hostile_check();
    hostile_cleanup();
}

TEST(reason_without_a_terminator_is_terminated)
{
    hostile_init(SETTINGS);
    memset(text, 'x', sizeof(text));
    send_bye(UCXPOOL_ERR_UNSUPPORTED, PROTO_REASON_MAX);
    ck_assert_uint_eq(strspn(peer_reason(), "x"), PROTO_REASON_MAX);
    ck_assert_uint_eq(strlen(peer_reason()), PROTO_REASON_MAX);
    hostile_check();
    hostile_cleanup();
}

/* The entry claims more bytes than the peer has written. */
TEST(reason_that_is_shorter_than_its_entry_is_padded)
{
    enum { CLAIMED = 200 };
    uint64_t place;

    hostile_init(SETTINGS);
    place = hostile.channel->ring.head;
    memcpy(text, "short", 5);
    send_bye(UCXPOOL_ERR_UNSUPPORTED, 5);
    hostile_write_word(place, sizeof(proto_bye_t) | (uint64_t)CLAIMED << 16 |
                                  UINT64_C(1) << 32);
    ck_assert_int_eq(strncmp(peer_reason(), "short???", 8), 0);
    ck_assert_uint_eq(strlen(peer_reason()), CLAIMED);
    hostile_check();
    hostile_cleanup();
}

TEST(descriptor_too_far_ahead_fails_the_channel)
{
    hostile_init("WIRE=map CREDITS=8 MAX_UNEXPECTED=1000");
    report_unsent(1007, 0, 0);
    ck_assert(!hostile_is_over());
    report_unsent(1008, 0, 0);
    ck_assert(hostile_is_over());
    ck_assert_int_eq(hostile.victim->status, UCXPOOL_ERR_PROTOCOL);
    hostile_check();
    hostile_cleanup();
}

TEST(lists_of_runs_are_bounded_per_channel)
{
    hostile_init(SETTINGS);
    hostile_let_peer_read();
    for (uint64_t i = 0; i < 4; i++) {
        send_desc(desc_with_runs(i, 1000), NULL, 0);
        send_runs(i, 0, 500);
        send_runs(i, 500, 500);
        hostile_let_peer_read();
        ck_assert_uint_le(hostile.victim->xfer->messages.num_runs, 2000);
    }
    /* Two lists are held and two were rejected; nothing failed. */
    ck_assert(!hostile_is_over());
    ck_assert_uint_eq(hostile.victim->xfer->messages.num_runs, 2000);
    ck_assert_uint_eq(hostile.victim->flow.expected_sequence, 4);
    hostile_cleanup();
}

TEST(a_message_in_order_is_received)
{
    hostile_init(SETTINGS);
    begin();
    for (uint32_t i = 0; i < HOSTILE_SIZE / 1000; i++) {
        proto_data_t data = fragment(i, i * 1000, 1000);

        data.flags = (i == HOSTILE_SIZE / 1000 - 1) ? PROTO_DATA_LAST : 0;
        post_data(data);
    }
    hostile_let_peer_read();
    assert_ok(ucxpool_request_test(hostile.recv));
    hostile_cleanup();
}
