/*
 * The heap, one behaviour per test, on memory that tracks its users
 * (vmm_double.h).
 */
#include "heap_fixture.h"
#include "slow.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

static void start(bool has_streams, size_t limit)
{
    start_with(has_streams, limit, 2 * limit);
    test_at_end(stop);
}

/* Free memory while it is used in the stream. */
static char *use_and_put(size_t size, void *stream)
{
    char *address = get(size, stream);

    vmm_double_post(vmm, stream, address, size, NULL, NULL);
    put(address, stream);
    return address;
}

/* `num` pieces that fill the heap; every second one is freed again. */
static void fill_every_second(size_t size, size_t num, void **pieces)
{
    for (size_t i = 0; i < num; i++) {
        pieces[i] = get(size, NULL);
    }
    for (size_t i = 0; i < num; i += 2) {
        put(pieces[i], NULL);
    }
}

TEST_EACH(range_is_stitched_from_every_second_piece, 3)
{
    const size_t sizes[] = {2 * MIB, 8 * MIB, 32 * MIB};
    size_t       size    = sizes[_i];
    size_t       num     = 128 * MIB / size;
    void        *pieces[64];
    char        *range;

    start(false, 128 * MIB);
    fill_every_second(size, num, pieces);
    ck_assert_uint_eq(stats().reserved, 128 * MIB);
    ck_assert_uint_eq(stats().free, 64 * MIB);
    ck_assert_uint_eq(stats().largest_contiguous, size);
    ck_assert_uint_eq(stats().largest_stitchable, 64 * MIB);
    ck_assert_double_eq(stats().fragmentation, 1 - (double)size / (64 * MIB));
    ck_assert_double_eq(stats().fragmentation_stitched, 0);
    range = get(64 * MIB, NULL);
    ck_assert_uint_eq(stats().stitched_live, 1);
    memset(range, 7, 64 * MIB);
    ck_assert_int_eq(range[64 * MIB - 1], 7);
    ck_assert_uint_eq(stats().free, 0);
    put(range, NULL);
    ck_assert_uint_eq(stats().failures, 0);
}

TEST(stitched_range_is_reused_without_driver_calls)
{
    void *pieces[8];
    char *range;

    start(false, 64 * MIB);
    fill_every_second(8 * MIB, 8, pieces);
    range = get(32 * MIB, NULL);
    ck_assert_uint_eq(stats().stitched_kept, 0);
    put(range, NULL);
    ck_assert_uint_eq(stats().stitched_kept, 1); /* flushes the quick lists */
    vmm_double_fail(vmm, VMM_LAST, 0, UCXPOOL_OK);
    ck_assert_ptr_eq(get(32 * MIB, NULL), range);
    ck_assert_uint_eq(vmm_double_count(vmm, VMM_LAST), 0);
    ck_assert_uint_eq(stats().restitches, 1);
}

TEST(segments_lists_the_pieces_of_a_stitched_range)
{
    ucxpool_heap_segment_t segments[8];
    void                  *pieces[8];
    char                  *range;
    size_t                 num = 0;

    start(false, 64 * MIB);
    fill_every_second(8 * MIB, 8, pieces);
    range = get(30 * MIB, NULL);
    assert_ok(heap_segments(heap, range + MIB, 29 * MIB, segments, 8, &num));
    ck_assert_uint_eq(num, 4);
    ck_assert_uint_eq(segments[0].length, 7 * MIB);
    ck_assert_uint_eq(segments[3].length, 6 * MIB);
    for (size_t i = 0, done = MIB; i < num; done += segments[i++].length) {
        ck_assert_uint_eq(segments[i].chunk_size, 8 * MIB);
        range[done] = (char)(i + 1);
        ck_assert_int_eq(*(char *)segments[i].address, (char)(i + 1));
    }
}

