/*
 * Plays a trace against an allocator, once: a round.
 */
#ifndef REPLAY_PLAY_H
#define REPLAY_PLAY_H

#include "replay/allocator.h"
#include "replay/curve.h"
#include "replay/times.h"
#include "replay/trace.h"

#include <stdbool.h>

typedef enum play_mode {
    PLAY_PLAIN,   /* the clock is read at the begin and at the end */
    PLAY_TIMED,   /* and around every call */
    PLAY_SAMPLED, /* what is live and held is looked at */
    PLAY_MARKED,  /* memory is written, and read before it is freed */
    PLAY_STRICT   /* the first failure ends it */
} play_mode_t;

typedef struct play {
    const trace_t *trace;
    device_t      *device;
    allocator_t   *allocator;
    /* In one thread, in the order of the trace; or each thread of the trace in
     * one of its own, as fast as it can. Then a free waits for its allocation,
     * and nothing else is held in order. PLAY_SAMPLED has one thread. */
    bool has_threads;
} play_t;

typedef struct play_result {
    uint64_t ns;           /* from the first timed event on */
    uint64_t num_failures; /* allocations that failed */
    /* PLAY_TIMED; to be released by the caller. */
    times_t allocs;
    times_t frees;
} play_result_t;

/*
 * Play one round. What is left live is freed behind it. Zeroed memory is a
 * result without times. Returns 0, or -1 when the allocator broke, which has
 * been told.
 *
 * curve  PLAY_SAMPLED: to be filled; else NULL.
 */
int play_round(const play_t *play, play_mode_t mode, curve_t *curve,
               play_result_t *result_p);

#endif
