/* Workloads of ucxpool_replay, and the random numbers they are built from. */
#include "replay/workload.h"
#include "test.h"

#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static trace_t *make(const char *text)
{
    trace_t *trace = workload_make(text);

    ck_assert_msg(trace != NULL, "%s", text);
    ck_assert_str_eq(trace->name, text);
    return trace;
}

/* Each block is allocated once, and freed at most once and only afterwards. */
static void assert_sound(const trace_t *trace)
{
    bool    *is_live  = test_alloc(trace->num_allocations * sizeof(*is_live));
    uint32_t next     = 0;
    size_t   num_live = 0;
    bool     is_sound = true;

    /* One assertion for all: each ck_assert sends a message to Check. */
    for (size_t i = 0; i < trace->num_events; i++) {
        const trace_event_t *event = &trace->events[i];

        if (event->is_free) {
            is_sound &= is_live[event->allocation];
            is_live[event->allocation] = false;
            num_live--;
        } else {
            is_sound &= (event->allocation == next) && (trace->sizes[next] > 0);
            is_live[next++] = true;
            num_live++;
        }
        is_sound &= (event->stream < trace->num_streams);
    }
    ck_assert(is_sound);
    ck_assert_uint_eq(next, trace->num_allocations);
    ck_assert_uint_eq(num_live, trace->num_left);
}

static uint64_t largest(const trace_t *trace)
{
    uint64_t size = 0;

    for (size_t i = 0; i < trace->num_allocations; i++) {
        size = trace->sizes[i] > size ? trace->sizes[i] : size;
    }
    return size;
}

TEST(numbers_equal_those_of_libstdcxx)
{
    /* Printed by a program that calls uniform_int_distribution<size_t>(1, max),
     * <int>(0, 99) and <size_t>(0, 9999) in turn on
     * std::default_random_engine. */
    static const struct {
        uint64_t max;
        uint64_t expected[6];
    } cases[] = {
        {1 * MIB, {9, 13, 7556, 481165, 53, 2189}},
        {4 * MIB, {33, 13, 7556, 1927483, 53, 2189}},
    };

    for (unsigned i = 0; i < 2; i++) {
        minstd_t minstd = {1};

        for (unsigned k = 0; k < 6; k += 3) {
            ck_assert_uint_eq(minstd_between(&minstd, 1, cases[i].max),
                              cases[i].expected[k]);
            ck_assert_uint_eq(minstd_between(&minstd, 0, 99),
                              cases[i].expected[k + 1]);
            ck_assert_uint_eq(minstd_between(&minstd, 0, 9999),
                              cases[i].expected[k + 2]);
        }
    }
}

TEST(numbers_beyond_the_generators_range_are_combined)
{
    /* uniform_int_distribution<size_t>(5, 5 + 2147483646). */
    static const uint64_t expected[] = {282475253, 1457850882, 1115438169};
    minstd_t              minstd     = {1};

    for (unsigned i = 0; i < 3; i++) {
        uint64_t value = minstd_between(&minstd, 5, 5 + UINT64_C(2147483646));

        ck_assert_uint_eq(value, expected[i]);
    }
    /* <size_t>(1, 4 GiB), with the same engine. */
    ck_assert_uint_eq(minstd_between(&minstd, 1, 4 * GIB), 1137522503);
    ck_assert_uint_eq(minstd_between(&minstd, 1, 4 * GIB), 2291026258);
    for (unsigned i = 0; i < 100; i++) {
        uint64_t value = minstd_between(&minstd, 7, 64 * GIB);

        ck_assert_uint_ge(value, 7);
        ck_assert_uint_le(value, 64 * GIB);
    }
}

TEST(rmms_workload_ends_with_nothing_live)
{
    trace_t *trace = make("rmm:10000,4");

    assert_sound(trace);
    ck_assert_uint_eq(trace->num_allocations, 10000);
    ck_assert_uint_eq(trace->num_events, 20000);
    ck_assert_uint_eq(trace->num_left, 0);
    ck_assert_uint_le(largest(trace), 4 * MIB);
    ck_assert_uint_lt(trace->peak_live, 16000 * MIB);
    /* 73 of 100 steps allocate until all allocations have been made. */
    ck_assert_uint_gt(trace->peak_num, 6000);
    ck_assert_uint_lt(trace->peak_num, 6700);
    trace_destroy(trace);
}