TEST(segments_rejects_ranges_outside_an_allocation)
{
    ucxpool_heap_segment_t segment;
    char                  *range;
    size_t                 num = 5;

    start(false, 64 * MIB);
    range = get(3 * MIB, NULL);
    assert_error(heap_segments(heap, range, 3 * MIB + 1, &segment, 1, &num),
                 INVALID_PARAM);
    assert_error(heap_segments(heap, range, 0, &segment, 1, &num),
                 INVALID_PARAM);
    assert_error(heap_segments(heap, &num, 1, &segment, 1, &num),
                 INVALID_PARAM);
    ck_assert_uint_eq(num, 5);
    put(range, NULL);
}

TEST(rest_of_the_last_chunk_is_used)
{
    void *pieces[8];

    start(false, 64 * MIB);
    fill_every_second(8 * MIB, 8, pieces);
    (void)get(25 * MIB, NULL);
    (void)get(7 * MIB, NULL);
    ck_assert_uint_eq(stats().free, 0);
}

TEST(alloc_of_zero_bytes_is_an_error)
{
    void *address = &address;

    start(false, 64 * MIB);
    assert_error(heap_alloc(heap, 0, NULL, &address), INVALID_PARAM);
    ck_assert_ptr_eq(address, &address);
}

TEST_EACH(alloc_beyond_the_limit_reports_the_available_memory, 3)
{
    const size_t sizes[] = {65 * MIB, SIZE_MAX, SIZE_MAX / 2};
    void        *address = &address;

    start(false, 64 * MIB);
    (void)get(3 * MIB, NULL);
    assert_error(heap_alloc(heap, sizes[_i], NULL, &address), NO_MEMORY);
    ck_assert_ptr_eq(address, &address);
    assert_detail("live 3.0");
    assert_detail("MEMORY_LIMIT");
    ck_assert_uint_eq(stats().failures, 1);
}

TEST(out_of_memory_below_the_limit_does_not_name_it)
{
    void *address = NULL;

    start(false, 64 * MIB);
    vmm_double_limit(vmm, 8 * MIB);
    assert_error_detail(heap_alloc(heap, 20 * MIB, NULL, &address), NO_MEMORY,
                        "free some");
    ck_assert_ptr_null(strstr(ucxpool_error_detail(), "MEMORY_LIMIT"));
}

TEST_EACH(free_rejects_addresses_that_are_not_allocations, 3)
{
    static const size_t sizes[] = {100, 300 * KIB, 9 * MIB};
    size_t              size    = sizes[_i];
    char               *address;

    start(false, 64 * MIB);
    address = get(size, NULL);
    assert_error(heap_free(heap, address + 64, NULL), INVALID_PARAM);
    assert_error(heap_free(heap, address + 256, NULL), INVALID_PARAM);
    assert_error_detail(heap_free(heap, &address, NULL), INVALID_PARAM,
                        "outside the heap");
    put(address, NULL);
    assert_error_detail(heap_free(heap, address, NULL), INVALID_PARAM,
                        "already been freed");
    (void)stats();
    assert_error(heap_free(heap, address, NULL), INVALID_PARAM);
    assert_ok(heap_free(heap, NULL, NULL));
}

TEST_EACH(the_usable_size_is_rounded_up, 4)
{
    static const size_t sizes[]  = {1, 1000, 300 * KIB + 1, 9 * MIB};
    static const size_t usable[] = {256, 1024, 300 * KIB + 256, 9 * MIB};
    char               *address;
    size_t              size = 0;

    start(false, 64 * MIB);
    address = get(sizes[_i], NULL);
    assert_ok(heap_usable_size(heap, address, &size));
    ck_assert_uint_eq(size, usable[_i]);
    assert_error(heap_usable_size(heap, address + 256, &size), INVALID_PARAM);
    memset(address, 1, usable[_i]);
    put(address, NULL);
}

