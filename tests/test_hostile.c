/*
 * An authenticated peer that breaks the protocol on the `map` wire. Its channel
 * fails with UCXPOOL_ERR_PROTOCOL, or the message is ignored. The victim leaks
 * nothing, and its other channels keep working.
 */
#include "hostile.h"
#include "test.h"
#include "wire/recv.h"
#include "wire/state.h"
#include "xfer/message.h"
#include "xfer/request.h"
#include "xfer/state.h"

#include <stdlib.h>
#include <string.h>

#define MESSAGE \
    7u /* the peer's number of the message that the victim receives */

/* The settings that most tests use: eight fragments of 64k in flight. */
#define SETTINGS "WIRE=map DEPTH=4 CREDITS=8 MAX_UNEXPECTED=8 MAX_SEGMENTS=2000"

static const copy_run_t whole[] = {{HOSTILE_SIZE, 1}};

/* --- messages of the peer ------------------------------------------------ */

static void send_desc(hostile_t *hostile, proto_desc_t desc, const void *data,
                      size_t size)
{
    proto_fixed_t fixed = {.desc = desc};

    hostile_post_message(hostile, PROTO_DESC, &fixed, data, size);
}

/* The victim's receive is accepted and waits for fragments. */
static void begin(hostile_t *hostile)
{
    send_desc(hostile, hostile_desc(MESSAGE, 0), whole, sizeof(whole));
    hostile_let_peer_read(hostile);
    ck_assert_uint_ne(hostile_receive(hostile, MESSAGE), 0);
}

static proto_data_t fragment(hostile_t *hostile, uint32_t index,
                             uint64_t offset, uint64_t length)
{
    return (proto_data_t){
        .message = MESSAGE,
        .receive = hostile_receive(hostile, MESSAGE),
        .index   = index,
        .offset  = offset,
        .length  = length,
    };
}

static void post_data(hostile_t *hostile, proto_data_t data)
{
    proto_fixed_t fixed = {.data = data};

    hostile_post_message(hostile, PROTO_DATA, &fixed, NULL, 0);
}

static void send_fragment(hostile_t *hostile, uint32_t index, uint64_t offset,
                          uint64_t length)
{
    post_data(hostile, fragment(hostile, index, offset, length));
}

static void send_accept(hostile_t *hostile, uint64_t message,
                        uint64_t frag_size, uint32_t window)
{
    proto_fixed_t fixed = {.accept = {.message   = message,
                                      .receive   = 1,
                                      .frag_size = frag_size,
                                      .window    = window}};

    hostile_post_message(hostile, PROTO_ACCEPT, &fixed, NULL, 0);
}

static void send_taken(hostile_t *hostile, uint64_t message, uint32_t piece)
{
    proto_fixed_t fixed = {.taken = {.message = message, .piece = piece}};

    hostile_post_message(hostile, PROTO_TAKEN, &fixed, NULL, 0);
}

static void send_done(hostile_t *hostile, uint64_t message, int32_t status)
{
    proto_fixed_t fixed = {.done = {.message = message, .status = status}};

    hostile_post_message(hostile, PROTO_DONE, &fixed, "because", 7);
}

static void send_head(hostile_t *hostile, proto_type_t type)
{
    proto_fixed_t fixed = {.head = {.credits = 0}};

    hostile_post_message(hostile, type, &fixed, NULL, 0);
}

