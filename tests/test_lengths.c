/* Lists of segment lengths as runs. */
#include "copy/plan.h"
#include "test.h"

#include <ucxpool/status.h>

#include <string.h>

#define LIMIT ((uint64_t)1 << 62)

static char byte;

static ucxpool_segment_t segment(size_t length)
{
    ucxpool_segment_t result = {&byte, length};

    return result;
}

static void check_totals(const copy_totals_t *totals, uint64_t num_segments,
                         uint64_t payload_size, uint64_t stream_size)
{
    ck_assert_uint_eq(num_segments, totals->num_segments);
    ck_assert_uint_eq(payload_size, totals->payload_size);
    ck_assert_uint_eq(stream_size, totals->stream_size);
}

static ucxpool_status_t count(const ucxpool_segment_t *segments, size_t num,
                              copy_run_t *runs, size_t max_runs,
                              size_t *num_runs_p, copy_totals_t *totals_p)
{
    copy_memory_t memory = copy_memory_of_segments(segments, num);

    return copy_lengths_count(&memory, runs, max_runs, num_runs_p, totals_p);
}

TEST(equal_neighbours_become_one_run)
{
    static const size_t lengths[] = {256, 256, 256, 256, 100, 0};
    ucxpool_segment_t   segments[6];
    copy_run_t          runs[3];
    copy_totals_t       totals;
    size_t              num_runs;

    for (size_t i = 0; i < 6; i++) {
        segments[i] = segment(lengths[i]);
    }
    assert_ok(count(segments, 6, runs, 3, &num_runs, &totals));
    ck_assert_uint_eq(3, num_runs);
    check_totals(&totals, 6, 1124, 1124);
    ck_assert_uint_eq(256, runs[0].length);
    ck_assert_uint_eq(4, runs[0].count);
    ck_assert_uint_eq(100, runs[1].length);
    ck_assert_uint_eq(1, runs[1].count);
    ck_assert_uint_eq(0, runs[2].length);
    ck_assert_uint_eq(1, runs[2].count);
}

TEST(no_segments_are_no_runs)
{
    copy_totals_t totals;
    size_t        num_runs;

    assert_ok(count(NULL, 0, NULL, 0, &num_runs, &totals));
    ck_assert_uint_eq(0, num_runs);
    check_totals(&totals, 0, 0, 0);
    assert_ok(copy_lengths_check(NULL, 0, &totals));
    check_totals(&totals, 0, 0, 0);
}

TEST(padding_is_between_segments_and_not_at_the_end)
{
    const copy_run_t runs[] = {{1, 3},  {0, 4}, {17, 2},
                               {16, 1}, {3, 1}, {0, 9}};
    copy_totals_t    totals;

    assert_ok(copy_lengths_check(runs, 1, &totals));
    check_totals(&totals, 3, 3, 33);
    assert_ok(copy_lengths_check(runs, 2, &totals));
    check_totals(&totals, 7, 3, 33);
    assert_ok(copy_lengths_check(runs, 3, &totals));
    check_totals(&totals, 9, 37, 48 + 32 + 17);
    assert_ok(copy_lengths_check(runs, 6, &totals));
    check_totals(&totals, 20, 56, 48 + 64 + 16 + 3);
}

TEST(empty_segments_need_no_address)
{
    ucxpool_segment_t segments[] = {{NULL, 0}, {&byte, 1}, {NULL, 0}};
    copy_totals_t     totals;
    size_t            num_runs;

    assert_ok(count(segments, 3, NULL, 0, &num_runs, &totals));
    ck_assert_uint_eq(3, num_runs);
    check_totals(&totals, 3, 1, 1);
}

TEST(length_without_an_address_is_rejected_by_number)
{
    ucxpool_segment_t segments[] = {{&byte, 1}, {&byte, 1}, {NULL, 1}};
    copy_totals_t     totals;
    size_t            num_runs;

    assert_error_detail(count(segments, 3, NULL, 0, &num_runs, &totals),
                        INVALID_PARAM, "segment 2 ");
}

TEST(pieces_are_one_run)
{
    void *const   addresses[3] = {NULL};
    copy_memory_t memory       = copy_memory_of_pieces(addresses, 3, 17);
    copy_totals_t totals;
    copy_run_t    run;
    size_t        num_runs;

    assert_ok(copy_lengths_count(&memory, &run, 1, &num_runs, &totals));
    ck_assert_uint_eq(1, num_runs);
    ck_assert_uint_eq(17, run.length);
    ck_assert_uint_eq(3, run.count);
    check_totals(&totals, 3, 51, 81);
    memory.num = 0;
    assert_ok(copy_lengths_count(&memory, &run, 1, &num_runs, &totals));
    ck_assert_uint_eq(0, num_runs);
    check_totals(&totals, 0, 0, 0);
    memory = copy_memory_of_pieces(addresses, 3, SIZE_MAX / 8);
    assert_error_detail(
        copy_lengths_count(&memory, &run, 1, &num_runs, &totals), INVALID_PARAM,
        "3 pieces of ");
}