TEST(small_allocation_holds_at_most_one_page)
{
    start(false, 64 * MIB);
    put(get(64 * MIB, NULL), NULL);
    (void)get(100, NULL);
    (void)get(62 * MIB, NULL);
    ck_assert_uint_eq(stats().reserved, 64 * MIB);
}

TEST_EACH(memory_freed_in_a_stream_is_reusable_there_at_once, 3)
{
    static const size_t sizes[] = {1000, MIB, 20 * MIB};
    char               *first;

    start(true, 64 * MIB);
    first = use_and_put(sizes[_i], A);
    ck_assert_ptr_eq(get(sizes[_i], A), first);
    ck_assert_uint_eq(vmm_double_count(vmm, VMM_FENCE_SET), 0);
}

TEST_EACH(reuse_in_another_stream_waits_for_the_first, 2)
{
    static const size_t sizes[] = {MIB, 20 * MIB};
    char               *second;

    start(true, 20 * MIB);
    use_and_put(20 * MIB, A);
    second = get(sizes[_i], B);
    ck_assert_uint_eq(vmm_double_count(vmm, VMM_FENCE_WAIT), 1);
    ck_assert_uint_eq(vmm_double_count(vmm, VMM_FENCE_SYNC), 0);
    ck_assert_uint_eq(stats().stream_waits, 1);
    /* The double aborts the process if this is not ordered after A's work. */
    vmm_double_post(vmm, B, second, sizes[_i], NULL, NULL);
    put(second, B);
}

TEST(memory_of_completed_work_is_free_for_all_streams)
{
    start(true, 20 * MIB);
    put(get(20 * MIB, A), A);
    (void)get(8 * MIB, B); /* sets a fence in A */
    vmm_double_run_all(vmm);
    vmm_double_fail(vmm, VMM_LAST, 0, UCXPOOL_OK);
    (void)get(MIB, (void *)0x30);
    ck_assert_uint_eq(vmm_double_count(vmm, VMM_FENCE_SET), 0);
}

TEST(small_allocations_freed_in_other_streams_return_to_their_page)
{
    void *small[8192];

    start(true, 2 * MIB);
    for (size_t i = 0; i < 8192; i++) {
        small[i] = get(256, A);
    }
    for (size_t i = 0; i < 8192; i++) {
        put(small[i], B);
    }
    /* A second page does not exist. */
    for (size_t i = 0; i < 8192; i++) {
        small[i] = get(256, A);
        vmm_double_post(vmm, A, small[i], 256, NULL, NULL);
    }
    ck_assert_uint_eq(stats().failures, 0);
}

TEST(alloc_waits_for_streams_before_it_fails)
{
    char *first, *second;

    start(true, 32 * MIB);
    first  = get(16 * MIB, A);
    second = get(16 * MIB, B);
    vmm_double_post(vmm, A, first, 16 * MIB, NULL, NULL);
    vmm_double_post(vmm, B, second, 16 * MIB, NULL, NULL);
    put(first, A);
    put(second, B);
    (void)get(32 * MIB, (void *)0x30);
    ck_assert_uint_eq(stats().failures, 0);
}

TEST(ended_stream_needs_no_waiting)
{
    start(true, 20 * MIB);
    use_and_put(20 * MIB, A);
    assert_ok(heap_stream_end(heap, A));
    vmm_double_fail(vmm, VMM_LAST, 0, UCXPOOL_OK);
    (void)get(20 * MIB, B);
    ck_assert_uint_eq(vmm_double_count(vmm, VMM_LAST), 0);
}

/* Trim, with a fence for each stream that must be waited for. */
static void trim_all(unsigned num_fences)
{
    vmm_double_fail(vmm, VMM_LAST, 0, UCXPOOL_OK);
    assert_ok(heap_trim(heap, 0, NULL));
    ck_assert_uint_eq(vmm_double_count(vmm, VMM_FENCE_SET), num_fences);
    ck_assert_uint_eq(vmm_double_held(vmm), 0);
}

