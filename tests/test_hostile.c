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

static void say_desc(hostile_t *hostile, proto_desc_t desc, const void *data,
                     size_t size)
{
    proto_fixed_t fixed = {.desc = desc};

    hostile_say(hostile, PROTO_DESC, &fixed, data, size);
}

/* The victim's receive is accepted and waits for fragments. */
static void begin(hostile_t *hostile)
{
    say_desc(hostile, hostile_desc(MESSAGE, 0), whole, sizeof(whole));
    hostile_let_read(hostile);
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

static void say_data(hostile_t *hostile, proto_data_t data)
{
    proto_fixed_t fixed = {.data = data};

    hostile_say(hostile, PROTO_DATA, &fixed, NULL, 0);
}

static void say_fragment(hostile_t *hostile, uint32_t index, uint64_t offset,
                         uint64_t length)
{
    say_data(hostile, fragment(hostile, index, offset, length));
}

static void say_accept(hostile_t *hostile, uint64_t message, uint64_t frag_size,
                       uint32_t window)
{
    proto_fixed_t fixed = {.accept = {.message   = message,
                                      .receive   = 1,
                                      .frag_size = frag_size,
                                      .window    = window}};

    hostile_say(hostile, PROTO_ACCEPT, &fixed, NULL, 0);
}

static void say_taken(hostile_t *hostile, uint64_t message, uint32_t piece)
{
    proto_fixed_t fixed = {.taken = {.message = message, .piece = piece}};

    hostile_say(hostile, PROTO_TAKEN, &fixed, NULL, 0);
}

static void say_done(hostile_t *hostile, uint64_t message, int32_t status)
{
    proto_fixed_t fixed = {.done = {.message = message, .status = status}};

    hostile_say(hostile, PROTO_DONE, &fixed, "because", 7);
}

static void say_head(hostile_t *hostile, proto_type_t type)
{
    proto_fixed_t fixed = {.head = {.credits = 0}};

    hostile_say(hostile, type, &fixed, NULL, 0);
}

static void say_runs(hostile_t *hostile, uint64_t sequence, uint32_t first,
                     uint32_t num_runs)
{
    static copy_run_t runs[512];
    proto_fixed_t     fixed = {
            .runs = {.sequence = sequence, .first = first, .num_runs = num_runs}};

    for (unsigned i = 0; i < 512; i++) {
        runs[i] = (copy_run_t){i % 2 + 1, 1};
    }
    hostile_say(hostile, PROTO_RUNS, &fixed, runs, num_runs * sizeof(runs[0]));
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
    say_accept(hostile, hostile_send(hostile), 0, 4);
}

static void accept_of_few_bytes(hostile_t *hostile)
{
    say_accept(hostile, hostile_send(hostile), 16, 4);
}

static void accept_without_window(hostile_t *hostile)
{
    say_accept(hostile, hostile_send(hostile), 65536, 0);
}

static void nonsense_after_accept(hostile_t *hostile)
{
    /* Blocks are in flight when the channel fails. */
    say_accept(hostile, hostile_send(hostile), UINT64_MAX, UINT32_MAX);
    hostile_let_read(hostile);
    ck_assert_uint_ne(hostile->send->send->busy, 0);
    say_fragment(hostile, 0, 0, 0);
    begin(hostile);
    say_fragment(hostile, 0, 0, 0);
}

static void fragment_of_no_bytes(hostile_t *hostile)
{
    begin(hostile);
    say_fragment(hostile, 0, 0, 0);
}

static void fragment_longer_than_a_block(hostile_t *hostile)
{
    begin(hostile);
    say_fragment(hostile, 0, 0, 65537);
}

static void fragment_behind_the_message(hostile_t *hostile)
{
    begin(hostile);
    say_fragment(hostile, 0, HOSTILE_SIZE, 16);
}

static void fragment_over_the_end(hostile_t *hostile)
{
    begin(hostile);
    for (uint32_t i = 0; i < 4; i++) {
        say_fragment(hostile, i, i * 65536, 65536);
    }
    say_fragment(hostile, 4, 4 * 65536, HOSTILE_SIZE - 4 * 65536 + 1);
}

static void offset_that_overflows(hostile_t *hostile)
{
    begin(hostile);
    say_fragment(hostile, 0, UINT64_MAX - 15, 32);
}

static void region_that_is_not_there(hostile_t *hostile)
{
    begin(hostile);

    proto_data_t data = fragment(hostile, 0, 0, 4096);

    data.region = UINT32_MAX;
    say_data(hostile, data);
}

static void region_offset_over_its_end(hostile_t *hostile)
{
    begin(hostile);

    proto_data_t data = fragment(hostile, 0, 0, 4096);

    data.region_offset = hostile->victim->peer.region_sizes[0] - 4095;
    say_data(hostile, data);
}

static void region_offset_that_overflows(hostile_t *hostile)
{
    begin(hostile);

    proto_data_t data = fragment(hostile, 0, 0, 4096);

    data.region_offset = UINT64_MAX - 4000;
    say_data(hostile, data);
}

static void index_twice(hostile_t *hostile)
{
    begin(hostile);
    say_fragment(hostile, 0, 0, 4096);
    say_fragment(hostile, 0, 4096, 4096);
}

static void index_left_out(hostile_t *hostile)
{
    begin(hostile);
    say_fragment(hostile, 1, 0, 4096);
}

static void overlapping_fragments(hostile_t *hostile)
{
    begin(hostile);
    say_fragment(hostile, 0, 0, 4096);
    say_fragment(hostile, 1, 4080, 4096);
}

static void gap_between_fragments(hostile_t *hostile)
{
    begin(hostile);
    say_fragment(hostile, 0, 0, 4096);
    say_fragment(hostile, 1, 4112, 4096);
}

static void single_bytes_backwards(hostile_t *hostile)
{
    begin(hostile);
    for (uint32_t i = 0; i < 5000; i++) {
        say_fragment(hostile, i, HOSTILE_SIZE - 1 - i, 1);
    }
}

static void last_too_early(hostile_t *hostile)
{
    begin(hostile);

    proto_data_t data = fragment(hostile, 0, 0, 4096);

    data.flags = PROTO_DATA_LAST;
    say_data(hostile, data);
}

static void descriptor_twice(hostile_t *hostile)
{
    say_desc(hostile, hostile_desc(MESSAGE, 0), whole, sizeof(whole));
    say_desc(hostile, hostile_desc(MESSAGE + 1, 0), whole, sizeof(whole));
}

/* The victim reads the message and has no receive for it. */
static void say_unwanted(hostile_t *hostile, uint64_t i, uint32_t flags,
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
        say_desc(hostile, desc, NULL, 0);
    } else {
        memcpy(data, whole, sizeof(whole));
        say_desc(hostile, desc, data, sizeof(whole) + metadata_size);
    }
    hostile_let_read(hostile);
}

