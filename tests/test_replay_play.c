/* Playing traces with ucxpool_replay: the simulated pool, rounds, threads,
 * content marks, and the search for the smallest capacity. */
#include "replay/measure.h"
#include "replay/workload.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

/* --- an allocator for tests: malloc(), with a limit and faults ------------ */

static uint64_t limit; /* bytes; 0: none */
static uint64_t used;
static unsigned
    break_at; /* the n-th allocating call breaks the allocator; 0: none */
static bool gives_twice; /* always the same memory */
static char one_piece[4096];

typedef struct piece {
    size_t size;
    char   bytes[];
} piece_t;

static int fake_init(allocator_t *allocator, uint64_t capacity)
{
    (void)allocator;
    limit = capacity;
    used  = 0;
    return 0;
}

static void fake_cleanup(allocator_t *allocator)
{
    (void)allocator;
}

static allocator_answer_t fake_alloc(allocator_t *allocator, size_t size,
                                     void *stream, void **address_p)
{
    piece_t *piece;

    (void)allocator;
    (void)stream;
    /* The threads of a round call this. */
    if ((__atomic_load_n(&break_at, __ATOMIC_RELAXED) != 0) &&
        (__atomic_sub_fetch(&break_at, 1, __ATOMIC_RELAXED) == 0)) {
        return ALLOCATOR_BROKEN;
    }
    if (gives_twice) {
        *address_p = one_piece;
        return ALLOCATOR_OK;
    }
    if ((limit != 0) && (used + size > limit)) {
        return ALLOCATOR_FULL;
    }
    piece = malloc(sizeof(*piece) + size);
    if (piece == NULL) {
        return ALLOCATOR_BROKEN;
    }
    piece->size = size;
    __atomic_add_fetch(&used, size, __ATOMIC_RELAXED);
    *address_p = piece->bytes;
    return ALLOCATOR_OK;
}

static allocator_answer_t fake_free(allocator_t *allocator, void *address,
                                    size_t size, void *stream)
{
    piece_t *piece =
        (piece_t *)(void *)((char *)address - offsetof(piece_t, bytes));

    (void)allocator;
    (void)stream;
    if (!gives_twice) {
        ck_assert_uint_eq(piece->size, size);
        __atomic_sub_fetch(&used, piece->size, __ATOMIC_RELAXED);
        free(piece);
    }
    return ALLOCATOR_OK;
}

static uint64_t fake_reserved(allocator_t *allocator)
{
    (void)allocator;
    return used;
}

static const allocator_kind_t fake = {
    .name     = "fake",
    .init     = fake_init,
    .cleanup  = fake_cleanup,
    .alloc    = fake_alloc,
    .free     = fake_free,
    .reserved = fake_reserved,
};

static void reset(void)
{
    break_at    = 0;
    gives_twice = false;
}

/* --- a trace, a device and an allocator ----------------------------------- */

static trace_t *trace;
static device_t device;
static play_t   play;

static void begin(const char *workload, uint64_t capacity)
{
    trace = workload_make(workload);
    ck_assert_ptr_nonnull(trace);
    ck_assert_int_eq(device_open(&device, DEVICE_HOST, trace), 0);
    play           = (play_t){.trace = trace, .device = &device};
    play.allocator = allocator_create(&fake, &device, capacity);
    ck_assert_ptr_nonnull(play.allocator);
}

static void end(void)
{
    allocator_destroy(play.allocator);
    device_close(&device);
    trace_destroy(trace);
}

TEST_SETTINGS(.setup = reset);

TEST(a_round_frees_everything)
{
    play_result_t result = {0};

    begin("holes:64k,10", 0);
    ck_assert_int_eq(play_round(&play, PLAY_PLAIN, NULL, &result), 0);
    ck_assert_uint_eq(result.num_failures, 0);
    ck_assert_uint_eq(used, 0);
    end();
}