TEST_EACH(no_fence_is_set_in_a_stream_that_has_ended, 2)
{
    static const size_t sizes[] = {100, 20 * MIB};

    start(true, 20 * MIB);
    put(get(sizes[_i], A), A);
    assert_ok(heap_stream_end(heap, A));
    trim_all(0);
}

TEST(memory_of_an_ended_stream_can_be_freed_in_another)
{
    char *first;

    start(true, 20 * MIB);
    first = get(100, A);
    assert_ok(heap_stream_end(heap, A));
    vmm_double_post(vmm, B, first, 100, NULL, NULL);
    put(first, B);
    trim_all(1);
}

/* Memory freed in a page that stays with the stream has no ticket. */
TEST(stream_end_waits_for_work_in_its_pages)
{
    char *first, *second;

    start(true, 20 * MIB);
    first  = get(256, A);
    second = get(256, A);
    /* The ticket of the page's memory has been reached then. */
    assert_ok(heap_trim(heap, 0, NULL));
    vmm_double_post(vmm, A, first, 256, NULL, NULL);
    put(first, A);
    assert_ok(heap_stream_end(heap, A));
    put(second, B);
    /* The double aborts the process if A's work may still be running. */
    trim_all(1);
}

/* Stream end releases them, since an allocation that borrows a range does not
 * search pages. */
TEST(empty_pages_of_an_ended_stream_are_free_for_all_streams)
{
    start(true, 4 * MIB);
    put(get(100, A), A);
    assert_ok(heap_stream_end(heap, A));
    (void)get(2 * MIB, B);
    ck_assert_uint_eq(vmm_double_held(vmm), 2 * MIB);
}

TEST_EACH(new_stream_with_an_old_handle_is_waited_for, 2)
{
    static const size_t sizes[] = {100, 20 * MIB};

    start(true, 20 * MIB);
    put(get(sizes[_i], A), A);
    assert_ok(heap_stream_end(heap, A));
    assert_ok(heap_stream_end(heap, A));
    use_and_put(sizes[_i], A);
    /* The double aborts the process if this is not ordered after A's work. */
    use_and_put(20 * MIB, B);
}

TEST(ending_an_unknown_stream_makes_no_driver_call)
{
    start(true, 20 * MIB);
    vmm_double_fail(vmm, VMM_LAST, 0, UCXPOOL_OK);
    assert_ok(heap_stream_end(heap, A));
    ck_assert_uint_eq(vmm_double_count(vmm, VMM_LAST), 0);
    assert_error(heap_stream_end(heap, (void *)0x2), INVALID_PARAM);
}

TEST_EACH(failed_stream_end_leaves_the_stream_in_use, 2)
{
    start(true, 20 * MIB);
    use_and_put(20 * MIB, A);
    vmm_double_fail(vmm, (_i == 0) ? VMM_FENCE_SET : VMM_FENCE_SYNC, 1,
                    UCXPOOL_ERR_IO);
    assert_error(heap_stream_end(heap, A), IO);
    use_and_put(20 * MIB, B);
    assert_ok(heap_stream_end(heap, A));
}

TEST(per_thread_default_stream_is_rejected)
{
    void *address;

    start(true, 20 * MIB);
    assert_error_detail(heap_alloc(heap, 1, (void *)0x2, &address),
                        INVALID_PARAM, "PER_THREAD");
}

TEST(default_stream_has_two_handles)
{
    char *first;

    start(true, 20 * MIB);
    first = get(20 * MIB, NULL);
    put(first, (void *)0x1);
    ck_assert_ptr_eq(get(20 * MIB, NULL), first);
}

