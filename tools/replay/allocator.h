/*
 * Allocators on which a trace is played, each a table of functions, and the
 * device whose memory they manage: the host or a GPU.
 *
 * Functions return 0, or -1 after printing an error.
 */
#ifndef REPLAY_ALLOCATOR_H
#define REPLAY_ALLOCATOR_H

#include "gpu/gpu.h"
#include "replay/trace.h"

#include <ucxpool/pool.h>

#include <pthread.h>
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

/* Let the calling thread use the GPU; device_open() does so for its own
 * thread. */
int device_enter(device_t *device);

/* Wait for the work in all streams. */
int device_settle(device_t *device);

/* Get the number of bytes that can be allocated now. */
int device_free_bytes(device_t *device, uint64_t *bytes_p);

/* Print that a call of the driver failed. Returns -1. */
int device_fail(device_t *device, CUresult result, const char *what);

/* --- best fit ------------------------------------------------------------ */

/*
 * A simulation of a classic pool, which has one arena, allocates by best fit,
 * and merges free neighbours. The simulation has no memory.
 *
 *     arena   | live |  free  | live | live |   free          |
 *     blocks   <----> <------> ...       doubly linked, in order of addresses
 *
 * An allocation takes the smallest sufficient free block, or the first of
 * several equal ones, and splits off the rest. RMM's pool and similar pools
 * work in this way. Their free lists per stream are not simulated: a freed
 * block is free for every stream, so real pools need at least as much memory as
 * this one.
 */
#define BEST_FIT_ALIGNMENT ((uint64_t)256)

typedef struct best_fit       best_fit_t;
typedef struct best_fit_block best_fit_block_t;

best_fit_t *best_fit_create(uint64_t capacity);
/* Destroy a pool with all of its blocks. */
void best_fit_destroy(best_fit_t *pool);

/* Allocate a block. Returns 0, or 1 if no free block is large enough. size is
 * not 0. */
int best_fit_alloc(best_fit_t *pool, uint64_t size, best_fit_block_t **block_p);
void best_fit_free(best_fit_t *pool, best_fit_block_t *block);

/* Return the offset of a block in the arena, and its size in bytes. */
uint64_t best_fit_offset(const best_fit_block_t *block);
uint64_t best_fit_size(const best_fit_block_t *block);

/* Returns the highest offset of the arena that was ever used. */
uint64_t best_fit_top(const best_fit_t *pool);

/* Returns true if the blocks are adjacent and cover the arena, no two
 * neighbours are free, and all free blocks can be found by size. */
int best_fit_is_sane(const best_fit_t *pool);

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
    bool        is_simulated; /* addresses have no memory */

    /* Initialize. capacity: the maximum number of bytes, a multiple of
     * ALLOCATOR_UNIT; 0: no limit. */
    int (*init)(allocator_t *allocator, uint64_t capacity);
    void (*cleanup)(allocator_t *allocator);

    /* Allocate memory before the first call, in multiples of ALLOCATOR_UNIT.
     * NULL: not supported. */
    int (*reserve)(allocator_t *allocator, uint64_t bytes);

    /* Allocate and free memory. May be called from any thread. stream: one of
     * device->streams. size: as allocated. */
    allocator_answer_t (*alloc)(allocator_t *allocator, size_t size,
                                void *stream, void **address_p);
    allocator_answer_t (*free)(allocator_t *allocator, void *address,
                               size_t size, void *stream);

    /* Return the bytes of memory that the allocator holds now, and the maximum
     * so far (may be NULL). Return 0 after an error. */
    uint64_t (*reserved)(allocator_t *allocator);
    uint64_t (*peak_reserved)(allocator_t *allocator);
} allocator_kind_t;

/* An allocator. Each kind uses some of the members. */
struct allocator {
    const allocator_kind_t *kind;
    device_t               *device;
    ucxpool_t              *pool;       /* heap */
    CUdeviceptr             ballast;    /* cuda, async, plug-ins; 0: none */
    uint64_t                free_bytes; /* with the ballast, before any call */
    gpu_pools_t             calls;      /* async */
    CUmemoryPool            driver_pool;
    best_fit_t             *best_fit;
    pthread_mutex_t         mutex; /* of best_fit */
};

/* Unit in which a GPU and the heap allocate memory. */
#define ALLOCATOR_UNIT (UINT64_C(2) << 20)

/* Create an allocator of a kind, in zeroed memory. */
allocator_t *allocator_create(const allocator_kind_t *kind, device_t *device,
                              uint64_t capacity);
void         allocator_destroy(allocator_t *allocator);

extern const allocator_kind_t allocator_heap;
extern const allocator_kind_t allocator_async;
extern const allocator_kind_t allocator_best_fit;

/* Get the capacity of the heap if none is given: UCXPOOL_MEMORY_LIMIT minus the
 * blocks, a multiple of ALLOCATOR_UNIT. */
int allocator_heap_limit(device_t *device, uint64_t *bytes_p);

#define ALLOCATOR_NUM_KINDS 4

extern const allocator_kind_t *const allocator_kinds[ALLOCATOR_NUM_KINDS];

/* Returns the kind with this name, or NULL if there is none. */
const allocator_kind_t *allocator_find(const char *name);

/* --- plug-ins: man/ucxpool_replay.1 documents them ------------------------ */

#define PLUGIN_NAME_SIZE 16 /* with the zero */
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