static void say_cancel(hostile_t *hostile, uint64_t message)
{
    proto_fixed_t cancel = {
        .cancel = {.message = message, .status = UCXPOOL_ERR_CANCELED}};

    hostile_say(hostile, PROTO_CANCEL, &cancel, NULL, 0);
    hostile_let_read(hostile);
}

static void descriptors_beyond_max_unexpected(hostile_t *hostile)
{
    for (uint64_t i = 0; i < 9; i++) {
        say_unwanted(hostile, i, 0, 0);
    }
}

static void eager_descriptors_beyond_the_credits(hostile_t *hostile)
{
    for (uint64_t i = 0; i < 9; i++) {
        say_unwanted(hostile, i, PROTO_DESC_EAGER, 0);
    }
}

/* They count as five and four units. */
static void descriptors_of_more_bytes_than_max_unexpected(hostile_t *hostile)
{
    say_unwanted(hostile, 0, 0, 4 * PROTO_DESC_UNIT);
    say_unwanted(hostile, 1, 0, 3 * PROTO_DESC_UNIT);
}

/* Descriptors out of order are kept even if they are canceled. */
static void canceled_descriptors_out_of_turn(hostile_t *hostile)
{
    for (uint64_t i = 1; i < 10; i++) {
        say_unwanted(hostile, i, 0, 0);
        say_cancel(hostile, i + 1);
    }
}

