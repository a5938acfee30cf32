/*
 * These functions list the GPUs on which this process can create pools, and
 * report how a pool would use each GPU. A program can create pools without
 * calling these functions.
 *
 * The first call loads the CUDA driver. A process that is forked afterwards
 * cannot use a GPU, so fork before the first call.
 */
#ifndef UCXPOOL_DEVICE_H
#define UCXPOOL_DEVICE_H

#include <ucxpool/config.h>
#include <ucxpool/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Capabilities of a GPU and its driver. */
typedef enum ucxpool_device_ability {
    /* other processes can open handles of memory from cuMemAlloc() */
    UCXPOOL_DEVICE_IPC = 1u << 0,
    /* the GPU supports virtual memory management: cuMemCreate(), cuMemMap() */
    UCXPOOL_DEVICE_VMM = 1u << 1,
    /* virtual memory can be exported as file descriptors, to processes on the
     * same host */
    UCXPOOL_DEVICE_POSIX_HANDLES = 1u << 2,
    /* virtual memory can be exported as fabric handles, to hosts in the same
     * NVLink domain; the system may still forbid their use */
    UCXPOOL_DEVICE_FABRIC_HANDLES = 1u << 3,
    /* network cards can access memory from cuMemAlloc() (GPUDIRECT) and virtual
     * memory (GPUDIRECT_VMM) */
    UCXPOOL_DEVICE_GPUDIRECT     = 1u << 4,
    UCXPOOL_DEVICE_GPUDIRECT_VMM = 1u << 5,
    /* memory can be exported to other kernel drivers as a dmabuf */
    UCXPOOL_DEVICE_DMABUF = 1u << 6,
    /* a stream can write a word to memory; the pool uses this to detect that a
     * copy is complete */
    UCXPOOL_DEVICE_MEM_OPS = 1u << 7
} ucxpool_device_ability_t;

/* The capabilities of UCX in this process for a GPU's memory. */
typedef enum ucxpool_device_ucx {
    /* UCX can send from GPU memory; otherwise the library never passes a GPU
     * address to UCX */
    UCXPOOL_DEVICE_UCX_TAKES = 1u << 0,
    /* UCX can also share virtual memory with peers on the same host */
    UCXPOOL_DEVICE_UCX_SHARES_VMM = 1u << 1
} ucxpool_device_ucx_t;

/* The kind of memory for the blocks of a GPU pool; see CUDA_BACKING. */
typedef enum ucxpool_cuda_backing {
    UCXPOOL_CUDA_BACKING_NONE  = 0, /* no pool can be created */
    UCXPOOL_CUDA_BACKING_ALLOC = 1, /* one cuMemAlloc() allocation */
    UCXPOOL_CUDA_BACKING_VMM   = 2, /* one cuMemCreate() for each region */
    UCXPOOL_CUDA_BACKING_HOST  = 3  /* pinned host memory */
} ucxpool_cuda_backing_t;

/* Fields that are filled only on request, because querying them takes time. */
typedef enum ucxpool_device_attr_field {
    /* temporarily creates a CUDA context on the GPU, if it has none */
    UCXPOOL_DEVICE_ATTR_FIELD_MEMORY_FREE = 1u << 0,
    /* temporarily loads NVIDIA's management library */
    UCXPOOL_DEVICE_ATTR_FIELD_BAR1 = 1u << 1,
    /* temporarily starts UCX */
    UCXPOOL_DEVICE_ATTR_FIELD_BACKING = 1u << 2
} ucxpool_device_attr_field_t;

/*
 * The caller sets field_mask, and the library fills the other fields. Fields
 * that were not requested are 0 or "".
 */