static void send_runs(hostile_t *hostile, uint64_t sequence, uint32_t first,
                      uint32_t num_runs)
{
    static copy_run_t runs[512];
    proto_fixed_t     fixed = {
            .runs = {.sequence = sequence, .first = first, .num_runs = num_runs}};

    for (unsigned i = 0; i < 512; i++) {
        runs[i] = (copy_run_t){i % 2 + 1, 1};
    }
    hostile_post_message(hostile, PROTO_RUNS, &fixed, runs,
                         num_runs * sizeof(runs[0]));
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

/* --- messages that fail the channel -------------------------------------- */

static void accept_of_no_bytes(hostile_t *hostile)
{
    send_accept(hostile, hostile_send(hostile), 0, 4);
}

static void accept_of_few_bytes(hostile_t *hostile)
{
    send_accept(hostile, hostile_send(hostile), 16, 4);
}

static void accept_without_window(hostile_t *hostile)
{
    send_accept(hostile, hostile_send(hostile), 65536, 0);
}

static void nonsense_after_accept(hostile_t *hostile)
{
    /* Blocks are in flight when the channel fails. */
    send_accept(hostile, hostile_send(hostile), UINT64_MAX, UINT32_MAX);
    hostile_let_peer_read(hostile);
    ck_assert_uint_ne(hostile->send->send->busy, 0);
    send_fragment(hostile, 0, 0, 0);
    begin(hostile);
    send_fragment(hostile, 0, 0, 0);
}

static void fragment_of_no_bytes(hostile_t *hostile)
{
    begin(hostile);
    send_fragment(hostile, 0, 0, 0);
}

static void fragment_longer_than_a_block(hostile_t *hostile)
{
    begin(hostile);
    send_fragment(hostile, 0, 0, 65537);
}

static void fragment_after_the_message(hostile_t *hostile)
{
    begin(hostile);
    send_fragment(hostile, 0, HOSTILE_SIZE, 16);
}

static void fragment_over_the_end(hostile_t *hostile)
{
    begin(hostile);
    for (uint32_t i = 0; i < 4; i++) {
        send_fragment(hostile, i, i * 65536, 65536);
    }
    send_fragment(hostile, 4, 4 * 65536, HOSTILE_SIZE - 4 * 65536 + 1);
}

static void offset_that_overflows(hostile_t *hostile)
{
    begin(hostile);
    send_fragment(hostile, 0, UINT64_MAX - 15, 32);
}

static void unknown_region(hostile_t *hostile)
{
    begin(hostile);

    proto_data_t data = fragment(hostile, 0, 0, 4096);

    data.region = UINT32_MAX;
    post_data(hostile, data);
}

static void region_offset_over_its_end(hostile_t *hostile)
{
    begin(hostile);

    proto_data_t data = fragment(hostile, 0, 0, 4096);

    data.region_offset = hostile->victim->peer.region_sizes[0] - 4095;
    post_data(hostile, data);
}

static void region_offset_that_overflows(hostile_t *hostile)
{
    begin(hostile);

    proto_data_t data = fragment(hostile, 0, 0, 4096);

    data.region_offset = UINT64_MAX - 4000;
    post_data(hostile, data);
}

static void index_twice(hostile_t *hostile)
{
    begin(hostile);
    send_fragment(hostile, 0, 0, 4096);
    send_fragment(hostile, 0, 4096, 4096);
}

static void index_left_out(hostile_t *hostile)
{
    begin(hostile);
    send_fragment(hostile, 1, 0, 4096);
}

static void overlapping_fragments(hostile_t *hostile)
{
    begin(hostile);
    send_fragment(hostile, 0, 0, 4096);
    send_fragment(hostile, 1, 4080, 4096);
}

static void gap_between_fragments(hostile_t *hostile)
{
    begin(hostile);
    send_fragment(hostile, 0, 0, 4096);
    send_fragment(hostile, 1, 4112, 4096);
}

static void single_bytes_backwards(hostile_t *hostile)
{
    begin(hostile);
    for (uint32_t i = 0; i < 5000; i++) {
        send_fragment(hostile, i, HOSTILE_SIZE - 1 - i, 1);
    }
}

static void last_too_early(hostile_t *hostile)
{
    begin(hostile);

    proto_data_t data = fragment(hostile, 0, 0, 4096);

    data.flags = PROTO_DATA_LAST;
    post_data(hostile, data);
}

static void descriptor_twice(hostile_t *hostile)
{
    send_desc(hostile, hostile_desc(MESSAGE, 0), whole, sizeof(whole));
    send_desc(hostile, hostile_desc(MESSAGE + 1, 0), whole, sizeof(whole));
}

/* The victim reads the message and has no receive for it. */
static void report_unsent(hostile_t *hostile, uint64_t i, uint32_t flags,
                          size_t metadata_size)
{
    static uint8_t data[sizeof(whole) + 4096];
    proto_desc_t   desc = hostile_desc(i + 1, i);

    ck_assert(!hostile_is_over(hostile));
    desc.tag           = 99;
    desc.flags         = flags;
    desc.metadata_size = (uint32_t)metadata_size;
    if (flags & PROTO_DESC_EAGER) {
        desc.message      = 0;
        desc.payload_size = 0;
        desc.num_runs     = 0;
        send_desc(hostile, desc, NULL, 0);
    } else {
        memcpy(data, whole, sizeof(whole));
        send_desc(hostile, desc, data, sizeof(whole) + metadata_size);
    }
    hostile_let_peer_read(hostile);
}

static void send_cancel(hostile_t *hostile, uint64_t message)
{
    proto_fixed_t cancel = {
        .cancel = {.message = message, .status = UCXPOOL_ERR_CANCELED}};

    hostile_post_message(hostile, PROTO_CANCEL, &cancel, NULL, 0);
    hostile_let_peer_read(hostile);
}

static void descriptors_beyond_max_unexpected(hostile_t *hostile)
{
    for (uint64_t i = 0; i < 9; i++) {
        report_unsent(hostile, i, 0, 0);
    }
}

static void eager_descriptors_beyond_the_credits(hostile_t *hostile)
{
    for (uint64_t i = 0; i < 9; i++) {
        report_unsent(hostile, i, PROTO_DESC_EAGER, 0);
    }
}

/* They count as five and four units. */
static void descriptors_of_more_bytes_than_max_unexpected(hostile_t *hostile)
{
    report_unsent(hostile, 0, 0, 4 * PROTO_DESC_UNIT);
    report_unsent(hostile, 1, 0, 3 * PROTO_DESC_UNIT);
}

/* Descriptors out of order are kept even if they are canceled. */
static void canceled_descriptors_out_of_turn(hostile_t *hostile)
{
    for (uint64_t i = 1; i < 10; i++) {
        report_unsent(hostile, i, 0, 0);
        send_cancel(hostile, i + 1);
    }
}

static void message_number_0(hostile_t *hostile)
{
    send_desc(hostile, hostile_desc(0, 0), whole, sizeof(whole));
}

static void payload_that_differs_from_runs(hostile_t *hostile)
{
    copy_run_t runs[] = {{HOSTILE_SIZE - 1, 1}};

    send_desc(hostile, hostile_desc(MESSAGE, 0), runs, sizeof(runs));
}

static void runs_that_overflow(hostile_t *hostile)
{
    copy_run_t   runs[] = {{UINT64_C(1) << 40, UINT64_C(1) << 40}};
    proto_desc_t desc   = hostile_desc(MESSAGE, 0);

    desc.payload_size = 0;
    send_desc(hostile, desc, runs, sizeof(runs));
}

static void more_metadata_than_is_taken(hostile_t *hostile)
{
    static uint8_t data[sizeof(whole) + 4096];
    proto_desc_t   desc = hostile_desc(MESSAGE, 0);

    memcpy(data, whole, sizeof(whole));
    desc.metadata_size = 4096;
    send_desc(hostile, desc, data, sizeof(data));
}

static void more_runs_than_are_taken(hostile_t *hostile)
{
    send_desc(hostile, desc_with_runs(0, UINT32_MAX), NULL, 0);
}

static void runs_twice(hostile_t *hostile)
{
    send_desc(hostile, desc_with_runs(0, 1000), NULL, 0);
    send_runs(hostile, 0, 0, 500);
    send_runs(hostile, 0, 0, 500);
}

static void runs_out_of_range(hostile_t *hostile)
{
    send_desc(hostile, desc_with_runs(0, 1000), NULL, 0);
    send_runs(hostile, 0, 900, 101);
}

static void runs_that_were_not_missing(hostile_t *hostile)
{
    /* It waits for number 0, which has runs. */
    send_desc(hostile, hostile_desc(MESSAGE, 1), whole, sizeof(whole));
    send_runs(hostile, 1, 0, 1);
}

static void empty_list_of_runs(hostile_t *hostile)
{
    send_desc(hostile, hostile_desc(MESSAGE, 1), whole, sizeof(whole));
    send_runs(hostile, 1, 0, 0);
}

static void runs_of_no_message(hostile_t *hostile)
{
    send_runs(hostile, 5, 0, 1);
}

static void send_short(hostile_t *hostile, size_t size)
{
    static const uint8_t bytes[PROTO_DATA_MAX];
    proto_fixed_t        fixed = {.in_short = {.tag = 99}};

    hostile_post_message(hostile, PROTO_SHORT, &fixed, bytes, size);
}

static void short_without_bytes(hostile_t *hostile)
{
    send_short(hostile, 0);
}

static void short_of_more_than_fits(hostile_t *hostile)
{
    send_short(hostile, PROTO_SHORT_MAX + 1);
}

static void more_shorts_than_credits(hostile_t *hostile)
{
    for (unsigned i = 0; i < 8; i++) {
        send_short(hostile, i + 1);
    }
    hostile_let_peer_read(hostile);
    ck_assert(!hostile_is_over(hostile));
    send_short(hostile, PROTO_SHORT_MAX);
}

/* After a descriptor with the highest possible number. */
static void short_with_a_number_of_before(hostile_t *hostile)
{
    proto_fixed_t fixed = {.desc = hostile_desc(1, UINT64_MAX)};
    copy_run_t    run   = {HOSTILE_SIZE, 1};

    send_short(hostile, 1);
    hostile_post_message(hostile, PROTO_DESC, &fixed, &run, sizeof(run));
    send_short(hostile, 1);
}

static void hello_again(hostile_t *hostile)
{
    send_head(hostile, PROTO_HELLO);
}

/* A word that was read in the previous lap appears in the ring as if it were
 * new. */
static void word_of_the_lap_before(hostile_t *hostile)
{
    while (hostile->channel->ring.head < CORE_RING_SIZE) {
        send_head(hostile, PROTO_CREDIT);
        hostile_let_peer_read(hostile);
    }
    hostile_write_word(hostile, hostile->channel->ring.head,
                       sizeof(proto_head_t) | UINT64_C(1) << 32);
}

static void skip_to_nothing(hostile_t *hostile)
{
    hostile_write_word(hostile, hostile->channel->ring.head,
                       UINT16_MAX | UINT64_C(1) << 32);
}

static void entry_over_the_end(hostile_t *hostile)
{
    while (hostile->channel->ring.head < CORE_RING_SIZE - 64) {
        send_head(hostile, PROTO_CREDIT);
        hostile_let_peer_read(hostile);
    }
    hostile_write_word(hostile, hostile->channel->ring.head,
                       sizeof(proto_head_t) | (uint64_t)PROTO_DATA_MAX << 16 |
                           UINT64_C(1) << 32);
}

/* The victim answers each refused message, and the peer never reads the
 * answers. */
static void unexpected_answers(hostile_t *hostile)
{
    for (uint64_t i = 0; (i < 20000) && !hostile_is_over(hostile); i++) {
        copy_run_t   runs[] = {{UINT64_C(1) << 30, 1}};
        proto_desc_t desc   = hostile_desc(i + 1, i);

        ucxpool_request_t *request;
        if (ucxpool_recv_buffer(hostile->pair.a, hostile->victim,
                                hostile->target, 1, 3, UINT64_MAX, NULL,
                                &request) == UCXPOOL_OK) {
            ucxpool_request_release(request);
        }
        desc.tag          = 3;
        desc.payload_size = UINT64_C(1) << 30;
        send_desc(hostile, desc, runs, sizeof(runs));
        hostile_let_peer_read(hostile);
    }
}

/* --- messages that are ignored ------------------------------------------- */

/* UCX may deliver a short CANCEL before a long RUNS. */
static void runs_of_a_canceled_descriptor(hostile_t *hostile)
{
    send_desc(hostile, desc_with_runs(0, 1000), NULL, 0);
    send_cancel(hostile, 1);
    send_runs(hostile, 0, 0, 500);
}

static void controls_for_unknown_messages(hostile_t *hostile)
{
    proto_fixed_t cancel = {
        .cancel = {.message = 12345, .status = UCXPOOL_ERR_CANCELED}};

    send_accept(hostile, 12345, 65536, 4);
    send_taken(hostile, 12345, 0);
    send_done(hostile, 12345, UCXPOOL_OK);
    send_fragment(hostile, 0, 0, 4096);
    hostile_post_message(hostile, PROTO_CANCEL, &cancel, NULL, 0);
    cancel.cancel.message = 0;
    hostile_post_message(hostile, PROTO_CANCEL, &cancel, NULL, 0);
    send_done(hostile, 0, UCXPOOL_OK);
    send_accept(hostile, 0, 65536, 4);
}

static void descriptors_canceled_over_and_over(hostile_t *hostile)
{
    for (uint64_t i = 0; i < 100; i++) {
        report_unsent(hostile, i, 0, 0);
        send_cancel(hostile, i + 1);
        send_cancel(hostile, i + 1);
        ck_assert_uint_eq(hostile->victim->xfer->messages.announced, 0);
    }
}

/* It stops counting, once, and belongs to the caller until the caller rejects
 * it. */
static void canceled_descriptor_that_was_probed(hostile_t *hostile)
{
    ucxpool_message_t *message;

    report_unsent(hostile, 0, 0, 0);
    ck_assert_int_eq(ucxpool_probe(hostile->pair.a, hostile->victim, 99,
                                   UINT64_MAX, &message),
                     UCXPOOL_OK);
    ck_assert_uint_eq(hostile->victim->xfer->messages.announced, 1);
    send_cancel(hostile, 1);
    send_cancel(hostile, 1);
    ck_assert_uint_eq(hostile->victim->xfer->messages.announced, 0);
    ucxpool_message_refuse(message, NULL);
    ck_assert_uint_eq(hostile->victim->xfer->messages.announced, 0);
}

static void pieces_that_are_not_in_flight(hostile_t *hostile)
{
    send_accept(hostile, hostile_send(hostile), 65536, 1);
    hostile_let_peer_read(hostile);
    send_taken(hostile, hostile_send(hostile), 63);
    send_taken(hostile, hostile_send(hostile), UINT32_MAX);
    hostile_let_peer_read(hostile);
    ck_assert_uint_eq(hostile->send->send->busy, 1);
}

static void pieces_taken_twice(hostile_t *hostile)
{
    send_accept(hostile, hostile_send(hostile), 65536, 2);
    for (int i = 0; i < 100; i++) {
        send_taken(hostile, hostile_send(hostile), 0);
    }
}

static void accept_twice(hostile_t *hostile)
{
    send_accept(hostile, hostile_send(hostile), 65536, 1);
    hostile_let_peer_read(hostile);
    send_accept(hostile, hostile_send(hostile), 4096, 64);
    hostile_let_peer_read(hostile);
    ck_assert_uint_eq(hostile->send->send->frag_size, 65536);
    ck_assert_uint_eq(hostile->send->send->window, 1);
}

static void ready_and_go_again(hostile_t *hostile)
{
    proto_fixed_t ready = {.ready = {.can_map = 0}};

    hostile_post_message(hostile, PROTO_READY, &ready, "no", 2);
    send_head(hostile, PROTO_GO);
    send_head(hostile, PROTO_GO);
}

static void credits_that_overflow(hostile_t *hostile)
{
    for (int i = 0; i < 200000; i++) {
        proto_fixed_t fixed = {.head = {.credits = UINT16_MAX}};

        hostile_post_message(hostile, PROTO_CREDIT, &fixed, NULL, 0);
        if (i % 1000 == 0) {
            hostile_let_peer_read(hostile);
        }
    }
    hostile_let_peer_read(hostile);
    ck_assert_uint_le(hostile->victim->flow.credits, UINT16_MAX);
}

/* Each new odd value requests a doorbell. */
static void sleeping_that_never_rests(hostile_t *hostile)
{
    core_ring_page_t *page = hostile->channel->ring.mine;

    for (uint32_t i = 0; i < 20000; i++) {
        __atomic_store_n(&page->sleeping, 2 * i + 1, __ATOMIC_SEQ_CST);
        send_head(hostile, PROTO_DOORBELL);
        ucxpool_progress(hostile->pair.a);
        ck_assert_uint_le(hostile->victim->control.num_in_ucx, 64);
    }
}

static void numbers_of_others_revoked(hostile_t *hostile)
{
    core_ring_page_t *page = hostile->channel->ring.mine;

    for (uint64_t i = 0; i < PROTO_SENDS_MAX; i++) {
        __atomic_store_n(&page->revoked[i], UINT64_MAX - i, __ATOMIC_SEQ_CST);
    }
}

static void tail_that_lies(hostile_t *hostile)
{
    core_ring_page_t *page = hostile->channel->ring.mine;

    __atomic_store_n(&page->tail, UINT64_MAX - 5, __ATOMIC_SEQ_CST);
    hostile_let_peer_read(hostile);
    __atomic_store_n(&page->tail, 0, __ATOMIC_SEQ_CST);
}

/* --- messages that end a request ----------------------------------------- */

static void check_said(const ucxpool_request_t *request, ucxpool_status_t end)
{
    ucxpool_request_attr_t attr;

    ucxpool_request_query(request, &attr, sizeof(attr));
    ck_assert_int_eq(attr.status, end);
    ck_assert_str_ne(attr.detail, "");
    ck_assert_int_eq(ucxpool_request_wait((ucxpool_request_t *)request, 0),
                     end);
    ck_assert_str_eq(ucxpool_error_detail(), attr.detail);
}

static void done_without_a_reason(hostile_t *hostile)
{
    proto_fixed_t fixed = {.done = {.message = hostile_send(hostile),
                                    .status  = UCXPOOL_ERR_REFUSED}};

    hostile_post_message(hostile, PROTO_DONE, &fixed, NULL, 0);
    hostile_let_peer_read(hostile);
    check_said(hostile->send, UCXPOOL_ERR_REFUSED);
}

static void canceled_without_a_reason(hostile_t *hostile)
{
    proto_fixed_t fixed = {.cancel = {.message = 1, .status = UCXPOOL_ERR_IO}};
    copy_run_t    run   = {HOSTILE_SIZE, 1};

    send_desc(hostile, hostile_desc(1, 0), &run, sizeof(run));
    hostile_let_peer_read(hostile);
    hostile_post_message(hostile, PROTO_CANCEL, &fixed, NULL, 0);
    hostile_let_peer_read(hostile);
    check_said(hostile->recv, UCXPOOL_ERR_CANCELED);
}

static void done_with_control_characters(hostile_t *hostile)
{
    proto_fixed_t fixed = {.done = {.message = hostile_send(hostile),
                                    .status  = UCXPOOL_ERR_REFUSED}};

    hostile_post_message(hostile, PROTO_DONE, &fixed, "\033[2J\n", 5);
    hostile_let_peer_read(hostile);
    check_said(hostile->send, UCXPOOL_ERR_REFUSED);
}

static void done_with_a_positive_status(hostile_t *hostile)
{
    send_done(hostile, hostile_send(hostile), UCXPOOL_INPROGRESS);
    hostile_let_peer_read(hostile);
    ck_assert_int_eq(ucxpool_request_test(hostile->send), UCXPOOL_ERR_REFUSED);
}

static void done_in_the_middle(hostile_t *hostile)
{
    uint64_t send = hostile_send(hostile);

    send_accept(hostile, send, 65536, 3);
    hostile_let_peer_read(hostile);
    send_done(hostile, send, INT32_MIN);
    send_done(hostile, send, UCXPOOL_OK);
    send_taken(hostile, send, 0);
    hostile_let_peer_read(hostile);
    ck_assert_int_eq(ucxpool_request_test(hostile->send), UCXPOOL_ERR_REFUSED);
}

/* CANCEL, a late ACCEPT and DONE for the request are read together; then its
 * memory is reused for a receive. */
static void accept_of_a_canceled_send(hostile_t *hostile)
{
    uint64_t send = hostile_send(hostile);

    ucxpool_request_cancel(hostile->send);
    ucxpool_request_release(hostile->send);
    hostile->send = NULL;
    send_accept(hostile, send, 65536, 4);
    send_done(hostile, send, UCXPOOL_ERR_CANCELED);
    hostile_let_peer_read(hostile);
    ck_assert_int_eq(ucxpool_recv_buffer(hostile->pair.a, hostile->victim,
                                         hostile->source, 1, 77, UINT64_MAX,
                                         NULL, &hostile->send),
                     UCXPOOL_OK);
    hostile_let_peer_read(hostile);
    ucxpool_request_cancel(hostile->send);
}

static void cancel_again_and_again(hostile_t *hostile)
{
    proto_fixed_t cancel = {
        .cancel = {.message = MESSAGE, .status = UCXPOOL_ERR_IO}};
    ucxpool_request_attr_t attr;

    begin(hostile);
    for (int i = 0; i < 100; i++) {
        hostile_post_message(hostile, PROTO_CANCEL, &cancel, "a\nb\x80", 4);
    }
    hostile_let_peer_read(hostile);
    ucxpool_request_query(hostile->recv, &attr, sizeof(attr));
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_CANCELED);
    ck_assert_str_eq(attr.detail, "the sender ended the message: a?b?");
}