static void message_number_0(hostile_t *hostile)
{
    say_desc(hostile, hostile_desc(0, 0), whole, sizeof(whole));
}

static void payload_that_differs_from_runs(hostile_t *hostile)
{
    copy_run_t runs[] = {{HOSTILE_SIZE - 1, 1}};

    say_desc(hostile, hostile_desc(MESSAGE, 0), runs, sizeof(runs));
}

static void runs_that_overflow(hostile_t *hostile)
{
    copy_run_t   runs[] = {{UINT64_C(1) << 40, UINT64_C(1) << 40}};
    proto_desc_t desc   = hostile_desc(MESSAGE, 0);

    desc.payload_size = 0;
    say_desc(hostile, desc, runs, sizeof(runs));
}

static void more_metadata_than_is_taken(hostile_t *hostile)
{
    static uint8_t data[sizeof(whole) + 4096];
    proto_desc_t   desc = hostile_desc(MESSAGE, 0);

    memcpy(data, whole, sizeof(whole));
    desc.metadata_size = 4096;
    say_desc(hostile, desc, data, sizeof(data));
}

static void more_runs_than_are_taken(hostile_t *hostile)
{
    say_desc(hostile, desc_with_runs(0, UINT32_MAX), NULL, 0);
}

static void runs_twice(hostile_t *hostile)
{
    say_desc(hostile, desc_with_runs(0, 1000), NULL, 0);
    say_runs(hostile, 0, 0, 500);
    say_runs(hostile, 0, 0, 500);
}

static void runs_out_of_range(hostile_t *hostile)
{
    say_desc(hostile, desc_with_runs(0, 1000), NULL, 0);
    say_runs(hostile, 0, 900, 101);
}

static void runs_that_were_not_missing(hostile_t *hostile)
{
    /* It waits for number 0, which has runs. */
    say_desc(hostile, hostile_desc(MESSAGE, 1), whole, sizeof(whole));
    say_runs(hostile, 1, 0, 1);
}

static void empty_list_of_runs(hostile_t *hostile)
{
    say_desc(hostile, hostile_desc(MESSAGE, 1), whole, sizeof(whole));
    say_runs(hostile, 1, 0, 0);
}

static void runs_of_no_message(hostile_t *hostile)
{
    say_runs(hostile, 5, 0, 1);
}

static void say_short(hostile_t *hostile, size_t size)
{
    static const uint8_t bytes[PROTO_DATA_MAX];
    proto_fixed_t        fixed = {.in_short = {.tag = 99}};

    hostile_say(hostile, PROTO_SHORT, &fixed, bytes, size);
}

static void short_without_bytes(hostile_t *hostile)
{
    say_short(hostile, 0);
}

static void short_of_more_than_fits(hostile_t *hostile)
{
    say_short(hostile, PROTO_SHORT_MAX + 1);
}

static void more_shorts_than_credits(hostile_t *hostile)
{
    for (unsigned i = 0; i < 8; i++) {
        say_short(hostile, i + 1);
    }
    hostile_let_read(hostile);
    ck_assert(!hostile_is_over(hostile));
    say_short(hostile, PROTO_SHORT_MAX);
}

/* After a descriptor with the highest possible number. */
static void short_with_a_number_of_before(hostile_t *hostile)
{
    proto_fixed_t fixed = {.desc = hostile_desc(1, UINT64_MAX)};
    copy_run_t    run   = {HOSTILE_SIZE, 1};

    say_short(hostile, 1);
    hostile_say(hostile, PROTO_DESC, &fixed, &run, sizeof(run));
    say_short(hostile, 1);
}

static void hello_again(hostile_t *hostile)
{
    say_head(hostile, PROTO_HELLO);
}

/* A word that was read in the previous lap appears in the ring as if it were
 * new. */
static void word_of_the_lap_before(hostile_t *hostile)
{
    while (hostile->channel->ring.head < CORE_RING_SIZE) {
        say_head(hostile, PROTO_CREDIT);
        hostile_let_read(hostile);
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
        say_head(hostile, PROTO_CREDIT);
        hostile_let_read(hostile);
    }
    hostile_write_word(hostile, hostile->channel->ring.head,
                       sizeof(proto_head_t) | (uint64_t)PROTO_DATA_MAX << 16 |
                           UINT64_C(1) << 32);
}

