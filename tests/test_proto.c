/* Parsing a peer's messages. */
#include "core/proto.h"
#include "test.h"

#include <ucxpool/window.h>

#include <string.h>

static proto_fixed_t fixed, parsed;

static void begin(unsigned type)
{
    memset(&fixed, 0, sizeof(fixed));
    fixed.head.type    = (uint8_t)type;
    fixed.head.version = PROTO_VERSION;
    if (type == PROTO_CANCEL) {
        fixed.cancel.status = UCXPOOL_ERR_CANCELED;
    }
    if (type == PROTO_SHORT) {
        fixed.in_short.num    = 1;
        fixed.in_short.length = 1;
    }
}

/* The smallest valid size of the variable part of a type. */
static size_t least_data(unsigned type)
{
    return (type == PROTO_SHORT) ? proto_short_size(1) : 0;
}

static ucxpool_status_t parse(size_t data_size)
{
    return proto_parse(&fixed, proto_fixed_size(fixed.head.type), data_size,
                       &parsed);
}

TEST(each_type_has_one_size)
{
    for (unsigned type = PROTO_HELLO; type < PROTO_LAST; type++) {
        size_t size = proto_fixed_size(type);

        ck_assert_uint_ge(size, sizeof(proto_head_t));
        begin(type);
        assert_ok(parse(least_data(type)));
        assert_error(proto_parse(&fixed, size - 1, 0, &parsed), PROTOCOL);
        assert_error(proto_parse(&fixed, size + 1, 0, &parsed), PROTOCOL);
    }
}

static ucxpool_status_t parse_short(uint32_t num, uint32_t length, size_t size)
{
    begin(PROTO_SHORT);
    fixed.in_short.num    = num;
    fixed.in_short.length = length;
    return parse(size);
}

TEST(size_of_a_short_must_match_its_messages)
{
    assert_ok(parse_short(3, 9, 3 * 24));
    assert_ok(parse_short(1, PROTO_SHORT_MAX, 8 + PROTO_SHORT_MAX));
    assert_error(parse_short(3, 9, 3 * 24 - 1), PROTOCOL);
    assert_error(parse_short(3, 9, 4 * 24), PROTOCOL);
    assert_error(parse_short(0, 9, 0), PROTOCOL);
    assert_error(parse_short(1, 0, 8), PROTOCOL);
    assert_error(parse_short(UINT32_MAX, UINT32_MAX, 24), PROTOCOL);
    assert_error(parse_short(1, PROTO_SHORT_MAX + 1, 16 + PROTO_SHORT_MAX),
                 PROTOCOL);
}

TEST(unknown_types_are_rejected)
{
    ck_assert_uint_eq(0, proto_fixed_size(0));
    for (unsigned type = PROTO_LAST; type < 256; type++) {
        ck_assert_uint_eq(0, proto_fixed_size(type));
        begin(type);
        assert_error(proto_parse(&fixed, sizeof(proto_head_t), 0, &parsed),
                     PROTOCOL);
    }
}

TEST(another_version_is_rejected_with_its_number)
{
    begin(PROTO_BYE);
    fixed.head.version = 77;
    assert_error_detail(parse(0), PROTOCOL, "77");
}

TEST(a_hello_must_have_the_number_of_files_it_states)
{
    begin(PROTO_HELLO);
    fixed.hello.num_files = 3;
    assert_ok(parse(3 * sizeof(ipc_file_t)));
    assert_error(parse(2 * sizeof(ipc_file_t)), PROTOCOL);
    fixed.hello.num_files = PROTO_FILES_MAX + 1;
    assert_error(parse(fixed.hello.num_files * sizeof(ipc_file_t)), PROTOCOL);
    fixed.hello.num_files = UINT32_MAX;
    assert_error(parse(0), PROTOCOL);
}

TEST(texts_must_be_terminated)
{
    const unsigned types[] = {PROTO_READY, PROTO_DONE, PROTO_CANCEL};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        begin(types[i]);
        assert_ok(parse(PROTO_TEXT_MAX));
        assert_error(parse(PROTO_TEXT_MAX + 1), PROTOCOL);
    }
}

TEST(a_goodbye_has_a_status_and_a_bounded_reason)
{
    const int32_t wrong[] = {UCXPOOL_INPROGRESS, UCXPOOL_ERR_LIMIT - 1,
                             INT32_MAX, INT32_MIN};

    begin(PROTO_BYE);
    assert_ok(parse(0));
    fixed.bye.status = UCXPOOL_ERR_LIMIT;
    assert_ok(parse(PROTO_REASON_MAX));
    assert_error(parse(PROTO_REASON_MAX + 1), PROTOCOL);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        fixed.bye.status = wrong[i];
        assert_error(parse(0), PROTOCOL);
    }
}