TEST(a_timed_round_has_a_time_for_each_call)
{
    play_result_t result = {0};

    begin("holes:64k,10", 0);
    ck_assert_int_eq(play_round(&play, PLAY_TIMED, NULL, &result), 0);
    ck_assert_uint_eq(result.allocs.num, 10);
    ck_assert_uint_eq(result.frees.num, 10);
    samples_cleanup(&result.allocs);
    samples_cleanup(&result.frees);
    end();
}

TEST(failed_allocations_are_counted_and_not_freed)
{
    play_result_t result = {0};

    begin("rmm:1000,1", 100 * MIB);
    ck_assert_int_eq(play_round(&play, PLAY_PLAIN, NULL, &result), 0);
    ck_assert_uint_gt(result.num_failures, 0);
    ck_assert_uint_eq(used, 0);
    end();
}

TEST(a_strict_round_ends_with_the_first_failure)
{
    play_result_t result = {0};

    begin("rmm:1000,1", 100 * MIB);
    ck_assert_int_eq(play_round(&play, PLAY_STRICT, NULL, &result), 0);
    ck_assert_uint_eq(result.num_failures, 1);
    ck_assert_uint_eq(used, 0);
    end();
}

TEST(a_strict_round_may_fail_during_preparation)
{
    play_result_t result = {0};

    begin("checkerboard:2,64m", 32 * MIB);
    ck_assert_int_eq(play_round(&play, PLAY_STRICT, NULL, &result), 0);
    ck_assert_uint_eq(result.num_failures, 1);
    ck_assert_uint_eq(used, 0);
    end();
}

TEST(threads_play_all_of_their_calls)
{
    play_result_t result = {0};

    begin("threads:4,500", 0);
    play.has_threads = true;
    ck_assert_int_eq(play_round(&play, PLAY_TIMED, NULL, &result), 0);
    ck_assert_uint_eq(result.allocs.num, 2000);
    ck_assert_uint_eq(result.frees.num, 2000);
    ck_assert_uint_eq(used, 0);
    samples_cleanup(&result.allocs);
    samples_cleanup(&result.frees);
    end();
}

TEST(a_free_waits_for_another_threads_allocation)
{
    play_result_t result = {0};
    uint32_t      allocation;

    begin("threads:2,1", 0);
    /* Thread 1 frees the allocations of thread 0, and the other way round. */
    trace->num_events      = 0;
    trace->num_allocations = 0;
    for (unsigned i = 0; i < 2000; i++) {
        allocation = trace_alloc(trace, i % 2, i % 2, 64);
        trace_free(trace, 1 - i % 2, i % 2, allocation);
    }
    trace_survey(trace);
    play.has_threads = true;
    ck_assert_int_eq(play_round(&play, PLAY_MARKED, NULL, &result), 0);
    ck_assert_uint_eq(used, 0);
    end();
}

TEST(a_broken_allocator_ends_the_round)
{
    play_result_t result = {0};

    begin("threads:3,50", 0);
    gives_twice = true;
    for (unsigned i = 0; i < 2; i++) {
        play.has_threads = i == 1;
        break_at         = 20;
        ck_assert_int_eq(play_round(&play, PLAY_PLAIN, NULL, &result), -1);
    }
    end();
}

TEST(marks_detect_memory_allocated_twice)
{
    play_result_t result = {0};

    begin("aba", 0);
    for (size_t i = 0; i < trace->num_allocations; i++) {
        trace->sizes[i] = 100;
    }
    ck_assert_int_eq(play_round(&play, PLAY_MARKED, NULL, &result), 0);
    gives_twice = true;
    ck_assert_int_eq(play_round(&play, PLAY_MARKED, NULL, &result), -1);
    end();
}

TEST(marks_fit_into_any_size)
{
    play_result_t result = {0};

    begin("pair:1m,20", 0);
    for (size_t i = 0; i < trace->num_allocations; i++) {
        trace->sizes[i] = i + 1;
    }
    trace->sizes[19] = 4 * MIB + 1;
    ck_assert_int_eq(play_round(&play, PLAY_MARKED, NULL, &result), 0);
    end();
}