/* The victim answers each refused message, and the peer never reads the
 * answers. */
static void answers_that_are_not_read(hostile_t *hostile)
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
        say_desc(hostile, desc, runs, sizeof(runs));
        hostile_let_read(hostile);
    }
}

/* --- messages that are ignored ------------------------------------------- */

/* UCX may deliver a short CANCEL before a long RUNS. */
static void runs_of_a_canceled_descriptor(hostile_t *hostile)
{
    say_desc(hostile, desc_with_runs(0, 1000), NULL, 0);
    say_cancel(hostile, 1);
    say_runs(hostile, 0, 0, 500);
}

static void words_about_unknown_messages(hostile_t *hostile)
{
    proto_fixed_t cancel = {
        .cancel = {.message = 12345, .status = UCXPOOL_ERR_CANCELED}};

    say_accept(hostile, 12345, 65536, 4);
    say_taken(hostile, 12345, 0);
    say_done(hostile, 12345, UCXPOOL_OK);
    say_fragment(hostile, 0, 0, 4096);
    hostile_say(hostile, PROTO_CANCEL, &cancel, NULL, 0);
    cancel.cancel.message = 0;
    hostile_say(hostile, PROTO_CANCEL, &cancel, NULL, 0);
    say_done(hostile, 0, UCXPOOL_OK);
    say_accept(hostile, 0, 65536, 4);
}

static void descriptors_canceled_over_and_over(hostile_t *hostile)
{
    for (uint64_t i = 0; i < 100; i++) {
        say_unwanted(hostile, i, 0, 0);
        say_cancel(hostile, i + 1);
        say_cancel(hostile, i + 1);
        ck_assert_uint_eq(hostile->victim->xfer->messages.announced, 0);
    }
}

/* It stops counting, once, and belongs to the caller until the caller rejects
 * it. */
static void canceled_descriptor_that_was_probed(hostile_t *hostile)
{
    ucxpool_message_t *message;

    say_unwanted(hostile, 0, 0, 0);
    ck_assert_int_eq(ucxpool_probe(hostile->pair.a, hostile->victim, 99,
                                   UINT64_MAX, &message),
                     UCXPOOL_OK);
    ck_assert_uint_eq(hostile->victim->xfer->messages.announced, 1);
    say_cancel(hostile, 1);
    say_cancel(hostile, 1);
    ck_assert_uint_eq(hostile->victim->xfer->messages.announced, 0);
    ucxpool_message_refuse(message, NULL);
    ck_assert_uint_eq(hostile->victim->xfer->messages.announced, 0);
}

static void pieces_that_are_not_in_flight(hostile_t *hostile)
{
    say_accept(hostile, hostile_send(hostile), 65536, 1);
    hostile_let_read(hostile);
    say_taken(hostile, hostile_send(hostile), 63);
    say_taken(hostile, hostile_send(hostile), UINT32_MAX);
    hostile_let_read(hostile);
    ck_assert_uint_eq(hostile->send->send->busy, 1);
}

static void pieces_taken_twice(hostile_t *hostile)
{
    say_accept(hostile, hostile_send(hostile), 65536, 2);
    for (int i = 0; i < 100; i++) {
        say_taken(hostile, hostile_send(hostile), 0);
    }
}

static void accept_twice(hostile_t *hostile)
{
    say_accept(hostile, hostile_send(hostile), 65536, 1);
    hostile_let_read(hostile);
    say_accept(hostile, hostile_send(hostile), 4096, 64);
    hostile_let_read(hostile);
    ck_assert_uint_eq(hostile->send->send->frag_size, 65536);
    ck_assert_uint_eq(hostile->send->send->window, 1);
}

static void ready_and_go_again(hostile_t *hostile)
{
    proto_fixed_t ready = {.ready = {.can_map = 0}};

    hostile_say(hostile, PROTO_READY, &ready, "no", 2);
    say_head(hostile, PROTO_GO);
    say_head(hostile, PROTO_GO);
}