TEST(rmms_workload_stays_under_its_cap)
{
    trace_t *trace = make("rmm:1000,4096");

    assert_sound(trace);
    ck_assert_uint_lt(trace->peak_live, 16000 * MIB);
    ck_assert_uint_gt(trace->peak_live, 15000 * MIB);
    trace_destroy(trace);
}

TEST(the_four_traces_match_their_description)
{
    static const struct {
        const char *name;
        size_t      num;
        uint64_t    max_size;
        uint64_t    max_live;
    } cases[] = {
        {"trace1", 3000, 256 * MIB, 16 * GIB},
        {"trace2", 5000, GIB, 16 * GIB},
        {"trace3", 600, 2 * GIB, 24 * GIB},
        {"trace4", 20000, 64 * MIB, 8 * GIB},
    };

    for (unsigned i = 0; i < 4; i++) {
        trace_t *trace = make(cases[i].name);

        assert_sound(trace);
        ck_assert_uint_eq(trace->num_allocations, cases[i].num);
        ck_assert_uint_eq(trace->num_left, 0);
        ck_assert_uint_le(largest(trace), cases[i].max_size);
        ck_assert_uint_gt(largest(trace), cases[i].max_size / 10 * 9);
        ck_assert_uint_lt(trace->peak_live, cases[i].max_live);
        trace_destroy(trace);
    }
}

TEST(a_workload_is_the_same_each_time)
{
    trace_t *first  = make("trace2");
    trace_t *second = make("trace2");

    ck_assert_mem_eq(first->events, second->events,
                     first->num_events * sizeof(*first->events));
    ck_assert_mem_eq(first->sizes, second->sizes,
                     first->num_allocations * sizeof(*first->sizes));
    trace_destroy(first);
    trace_destroy(second);
}

TEST(a_checkerboard_allocates_15_16ths_of_the_free_memory)
{
    trace_t *trace = make("checkerboard:2,64m");

    assert_sound(trace);
    ck_assert_uint_eq(trace->capacity, 64 * MIB);
    ck_assert_uint_eq(trace->num_allocations, 33);
    ck_assert_uint_eq(trace->sizes[32], 30 * MIB);
    ck_assert_uint_eq(trace->first_timed, 32 + 16);
    ck_assert_uint_eq(trace->peak_live, 64 * MIB);
    /* No two freed pieces are adjacent. */
    for (size_t i = 32; i < 48; i++) {
        ck_assert(trace->events[i].is_free);
        ck_assert_uint_eq(trace->events[i].allocation % 2, 1);
    }
    trace_destroy(trace);
}

TEST(an_odd_checkerboard_keeps_its_last_piece)
{
    trace_t *trace = make("checkerboard:2,70m");

    assert_sound(trace);
    ck_assert_uint_eq(trace->num_allocations, 36);
    for (size_t i = 35; i + 1 < trace->num_events; i++) {
        ck_assert(trace->events[i].is_free);
        ck_assert_uint_eq(trace->events[i].allocation % 2, 1);
    }
    trace_destroy(trace);
}

TEST(pairs_and_holes_time_one_size)
{
    trace_t *pair  = make("pair:1m,10");
    trace_t *holes = make("holes:64k,10");

    assert_sound(pair);
    ck_assert_uint_eq(pair->num_events, 20);
    ck_assert_uint_eq(pair->peak_live, MIB);
    assert_sound(holes);
    ck_assert_uint_eq(holes->num_events - holes->first_timed, 20);
    ck_assert_uint_eq(holes->num_left, 65536);
    ck_assert_uint_eq(holes->sizes[holes->num_allocations - 1], 65536);
    trace_destroy(pair);
    trace_destroy(holes);
}

TEST(aba_keeps_3_gib_and_needs_8)
{
    trace_t *trace = make("aba");

    assert_sound(trace);
    ck_assert_uint_eq(trace->capacity, 8 * GIB);
    ck_assert_uint_eq(trace->peak_live, 7 * GIB);
    ck_assert_uint_eq(trace->num_left, 3);
    trace_destroy(trace);
}

TEST(unknown_workloads_are_rejected)
{
    static const char *const bad[] = {
        "",          "nonsense", "rmm",           "rmm:",
        "rmm:10",    "rmm:10,",  "rmm:10,4,1",    "rmm:0,4",
        "rmm:x,4",   "trace5",   "trace1:1",      "pair",
        "pair:0",    "pair:1q",  "checkerboard:", "checkerboard:8,15m",
        "threads:2", "aba:1",    "pair:1m,",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_msg(workload_make(bad[i]) == NULL, "%s", bad[i]);
    }
}
