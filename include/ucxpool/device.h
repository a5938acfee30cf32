/*
 * The GPUs that this process can have pools on, and what a pool would make of
 * each. A pool can be created without any of this.
 *
 * The first call loads the CUDA driver. A process forked after that cannot use
 * a GPU, so fork before.
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

/* What a GPU and its driver can do. */
typedef enum ucxpool_device_ability {
    /* memory of cuMemAlloc has handles that other processes can open */
    UCXPOOL_DEVICE_IPC = 1u << 0,
    /* virtual memory: cuMemCreate, and mapped */
    UCXPOOL_DEVICE_VMM = 1u << 1,
    /* its handles can be files, for other processes of the host */
    UCXPOOL_DEVICE_POSIX_HANDLES = 1u << 2,
    /* or be for hosts of one NVLink domain; these may still not be permitted */
    UCXPOOL_DEVICE_FABRIC_HANDLES = 1u << 3,
    /* network cards reach memory of cuMemAlloc, and virtual memory */
    UCXPOOL_DEVICE_GPUDIRECT     = 1u << 4,
    UCXPOOL_DEVICE_GPUDIRECT_VMM = 1u << 5,
    /* memory can be given to other drivers of the kernel as a file */
    UCXPOOL_DEVICE_DMABUF = 1u << 6,
    /* a stream can write a word, by which the pool sees that a copy is done */
    UCXPOOL_DEVICE_MEM_OPS = 1u << 7
} ucxpool_device_ability_t;

/* What the UCX of this process can do with a GPU's memory. */
typedef enum ucxpool_device_ucx {
    /* it sends from there; if not, it never sees a GPU's address */
    UCXPOOL_DEVICE_UCX_TAKES = 1u << 0,
    /* it also shares virtual memory with peers of the same host */
    UCXPOOL_DEVICE_UCX_SHARES_VMM = 1u << 1
} ucxpool_device_ucx_t;

/* What the blocks of a pool on a GPU are; see CUDA_BACKING. */
typedef enum ucxpool_cuda_backing {
    UCXPOOL_CUDA_BACKING_NONE  = 0, /* no pool is possible */
    UCXPOOL_CUDA_BACKING_ALLOC = 1, /* one allocation of cuMemAlloc */
    UCXPOOL_CUDA_BACKING_VMM   = 2, /* virtual memory, region by region */
    UCXPOOL_CUDA_BACKING_HOST  = 3  /* pinned host memory */
} ucxpool_cuda_backing_t;

/* What is told only when it is asked for, because it takes time. */
typedef enum ucxpool_device_attr_field {
    /* makes a CUDA context on the GPU for a moment, if it has none */
    UCXPOOL_DEVICE_ATTR_FIELD_MEMORY_FREE = 1u << 0,
    /* loads NVIDIA's management library for a moment */
    UCXPOOL_DEVICE_ATTR_FIELD_BAR1 = 1u << 1,
    /* starts UCX for a moment */
    UCXPOOL_DEVICE_ATTR_FIELD_BACKING = 1u << 2
} ucxpool_device_attr_field_t;

/* The caller sets field_mask; all else is filled. What was not asked for is 0
 * or "". */
typedef struct ucxpool_device_attr {
    uint64_t field_mask;
    char     name[64];
    char     bus_id[16]; /* "0000:19:00.0" */
    char     uuid[48];   /* "GPU-8f4e...", as nvidia-smi has it */
    uint64_t memory_size;
    int      cuda_version; /* of the driver: 12040 is 12.4 */
    int      compute_major;
    int      compute_minor;
    int      num_processors; /* multiprocessors */
    uint32_t abilities;      /* set of ucxpool_device_ability_t */

    /* MEMORY_FREE */
    uint64_t memory_free;

    /*
     * BAR1, the window through which other devices of the machine reach the
     * GPU's memory: what is registered with a network card has to fit in it.
     * Size 0: not known, or there is none; the reason tells. Where NVIDIA's
     * management library is not there the kernel tells the size, but not how
     * much is used; then there is a reason, too.
     */
    uint64_t bar1_size;
    uint64_t bar1_used;
    uint64_t bar1_free;
    char     bar1_reason[224];
    char     driver_version[32]; /* "580.159.03"; "": not known */

    /* BACKING: what ucxpool_create() would take, why, and what follows. */
    ucxpool_cuda_backing_t backing;
    char                   backing_reason[256];
    uint32_t               ucx_abilities; /* set of ucxpool_device_ucx_t */
} ucxpool_device_attr_t;

/*
 * How many GPUs this process has. They are counted from 0, as the CUDA driver
 * does (CUDA_VISIBLE_DEVICES chooses which, and in what order).
 *
 * 0 where there is no driver, one that is too old, no GPU, or the process was
 * forked from one that had used CUDA: ucxpool_error_detail() tells which.
 */
int ucxpool_device_count(void);

/*
 * What one GPU is, and what a pool would make of it. The calling thread's
 * current CUDA context is left as it is.
 *
 * device           From 0.
 * config           Settings; NULL: as ucxpool_config_read() has them. Used for
 *                  CUDA_BACKING.
 * attr_p [in,out]  Unchanged after an error.
 * attr_size        sizeof(*attr_p), see ucxpool.h.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such GPU, attr_p is NULL, or attr_size is less
 *                            than sizeof(attr_p->field_mask); without config:
 *                            as for ucxpool_config_read()
 * UCXPOOL_ERR_UNSUPPORTED    there is no GPU, as for ucxpool_device_count()
 * UCXPOOL_ERR_NO_MEMORY      no room for a context on the GPU
 * UCXPOOL_ERR_IO             the driver failed
 */
ucxpool_status_t ucxpool_device_query(int                     device,
                                      const ucxpool_config_t *config,
                                      ucxpool_device_attr_t  *attr_p,
                                      size_t                  attr_size);

/*
 * Memory for arrays that are given to a pool on a GPU: of addresses of pieces
 * (ucxpool_data_pieces()), of segments, and of offsets in windows
 * (ucxpool_places_even()). It is pinned host memory, so that the GPU reads long
 * arrays itself; any that CUDA gives (cuMemHostAlloc(), cudaMallocHost()) does
 * as well. To get it takes some 100 us or more, so keep it and use it again.
 *
 * device      From 0; other GPUs read it, too.
 * size        Bytes, 1 or more.
 * list_p      [out] At a multiple of 64. To be given back by
 *             ucxpool_device_list_free(), also after the last pool is gone.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such GPU, size is 0, or list_p is NULL
 * UCXPOOL_ERR_UNSUPPORTED    there is no GPU, as for ucxpool_device_count()
 * UCXPOOL_ERR_NO_MEMORY      there is not so much memory to be pinned
 * UCXPOOL_ERR_IO             the driver failed
 */
ucxpool_status_t ucxpool_device_list_alloc(int device, size_t size,
                                           void **list_p);

/* NULL is allowed. May wait for what GPUs are doing. */
void ucxpool_device_list_free(void *list);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
