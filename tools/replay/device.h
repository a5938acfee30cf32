/*
 * Where the memory lies: host memory, or that of a GPU; and the streams of a
 * trace there.
 */
#ifndef REPLAY_DEVICE_H
#define REPLAY_DEVICE_H

#include "gpu/gpu.h"
#include "replay/trace.h"

#define DEVICE_HOST (-1)

typedef struct device {
    int    ordinal; /* DEVICE_HOST, or as the driver counts */
    gpu_t  gpu;
    void **streams; /* of the trace, as allocators want them: names on the */
                    /* host, CUstreams on a GPU */
    unsigned num_streams;
    unsigned num_made; /* of a GPU's streams */
    void   **made;
} device_t;

/* Says what is wrong, and returns -1, where there is no such GPU. Nothing is
 * left to be closed then. */
int  device_open(device_t *device, int ordinal, const trace_t *trace);
void device_close(device_t *device);

/* Let the calling thread use the GPU; device_open() does for its own. */
int device_enter(device_t *device);

/* Wait for the work in all streams. */
int device_settle(device_t *device);

/* Bytes that there are: of the GPU, or of the machine. */
int device_total_bytes(device_t *device, uint64_t *bytes_p);

/* Bytes that may be taken now. */
int device_free_bytes(device_t *device, uint64_t *bytes_p);

/* Say that a call of the driver failed. Returns -1. */
int device_fail(device_t *device, CUresult result, const char *what);

#endif