static void cancel_without_an_error(hostile_t *hostile)
{
    proto_fixed_t cancel = {.cancel = {.message = MESSAGE}};

    begin(hostile);
    hostile_post_message(hostile, PROTO_CANCEL, &cancel, NULL, 0);
}

/* --- pushed messages ----------------------------------------------------- */

static void push(hostile_t *hostile, bool is_on)
{
    hostile->victim->peer.pushes          = is_on;
    hostile->victim->pool->config.map_way = BASE_MAP_WAY_PUSH;
}

static void lend(hostile_t *hostile, proto_lent_t lent)
{
    proto_fixed_t fixed = {.accept = {.message   = hostile_send(hostile),
                                      .receive   = 1,
                                      .frag_size = 65536,
                                      .window    = 4}};

    hostile_post_message(hostile, PROTO_ACCEPT, &fixed, &lent, sizeof(lent));
    hostile_let_peer_read(hostile);
}

static void lend_pushed(hostile_t *hostile, proto_lent_t lent)
{
    push(hostile, true);
    lend(hostile, lent);
    push(hostile, false);
}

static void grant_to_a_peer_that_does_not_push(hostile_t *hostile)
{
    lend(hostile, (proto_lent_t){.length = 65536});
}

static void grant_in_an_unknown_region(hostile_t *hostile)
{
    lend_pushed(hostile, (proto_lent_t){.region = 1000, .length = 65536});
}