TEST(trim_returns_free_memory)
{
    char  *small, *large, *kept;
    size_t released = 0;
    size_t first;

    start(false, 64 * MIB);
    small = get(100, A);
    large = get(20 * MIB, B);
    kept  = get(10 * MIB, A);
    put(small, A);
    put(large, B);
    assert_ok(heap_trim(heap, 0, &released));
    ck_assert_uint_ge(released, 20 * MIB);
    ck_assert_uint_eq(stats().trimmed, released);
    first = released;
    ck_assert_uint_eq(vmm_double_held(vmm), stats().reserved);
    ck_assert_uint_le(stats().reserved, 16 * MIB);
    memset(kept, 1, 10 * MIB);
    put(kept, A);
    assert_ok(heap_trim(heap, 4 * MIB, &released));
    ck_assert_uint_le(stats().reserved, 4 * MIB);
    ck_assert_uint_eq(stats().trimmed, first + released);
    (void)get(64 * MIB, A);
}

TEST(trim_does_not_wait_if_the_heap_is_small_enough)
{
    size_t released = 1;

    start(true, 20 * MIB);
    use_and_put(8 * MIB, A);
    vmm_double_fail(vmm, VMM_LAST, 0, UCXPOOL_OK);
    assert_ok(heap_trim(heap, stats().reserved, &released));
    ck_assert_uint_eq(released, 0);
    ck_assert_uint_eq(vmm_double_count(vmm, VMM_LAST), 0);
}

TEST(reserve_allocates_at_once)
{
    start(true, 64 * MIB);
    assert_ok(heap_reserve(heap, 40 * MIB + 1));
    ck_assert_uint_eq(stats().reserved, 42 * MIB);
    ck_assert_uint_eq(stats().chunks, 5);
    ck_assert_uint_eq(stats().grows, 1);
    vmm_double_fail(vmm, VMM_LAST, 0, UCXPOOL_OK);
    (void)get(42 * MIB, A);
    ck_assert_uint_eq(vmm_double_count(vmm, VMM_LAST), 0);
    ck_assert_uint_eq(stats().grows, 1);
    assert_ok(heap_reserve(heap, 64 * MIB));
    ck_assert_uint_eq(stats().reserved, 64 * MIB);
    ck_assert_uint_eq(stats().grows, 2);
    assert_error(heap_reserve(heap, 64 * MIB + 1), INVALID_PARAM);
}

TEST(reserve_takes_all_memory_if_less_is_available)
{
    start(true, 64 * MIB);
    vmm_double_limit(vmm, 26 * MIB);
    assert_error_detail(heap_reserve(heap, 40 * MIB), NO_MEMORY,
                        "holds 27262976");
    ck_assert_uint_eq(stats().reserved, 26 * MIB);
    ck_assert_uint_eq(stats().chunks, 3);
    vmm_double_fail(vmm, VMM_LAST, 0, UCXPOOL_OK);
    (void)get(26 * MIB, A);
    ck_assert_uint_eq(vmm_double_count(vmm, VMM_LAST), 0);
}

TEST(driver_error_is_not_retried)
{
    start(true, 64 * MIB);
    vmm_double_fail(vmm, VMM_CHUNK_CREATE, 2, UCXPOOL_ERR_IO);
    assert_error(heap_reserve(heap, 40 * MIB), IO);
    ck_assert_uint_eq(vmm_double_count(vmm, VMM_CHUNK_CREATE), 2);
    assert_ok(heap_reserve(heap, 40 * MIB));
    ck_assert_uint_eq(stats().reserved, 40 * MIB);
}

static int make_room(void *arg, ucxpool_t *pool, size_t size, void *stream)
{
    void **victim = arg;

    if (*victim == NULL) {
        return 0;
    }
    put(*victim, stream);
    *victim = NULL;
    return 1;
}

TEST(failure_callback_can_free_memory)
{
    void *victim, *address;

    start(false, 32 * MIB);
    victim = get(20 * MIB, NULL);
    heap_set_failure_handler(heap, NULL, make_room, &victim);
    (void)get(30 * MIB, NULL);
    ck_assert_ptr_null(victim);
    assert_error(heap_alloc(heap, 20 * MIB, NULL, &address), NO_MEMORY);
}

