/*
 * Allocators that play a trace. Each is a table of functions. The device whose
 * memory they manage is the host or a GPU.
 *
 * Functions return 0, or -1 after printing an error.
 */
#ifndef REPLAY_ALLOCATOR_H
#define REPLAY_ALLOCATOR_H

#include "gpu/gpu.h"
#include "replay/trace.h"

#include <ucxpool/pool.h>

#include <sys/types.h>

/* --- devices ------------------------------------------------------------- */

#define DEVICE_HOST (-1)

typedef struct device {
    int    ordinal; /* DEVICE_HOST, or the driver's number */
    gpu_t  gpu;
    void **streams; /* streams of the trace, as passed to allocators: */
                    /* labels on the host, CUstreams on a GPU; NULL: the default
                       stream */
    unsigned num_streams;
} device_t;

/* Open and close a device. After an error, nothing needs to be closed. */
int  device_open(device_t *device, int ordinal, const trace_t *trace);
void device_close(device_t *device);

/* Wait for the work in all streams. */
int device_settle(device_t *device);

/* Get the number of bytes that can be allocated now. */
int device_free_bytes(device_t *device, uint64_t *bytes_p);

/* --- allocators ---------------------------------------------------------- */

typedef struct allocator allocator_t;

typedef enum allocator_answer {
    ALLOCATOR_OK,
    ALLOCATOR_FULL,  /* out of memory */
    ALLOCATOR_BROKEN /* an error was printed */
} allocator_answer_t;

typedef struct allocator_kind {
    const char *name;
    const char *doc;
    bool        needs_gpu;

    /* Initialize. capacity: the maximum number of bytes, a multiple of
     * ALLOCATOR_UNIT; 0: no limit. */
    int (*init)(allocator_t *allocator, uint64_t capacity);
    void (*cleanup)(allocator_t *allocator);

    /* Allocate memory before the first call, in multiples of ALLOCATOR_UNIT.
     * NULL: not supported. */
    int (*reserve)(allocator_t *allocator, uint64_t bytes);

    /* Allocate and free memory. May be called from any thread. stream: one of
     * device->streams. The size passed to free() is the allocated one. */
    allocator_answer_t (*alloc)(allocator_t *allocator, size_t size,
                                void *stream, void **address_p);
    allocator_answer_t (*free)(allocator_t *allocator, void *address,
                               size_t size, void *stream);

    /* Return the most bytes of memory that the allocator has held so far, or,
     * if peak_reserved is NULL, the bytes that it holds now. Return 0 after an
     * error. */
    uint64_t (*peak_reserved)(allocator_t *allocator);
    uint64_t (*reserved)(allocator_t *allocator);
} allocator_kind_t;

/* An allocator. Each kind uses some of the members. */
struct allocator {
    const allocator_kind_t *kind;
    device_t               *device;
    ucxpool_t              *pool;    /* heap */
    CUdeviceptr             ballast; /* async, plug-ins; 0: none */
    uint64_t     free_bytes;  /* free with the ballast, before any call */
    CUmemoryPool driver_pool; /* async */
};

/* Unit in which a GPU and the heap allocate memory. */
#define ALLOCATOR_UNIT (UINT64_C(2) << 20)

static inline uint64_t allocator_round_up(uint64_t bytes)
{
    return (bytes + ALLOCATOR_UNIT - 1) / ALLOCATOR_UNIT * ALLOCATOR_UNIT;
}

/* Create an allocator of a kind, in zeroed memory. */
allocator_t *allocator_create(const allocator_kind_t *kind, device_t *device,
                              uint64_t capacity);
void         allocator_destroy(allocator_t *allocator);

extern const allocator_kind_t allocator_heap;
extern const allocator_kind_t allocator_async;

/* --- plug-ins: man/ucxpool_replay.1 documents them ------------------------ */

#define PLUGIN_NAME_SIZE 16 /* with the terminating 0 */
#define PLUGIN_MAX       8

typedef struct plugin {
    allocator_kind_t kind; /* first member: allocators point to it */
    char             name[PLUGIN_NAME_SIZE];
    const char      *path;
    void            *library;
    /* Functions with the signatures of PyTorch's CUDAPluggableAllocator. */
    void *(*alloc)(ssize_t size, int device, void *stream);
    void (*free)(void *address, ssize_t size, int device, void *stream);
    /* These may be NULL. */
    int (*init)(int device, size_t capacity);
    void (*end)(void);
    size_t (*reserved)(void);
} plugin_t;

/* Parse "NAME=FILE", or "FILE" with the name "plugin". The text must stay
 * valid. Returns -1, without printing, if the name is invalid. */
int plugin_name(plugin_t *plugin, const char *text);

/* Load a plug-in, which stays loaded until the process ends. */
int plugin_load(plugin_t *plugin);

#endif