static void grant_beyond_the_region(hostile_t *hostile)
{
    uint64_t size = hostile->victim->peer.region_sizes[0];

    lend_pushed(hostile,
                (proto_lent_t){.offset = size - 4096, .length = 65536});
}

static void grant_at_an_offset_that_overflows(hostile_t *hostile)
{
    lend_pushed(hostile,
                (proto_lent_t){.offset = UINT64_MAX - 15, .length = 65536});
}

static void grant_without_a_length(hostile_t *hostile)
{
    lend_pushed(hostile, (proto_lent_t){.length = UINT64_MAX});
}

static void grant_that_is_too_short(hostile_t *hostile)
{
    lend_pushed(hostile, (proto_lent_t){.length = 16});
}

static void grant_at_an_unaligned_offset(hostile_t *hostile)
{
    lend_pushed(hostile, (proto_lent_t){.offset = 8, .length = 65536});
}

static void lend_mailbox(hostile_t *hostile, proto_mailbox_t mailbox)
{
    proto_fixed_t fixed = {.mailbox = mailbox};

    hostile_post_message(hostile, PROTO_MAILBOX, &fixed, NULL, 0);
    hostile_let_peer_read(hostile);
}

static void lend_mailbox_pushed(hostile_t *hostile, proto_mailbox_t mailbox)
{
    push(hostile, true);
    lend_mailbox(hostile, mailbox);
    push(hostile, false);
}