TEST(a_cancel_must_have_an_error_status)
{
    const int32_t wrong[] = {UCXPOOL_OK, UCXPOOL_INPROGRESS,
                             UCXPOOL_ERR_LIMIT - 1, INT32_MAX, INT32_MIN};

    begin(PROTO_CANCEL);
    fixed.cancel.status = UCXPOOL_ERR_LIMIT;
    assert_ok(parse(0));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        fixed.cancel.status = wrong[i];
        assert_error(parse(0), PROTOCOL);
    }
}

TEST(a_descriptor_must_contain_its_runs_and_metadata)
{
    begin(PROTO_DESC);
    fixed.desc.num_runs      = 2;
    fixed.desc.metadata_size = 5;
    assert_ok(parse(2 * sizeof(copy_run_t) + 5));
    assert_error(parse(2 * sizeof(copy_run_t) + 4), PROTOCOL);
    assert_error(parse(2 * sizeof(copy_run_t) + 6), PROTOCOL);
    fixed.desc.flags = PROTO_DESC_EAGER;
    assert_ok(parse(2 * sizeof(copy_run_t) + 6));
    assert_error(parse(2 * sizeof(copy_run_t) + 4), PROTOCOL);
    fixed.desc.num_runs = UINT32_MAX;
    assert_error(parse(5), PROTOCOL);
}

TEST(a_runs_message_must_not_be_empty)
{
    begin(PROTO_DESC);
    fixed.desc.flags    = PROTO_DESC_RUNS;
    fixed.desc.num_runs = 1;
    assert_ok(parse(0));
    fixed.desc.num_runs = 0;
    assert_error(parse(0), PROTOCOL);
}

TEST(the_lengths_of_a_descriptor_must_add_up)
{
    const copy_run_t runs[] = {{100, 1}, {3, 1}};
    copy_totals_t    totals;

    begin(PROTO_DESC);
    fixed.desc.num_runs      = 2;
    fixed.desc.metadata_size = 5;
    fixed.desc.payload_size  = 103;
    assert_ok(proto_check_desc(&fixed.desc, runs, 5, &totals));
    ck_assert_uint_eq(115, totals.stream_size);
    assert_error(proto_check_desc(&fixed.desc, runs, 6, &totals), PROTOCOL);
    fixed.desc.flags = PROTO_DESC_EAGER;
    assert_ok(proto_check_desc(&fixed.desc, runs, 5 + 115, &totals));
    assert_error(proto_check_desc(&fixed.desc, runs, 5 + 103, &totals),
                 PROTOCOL);
    fixed.desc.payload_size = 104;
    assert_error(proto_check_desc(&fixed.desc, runs, 5 + 115, &totals),
                 PROTOCOL);
}

TEST(control_characters_in_a_peers_text_are_replaced)
{
    char text[8];

    proto_copy_text(text, sizeof(text), "a\x01\xff\x7f~", 5);
    ck_assert_str_eq("a???~", text);
    proto_copy_text(text, sizeof(text), "0123456789", 10);
    ck_assert_str_eq("0123456", text);
    proto_copy_text(text, sizeof(text), NULL, 0);
    ck_assert_str_eq("", text);
}

/* --- operations on windows ------------------------------------------------ */

#define WINDOW UINT64_C(1000)

static ucxpool_status_t check_call(uint64_t num, uint64_t length, uint64_t size,
                                   const void *places, uint64_t data_size)
{
    const proto_call_t call = {.kind       = PROTO_CALL_READ,
                               .num_places = num,
                               .length     = length,
                               .size       = size};

    return proto_check_call(&call, places, data_size, WINDOW);
}

TEST(the_places_of_a_call_must_lie_within_its_window)
{
    static const uint64_t        good[]  = {0, 900, 5, 5};
    static const uint64_t        bad[]   = {0, 901};
    static const ucxpool_place_t cut[]   = {{0, 1}, {999, 1}, {1000, 0}};
    static const ucxpool_place_t past[]  = {{0, 1}, {999, 2}};
    static const ucxpool_place_t wraps[] = {{1, UINT64_MAX}};

    assert_ok(check_call(4, 100, 400, good, 32));
    assert_ok(check_call(3, 0, 2, cut, 48));
    assert_error_detail(check_call(2, 100, 200, bad, 16), INVALID_PARAM,
                        "place 1 ");
    assert_error(check_call(2, 0, 3, past, 32), INVALID_PARAM);
    assert_error(check_call(1, 0, UINT64_MAX, wraps, 16), INVALID_PARAM);
    assert_error(check_call(1, WINDOW + 1, WINDOW + 1, good, 8), INVALID_PARAM);
}

