#include <config.h>

#include "replay/measure.h"
#include "common/system.h"
#include "common/error.h"

#include <string.h>

#define CLOCK_READINGS 10001

/* The largest capacity to try, as a multiple of the peak. */
#define MAX_RATIO 16

/* The largest capacity to try, in percent of the free memory. */
#define MEMORY_PERCENT 75

/* --- the smallest capacity ----------------------------------------------- */

/* Returns the capacity of a step, in whole units of ALLOCATOR_UNIT. */
static uint64_t capacity_of(const measure_t *measure, uint64_t step)
{
    double bytes = (double)measure->trace->peak_live *
                   (1 + measure->params->percent / 100 * (double)step);

    return allocator_round_up((uint64_t)bytes);
}

static int try_step(measure_t *measure, uint64_t step, bool *passes_p)
{
    play_result_t result    = {0};
    allocator_t  *allocator = allocator_create(measure->kind, measure->device,
                                               capacity_of(measure, step));
    int           code;

    if (allocator == NULL) {
        return -1;
    }
    measure->search.num_trials++;
    code      = play_round(measure->trace, allocator, PLAY_STRICT, &result);
    *passes_p = result.num_failures == 0;
    allocator_destroy(allocator);
    return code;
}

/* Find the last step that may be tried. */
static int find_last(const measure_t *measure, uint64_t *last_p)
{
    uint64_t bytes;

    *last_p = (uint64_t)((MAX_RATIO - 1) * 100 / measure->params->percent);
    if (device_free_bytes(measure->device, &bytes) != 0) {
        return -1;
    }
    bytes = bytes / 100 * MEMORY_PERCENT;
    while ((*last_p > 0) && (capacity_of(measure, *last_p) > bytes)) {
        *last_p -= *last_p > 64 ? *last_p / 64 : 1;
    }
    return 0;
}

/* Find the first of the steps 0, 1, 2, 4, ... that passes. failed_p: the last
 * step that failed, or -1. */
static int gallop(measure_t *measure, uint64_t last, int64_t *failed_p,
                  uint64_t *passed_p)
{
    bool passes = false;
    bool is_end = false;

    *failed_p = -1;
    *passed_p = 0;
    while (!is_end) {
        if (try_step(measure, *passed_p, &passes) != 0) {
            return -1;
        }
        is_end = passes || (*passed_p == last);
        if (!is_end) {
            *failed_p = (int64_t)*passed_p;
            *passed_p = *passed_p == 0 ? 1 : 2 * *passed_p;
            *passed_p = *passed_p < last ? *passed_p : last;
        }
    }
    measure->search.has_found = passes;
    return 0;
}

int search_run(measure_t *measure)
{
    search_t *search = &measure->search;
    uint64_t  last, passed, middle;
    int64_t   failed;
    bool      passes;

    if ((find_last(measure, &last) != 0) ||
        (gallop(measure, last, &failed, &passed) != 0)) {
        return -1;
    }
    while (search->has_found && ((int64_t)passed - failed > 1)) {
        middle = (uint64_t)((int64_t)passed + failed) / 2;
        if (try_step(measure, middle, &passes) != 0) {
            return -1;
        }
        if (passes) {
            passed = middle;
        } else {
            failed = (int64_t)middle;
        }
    }
    search->capacity = capacity_of(measure, passed);
    return 0;
}

/* --- an allocator -------------------------------------------------------- */

static void note_max(uint64_t *max, uint64_t value)
{
    *max = value > *max ? value : *max;
}

static int run_round(measure_t *measure, allocator_t *allocator,
                     play_mode_t mode, play_result_t *result)
{
    memset(result, 0, sizeof(*result));
    if (play_round(measure->trace, allocator, mode, result) != 0) {
        return -1;
    }
    note_max(&measure->num_failures, result->num_failures);
    note_max(&measure->peak_reserved, result->peak_reserved);
    return 0;
}

/* Measure the memory use of an allocator that starts without memory. */
static int measure_memory(measure_t *measure, allocator_t *allocator)
{
    play_result_t result;

    return run_round(measure, allocator, PLAY_SAMPLED, &result);
}

static int time_rounds(measure_t *measure, allocator_t *allocator)
{
    samples_t     again = {0};
    play_result_t result;
    int           code = 0;

    for (unsigned i = 0; (i < measure->params->num_rounds) && (code == 0);
         i++) {
        code = run_round(measure, allocator, PLAY_PLAIN, &result);
        if (i == 0) {
            measure->first_ns = result.ns;
        } else {
            samples_add(&again, (double)result.ns);
        }
    }
    measure->again_ns = (uint64_t)samples_quantile(&again, 0.5);
    samples_cleanup(&again);
    return code;
}

static call_times_t summarize(samples_t *samples)
{
    call_times_t times = {.median = (uint64_t)samples_quantile(samples, 0.5),
                          .p99    = (uint64_t)samples_quantile(samples, 0.99),
                          .max    = (uint64_t)samples_quantile(samples, 1)};

    samples_cleanup(samples);
    return times;
}

static int time_all(measure_t *measure, allocator_t *allocator)
{
    play_result_t result;
    int           code;

    if (time_rounds(measure, allocator) != 0) {
        return -1;
    }
    code           = run_round(measure, allocator, PLAY_TIMED, &result);
    measure->alloc = summarize(&result.allocs);
    measure->free  = summarize(&result.frees);
    return code;
}

static int reserve(const measure_t *measure, allocator_t *allocator)
{
    const measure_params_t *params = measure->params;
    uint64_t                bytes  = params->reserve_bytes;
    uint64_t                left;

    if (measure->kind->reserve == NULL) {
        return 0;
    }
    if (params->reserve_percent > 0) {
        if (device_free_bytes(measure->device, &left) != 0) {
            return -1;
        }
        bytes = left / 100 * params->reserve_percent;
    }
    bytes -= bytes % ALLOCATOR_UNIT;
    if ((params->capacity != 0) && (bytes > params->capacity)) {
        return tool_error("--reserve needs %llu bytes, but -c allows %llu: "
                          "lower --reserve or raise -c",
                          (unsigned long long)bytes,
                          (unsigned long long)params->capacity);
    }
    return bytes > 0 ? measure->kind->reserve(allocator, bytes) : 0;
}

/* Run a step of the measurement with a new allocator. Only some allocators
 * count their own peak. */
static int with_allocator(measure_t *measure,
                          int (*step)(measure_t   *measure,
                                      allocator_t *allocator))
{
    allocator_t *allocator = allocator_create(measure->kind, measure->device,
                                              measure->params->capacity);
    int          code;

    if (allocator == NULL) {
        return -1;
    }
    code = reserve(measure, allocator);
    if (code == 0) {
        code = step(measure, allocator);
    }
    if ((code == 0) && (measure->kind->peak_reserved != NULL)) {
        note_max(&measure->peak_reserved,
                 measure->kind->peak_reserved(allocator));
    }
    allocator_destroy(allocator);
    return code;
}

int measure_run(measure_t *measure)
{
    return (with_allocator(measure, measure_memory) == 0) &&
                   (with_allocator(measure, time_all) == 0) &&
                   (!measure->params->is_searched || (search_run(measure) == 0))
               ? 0
               : -1;
}

uint64_t measure_clock(void)
{
    samples_t ns = {0};
    uint64_t  median;

    for (unsigned i = 0; i < CLOCK_READINGS; i++) {
        uint64_t start = clock_now();

        samples_add(&ns, (double)(clock_now() - start));
    }
    median = (uint64_t)samples_quantile(&ns, 0.5);
    samples_cleanup(&ns);
    return median;
}