static void mailbox_for_a_peer_that_does_not_push(hostile_t *hostile)
{
    lend_mailbox(hostile, (proto_mailbox_t){.num_slots = 8, .slot_size = 4096});
}

/* None of them lies in the hostile pool's regions or is valid. */
static const struct {
    const char *what;
    uint64_t    offset;
    uint64_t    slot_size;
    uint32_t    region;
    uint32_t    num_slots;
} wrong_mailboxes[] = {
    {"no region", 0, 4096, 1000, 8},
    {"over the end", 0, UINT64_C(1) << 40, 0, 8},
    {"an offset that overflows", UINT64_MAX - 63, 4096, 0, 8},
    {"sizes that overflow", 0, UINT64_C(1) << 61, 0, 8},
    {"no slots", 0, 4096, 0, 0},
    {"too many slots", 0, 4096, 0, PROTO_SLOTS_MAX + 1},
    {"no room next to the flag", 0, PROTO_FLAG_SIZE, 0, 8},
    {"an odd size", 0, 4100, 0, 8},
    {"an odd offset", 16, 4096, 0, 8},
};
#define NUM_WRONG ((int)(sizeof(wrong_mailboxes) / sizeof(wrong_mailboxes[0])))

static void wrong_mailbox(hostile_t *hostile, unsigned i)
{
    lend_mailbox_pushed(
        hostile, (proto_mailbox_t){.offset    = wrong_mailboxes[i].offset,
                                   .region    = wrong_mailboxes[i].region,
                                   .num_slots = wrong_mailboxes[i].num_slots,
                                   .slot_size = wrong_mailboxes[i].slot_size});
}