TEST(the_curve_contains_the_peak)
{
    play_result_t result   = {0};
    curve_t      *curve    = calloc(1, sizeof(*curve));
    uint64_t      live     = 0;
    bool          is_right = true;

    begin("rmm:3000,1", 0);
    for (size_t i = 0; i < trace->num_allocations; i++) {
        trace->sizes[i] = (trace->sizes[i] + 1023) / 1024;
    }
    trace_survey(trace);
    ck_assert_int_eq(play_round(&play, PLAY_SAMPLED, curve, &result), 0);
    ck_assert_uint_gt(curve->num, 500);
    ck_assert_uint_le(curve->num, CURVE_MAX_POINTS);
    for (size_t i = 0; i < curve->num; i++) {
        live = curve->points[i].live > live ? curve->points[i].live : live;
        is_right &=
            (i == 0) || (curve->points[i].event > curve->points[i - 1].event);
    }
    ck_assert(is_right);
    ck_assert_uint_eq(live, trace->peak_live);
    ck_assert_uint_eq(curve->peak, trace->peak_live);
    ck_assert_uint_eq(curve->points[curve->num - 1].live, 0);
    free(curve);
    end();
}

TEST(the_smallest_capacity_is_found)
{
    search_t search;

    begin("rmm:200,1", 0);
    /* An allocator that needs no more than the live bytes passes at the
     * peak. */
    ck_assert_int_eq(search_run(trace, &device, &fake, 1, &search), 0);
    ck_assert(search.was_made && search.has_found);
    ck_assert_uint_eq(search.capacity,
                      (trace->peak_live + 2 * MIB - 1) / (2 * MIB) * 2 * MIB);
    ck_assert_uint_eq(search.num_trials, 1);

    /* The simulated pool needs more than that, and fails with less. */
    ck_assert_int_eq(
        search_run(trace, &device, &allocator_best_fit, 1, &search), 0);
    ck_assert(search.has_found);
    ck_assert_uint_gt(search.capacity, trace->peak_live);
    ck_assert_uint_lt(search.capacity, 2 * trace->peak_live);
    end();
}

TEST(a_search_that_finds_nothing_reports_the_largest_size_tried)
{
    search_t search;

    begin("pair:64m,1", 0);
    trace->sizes[0] = UINT64_C(1) << 60;
    ck_assert_int_eq(
        search_run(trace, &device, &allocator_best_fit, 50, &search), 0);
    ck_assert(search.was_made && !search.has_found);
    ck_assert_uint_eq(search.capacity, 16 * 64 * MIB);
    end();
}

TEST(a_broken_allocator_ends_the_search)
{
    search_t search;

    begin("pair:64k,10", 0);
    gives_twice = true;
    break_at    = 5;
    ck_assert_int_eq(search_run(trace, &device, &fake, 1, &search), -1);
    end();
}

TEST(a_measurement_reports_the_worst_round)
{
    measure_params_t params  = {.capacity    = 100 * MIB,
                                .num_rounds  = 2,
                                .is_marked   = true,
                                .is_searched = true,
                                .percent     = 1};
    measure_t       *measure = calloc(1, sizeof(*measure));

    begin("rmm:1000,1", 0);
    ck_assert_int_eq(measure_run(trace, &device, &fake, &params, measure), 0);
    ck_assert_uint_gt(measure->num_failures, 0);
    ck_assert_uint_le(measure->peak_reserved, 100 * MIB);
    ck_assert_uint_gt(measure->peak_reserved, 90 * MIB);
    ck_assert_uint_le(measure->alloc.median, measure->alloc.p99);
    ck_assert_uint_le(measure->alloc.p99, measure->alloc.max);
    ck_assert(measure->search.has_found);
    free(measure);
    end();
}