static void credits_that_overflow(hostile_t *hostile)
{
    for (int i = 0; i < 200000; i++) {
        proto_fixed_t fixed = {.head = {.credits = UINT16_MAX}};

        hostile_say(hostile, PROTO_CREDIT, &fixed, NULL, 0);
        if (i % 1000 == 0) {
            hostile_let_read(hostile);
        }
    }
    hostile_let_read(hostile);
    ck_assert_uint_le(hostile->victim->flow.credits, UINT16_MAX);
}

/* Each new odd value requests a doorbell. */
static void sleeping_that_never_rests(hostile_t *hostile)
{
    core_ring_page_t *page = hostile->channel->ring.mine;

    for (uint32_t i = 0; i < 20000; i++) {
        __atomic_store_n(&page->sleeping, 2 * i + 1, __ATOMIC_SEQ_CST);
        say_head(hostile, PROTO_DOORBELL);
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
    hostile_let_read(hostile);
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

    hostile_say(hostile, PROTO_DONE, &fixed, NULL, 0);
    hostile_let_read(hostile);
    check_said(hostile->send, UCXPOOL_ERR_REFUSED);
}

static void canceled_without_a_reason(hostile_t *hostile)
{
    proto_fixed_t fixed = {.cancel = {.message = 1, .status = UCXPOOL_ERR_IO}};
    copy_run_t    run   = {HOSTILE_SIZE, 1};

    say_desc(hostile, hostile_desc(1, 0), &run, sizeof(run));
    hostile_let_read(hostile);
    hostile_say(hostile, PROTO_CANCEL, &fixed, NULL, 0);
    hostile_let_read(hostile);
    check_said(hostile->recv, UCXPOOL_ERR_CANCELED);
}

static void done_with_control_characters(hostile_t *hostile)
{
    proto_fixed_t fixed = {.done = {.message = hostile_send(hostile),
                                    .status  = UCXPOOL_ERR_REFUSED}};

    hostile_say(hostile, PROTO_DONE, &fixed, "\033[2J\n", 5);
    hostile_let_read(hostile);
    check_said(hostile->send, UCXPOOL_ERR_REFUSED);
}

static void done_with_a_positive_status(hostile_t *hostile)
{
    say_done(hostile, hostile_send(hostile), UCXPOOL_INPROGRESS);
    hostile_let_read(hostile);
    ck_assert_int_eq(ucxpool_request_test(hostile->send), UCXPOOL_ERR_REFUSED);
}

static void done_in_the_middle(hostile_t *hostile)
{
    uint64_t send = hostile_send(hostile);

    say_accept(hostile, send, 65536, 3);
    hostile_let_read(hostile);
    say_done(hostile, send, INT32_MIN);
    say_done(hostile, send, UCXPOOL_OK);
    say_taken(hostile, send, 0);
    hostile_let_read(hostile);
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
    say_accept(hostile, send, 65536, 4);
    say_done(hostile, send, UCXPOOL_ERR_CANCELED);
    hostile_let_read(hostile);
    ck_assert_int_eq(ucxpool_recv_buffer(hostile->pair.a, hostile->victim,
                                         hostile->source, 1, 77, UINT64_MAX,
                                         NULL, &hostile->send),
                     UCXPOOL_OK);
    hostile_let_read(hostile);
    ucxpool_request_cancel(hostile->send);
}

static void cancel_again_and_again(hostile_t *hostile)
{
    proto_fixed_t cancel = {
        .cancel = {.message = MESSAGE, .status = UCXPOOL_ERR_IO}};
    ucxpool_request_attr_t attr;

    begin(hostile);
    for (int i = 0; i < 100; i++) {
        hostile_say(hostile, PROTO_CANCEL, &cancel, "a\nb\x80", 4);
    }
    hostile_let_read(hostile);
    ucxpool_request_query(hostile->recv, &attr, sizeof(attr));
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_CANCELED);
    ck_assert_str_eq(attr.detail, "the sender ended the message: a?b?");
}

