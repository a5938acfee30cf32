/*
 * Functions that play a trace on allocators, measure the allocators and report
 * the results.
 */
#ifndef REPLAY_MEASURE_H
#define REPLAY_MEASURE_H

#include "common/samples.h"
#include "replay/allocator.h"

/* --- a round: the trace is played once ------------------------------------ */

typedef enum play_mode {
    PLAY_PLAIN,  /* the clock is read at the start and at the end */
    PLAY_TIMED,  /* the clock is also read around every call */
    PLAY_SAMPLED /* held bytes are sampled */
} play_mode_t;

typedef struct play_result {
    uint64_t ns;            /* time since the first timed event */
    uint64_t num_failures;  /* allocations that failed */
    uint64_t peak_reserved; /* PLAY_SAMPLED: bytes; maximum of the samples */
    /* PLAY_TIMED: ns of each call. The caller releases these samples. */
    samples_t allocs;
    samples_t frees;
} play_result_t;

/*
 * Play one round, then free all live allocations. Returns 0. If the allocator
 * failed for a reason other than lack of memory, prints an error and returns
 * -1.
 *
 * result_p  Zeroed by the caller.
 */
int play_round(const trace_t *trace, allocator_t *allocator, play_mode_t mode,
               play_result_t *result_p);

/* --- all rounds of an allocator ------------------------------------------- */

#define MEASURE_MAX_ROUNDS 1000

typedef struct measure_params {
    uint64_t capacity;   /* 0: none */
    unsigned num_rounds; /* rounds that are timed as a whole */

    /* Memory that the heap reserves before the first round. If both are 0, it
     * reserves none. */
    uint64_t reserve_bytes;
    unsigned reserve_percent; /* percentage of the free memory */
} measure_params_t;

/* Times of calls in ns; all 0 if there were no calls. */
typedef struct call_times {
    uint64_t median;
    uint64_t p99;
    uint64_t max;
} call_times_t;

typedef struct measure {
    /* What to measure, set by the caller. The rest is zero. */
    const trace_t          *trace;
    device_t               *device;
    const measure_params_t *params;
    const allocator_kind_t *kind;

    /* The results. */
    call_times_t alloc;
    call_times_t free;
    uint64_t     first_ns;     /* the first round, on a new allocator */
    uint64_t     again_ns;     /* the median of the others; 0: none */
    uint64_t     num_failures; /* failed allocations in the worst round */
    uint64_t     peak_reserved;
} measure_t;

/* Measure an allocator. Returns 0, or -1 after printing an error if the
 * allocator is broken. */
int measure_run(measure_t *measure);

/* --- the report (report.c) ------------------------------------------------ */

/* Print the trace and the device of a measurement, and the calls that were left
 * out. */
void report_trace(const measure_t *measure, FILE *stream);

/* Print or write as CSV the results of several allocators, which have the same
 * trace, device and params. */
void report_table(const measure_t *measures, unsigned num, FILE *stream);
void report_csv(const measure_t *measures, unsigned num, FILE *stream);

/* Returns the time to read the clock once, in ns. */
uint64_t measure_clock(void);

#endif
