/* Playing traces with ucxpool_replay: rounds, and measurements of all of them.
 */
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
    limit = capacity;
    used  = 0;
    return 0;
}

static void fake_cleanup(allocator_t *allocator)
{
}

static allocator_answer_t fake_alloc(allocator_t *allocator, size_t size,
                                     void *stream, void **address_p)
{
    piece_t *piece;

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

    if (!gives_twice) {
        ck_assert_uint_eq(piece->size, size);
        __atomic_sub_fetch(&used, piece->size, __ATOMIC_RELAXED);
        free(piece);
    }
    return ALLOCATOR_OK;
}

static uint64_t fake_reserved(allocator_t *allocator)
{
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

static trace_t         *trace;
static device_t         device;
static allocator_t     *allocator;
static measure_params_t params;

static void end(void)
{
    allocator_destroy(allocator);
    device_close(&device);
    trace_destroy(trace);
}

static void begin(const char *workload, uint64_t capacity)
{
    trace = workload_make(workload);
    ck_assert_ptr_nonnull(trace);
    ck_assert_int_eq(device_open(&device, DEVICE_HOST, trace), 0);
    allocator = allocator_create(&fake, &device, capacity);
    ck_assert_ptr_nonnull(allocator);
    test_at_end(end);
}

/* Describe a measurement of the fake allocator. */
static measure_t measure_fake(void)
{
    return (measure_t){
        .trace = trace, .device = &device, .params = &params, .kind = &fake};
}

TEST_SETTINGS(.setup = reset);

TEST(a_round_frees_everything)
{
    play_result_t result = {0};

    begin("holes:64k,10", 0);
    ck_assert_int_eq(play_round(trace, allocator, PLAY_PLAIN, &result), 0);
    ck_assert_uint_eq(result.num_failures, 0);
    ck_assert_uint_eq(used, 0);
}

TEST(a_timed_round_has_a_time_for_each_call)
{
    play_result_t result = {0};

    begin("holes:64k,10", 0);
    ck_assert_int_eq(play_round(trace, allocator, PLAY_TIMED, &result), 0);
    ck_assert_uint_eq(result.allocs.num, 10);
    ck_assert_uint_eq(result.frees.num, 10);
    samples_cleanup(&result.allocs);
    samples_cleanup(&result.frees);
}

TEST(failed_allocations_are_counted_and_not_freed)
{
    play_result_t result = {0};

    begin("rmm:1000,1", 100 * MIB);
    ck_assert_int_eq(play_round(trace, allocator, PLAY_PLAIN, &result), 0);
    ck_assert_uint_gt(result.num_failures, 0);
    ck_assert_uint_eq(used, 0);
}

TEST(a_broken_allocator_ends_the_round)
{
    play_result_t result = {0};

    begin("pair:64,50", 0);
    gives_twice = true;
    break_at    = 20;
    ck_assert_int_eq(play_round(trace, allocator, PLAY_PLAIN, &result), -1);
}

TEST(a_sampled_round_finds_the_peak)
{
    play_result_t result = {0};

    begin("rmm:3000,1", 0);
    for (size_t i = 0; i < trace->num_allocations; i++) {
        trace->sizes[i] = (trace->sizes[i] + 1023) / 1024;
    }
    trace_survey(trace);
    ck_assert_int_eq(play_round(trace, allocator, PLAY_SAMPLED, &result), 0);
    ck_assert_uint_eq(result.peak_reserved, trace->peak_live);
}

TEST(a_broken_allocator_ends_the_measurement)
{
    measure_t measure;

    begin("pair:64k,10", 0);
    gives_twice = true;
    break_at    = 5;
    params      = (measure_params_t){.num_rounds = 2};
    measure     = measure_fake();
    ck_assert_int_eq(measure_run(&measure), -1);
}

TEST(a_measurement_reports_the_worst_round)
{
    measure_t measure;

    begin("rmm:1000,1", 0);
    params  = (measure_params_t){.capacity = 100 * MIB, .num_rounds = 2};
    measure = measure_fake();
    ck_assert_int_eq(measure_run(&measure), 0);
    ck_assert_uint_gt(measure.num_failures, 0);
    ck_assert_uint_le(measure.peak_reserved, 100 * MIB);
    ck_assert_uint_gt(measure.peak_reserved, 90 * MIB);
    ck_assert_uint_le(measure.alloc.median, measure.alloc.p99);
    ck_assert_uint_le(measure.alloc.p99, measure.alloc.max);
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
