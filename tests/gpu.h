/*
 * What tests of transfers on a GPU share: memory of each kind, streams that
 * stand still until the test lets them go on, and messages of segments that lie
 * in memory of several kinds.
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

/* For checked fixtures. gpu_stop() requires that nothing is left in the
 * stand-in. */
void gpu_start(const char *configuration);
void gpu_stop(void);

/* Has the stand-in something to do, it does it: one operation. */
bool gpu_step(void);

/* As pair_until(), with the stand-in at work. */
#define gpu_until(_pair, _condition) \
    pair_until((_pair), (gpu_step(), (_condition)))

/* As pair_finish(), likewise. */
ucxpool_status_t gpu_finish(pair_t *pair, ucxpool_request_t *request);

/* Both pools on GPU 0. */
void gpu_connect(pair_t *pair, const char *settings_a, const char *settings_b);
/* Both become whole, and are destroyed. */
void gpu_disconnect(pair_t *pair);

void *gpu_alloc(size_t size);
void  gpu_free(void *address);
void *gpu_pinned(size_t size);
void  gpu_pinned_free(void *address);

/* Of a memory pool of its own, one at a time; is_shared: that other processes
 * may have. */
void *gpu_mempool_alloc(size_t size, bool is_shared);
void  gpu_mempool_free(void *address);

void gpu_write(const void *target, const void *source, size_t size);
void gpu_read(void *target, const void *source, size_t size);

/* Between memory of any kind, behind what is in the stream. */
void gpu_copy(CUstream stream, void *target, const void *source, size_t size);

CUstream gpu_stream(unsigned flags);
void     gpu_stream_destroy(CUstream stream);
void     gpu_stream_wait(CUstream stream);

/* A word that streams wait for. */
typedef struct gpu_gate {
    uint32_t *word;
} gpu_gate_t;

/* Shut; to be opened before it goes, if a stream waits for it. */
void gpu_gate_init(gpu_gate_t *gate);
void gpu_gate_cleanup(gpu_gate_t *gate);
/* Let a stream wait there. */
void gpu_gate_wait(const gpu_gate_t *gate, CUstream stream);
void gpu_gate_open(gpu_gate_t *gate);

/* Memory that segments may lie in. */
typedef enum gpu_place {
    GPU_PAGEABLE,
    GPU_PINNED,
    GPU_DEVICE,
    GPU_DEVICE_TOO, /* another allocation */
    GPU_RANGE,      /* virtual memory over several physical allocations */
    GPU_COMM,       /* of the pool */
    GPU_MANAGED,    /* the stand-in has none: there it is GPU_DEVICE */
    GPU_PLACES
} gpu_place_t;

/* One of each kind, and what should be in them. */
typedef struct gpu_memory {
    ucxpool_t    *pool;
    size_t        size; /* of each */
    uint8_t      *areas[GPU_PLACES];
    uint8_t      *expected[GPU_PLACES];
    size_t        used[GPU_PLACES];
    mem_regions_t range;
} gpu_memory_t;

/* Each area has room for `size` bytes; the pool is for GPU_COMM, and NULL for
 * none of it. */
void gpu_memory_init(gpu_memory_t *memory, ucxpool_t *pool, size_t size);
void gpu_memory_cleanup(gpu_memory_t *memory);

/*
 * Cut `length` bytes into segments in these places (bits), at random, with
 * gaps between them; segments without bytes are among them. Returns how many.
 */
size_t gpu_cut(gpu_memory_t *memory, unsigned places, size_t length,
               ucxpool_segment_t *segments, size_t max);

/* Fill all areas with fresh bytes, and take the segments' as a message. */
void gpu_fill(gpu_memory_t *memory, const ucxpool_segment_t *segments,
              size_t num_segments, uint8_t *message);
/* Poison all areas. */
void gpu_poison(gpu_memory_t *memory);
/* Require that the segments hold the message, and that nothing else was
 * written. */
void gpu_check(gpu_memory_t *memory, const ucxpool_segment_t *segments,
               size_t num_segments, const uint8_t *message, size_t length);

#endif
