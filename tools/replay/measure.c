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

typedef struct attempt {
    const trace_t          *trace;
    device_t               *device;
    const allocator_kind_t *kind;
    double                  percent;
    search_t               *search;
} attempt_t;

/* Returns the capacity of a step, in whole units of ALLOCATOR_UNIT. */
static uint64_t capacity_of(const attempt_t *attempt, uint64_t step)
{
    double bytes = (double)attempt->trace->peak_live *
                   (1 + attempt->percent / 100 * (double)step);

    return ((uint64_t)bytes + ALLOCATOR_UNIT - 1) / ALLOCATOR_UNIT *
           ALLOCATOR_UNIT;
}

static int try_step(const attempt_t *attempt, uint64_t step, bool *passes_p)
{
    play_t        play   = {.trace = attempt->trace, .device = attempt->device};
    play_result_t result = {0};
    int           code;

    play.allocator = allocator_create(attempt->kind, attempt->device,
                                      capacity_of(attempt, step));
    if (play.allocator == NULL) {
        return -1;
    }
    attempt->search->num_trials++;
    code      = play_round(&play, PLAY_STRICT, &result);
    *passes_p = result.num_failures == 0;
    allocator_destroy(play.allocator);
    return code;
}

/* Find the last step that may be tried. */
static int find_last(const attempt_t *attempt, uint64_t *last_p)
{
    uint64_t bytes;

    *last_p = (uint64_t)((MAX_RATIO - 1) * 100 / attempt->percent);
    if (device_free_bytes(attempt->device, &bytes) != 0) {
        return -1;
    }
    bytes = bytes / 100 * MEMORY_PERCENT;
    while ((*last_p > 0) && (capacity_of(attempt, *last_p) > bytes)) {
        *last_p -= *last_p > 64 ? *last_p / 64 : 1;
    }
    return 0;
}

/* Find the first of the steps 0, 1, 2, 4, ... that passes. failed_p: the last
 * step that failed, or -1. */
static int gallop(const attempt_t *attempt, uint64_t last, int64_t *failed_p,
                  uint64_t *passed_p)
{
    bool passes = false;
    bool is_end = false;

    *failed_p = -1;
    *passed_p = 0;
    while (!is_end) {
        if (try_step(attempt, *passed_p, &passes) != 0) {
            return -1;
        }
        is_end = passes || (*passed_p == last);
        if (!is_end) {
            *failed_p = (int64_t)*passed_p;
            *passed_p = *passed_p == 0 ? 1 : 2 * *passed_p;
            *passed_p = *passed_p < last ? *passed_p : last;
        }
    }
    attempt->search->has_found = passes;
    return 0;
}

int search_run(const trace_t *trace, device_t *device,
               const allocator_kind_t *kind, double percent, search_t *search_p)
{
    attempt_t attempt = {trace, device, kind, percent, search_p};
    uint64_t  last, passed, middle;
    int64_t   failed;
    bool      passes;

    memset(search_p, 0, sizeof(*search_p));
    search_p->was_made = true;
    if ((find_last(&attempt, &last) != 0) ||
        (gallop(&attempt, last, &failed, &passed) != 0)) {
        return -1;
    }
    while (search_p->has_found && ((int64_t)passed - failed > 1)) {
        middle = (uint64_t)((int64_t)passed + failed) / 2;
        if (try_step(&attempt, middle, &passes) != 0) {
            return -1;
        }
        if (passes) {
            passed = middle;
        } else {
            failed = (int64_t)middle;
        }
    }
    search_p->capacity = capacity_of(&attempt, passed);
    return 0;
}

/* --- an allocator -------------------------------------------------------- */

static void note_max(uint64_t *max, uint64_t value)
{
    *max = value > *max ? value : *max;
}

/* Record the peak that the allocator has counted. Only some allocators report a
 * peak. */
static void note_counted_peak(measure_t *measure, allocator_t *allocator)
{
    if (measure->kind->peak_reserved != NULL) {
        note_max(&measure->peak_reserved,
                 measure->kind->peak_reserved(allocator));
    }
}

static int run_round(const play_t *play, play_mode_t mode, measure_t *measure,
                     play_result_t *result)
{
    memset(result, 0, sizeof(*result));
    if (play_round(play, mode, result) != 0) {
        return -1;
    }
    note_max(&measure->num_failures, result->num_failures);
    return 0;
}

/* Measure the memory use of an allocator that starts without memory. */
static int measure_memory(const play_t *play, const measure_params_t *params,
                          measure_t *measure)
{
    play_result_t result;

    if (run_round(play, PLAY_SAMPLED, measure, &result) != 0) {
        return -1;
    }
    note_max(&measure->peak_reserved, result.peak_reserved);
    note_counted_peak(measure, play->allocator);
    return 0;
}

static int time_rounds(const play_t *play, unsigned num_rounds,
                       measure_t *measure)
{
    samples_t     again = {0};
    play_result_t result;
    int           code = 0;

    for (unsigned i = 0; (i < num_rounds) && (code == 0); i++) {
        code = run_round(play, PLAY_PLAIN, measure, &result);
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

static int time_all(const play_t *play, const measure_params_t *params,
                    measure_t *measure)
{
    play_result_t result;
    int           code;

    if (time_rounds(play, params->num_rounds, measure) != 0) {
        return -1;
    }
    code           = run_round(play, PLAY_TIMED, measure, &result);
    measure->alloc = summarize(&result.allocs);
    measure->free  = summarize(&result.frees);
    if (code != 0) {
        return -1;
    }
    note_counted_peak(measure, play->allocator);
    return 0;
}

static int reserve(const play_t *play, const measure_params_t *params)
{
    uint64_t bytes = params->reserve_bytes;
    uint64_t left;

    if (play->allocator->kind->reserve == NULL) {
        return 0;
    }
    if (params->reserve_percent > 0) {
        if (device_free_bytes(play->device, &left) != 0) {
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
    return bytes > 0 ? play->allocator->kind->reserve(play->allocator, bytes)
                     : 0;
}

/* Run a step of the measurement with a new allocator. */
static int with_allocator(int (*step)(const play_t           *play,
                                      const measure_params_t *params,
                                      measure_t              *measure),
                          const trace_t *trace, device_t *device,
                          const measure_params_t *params, measure_t *measure)
{
    play_t play = {.trace = trace, .device = device};
    int    code;

    play.allocator = allocator_create(measure->kind, device, params->capacity);
    if (play.allocator == NULL) {
        return -1;
    }
    code = reserve(&play, params);
    if (code == 0) {
        code = step(&play, params, measure);
    }
    allocator_destroy(play.allocator);
    return code;
}

int measure_run(const trace_t *trace, device_t *device,
                const allocator_kind_t *kind, const measure_params_t *params,
                measure_t *measure_p)
{
    int code;

    memset(measure_p, 0, sizeof(*measure_p));
    measure_p->kind = kind;
    code = with_allocator(measure_memory, trace, device, params, measure_p);
    if (code == 0) {
        code = with_allocator(time_all, trace, device, params, measure_p);
    }
    if ((code == 0) && params->is_searched) {
        code = search_run(trace, device, kind, params->percent,
                          &measure_p->search);
    }
    return code;
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
