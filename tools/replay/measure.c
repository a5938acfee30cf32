#include "replay/measure.h"
#include "common/clock.h"
#include "replay/error.h"
#include "replay/play.h"
#include "replay/progress.h"

#include <string.h>

#define CLOCK_READINGS 10001

static void note_failures(measure_t *measure, uint64_t num)
{
    if (num > measure->num_failures) {
        measure->num_failures = num;
    }
}

static void note_peak(measure_t *measure, uint64_t reserved)
{
    if (reserved > measure->peak_reserved) {
        measure->peak_reserved = reserved;
    }
}

/* What an allocator that counts has held at most. */
static void note_counted_peak(measure_t *measure, allocator_t *allocator)
{
    if (measure->kind->peak_reserved != NULL) {
        note_peak(measure, measure->kind->peak_reserved(allocator));
    }
}

/* How much memory it takes, when it begins with none. */
static int look(const play_t *play, measure_t *measure)
{
    play_result_t result = {0};

    progress_say("%s: a round to see what it holds", measure->kind->name);
    if (play_round(play, PLAY_SAMPLED, &measure->curve, &result) != 0) {
        return -1;
    }
    note_failures(measure, result.num_failures);
    note_peak(measure, curve_peak(&measure->curve));
    note_counted_peak(measure, play->allocator);
    return 0;
}

static int time_rounds(const play_t *play, unsigned num_rounds,
                       measure_t *measure)
{
    uint64_t      again[MEASURE_MAX_ROUNDS];
    play_result_t result = {0};

    for (unsigned i = 0; i < num_rounds; i++) {
        progress_say("%s: round %u of %u", measure->kind->name, i + 1,
                     num_rounds);
        if (play_round(play, PLAY_PLAIN, NULL, &result) != 0) {
            return -1;
        }
        note_failures(measure, result.num_failures);
        if (i == 0) {
            measure->first_ns = result.ns;
        } else {
            again[i - 1] = result.ns;
        }
    }
    measure->again_ns = times_median(again, num_rounds - 1);
    return 0;
}

static int time_calls(const play_t *play, measure_t *measure)
{
    play_result_t result = {0};
    int           code;

    progress_say("%s: a round in which calls are timed", measure->kind->name);
    code = play_round(play, PLAY_TIMED, NULL, &result);
    if (code == 0) {
        note_failures(measure, result.num_failures);
        times_summarize(&result.allocs, &measure->alloc);
        times_summarize(&result.frees, &measure->free);
    }
    times_cleanup(&result.allocs);
    times_cleanup(&result.frees);
    return code;
}

static int time_all(const play_t *play, const measure_params_t *params,
                    measure_t *measure)
{
    play_result_t result = {0};

    if ((time_rounds(play, params->num_rounds, measure) != 0) ||
        (time_calls(play, measure) != 0)) {
        return -1;
    }
    if (params->is_marked && !measure->kind->is_simulated) {
        progress_say("%s: a round in which memory is read and written",
                     measure->kind->name);
        if (play_round(play, PLAY_MARKED, NULL, &result) != 0) {
            return -1;
        }
    }
    note_counted_peak(measure, play->allocator);
    return 0;
}

typedef int (*step_t)(const play_t *play, const measure_params_t *params,
                      measure_t *measure);

static int look_first(const play_t *play, const measure_params_t *params,
                      measure_t *measure)
{
    (void)params;
    return look(play, measure);
}

static int reserve(const play_t *play, const measure_params_t *params)
{
    const reserve_t *reserve = &params->reserve;
    uint64_t         bytes;

    if (play->allocator->kind->reserve == NULL) {
        return 0;
    }
    if (reserve_bytes(reserve, play->device, &bytes) != 0) {
        return -1;
    }
    if ((params->capacity != 0) && (bytes > params->capacity)) {
        return replay_error("--reserve takes %llu bytes and -c allows %llu: "
                            "lower --reserve or raise -c",
                            (unsigned long long)bytes,
                            (unsigned long long)params->capacity);
    }
    return bytes > 0 ? play->allocator->kind->reserve(play->allocator, bytes)
                     : 0;
}

/* Do a step with a new allocator. */
static int with_allocator(step_t step, const trace_t *trace, device_t *device,
                          const measure_params_t *params, measure_t *measure)
{
    play_t play = {
        .trace = trace, .device = device, .has_threads = params->has_threads};
    uint64_t capacity = params->capacity;
    int      code;

    if ((capacity == 0) &&
        (measure->kind->is_simulated || (measure->kind == &allocator_heap))) {
        capacity = params->heap_limit;
    }
    if (measure->kind->create(measure->kind, device, capacity,
                              &play.allocator) != 0) {
        return -1;
    }
    code = reserve(&play, params);
    if (code == 0) {
        code = step(&play, params, measure);
    }
    measure->kind->destroy(play.allocator);
    return code;
}

static int run_all(const trace_t *trace, device_t *device,
                   const measure_params_t *params, measure_t *measure)
{
    if ((with_allocator(look_first, trace, device, params, measure) != 0) ||
        (with_allocator(time_all, trace, device, params, measure) != 0)) {
        return -1;
    }
    return params->is_searched ? search_run(trace, device, measure->kind,
                                            params->percent, &measure->search)
                               : 0;
}

int measure_run(const trace_t *trace, device_t *device,
                const allocator_kind_t *kind, const measure_params_t *params,
                measure_t *measure_p)
{
    int code;

    memset(measure_p, 0, sizeof(*measure_p));
    measure_p->kind = kind;
    code            = run_all(trace, device, params, measure_p);
    progress_clear();
    return code;
}

uint64_t measure_clock(void)
{
    uint64_t ns[CLOCK_READINGS];

    for (unsigned i = 0; i < CLOCK_READINGS; i++) {
        uint64_t start = clock_now();

        ns[i] = clock_now() - start;
    }
    return times_median(ns, CLOCK_READINGS);
}