static void cancel_without_an_error(hostile_t *hostile)
{
    proto_fixed_t cancel = {.cancel = {.message = MESSAGE}};

    begin(hostile);
    hostile_say(hostile, PROTO_CANCEL, &cancel, NULL, 0);
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

    hostile_say(hostile, PROTO_ACCEPT, &fixed, &lent, sizeof(lent));
    hostile_let_read(hostile);
}

static void lend_pushed(hostile_t *hostile, proto_lent_t lent)
{
    push(hostile, true);
    lend(hostile, lent);
    push(hostile, false);
}

static void lent_to_one_that_does_not_push(hostile_t *hostile)
{
    lend(hostile, (proto_lent_t){.length = 65536});
}

static void lent_in_no_region(hostile_t *hostile)
{
    lend_pushed(hostile, (proto_lent_t){.region = 1000, .length = 65536});
}

static void lent_over_the_end(hostile_t *hostile)
{
    uint64_t size = hostile->victim->peer.region_sizes[0];

    lend_pushed(hostile,
                (proto_lent_t){.offset = size - 4096, .length = 65536});
}

static void lent_at_an_offset_that_overflows(hostile_t *hostile)
{
    lend_pushed(hostile,
                (proto_lent_t){.offset = UINT64_MAX - 15, .length = 65536});
}

static void lent_without_end(hostile_t *hostile)
{
    lend_pushed(hostile, (proto_lent_t){.length = UINT64_MAX});
}

static void lent_too_short(hostile_t *hostile)
{
    lend_pushed(hostile, (proto_lent_t){.length = 16});
}

static void lent_at_an_odd_place(hostile_t *hostile)
{
    lend_pushed(hostile, (proto_lent_t){.offset = 8, .length = 65536});
}

static void lend_mailbox(hostile_t *hostile, proto_mailbox_t mailbox)
{
    proto_fixed_t fixed = {.mailbox = mailbox};

    hostile_say(hostile, PROTO_MAILBOX, &fixed, NULL, 0);
    hostile_let_read(hostile);
}

static void lend_mailbox_pushed(hostile_t *hostile, proto_mailbox_t mailbox)
{
    push(hostile, true);
    lend_mailbox(hostile, mailbox);
    push(hostile, false);
}

static void mailbox_to_one_that_does_not_push(hostile_t *hostile)
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
    say_desc(hostile, desc, &run, (flags & PROTO_DESC_RUNS) ? 0 : sizeof(run));
    hostile_let_read(hostile);
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

static void mailed_to_no_slot(hostile_t *hostile)
{
    mail_lent(hostile, 100, 8, 0);
}

static void mailed_and_more_than_a_slot(hostile_t *hostile)
{
    mail_lent(hostile, 65536 - PROTO_FLAG_SIZE + 1, 0, 0);
}

static void mailed_and_nothing(hostile_t *hostile)
{
    mail_lent(hostile, 0, 0, 0);
}

static void mailed_with_runs_to_come(hostile_t *hostile)
{
    mail_lent(hostile, 100, 0, PROTO_DESC_RUNS);
}

static void mailed_and_of_a_window(hostile_t *hostile)
{
    mail_lent(hostile, 100, 0, PROTO_DESC_WRITE);
}

static void accept_of_what_is_in_its_mailbox(hostile_t *hostile)
{
    uint64_t message = hostile_send(hostile);

    hostile->send->send->slot = 1;
    say_accept(hostile, message, 65536, 4);
    hostile_let_read(hostile);
    hostile->send->send->slot = 0;
}

static void say_pushed(hostile_t *hostile, uint32_t region, uint64_t offset)
{
    proto_data_t data = fragment(hostile, 0, 0, 4096);

    data.flags         = PROTO_DATA_PUSHED;
    data.region        = region;
    data.region_offset = offset;
    say_data(hostile, data);
    hostile_let_read(hostile);
}

static void pushed_where_nothing_is_lent(hostile_t *hostile)
{
    begin(hostile);
    say_pushed(hostile, 0, 0);
}