TEST(quantiles_are_computed_from_sorted_samples)
{
    samples_t samples = {0};

    ck_assert_double_eq(samples_quantile(&samples, 0.5), 0);
    for (unsigned i = 200; i > 0; i--) {
        samples_add(&samples, i);
    }
    ck_assert_double_eq(samples_quantile(&samples, 0), 1);
    ck_assert_double_eq(samples_quantile(&samples, 0.5), 100.5);
    ck_assert_double_eq(samples_quantile(&samples, 1), 200);
    samples_add(&samples, 0);
    ck_assert_double_eq(samples_quantile(&samples, 0.5), 100);
    samples_cleanup(&samples);
}

/* --- the simulated pool --------------------------------------------------- */

TEST(best_fit_takes_the_smallest_sufficient_hole)
{
    best_fit_t       *pool = best_fit_create(10 * 256);
    best_fit_block_t *blocks[5], *block;
    /* Holes of 3 and 2 units, with live blocks around them. */
    const uint64_t sizes[5] = {3 * 256, 256, 2 * 256, 256, 3 * 256};

    for (unsigned i = 0; i < 5; i++) {
        ck_assert_int_eq(best_fit_alloc(pool, sizes[i], &blocks[i]), 0);
    }
    ck_assert_int_eq(best_fit_alloc(pool, 1, &block), 1);
    best_fit_free(pool, blocks[0]);
    best_fit_free(pool, blocks[2]);
    ck_assert_int_eq(best_fit_alloc(pool, 257, &block), 0);
    ck_assert_uint_eq(best_fit_offset(block), 4 * 256);
    ck_assert_uint_eq(best_fit_size(block), 512);
    ck_assert_int_eq(best_fit_alloc(pool, 4 * 256, &block), 1);
    ck_assert(best_fit_is_sane(pool));
    best_fit_destroy(pool);
}

TEST(free_neighbours_are_merged)
{
    best_fit_t       *pool = best_fit_create(4 * 256);
    best_fit_block_t *blocks[4], *block;
    /* Merged with the next block, with the previous one, and with both. */
    const unsigned order[4] = {2, 0, 3, 1};

    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(best_fit_alloc(pool, 256, &blocks[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        best_fit_free(pool, blocks[order[i]]);
        ck_assert(best_fit_is_sane(pool));
    }
    ck_assert_int_eq(best_fit_alloc(pool, 4 * 256, &block), 0);
    ck_assert_uint_eq(best_fit_top(pool), 4 * 256);
    best_fit_destroy(pool);
}

TEST(live_blocks_never_overlap)
{
    enum { UNITS = 4096, MAX = 600 };
    static bool       taken[UNITS];
    best_fit_t       *pool   = best_fit_create(UNITS * BEST_FIT_ALIGNMENT);
    random64_t        random = {17};
    best_fit_block_t *live[MAX], *block;
    unsigned          num      = 0;
    bool              is_right = true;

    for (unsigned i = 0; i < 20000; i++) {
        bool frees =
            (num == MAX) || ((num > 0) && (random64_below(&random, 2) == 0));
        unsigned index;

        if (frees) {
            index = (unsigned)random64_below(&random, num);
            block = live[index];
        } else if (best_fit_alloc(pool, 1 + random64_below(&random, 4096),
                                  &block) != 0) {
            continue;
        }
        for (uint64_t k = 0; k < best_fit_size(block) / 256; k++) {
            bool *unit = &taken[best_fit_offset(block) / 256 + k];

            is_right &= *unit == frees;
            *unit = !frees;
        }
        if (frees) {
            live[index] = live[--num];
            best_fit_free(pool, block);
        } else {
            live[num++] = block;
        }
        is_right &= (i % 64 != 0) || best_fit_is_sane(pool);
    }
    ck_assert(is_right);
    best_fit_destroy(pool);
}

TEST(a_full_arena_returns_null)
{
    best_fit_t       *pool = best_fit_create(255);
    best_fit_block_t *block;

    ck_assert_int_eq(best_fit_alloc(pool, 1, &block), 1);
    ck_assert(best_fit_is_sane(pool));
    best_fit_destroy(pool);
    best_fit_destroy(NULL);
}