static void two_mailboxes(hostile_t *hostile)
{
    const proto_mailbox_t mailbox = {.num_slots = 2, .slot_size = 4096};

    lend_mailbox_pushed(hostile, mailbox);
    ck_assert(!hostile_is_over(hostile));
    lend_mailbox_pushed(hostile, mailbox);
}

static void mail(hostile_t *hostile, uint64_t size, uint32_t slot,
                 uint32_t flags)
{
    const copy_run_t run  = {size, 1};
    proto_desc_t     desc = hostile_desc(MESSAGE, 0);

    desc.payload_size = size;
    desc.flags        = PROTO_DESC_MAILED | flags;
    desc.slot         = slot;
    send_desc(hostile, desc, &run, (flags & PROTO_DESC_RUNS) ? 0 : sizeof(run));
    hostile_let_peer_read(hostile);
}

static void mailed_without_a_mailbox(hostile_t *hostile)
{
    mail(hostile, 100, 0, 0);
}

/* A host pool lends no mailbox, so the test marks one as lent. */
static void mail_lent(hostile_t *hostile, uint64_t size, uint32_t slot,
                      uint32_t flags)
{
    ucxpool_t *pool = hostile->pair.a;

    ck_assert_int_eq(block_pool_get(pool->memory.blocks, BLOCK_SHARE_RECV,
                                    &pool->wire->mail.block),
                     UCXPOOL_OK);
    pool->wire->mail.num_lent  = 1;
    pool->wire->mail.owners[0] = hostile->victim;
    hostile->victim->num_lent++;
    mail(hostile, size, slot, flags);
}

static void mailed_to_an_unknown_slot(hostile_t *hostile)
{
    mail_lent(hostile, 100, 8, 0);
}

static void mailed_message_longer_than_a_slot(hostile_t *hostile)
{
    mail_lent(hostile, 65536 - PROTO_FLAG_SIZE + 1, 0, 0);
}

static void mailed_message_without_bytes(hostile_t *hostile)
{
    mail_lent(hostile, 0, 0, 0);
}

static void mailed_message_with_runs(hostile_t *hostile)
{
    mail_lent(hostile, 100, 0, PROTO_DESC_RUNS);
}

static void mailed_message_for_a_window(hostile_t *hostile)
{
    mail_lent(hostile, 100, 0, PROTO_DESC_WRITE);
}

static void accept_of_a_mailed_message(hostile_t *hostile)
{
    uint64_t message = hostile_send(hostile);

    hostile->send->send->slot = 1;
    send_accept(hostile, message, 65536, 4);
    hostile_let_peer_read(hostile);
    hostile->send->send->slot = 0;
}

static void send_pushed(hostile_t *hostile, uint32_t region, uint64_t offset)
{
    proto_data_t data = fragment(hostile, 0, 0, 4096);

    data.flags         = PROTO_DATA_PUSHED;
    data.region        = region;
    data.region_offset = offset;
    post_data(hostile, data);
    hostile_let_peer_read(hostile);
}

static void push_without_a_grant(hostile_t *hostile)
{
    begin(hostile);
    send_pushed(hostile, 0, 0);
}

/* The last block of all is lent last. */
static void push_to_another_block(hostile_t *hostile)
{
    const mem_regions_t *regions = &hostile->pair.a->memory.regions;

    push(hostile, true);
    begin(hostile);
    ck_assert_ptr_nonnull(hostile->recv->recv->loan);
    send_pushed(hostile, regions->num_regions - 1, regions->region_size - 4096);
    push(hostile, false);
}

static void push_at_an_offset_that_overflows(hostile_t *hostile)
{
    push(hostile, true);
    begin(hostile);
    send_pushed(hostile, 0, UINT64_MAX - 15);
    push(hostile, false);
}

static void send_returned(hostile_t *hostile, uint64_t message)
{
    proto_fixed_t fixed = {.returned = {.message = message}};

    hostile_post_message(hostile, PROTO_RETURNED, &fixed, NULL, 0);
    hostile_let_peer_read(hostile);
}

static void return_of_an_unknown_grant(hostile_t *hostile)
{
    begin(hostile);
    send_returned(hostile, MESSAGE);
    send_returned(hostile, 0);
}

/* The block stays in use, and is free once the receive has ended. */
static void return_too_early_and_twice(hostile_t *hostile)
{
    push(hostile, true);
    begin(hostile);
    ck_assert_ptr_nonnull(hostile->recv->recv->loan);
    push(hostile, false);
    send_returned(hostile, MESSAGE);
    send_returned(hostile, MESSAGE);
    ck_assert_ptr_nonnull(hostile->recv->recv->loan);
}

/* Blocks that are not returned wait for BYE. */
static void never_returned(hostile_t *hostile)
{
    block_stats_t share;

    push(hostile, true);
    begin(hostile);
    push(hostile, false);
    ucxpool_request_cancel(hostile->recv);
    block_pool_stats(hostile->pair.a->memory.blocks, BLOCK_SHARE_RECV, &share);
    ck_assert_uint_ne(share.quarantined, 0);
}

/* --- runs ---------------------------------------------------------------- */

typedef struct attack {
    const char *name;
    void (*act)(hostile_t *hostile);
} attack_t;

#define ATTACK(_name) \
    { \
#_name, _name \
    }

