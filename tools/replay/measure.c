#include "replay/measure.h"
#include "common/system.h"
#include "common/error.h"

#include <stdlib.h>
#include <string.h>

#define NUM_SAMPLES    2048
#define CLOCK_READINGS 10001

/* --- a round ------------------------------------------------------------- */

typedef struct round {
    const trace_t *trace;
    allocator_t   *allocator;
    play_mode_t    mode;
    void         **addresses; /* address of each allocation; NULL: not live */
    play_result_t *result;
} round_t;

/* Returns -1 if the round must end. */
static int play_event(round_t *round, size_t index)
{
    const trace_event_t *event   = &round->trace->events[index];
    allocator_t         *to      = round->allocator;
    void                *stream  = to->device->streams[event->stream];
    uint64_t             size    = round->trace->sizes[event->allocation];
    void               **address = &round->addresses[event->allocation];
    bool                 is_timed =
        (round->mode == PLAY_TIMED) && (index >= round->trace->first_timed);
    allocator_answer_t answer;
    uint64_t           begin;

    if (event->is_free && (*address == NULL)) {
        return 0; /* the allocation failed */
    }
    begin  = is_timed ? clock_now() : 0;
    answer = event->is_free ? to->kind->free(to, *address, size, stream)
                            : to->kind->alloc(to, size, stream, address);
    if (is_timed) {
        samples_add(event->is_free ? &round->result->frees
                                   : &round->result->allocs,
                    (double)(clock_now() - begin));
    }
    if (event->is_free || (answer != ALLOCATOR_OK)) {
        *address = NULL;
    }
    if (!event->is_free && (answer == ALLOCATOR_FULL)) {
        round->result->num_failures++;
        return 0;
    }
    return answer == ALLOCATOR_OK ? 0 : -1;
}

/* Sample the held bytes at evenly spaced events, and at the peak. */
static void sample(round_t *round, size_t event)
{
    const trace_t *trace = round->trace;
    allocator_t   *from  = round->allocator;
    uint64_t       reserved;

    if ((from->kind->reserved != NULL) &&
        ((event % (trace->num_events / NUM_SAMPLES + 1) == 0) ||
         (event == trace->peak_event))) {
        reserved = from->kind->reserved(from);
        if (reserved > round->result->peak_reserved) {
            round->result->peak_reserved = reserved;
        }
    }
}

static int play_events(round_t *round)
{
    const trace_t *trace = round->trace;
    uint64_t       start = clock_now();

    for (size_t i = 0; i < trace->num_events; i++) {
        if (i == trace->first_timed) {
            start = clock_now();
        }
        if (play_event(round, i) != 0) {
            return -1;
        }
        if (round->mode == PLAY_SAMPLED) {
            sample(round, i);
        }
    }
    round->result->ns = clock_now() - start;
    return 0;
}

static int free_left(const round_t *round)
{
    const trace_t *trace  = round->trace;
    allocator_t   *to     = round->allocator;
    void          *stream = to->device->streams[0];

    for (size_t i = 0; i < trace->num_allocations; i++) {
        void *address = round->addresses[i];

        if ((address != NULL) && (to->kind->free(to, address, trace->sizes[i],
                                                 stream) != ALLOCATOR_OK)) {
            return -1;
        }
    }
    return device_settle(to->device);
}

int play_round(const trace_t *trace, allocator_t *allocator, play_mode_t mode,
               play_result_t *result_p)
{
    round_t round = {
        .trace     = trace,
        .allocator = allocator,
        .mode      = mode,
        .addresses = tool_calloc(trace->num_allocations, sizeof(void *)),
        .result    = result_p,
    };
    int code = play_events(&round);

    if (code == 0) {
        code = free_left(&round);
    }
    free(round.addresses);
    return code;
}

/* --- all rounds of an allocator ------------------------------------------ */

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
                   (with_allocator(measure, time_all) == 0)
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