/* The last block of all is lent last. */
static void pushed_to_another_block(hostile_t *hostile)
{
    const mem_regions_t *regions = &hostile->pair.a->memory.regions;

    push(hostile, true);
    begin(hostile);
    ck_assert_ptr_nonnull(hostile->recv->recv->loan);
    say_pushed(hostile, regions->num_regions - 1, regions->region_size - 4096);
    push(hostile, false);
}

static void pushed_at_an_offset_that_overflows(hostile_t *hostile)
{
    push(hostile, true);
    begin(hostile);
    say_pushed(hostile, 0, UINT64_MAX - 15);
    push(hostile, false);
}

static void say_returned(hostile_t *hostile, uint64_t message)
{
    proto_fixed_t fixed = {.returned = {.message = message}};

    hostile_say(hostile, PROTO_RETURNED, &fixed, NULL, 0);
    hostile_let_read(hostile);
}

static void returned_what_was_not_lent(hostile_t *hostile)
{
    begin(hostile);
    say_returned(hostile, MESSAGE);
    say_returned(hostile, 0);
}

/* The block stays in use, and is free once the receive has ended. */
static void returned_too_early_and_twice(hostile_t *hostile)
{
    push(hostile, true);
    begin(hostile);
    ck_assert_ptr_nonnull(hostile->recv->recv->loan);
    push(hostile, false);
    say_returned(hostile, MESSAGE);
    say_returned(hostile, MESSAGE);
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

typedef struct deed {
    const char *name;
    void (*act)(hostile_t *hostile);
} deed_t;

#define DEED(_name) \
    { \
#_name, _name \
    }

static const deed_t crimes[] = {
    DEED(accept_of_no_bytes),
    DEED(accept_of_few_bytes),
    DEED(accept_without_window),
    DEED(nonsense_after_accept),
    DEED(fragment_of_no_bytes),
    DEED(fragment_longer_than_a_block),
    DEED(fragment_behind_the_message),
    DEED(fragment_over_the_end),
    DEED(offset_that_overflows),
    DEED(region_that_is_not_there),
    DEED(region_offset_over_its_end),
    DEED(region_offset_that_overflows),
    DEED(index_twice),
    DEED(index_left_out),
    DEED(overlapping_fragments),
    DEED(gap_between_fragments),
    DEED(single_bytes_backwards),
    DEED(last_too_early),
    DEED(descriptor_twice),
    DEED(descriptors_beyond_max_unexpected),
    DEED(eager_descriptors_beyond_the_credits),
    DEED(descriptors_of_more_bytes_than_max_unexpected),
    DEED(canceled_descriptors_out_of_turn),
    DEED(message_number_0),
    DEED(payload_that_differs_from_runs),
    DEED(runs_that_overflow),
    DEED(more_metadata_than_is_taken),
    DEED(more_runs_than_are_taken),
    DEED(runs_twice),
    DEED(runs_out_of_range),
    DEED(runs_that_were_not_missing),
    DEED(empty_list_of_runs),
    DEED(runs_of_no_message),
    DEED(short_without_bytes),
    DEED(short_of_more_than_fits),
    DEED(more_shorts_than_credits),
    DEED(short_with_a_number_of_before),
    DEED(hello_again),
    DEED(word_of_the_lap_before),
    DEED(skip_to_nothing),
    DEED(entry_over_the_end),
    DEED(answers_that_are_not_read),
    DEED(cancel_without_an_error),
    DEED(lent_to_one_that_does_not_push),
    DEED(lent_in_no_region),
    DEED(lent_over_the_end),
    DEED(lent_at_an_offset_that_overflows),
    DEED(lent_without_end),
    DEED(lent_too_short),
    DEED(lent_at_an_odd_place),
    DEED(mailbox_to_one_that_does_not_push),
    DEED(two_mailboxes),
    DEED(mailed_without_a_mailbox),
    DEED(mailed_to_no_slot),
    DEED(mailed_and_more_than_a_slot),
    DEED(mailed_and_nothing),
    DEED(mailed_with_runs_to_come),
    DEED(mailed_and_of_a_window),
    DEED(accept_of_what_is_in_its_mailbox),
    DEED(pushed_where_nothing_is_lent),
    DEED(pushed_to_another_block),
    DEED(pushed_at_an_offset_that_overflows),
};
#define NUM_CRIMES ((int)(sizeof(crimes) / sizeof(crimes[0])))

static const deed_t noises[] = {
    DEED(words_about_unknown_messages),
    DEED(pieces_that_are_not_in_flight),
    DEED(pieces_taken_twice),
    DEED(accept_twice),
    DEED(ready_and_go_again),
    DEED(credits_that_overflow),
    DEED(descriptors_canceled_over_and_over),
    DEED(canceled_descriptor_that_was_probed),
    DEED(sleeping_that_never_rests),
    DEED(numbers_of_others_revoked),
    DEED(tail_that_lies),
    DEED(done_with_a_positive_status),
    DEED(done_without_a_reason),
    DEED(canceled_without_a_reason),
    DEED(done_with_control_characters),
    DEED(done_in_the_middle),
    DEED(accept_of_a_canceled_send),
    DEED(cancel_again_and_again),
    DEED(runs_of_a_canceled_descriptor),
    DEED(returned_what_was_not_lent),
    DEED(returned_too_early_and_twice),
    DEED(never_returned),
};
#define NUM_NOISES ((int)(sizeof(noises) / sizeof(noises[0])))

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
        say_unwanted(&hostile, i, 0, 0);
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
        say_unwanted(&hostile, i, 0, 0);
    }
    say_desc(&hostile, hostile_desc(1, 0), whole, sizeof(whole));
    say_head(&hostile, PROTO_BYE);
    while (*expected < NUM) {
        ck_assert_int_eq(ucxpool_arm(hostile.pair.a), UCXPOOL_ERR_BUSY);
        ucxpool_progress(hostile.pair.a);
        ck_assert_uint_gt(*expected, before);
        /* As the messages arrive, and again. */
        ck_assert_uint_le(*expected - before, 2 * ROUND + 1);
        before = *expected;
    }
    ck_assert_uint_eq(hostile.pair.a->xfer->index.num, NUM - 1);
    hostile_let_read(&hostile);
    ck_assert(hostile_is_over(&hostile));
    hostile_check(&hostile);
    hostile_cleanup(&hostile);
}