TEST(the_lengths_of_a_call_must_add_up)
{
    static const uint64_t        offsets[2] = {0, 0};
    static const ucxpool_place_t cut[2]     = {{0, 1}, {10, 3}};

    assert_error(check_call(2, 10, 19, offsets, 16), INVALID_PARAM);
    assert_error(check_call(2, UINT64_C(1) << 63, 0, offsets, 16),
                 INVALID_PARAM);
    assert_error(check_call(2, 0, 5, cut, 32), INVALID_PARAM);
    assert_error(check_call(2, 0, 4, cut, 31), INVALID_PARAM);
    assert_error(check_call(0, 10, 0, offsets, 0), INVALID_PARAM);
    assert_error(check_call(PROTO_PLACES_MAX + 1, 1, PROTO_PLACES_MAX + 1,
                            offsets, (PROTO_PLACES_MAX + 1) * 8),
                 INVALID_PARAM);
}

TEST(a_peer_cannot_lend_more_than_the_limit)
{
    const size_t lent = sizeof(proto_lent_t);

    begin(PROTO_ACCEPT);
    assert_ok(parse(0));
    assert_ok(parse(PROTO_LENT_MAX * lent));
    assert_error(parse((PROTO_LENT_MAX + 1) * lent), PROTOCOL);
    assert_error(parse(lent - 1), PROTOCOL);
    assert_error(parse(lent + 1), PROTOCOL);
}

TEST(gpu_share_info_has_one_valid_length)
{
    begin(PROTO_WINDOW_OPENED);
    assert_ok(parse(PROTO_TEXT_MAX));
    fixed.window_opened.flags = PROTO_OPENED_CUDA;
    assert_ok(parse(sizeof(proto_window_cuda_t)));
    assert_error(parse(sizeof(proto_window_cuda_t) - 1), PROTOCOL);
}

TEST(window_parts_must_be_whole_and_within_the_limit)
{
    const size_t part = sizeof(proto_window_part_t);

    begin(PROTO_WINDOW_OPENED);
    fixed.window_opened.flags = PROTO_OPENED_PARTS;
    assert_ok(parse(part));
    assert_ok(parse(PROTO_PARTS_MAX * part));
    assert_error(parse(0), PROTOCOL);
    assert_error(parse(part - 1), PROTOCOL);
    assert_error(parse(part + 1), PROTOCOL);
    assert_error(parse((PROTO_PARTS_MAX + 1) * part), PROTOCOL);
    fixed.window_opened.flags = PROTO_OPENED_PARTS | PROTO_OPENED_CUDA;
    assert_error(parse(part), PROTOCOL);
    assert_error(parse(sizeof(proto_window_cuda_t)), PROTOCOL);
}

TEST(runs_of_allocations_must_be_whole_and_within_the_limit)
{
    const size_t most = ipc_virtual_layout_size(IPC_VIRTUAL_RUNS_MAX);

    begin(PROTO_WINDOW_OPENED);
    fixed.window_opened.flags = PROTO_OPENED_VIRTUAL;
    assert_ok(parse(ipc_virtual_layout_size(1)));
    assert_ok(parse(most));
    assert_error(parse(0), PROTOCOL);
    assert_error(parse(ipc_virtual_layout_size(0)), PROTOCOL);
    assert_error(parse(ipc_virtual_layout_size(1) - 1), PROTOCOL);
    assert_error(parse(ipc_virtual_layout_size(1) + 1), PROTOCOL);
    assert_error(parse(ipc_virtual_layout_size(IPC_VIRTUAL_RUNS_MAX + 1)),
                 PROTOCOL);
    fixed.window_opened.flags |= PROTO_OPENED_PARTS;
    assert_error(parse(most), PROTOCOL);
}

TEST(a_key_must_end_within_the_message)
{
    begin(PROTO_WINDOW_OPENED);
    fixed.window_opened.flags = PROTO_OPENED_KEY;
    assert_ok(parse(PROTO_KEY_MAX));
    assert_error(parse(PROTO_KEY_MAX + 1), PROTOCOL);
    fixed.window_opened.flags |= PROTO_OPENED_CUDA;
    assert_error(parse(sizeof(proto_window_cuda_t)), PROTOCOL);
}
