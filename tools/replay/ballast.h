/*
 * Memory of a GPU that is taken away, so that only so much is left to others:
 * how a driver's own allocators are given a capacity.
 */
#ifndef REPLAY_BALLAST_H
#define REPLAY_BALLAST_H

#include "replay/device.h"

typedef struct ballast {
    CUdeviceptr address;    /* 0: none */
    uint64_t    free_bytes; /* that were free with it, before all else */
} ballast_t;

/* Leave `capacity` bytes free; 0: all. Returns 0, or -1 after having said
 * what is wrong. */
int  ballast_take(ballast_t *ballast, device_t *device, uint64_t capacity);
void ballast_drop(ballast_t *ballast, device_t *device);

/* Bytes that were taken from the GPU since then. */
uint64_t ballast_used(const ballast_t *ballast, device_t *device);

#endif