TEST(new_and_old_memory_are_stitched_together)
{
    void *pieces[4];

    start(false, 64 * MIB);
    fill_every_second(8 * MIB, 4, pieces);
    (void)get(48 * MIB, NULL);
    ck_assert_uint_eq(stats().reserved, 64 * MIB);
}

/* Allocate and free sizes of 8 to 64 MiB, up to 256 MiB at a time; after each
 * also `num_more` sizes that fit without stitching. */
static void churn(unsigned num, unsigned num_more, uint64_t *random)
{
    void  *pieces[32] = {NULL};
    size_t sizes[32]  = {0};
    size_t live       = 0;

    for (unsigned i = 0; i < num; i++) {
        size_t slot, size;

        *random = *random * 6364136223846793005u + 1442695040888963407u;
        slot    = (*random >> 33) % 32;
        size    = (8 + (*random >> 40) % 57) * MIB;
        for (unsigned j = 0; j < num_more; j++) {
            put(get(MIB + (*random >> 20) % 1000 * 1024 + j * 512, NULL), NULL);
        }
        if (pieces[slot] != NULL) {
            put(pieces[slot], NULL);
            pieces[slot] = NULL;
            live -= sizes[slot];
        } else if (live + size <= 256 * MIB) {
            pieces[slot] = get(size, NULL);
            sizes[slot]  = size;
            live += size;
        }
    }
    for (unsigned i = 0; i < 32; i++) {
        put(pieces[i], NULL);
    }
}

/* Without additional memory it would stitch 243 and 251 ranges. */
TEST(frequent_stitching_allocates_more_memory)
{
    uint64_t random = 1, before;

    start(false, 1024 * MIB);
    churn(8000, 0, &random);
    before = stats().stitches;
    ck_assert_uint_gt(before, 0);
    ck_assert_uint_lt(before, 120);
    churn(8000, 0, &random);
    ck_assert_uint_lt(stats().stitches - before, 80);
    ck_assert_uint_le(stats().peak_reserved, 256 * MIB / 2 * 3);
}

/* The pattern of training: nearly all allocations fit without stitching. Under
 * valgrind this takes half a minute and finds nothing that the previous test
 * does not. */
TEST(rare_stitching_allocates_no_more_memory)
{
    uint64_t random = 1;

    if (RUNNING_ON_VALGRIND) {
        return;
    }
    start(false, 1024 * MIB);
    churn(6000, 4, &random);
    ck_assert_uint_gt(stats().stitches, 150);
    ck_assert_uint_le(stats().peak_reserved, 256 * MIB / 4 * 5);
}

/* A period without stitching must not allow more stitching later: with that,
 * 437 ranges would be stitched. */
TEST(quiet_period_allows_few_additional_stitches)
{
    uint64_t random = 1;

    if (RUNNING_ON_VALGRIND) {
        return;
    }
    start(false, 1024 * MIB);
    for (unsigned i = 0; i < 100000; i++) {
        put(get(MIB + i % 1000 * 1024, NULL), NULL);
    }
    churn(16000, 0, &random);
    ck_assert_uint_lt(stats().stitches, 200);
}

/* The heap's limit, and the memory available below it. */
TEST_EACH(chunk_is_split_into_pages_at_the_limit, 2)
{
    void *first, *address;

    start(false, (_i == 0) ? 32 * MIB : 64 * MIB);
    vmm_double_limit(vmm, 32 * MIB);
    first = get(32 * MIB, NULL);
    assert_error(heap_alloc(heap, 2 * MIB, NULL, &address), NO_MEMORY);
    put(first, NULL);
    (void)stats();
    (void)get(3 * MIB, NULL);
    ck_assert_uint_eq(stats().splits, 1);
    ck_assert_uint_eq(stats().chunks, 3);
    ck_assert_uint_eq(stats().pages, 4);
}

