/*
 * Memory over time: samples of what is live and what an allocator holds.
 */
#ifndef REPLAY_CURVE_H
#define REPLAY_CURVE_H

#include <stddef.h>
#include <stdint.h>

typedef struct curve_point {
    size_t   event;
    uint64_t live;     /* bytes, as asked for */
    uint64_t reserved; /* bytes */
} curve_point_t;

/* Beside the evenly spaced ones, the peak's and the end's. */
#define CURVE_MAX_POINTS 2048

typedef struct curve {
    curve_point_t points[CURVE_MAX_POINTS];
    size_t        num;
} curve_t;

/* Events between two samples of a trace of so many. */
size_t curve_step(size_t num_events);

/* What is behind the last one that has room is left out. */
void curve_add(curve_t *curve, curve_point_t point);

/* The most that was held. */
uint64_t curve_peak(const curve_t *curve);

#endif