static const attack_t rejected_attacks[] = {
    ATTACK(accept_of_no_bytes),
    ATTACK(accept_of_few_bytes),
    ATTACK(accept_without_window),
    ATTACK(nonsense_after_accept),
    ATTACK(fragment_of_no_bytes),
    ATTACK(fragment_longer_than_a_block),
    ATTACK(fragment_after_the_message),
    ATTACK(fragment_over_the_end),
    ATTACK(offset_that_overflows),
    ATTACK(unknown_region),
    ATTACK(region_offset_over_its_end),
    ATTACK(region_offset_that_overflows),
    ATTACK(index_twice),
    ATTACK(index_left_out),
    ATTACK(overlapping_fragments),
    ATTACK(gap_between_fragments),
    ATTACK(single_bytes_backwards),
    ATTACK(last_too_early),
    ATTACK(descriptor_twice),
    ATTACK(descriptors_beyond_max_unexpected),
    ATTACK(eager_descriptors_beyond_the_credits),
    ATTACK(descriptors_of_more_bytes_than_max_unexpected),
    ATTACK(canceled_descriptors_out_of_turn),
    ATTACK(message_number_0),
    ATTACK(payload_that_differs_from_runs),
    ATTACK(runs_that_overflow),
    ATTACK(more_metadata_than_is_taken),
    ATTACK(more_runs_than_are_taken),
    ATTACK(runs_twice),
    ATTACK(runs_out_of_range),
    ATTACK(runs_that_were_not_missing),
    ATTACK(empty_list_of_runs),
    ATTACK(runs_of_no_message),
    ATTACK(short_without_bytes),
    ATTACK(short_of_more_than_fits),
    ATTACK(more_shorts_than_credits),
    ATTACK(short_with_a_number_of_before),
    ATTACK(hello_again),
    ATTACK(word_of_the_lap_before),
    ATTACK(skip_to_nothing),
    ATTACK(entry_over_the_end),
    ATTACK(unexpected_answers),
    ATTACK(cancel_without_an_error),
    ATTACK(grant_to_a_peer_that_does_not_push),
    ATTACK(grant_in_an_unknown_region),
    ATTACK(grant_beyond_the_region),
    ATTACK(grant_at_an_offset_that_overflows),
    ATTACK(grant_without_a_length),
    ATTACK(grant_that_is_too_short),
    ATTACK(grant_at_an_unaligned_offset),
    ATTACK(mailbox_for_a_peer_that_does_not_push),
    ATTACK(two_mailboxes),
    ATTACK(mailed_without_a_mailbox),
    ATTACK(mailed_to_an_unknown_slot),
    ATTACK(mailed_message_longer_than_a_slot),
    ATTACK(mailed_message_without_bytes),
    ATTACK(mailed_message_with_runs),
    ATTACK(mailed_message_for_a_window),
    ATTACK(accept_of_a_mailed_message),
    ATTACK(push_without_a_grant),
    ATTACK(push_to_another_block),
    ATTACK(push_at_an_offset_that_overflows),
};
#define NUM_CRIMES \
    ((int)(sizeof(rejected_attacks) / sizeof(rejected_attacks[0])))

static const attack_t tolerated_attacks[] = {
    ATTACK(controls_for_unknown_messages),
    ATTACK(pieces_that_are_not_in_flight),
    ATTACK(pieces_taken_twice),
    ATTACK(accept_twice),
    ATTACK(ready_and_go_again),
    ATTACK(credits_that_overflow),
    ATTACK(descriptors_canceled_over_and_over),
    ATTACK(canceled_descriptor_that_was_probed),
    ATTACK(sleeping_that_never_rests),
    ATTACK(numbers_of_others_revoked),
    ATTACK(tail_that_lies),
    ATTACK(done_with_a_positive_status),
    ATTACK(done_without_a_reason),
    ATTACK(canceled_without_a_reason),
    ATTACK(done_with_control_characters),
    ATTACK(done_in_the_middle),
    ATTACK(accept_of_a_canceled_send),
    ATTACK(cancel_again_and_again),
    ATTACK(runs_of_a_canceled_descriptor),
    ATTACK(return_of_an_unknown_grant),
    ATTACK(return_too_early_and_twice),
    ATTACK(never_returned),
};
#define NUM_NOISES \
    ((int)(sizeof(tolerated_attacks) / sizeof(tolerated_attacks[0])))

/* The victim and an honest peer. */
static void check_exchange(pair_t *pair)
{
    enum { LENGTH = 200000 };
    static uint8_t     source[LENGTH];
    static uint8_t     target[LENGTH];
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    pair_fill(source, LENGTH);
    pair_poison(target, LENGTH);
    ck_assert_int_eq(ucxpool_recv_buffer(pair->b, pair->to_a, target, LENGTH, 5,
                                         UINT64_MAX, NULL, &recv),
                     UCXPOOL_OK);
    ck_assert_int_eq(
        ucxpool_send_buffer(pair->to_b, source, LENGTH, 5, NULL, &send),
        UCXPOOL_OK);
    ck_assert_int_eq(pair_finish(pair, send), UCXPOOL_OK);
    ck_assert_int_eq(pair_finish(pair, recv), UCXPOOL_OK);
    ck_assert_mem_eq(source, target, LENGTH);
}

static hostile_t hostile;

TEST_SETTINGS(.timeout = 60);

/* The last descriptor is sent first. The peer stays within its limits. */
TEST(descriptors_are_matched_in_order_of_their_numbers)
{
    enum { NUM = 1000 };
    const ucxpool_message_t *message;
    uint64_t                 sequence = 0;

    hostile_init(&hostile, "WIRE=map MAX_UNEXPECTED=1000");
    for (uint64_t i = NUM; i-- > 0;) {
        ck_assert_uint_eq(hostile.victim->flow.expected_sequence, 0);
        report_unsent(&hostile, i, 0, 0);
    }
    ck_assert(!hostile_is_over(&hostile));
    ck_assert_uint_eq(hostile.victim->flow.expected_sequence, NUM);
    base_list_for_each(message, &hostile.pair.a->xfer->unexpected,
                       ucxpool_message_t, link) {
        ck_assert_uint_eq(message->desc.sequence, sequence);
        sequence++;
    }
    ck_assert_uint_eq(sequence, NUM);
    hostile_cleanup(&hostile);
}