typedef struct ucxpool_device_attr {
    uint64_t field_mask;
    char     name[64];
    char     bus_id[16]; /* "0000:19:00.0" */
    char     uuid[48];   /* "GPU-8f4e...", as nvidia-smi prints it */
    uint64_t memory_size;
    int      cuda_version; /* the driver's version: 12040 is 12.4 */
    int      compute_major;
    int      compute_minor;
    int      num_processors; /* multiprocessors */
    uint32_t abilities;      /* set of ucxpool_device_ability_t */

    /* MEMORY_FREE */
    uint64_t memory_free;

    /*
     * BAR1, the window through which other devices of the machine access the
     * GPU's memory. Memory that is registered with a network card must fit in
     * BAR1. If bar1_size is 0, the size is unknown (the query needs NVIDIA's
     * management library) or the GPU has no BAR1. bar1_reason then contains the
     * cause. The sizes are in bytes.
     */
    uint64_t bar1_size;
    uint64_t bar1_used;
    uint64_t bar1_free;
    char     bar1_reason[224];
    char     driver_version[32]; /* "580.159.03"; "" if unknown */

    /* BACKING: the memory that ucxpool_create() would use, and why. */
    ucxpool_cuda_backing_t backing;
    char                   backing_reason[256];
    uint32_t               ucx_abilities; /* set of ucxpool_device_ucx_t */
} ucxpool_device_attr_t;

/*
 * Returns the number of GPUs that this process can use. GPUs have the same
 * numbers as in the CUDA driver, from 0 (CUDA_VISIBLE_DEVICES selects and
 * orders them).
 *
 * Returns 0 if there is no driver, the driver is too old, there is no GPU, or
 * the process was forked from a process that had used CUDA.
 * ucxpool_error_detail() then names the cause.
 */
int ucxpool_device_count(void);

/*
 * Get the attributes of one GPU and the backing that a pool on it would use.
 * Does not change the calling thread's current CUDA context.
 *
 * device           GPU index, starting at 0.
 * config           Settings; CUDA_BACKING is used. NULL: the settings
 *                  that ucxpool_config_read() returns.
 * attr_p [in,out]  Unchanged after an error.
 * attr_size        sizeof(*attr_p), see ucxpool.h.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such GPU, attr_p is NULL, or attr_size is less
 *                            than sizeof(attr_p->field_mask); or config is NULL
 *                            and a setting of the environment is invalid
 * UCXPOOL_ERR_UNSUPPORTED    ucxpool_device_count() is 0
 * UCXPOOL_ERR_NO_MEMORY      out of memory, or too little memory on the GPU for
 *                            a context
 * UCXPOOL_ERR_IO             the driver failed
 */
ucxpool_status_t ucxpool_device_query(int                     device,
                                      const ucxpool_config_t *config,
                                      ucxpool_device_attr_t  *attr_p,
                                      size_t                  attr_size);

/*
 * Allocate memory for arrays that are passed to a pool on a GPU: addresses of
 * pieces (ucxpool_data_pieces()), segments, and offsets in windows
 * (ucxpool_places_even()). The memory is pinned host memory, so that the GPU
 * can read long arrays itself. Pinned memory from CUDA (cuMemHostAlloc(),
 * cudaMallocHost()) works equally well. Allocating takes 100 us or more, so
 * reuse the memory.
 *
 * device      GPU index, starting at 0. Other GPUs can also read the memory.
 * size        Bytes, 1 or more.
 * list_p      [out] Aligned to 64 bytes. Free it with
 *             ucxpool_device_list_free(), which may be called after the last
 *             pool has been destroyed.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such GPU, size is 0, or list_p is NULL
 * UCXPOOL_ERR_UNSUPPORTED    there is no GPU, as for ucxpool_device_count()
 * UCXPOOL_ERR_NO_MEMORY      not enough pinned memory
 * UCXPOOL_ERR_IO             the driver failed
 */
ucxpool_status_t ucxpool_device_list_alloc(int device, size_t size,
                                           void **list_p);

/* Free memory from ucxpool_device_list_alloc(). NULL is allowed. Like
 * cuMemFreeHost(), may wait for work on the GPUs, with no timeout. */
void ucxpool_device_list_free(void *list);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
