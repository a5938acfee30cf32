/*
 * Shared by tests of transfers on a GPU: memory of each kind, streams that
 * block until the test releases them, and messages of segments in memory of
 * several kinds.
 */
#ifndef TESTS_GPU_H
#define TESTS_GPU_H

#include "cuda_fixture.h"
#include "mem/cuda_device.h"
#include "mem/region.h"
#include "pair.h"

#include <ucxpool/ucxpool.h>

#include <stdint.h>

/* GPU 0, open between gpu_start() and gpu_stop(). */
extern mem_cuda_device_t *gpu;

/* For checked fixtures. gpu_stop() requires that all objects in the stand-in
 * have been freed. */
void gpu_start(const char *configuration);
void gpu_stop(void);

/* Let the stand-in do one pending operation. Returns false if there was
 * none. */
bool gpu_step(void);

/* The same as pair_until(), but also steps the stand-in. */
#define gpu_until(_pair, _condition) \
    pair_until((_pair), (gpu_step(), (_condition)))

/* The same as pair_finish(), but also steps the stand-in. */
ucxpool_status_t gpu_finish(pair_t *pair, ucxpool_request_t *request);
/* The same as pair_finish_both(), but also steps the stand-in. */
void gpu_finish_both(pair_t *pair, ucxpool_request_t *one,
                     ucxpool_request_t *other);

/* Create and connect two pools on GPU 0. */
void gpu_connect(pair_t *pair, const char *settings_a, const char *settings_b);
/* Wait until all blocks of both pools are free, and destroy both pools. */
void gpu_disconnect(pair_t *pair);

void *gpu_alloc(size_t size);
void  gpu_free(void *address);
void *gpu_pinned(size_t size);
void  gpu_pinned_free(void *address);

/* Allocate from a new memory pool, one allocation at a time. */
void *gpu_mempool_alloc(size_t size);
void  gpu_mempool_free(void *address);

void gpu_write(const void *target, const void *source, size_t size);
void gpu_read(void *target, const void *source, size_t size);

/* Copy between memory of any kind, after earlier work in the stream. */
void gpu_copy(CUstream stream, void *target, const void *source, size_t size);

CUstream gpu_stream(unsigned flags);
void     gpu_stream_destroy(CUstream stream);
void     gpu_stream_wait(CUstream stream);

/* A word that streams wait for. */
typedef struct gpu_gate {
    uint32_t *word;
} gpu_gate_t;

/* Create a closed gate. If a stream waits for the gate, the gate must be opened
 * before gpu_gate_cleanup(). */
void gpu_gate_init(gpu_gate_t *gate);
void gpu_gate_cleanup(gpu_gate_t *gate);
/* Make a stream wait for the gate. */
void gpu_gate_wait(const gpu_gate_t *gate, CUstream stream);
void gpu_gate_open(gpu_gate_t *gate);

/* Memory for segments. */
typedef enum gpu_place {
    GPU_PAGEABLE,
    GPU_PINNED,
    GPU_DEVICE,
    GPU_DEVICE_TOO, /* another allocation */
    GPU_RANGE,      /* virtual memory over several physical allocations */
    GPU_COMM,       /* from the pool */
    GPU_MANAGED,    /* managed memory; the stand-in uses GPU_DEVICE instead */
    GPU_PLACES
} gpu_place_t;

/* One area of memory of each kind, and its expected content. */
typedef struct gpu_memory {
    ucxpool_t    *pool;
    size_t        size; /* of each area */
    uint8_t      *areas[GPU_PLACES];
    uint8_t      *expected[GPU_PLACES];
    size_t        used[GPU_PLACES];
    mem_regions_t range;
} gpu_memory_t;

/* Each area has `size` bytes. The area GPU_COMM is allocated from the pool; if
 * pool is NULL, there is no such area. */
void gpu_memory_init(gpu_memory_t *memory, ucxpool_t *pool, size_t size);
void gpu_memory_cleanup(gpu_memory_t *memory);

/*
 * Split `length` bytes into random segments in these places (bits), with gaps
 * between them; some segments are empty. Returns their number.
 */
size_t gpu_cut(gpu_memory_t *memory, unsigned places, size_t length,
               ucxpool_segment_t *segments, size_t max);

/* Fill all areas with new bytes, and copy the bytes of the segments to the
 * message. */
void gpu_fill(gpu_memory_t *memory, const ucxpool_segment_t *segments,
              size_t num_segments, uint8_t *message);
/* Poison all areas. */
void gpu_poison(gpu_memory_t *memory);
/* Require that the segments contain the message, and that no other bytes were
 * written. */
void gpu_check(gpu_memory_t *memory, const ucxpool_segment_t *segments,
               size_t num_segments, const uint8_t *message, size_t length);

#endif
