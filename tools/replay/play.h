/*
 * Plays a trace against an allocator, once: a round.
 */
#ifndef REPLAY_PLAY_H
#define REPLAY_PLAY_H

#include "common/times.h"
#include "replay/allocator.h"

typedef enum play_mode {
    PLAY_PLAIN,   /* the clock is read at the begin and at the end */
    PLAY_TIMED,   /* and around every call */
    PLAY_SAMPLED, /* what is live and held is sampled; in one thread */
    PLAY_MARKED,  /* memory is written, and read before it is freed */
    PLAY_STRICT   /* the first failure ends it */
} play_mode_t;

typedef struct play {
    const trace_t *trace;
    device_t      *device;
    allocator_t   *allocator;
    /* In one thread, in the order of the trace; or each thread of the trace in
     * one of its own, as fast as it can. Then a free waits for its allocation,
     * and nothing else is ordered. */
    bool has_threads;
} play_t;

typedef struct play_result {
    uint64_t ns;           /* from the first timed event on */
    uint64_t num_failures; /* allocations that failed */
    /* PLAY_TIMED; to be released by the caller. */
    times_t allocs;
    times_t frees;
} play_result_t;

/* Evenly spaced samples, that of the peak and the last one. */
#define CURVE_MAX_POINTS 2048

typedef struct curve {
    struct {
        size_t   event;
        uint64_t live;     /* bytes, as asked for */
        uint64_t reserved; /* bytes */
    } points[CURVE_MAX_POINTS];
    size_t   num;
    uint64_t peak; /* the most that was reserved */
} curve_t;

/*
 * Play one round, then free what is still live. Returns 0, or -1 when the
 * allocator broke, after an error was printed.
 *
 * curve     Filled in PLAY_SAMPLED; else NULL.
 * result_p  Zeroed by the caller.
 */
int play_round(const play_t *play, play_mode_t mode, curve_t *curve,
               play_result_t *result_p);

#endif