TEST(descriptor_too_far_ahead_fails_the_channel)
{
    hostile_init(&hostile, "WIRE=map CREDITS=8 MAX_UNEXPECTED=1000");
    say_unwanted(&hostile, 1007, 0, 0);
    ck_assert(!hostile_is_over(&hostile));
    say_unwanted(&hostile, 1008, 0, 0);
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
    hostile_let_read(&hostile);
    crimes[_i].act(&hostile);
    hostile_let_read(&hostile);
    ucxpool_channel_query(hostile.victim, &attr, sizeof(attr));
    ck_assert_msg(attr.state == UCXPOOL_CHANNEL_FAILED, "%s", crimes[_i].name);
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
    hostile_let_read(&hostile);
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
    hostile_let_read(&hostile);
    noises[_i].act(&hostile);
    hostile_let_read(&hostile);
    ck_assert_msg(!hostile_is_over(&hostile), "%s", noises[_i].name);
    check_exchange(&honest);
    /* A BYE in the middle of everything. */
    say_head(&hostile, PROTO_BYE);
    hostile_let_read(&hostile);
    ck_assert(hostile_is_over(&hostile));
    hostile_check(&hostile);
    check_exchange(&honest);
    ucxpool_destroy(honest.b);
    hostile_cleanup(&hostile);
}

TEST(lists_of_runs_are_bounded_per_channel)
{
    hostile_init(&hostile, SETTINGS);
    hostile_let_read(&hostile);
    for (uint64_t i = 0; i < 4; i++) {
        say_desc(&hostile, desc_with_runs(i, 1000), NULL, 0);
        say_runs(&hostile, i, 0, 500);
        say_runs(&hostile, i, 500, 500);
        hostile_let_read(&hostile);
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
        say_data(&hostile, data);
    }
    hostile_let_read(&hostile);
    ck_assert_int_eq(ucxpool_request_test(hostile.recv), UCXPOOL_OK);
    hostile_cleanup(&hostile);
}