TEST(lengths_that_overflow_are_rejected_by_number)
{
    ucxpool_segment_t segments[] = {
        {&byte, 1}, {&byte, SIZE_MAX / 8}, {&byte, SIZE_MAX / 8 + 2}};
    copy_totals_t totals;
    size_t        num_runs;

    assert_error_detail(count(segments, 3, NULL, 0, &num_runs, &totals),
                        INVALID_PARAM, "segment 2 ");
    segments[0].length = SIZE_MAX;
    assert_error_detail(count(segments, 3, NULL, 0, &num_runs, &totals),
                        INVALID_PARAM, "segment 0 ");
}

TEST(peers_count_of_zero_is_rejected)
{
    const copy_run_t runs[] = {{16, 1}, {16, 0}};
    copy_totals_t    totals;

    assert_error_detail(copy_lengths_check(runs, 2, &totals), PROTOCOL,
                        "run 1 ");
}

TEST(peers_sums_may_reach_the_limit)
{
    const copy_run_t runs[] = {{LIMIT, 1}, {0, LIMIT - 1}};
    const copy_run_t many   = {16, LIMIT / 16};
    copy_totals_t    totals;

    assert_ok(copy_lengths_check(runs, 2, &totals));
    check_totals(&totals, LIMIT, LIMIT, LIMIT);
    assert_ok(copy_lengths_check(&many, 1, &totals));
    check_totals(&totals, LIMIT / 16, LIMIT, LIMIT);
}

TEST(peers_sums_beyond_the_limit_are_rejected)
{
    static const copy_run_t runs[][2] = {{{1, 1}, {LIMIT + 1, 1}},
                                         {{1, 1}, {UINT64_MAX, 1}},
                                         {{1, 1}, {UINT64_MAX, UINT64_MAX}},
                                         {{1, 1}, {LIMIT, 1}},
                                         {{1, 1}, {16, LIMIT / 16}},
                                         {{1, 1}, {16, UINT64_MAX / 16 + 1}},
                                         {{1, 1}, {1, LIMIT / 16}},
                                         {{1, 1}, {1, LIMIT}},
                                         {{0, 1}, {0, LIMIT}},
                                         {{0, 1}, {0, UINT64_MAX}},
                                         {{LIMIT - 17, 1}, {18, 1}},
                                         {{LIMIT / 2, 1}, {LIMIT / 2 + 1, 1}}};
    copy_totals_t           totals;

    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        assert_error(copy_lengths_check(runs[i], 2, &totals), PROTOCOL);
    }
}

TEST(peers_runs_may_be_unaligned)
{
    const copy_run_t runs[] = {{5, 2}, {1, 1}};
    char             bytes[sizeof(runs) + 1];
    copy_totals_t    totals;

    memcpy(bytes + 1, runs, sizeof(runs));
    assert_ok(copy_lengths_check(bytes + 1, 2, &totals));
    check_totals(&totals, 3, 11, 33);
}

TEST(expand_gives_any_part_of_the_list)
{
    static const size_t all[]  = {7, 7, 7, 0, 0, 9};
    const copy_run_t    runs[] = {{7, 3}, {0, 2}, {9, 1}};
    size_t              lengths[8], num_lengths;

    for (size_t first = 0; first < 8; first++) {
        for (size_t room = 0; room < 8; room++) {
            size_t left = first < 6 ? 6 - first : 0;

            lengths[room] = 1234;
            num_lengths   = copy_lengths_expand(runs, 3, first, room, lengths);
            ck_assert_uint_eq(left < room ? left : room, num_lengths);
            for (size_t i = 0; i < num_lengths; i++) {
                ck_assert_uint_eq(all[first + i], lengths[i]);
            }
            ck_assert_uint_eq(1234, lengths[room]);
        }
    }
}

TEST(expand_passes_a_run_of_2_to_the_40_in_one_step)
{
    const copy_run_t runs[] = {{7, (uint64_t)1 << 40}, {9, 1}};
    size_t           lengths[3];

    ck_assert_uint_eq(
        2, copy_lengths_expand(runs, 2, ((uint64_t)1 << 40) - 1, 3, lengths));
    ck_assert_uint_eq(7, lengths[0]);
    ck_assert_uint_eq(9, lengths[1]);
}