/* Otherwise each small allocation would prevent stitching of a whole chunk. */
TEST_EACH(chunk_is_split_at_a_page, 2)
{
    void *stream = (_i == 0) ? NULL : A;
    void *rest, *last;

    start(_i > 0, 64 * MIB);
    put(get(32 * MIB, stream), stream);
    (void)get(256, stream);
    ck_assert_uint_eq(stats().splits, 1);
    rest = get(6 * MIB, stream);
    (void)get(16 * MIB, stream);
    last = get(8 * MIB, stream);
    (void)get(32 * MIB, stream);
    put(rest, stream);
    put(last, stream);
    (void)get(14 * MIB, stream);
    ck_assert_uint_eq(stats().stitches, 1);
}

TEST(old_mappings_are_removed_when_address_space_runs_out)
{
    void *pieces[8];

    start(false, 64 * MIB);
    fill_every_second(8 * MIB, 8, pieces);
    for (size_t size = 17 * MIB; size <= 32 * MIB; size += MIB / 2) {
        put(get(size, NULL), NULL);
        (void)stats();
        ck_assert_uint_le(stats().mapped, 64 * MIB + 128 * MIB);
    }
    ck_assert_uint_eq(stats().failures, 0);
}

/* More ranges that are slightly too short than the search inspects first; the
 * one that fits is the last. */
TEST(the_only_range_that_fits_is_found)
{
    enum { NUM = 20 };

    const size_t nearly = MIB + 8 * KIB, size = MIB + 16 * KIB;
    char        *pieces[NUM], *fit;
    void        *address;

    start(false, 32 * MIB);
    fit = get(size, NULL);
    (void)get(300 * KIB, NULL);
    for (size_t i = 0; i < NUM; i++) {
        pieces[i] = get(nearly, NULL);
        (void)get(300 * KIB, NULL);
    }
    while (heap_alloc(heap, 300 * KIB, NULL, &address) == UCXPOOL_OK) {
    }
    put(fit, NULL);
    (void)stats(); /* flushes the quick lists */
    for (size_t i = 0; i < NUM; i++) {
        put(pieces[i], NULL);
    }
    (void)stats();
    ck_assert_ptr_eq(get(size, NULL), fit);
}

/* Two free ranges of a page's length. The first one found lies across two
 * pages. */
TEST(free_page_is_found_after_an_unsuitable_range)
{
    void *across, *page;

    start(false, 8 * MIB);
    (void)get(3 * MIB, NULL);
    across = get(2 * MIB, NULL);
    (void)get(MIB, NULL);
    page = get(2 * MIB, NULL);
    put(page, NULL);
    (void)stats();
    put(across, NULL);
    (void)stats();
    ck_assert_ptr_eq(get(100, NULL), page);
}

#define NUM_THREADS 4

static void *work(void *arg)
{
    uint64_t state    = (uint64_t)(uintptr_t)arg + 1;
    char    *live[32] = {NULL};

    for (int i = 0; i < 3000; i++) {
        unsigned number;

        state  = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        number = (unsigned)(state >> 59);
        if (live[number] != NULL) {
            ck_assert_int_eq(live[number][0], (char)number);
            put(live[number], arg);
            live[number] = NULL;
        } else {
            live[number]    = get((size_t)(state >> 33) % (MIB / 2) + 1, arg);
            live[number][0] = (char)number;
        }
    }
    for (int i = 0; i < 32; i++) {
        if (live[i] != NULL) {
            put(live[i], (i % 2 == 0) ? arg : NULL);
        }
    }
    return NULL;
}

TEST(threads_with_separate_streams_work_concurrently)
{
    start(false, 128 * MIB);
    for (uintptr_t i = 0; i < NUM_THREADS; i++) {
        test_thread(work, (void *)((i + 1) * 16));
    }
    test_join(NUM_THREADS);
    ck_assert_uint_eq(stats().num_live, 0);
    ck_assert_uint_eq(stats().live, 0);
}