/* The peer also sends BYE, which must not be handled before the messages. */
TEST(early_messages_are_delivered_in_batches)
{
    enum { NUM = 1000, ROUND = 64 };
    uint64_t *expected;
    uint64_t  before = 0;

    hostile_init(&hostile, "WIRE=map MAX_UNEXPECTED=1000");
    expected = &hostile.victim->flow.expected_sequence;
    for (uint64_t i = NUM; i-- > 1;) {
        report_unsent(&hostile, i, 0, 0);
    }
    send_desc(&hostile, hostile_desc(1, 0), whole, sizeof(whole));
    send_head(&hostile, PROTO_BYE);
    while (*expected < NUM) {
        ck_assert_int_eq(ucxpool_arm(hostile.pair.a), UCXPOOL_ERR_BUSY);
        ucxpool_progress(hostile.pair.a);
        ck_assert_uint_gt(*expected, before);
        /* As the messages arrive, and again. */
        ck_assert_uint_le(*expected - before, 2 * ROUND + 1);
        before = *expected;
    }
    ck_assert_uint_eq(hostile.pair.a->xfer->index.num, NUM - 1);
    hostile_let_peer_read(&hostile);
    ck_assert(hostile_is_over(&hostile));
    hostile_check(&hostile);
    hostile_cleanup(&hostile);
}

TEST(descriptor_too_far_ahead_fails_the_channel)
{
    hostile_init(&hostile, "WIRE=map CREDITS=8 MAX_UNEXPECTED=1000");
    report_unsent(&hostile, 1007, 0, 0);
    ck_assert(!hostile_is_over(&hostile));
    report_unsent(&hostile, 1008, 0, 0);
    ck_assert(hostile_is_over(&hostile));
    ck_assert_int_eq(hostile.victim->status, UCXPOOL_ERR_PROTOCOL);
    hostile_check(&hostile);
    hostile_cleanup(&hostile);
}

TEST_EACH(violation_fails_only_its_channel, NUM_CRIMES)
{
    ucxpool_channel_attr_t attr;
    pair_t                 honest;

    hostile_init(&hostile, SETTINGS);
    honest.a = hostile.pair.a;
    pair_join(&honest, SETTINGS);
    hostile_let_peer_read(&hostile);
    rejected_attacks[_i].act(&hostile);
    hostile_let_peer_read(&hostile);
    ucxpool_channel_query(hostile.victim, &attr, sizeof(attr));
    ck_assert_msg(attr.state == UCXPOOL_CHANNEL_FAILED, "%s",
                  rejected_attacks[_i].name);
    ck_assert_int_eq(hostile.victim->status, UCXPOOL_ERR_PROTOCOL);
    ck_assert_int_lt(ucxpool_request_test(hostile.recv), 0);
    ck_assert_int_lt(ucxpool_request_test(hostile.send), 0);
    hostile_check(&hostile);
    check_exchange(&honest);
    ucxpool_destroy(honest.b);
    hostile_cleanup(&hostile);
}

TEST_EACH(invalid_mailbox_is_not_used, NUM_WRONG)
{
    hostile_init(&hostile, SETTINGS);
    hostile_let_peer_read(&hostile);
    wrong_mailbox(&hostile, (unsigned)_i);
    ck_assert_msg(hostile_is_over(&hostile), "%s", wrong_mailboxes[_i].what);
    ck_assert_int_eq(hostile.victim->status, UCXPOOL_ERR_PROTOCOL);
    hostile_check(&hostile);
    hostile_cleanup(&hostile);
}

TEST_EACH(ignored_message_keeps_the_channel_open, NUM_NOISES)
{
    pair_t honest;

    hostile_init(&hostile, SETTINGS);
    honest.a = hostile.pair.a;
    pair_join(&honest, SETTINGS);
    hostile_let_peer_read(&hostile);
    tolerated_attacks[_i].act(&hostile);
    hostile_let_peer_read(&hostile);
    ck_assert_msg(!hostile_is_over(&hostile), "%s", tolerated_attacks[_i].name);
    check_exchange(&honest);
    /* A BYE in the middle of everything. */
    send_head(&hostile, PROTO_BYE);
    hostile_let_peer_read(&hostile);
    ck_assert(hostile_is_over(&hostile));
    hostile_check(&hostile);
    check_exchange(&honest);
    ucxpool_destroy(honest.b);
    hostile_cleanup(&hostile);
}

TEST(lists_of_runs_are_bounded_per_channel)
{
    hostile_init(&hostile, SETTINGS);
    hostile_let_peer_read(&hostile);
    for (uint64_t i = 0; i < 4; i++) {
        send_desc(&hostile, desc_with_runs(i, 1000), NULL, 0);
        send_runs(&hostile, i, 0, 500);
        send_runs(&hostile, i, 500, 500);
        hostile_let_peer_read(&hostile);
        ck_assert_uint_le(hostile.victim->xfer->messages.num_runs, 2000);
    }
    /* Two lists are held and two were rejected; nothing failed. */
    ck_assert(!hostile_is_over(&hostile));
    ck_assert_uint_eq(hostile.victim->xfer->messages.num_runs, 2000);
    ck_assert_uint_eq(hostile.victim->flow.expected_sequence, 4);
    hostile_cleanup(&hostile);
}

TEST(a_message_in_order_is_received)
{
    hostile_init(&hostile, SETTINGS);
    begin(&hostile);
    for (uint32_t i = 0; i < HOSTILE_SIZE / 1000; i++) {
        proto_data_t data = fragment(&hostile, i, i * 1000, 1000);

        data.flags = (i == HOSTILE_SIZE / 1000 - 1) ? PROTO_DATA_LAST : 0;
        post_data(&hostile, data);
    }
    hostile_let_peer_read(&hostile);
    ck_assert_int_eq(ucxpool_request_test(hostile.recv), UCXPOOL_OK);
    hostile_cleanup(&hostile);
}
