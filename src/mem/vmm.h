/*
 * Virtual memory by hand: addresses, physical chunks, and mappings of the one
 * at the other, in host memory or that of a GPU; and fences, which tell how far
 * the work in a stream has come.
 *
 * A chunk can be mapped several times, always as a whole. It is destroyed only
 * when it is mapped nowhere.
 */
#ifndef MEM_VMM_H
#define MEM_VMM_H

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Chunks are multiples of it on every machine, and lie at multiples of it. */
#define MEM_VMM_PAGE_SIZE ((size_t)2 << 20)

/* mem/cuda_device.h */
struct mem_cuda_device;

/* Names a chunk; 0 names none. */
typedef uint64_t mem_chunk_t;

typedef struct mem_vmm   mem_vmm_t;
typedef struct mem_fence mem_fence_t;

struct mem_vmm {
    const struct mem_vmm_calls *calls;
    /* There are no streams: what is freed is free. */
    bool is_host;
};

/* What the kinds differ in. After an error nothing has changed. */
typedef struct mem_vmm_calls {
    void (*destroy)(mem_vmm_t *vmm);

    /* Reserve addresses at a multiple of `alignment`, a power of two; release
     * them when nothing is mapped there. */
    ucxpool_status_t (*reserve)(mem_vmm_t *vmm, size_t size, size_t alignment,
                                void **address_p);
    void (*release)(mem_vmm_t *vmm, void *address, size_t size);

    /* UCXPOOL_ERR_NO_MEMORY: there is no such chunk. */
    ucxpool_status_t (*chunk_create)(mem_vmm_t *vmm, size_t size,
                                     mem_chunk_t *chunk_p);
    void (*chunk_destroy)(mem_vmm_t *vmm, mem_chunk_t chunk, size_t size);
    /* The file that a chunk is a part of, which stays where it is, and cannot
     * shrink; and where in it. NULL: chunks are no parts of files. */
    void (*chunk_file)(mem_vmm_t *vmm, mem_chunk_t chunk, int *fd_p,
                       uint64_t *offset_p);

    /* Map a chunk, and let it be used: one call of allow() for many of map()
     * that lie side by side. Unmap whole mappings, in which no work may be
     * running. */
    ucxpool_status_t (*map)(mem_vmm_t *vmm, void *address, mem_chunk_t chunk,
                            size_t size);
    ucxpool_status_t (*allow)(mem_vmm_t *vmm, void *address, size_t size);
    ucxpool_status_t (*unmap)(mem_vmm_t *vmm, void *address, size_t size);

    /*
     * A fence behind what is in a stream now. Never called where is_host is
     * true, nor are the next four.
     */
    ucxpool_status_t (*fence_set)(mem_vmm_t *vmm, void *stream,
                                  mem_fence_t **fence_p);
    /* Has the stream come there? False also when the driver does not say. */
    bool (*fence_is_reached)(mem_vmm_t *vmm, mem_fence_t *fence);
    /* Let what comes into another stream from now on wait for it. */
    ucxpool_status_t (*fence_wait)(mem_vmm_t *vmm, mem_fence_t *fence,
                                   void *stream);
    /* Wait here. */
    ucxpool_status_t (*fence_sync)(mem_vmm_t *vmm, mem_fence_t *fence);
    void (*fence_put)(mem_vmm_t *vmm, mem_fence_t *fence);

    /* Bytes that the machine or the GPU has, and those of them free now. */
    ucxpool_status_t (*sizes)(mem_vmm_t *vmm, uint64_t *total_p,
                              uint64_t *free_p);
} mem_vmm_calls_t;

/* The two kinds; mem_kind_t (mem/region.h) has the one that goes with it. */

/*
 * Host memory: a memfd, which chunks are pieces of. Where the machine has no
 * memory for a chunk, its creation fails, and no later access. No device is
 * looked at.
 *
 * UCXPOOL_ERR_IO         the system gave no file
 * UCXPOOL_ERR_NO_MEMORY  no memory for the bookkeeping
 */
ucxpool_status_t mem_vmm_create_host(const struct mem_cuda_device *device,
                                     mem_vmm_t                   **vmm_p);

/*
 * A GPU's, which stays open until destroy. Chunks can be exported as files and
 * reached by network cards where the device permits.
 *
 * UCXPOOL_ERR_UNSUPPORTED  the GPU or its driver has no virtual memory, or only
 *                          in larger pieces than MEM_VMM_PAGE_SIZE
 * UCXPOOL_ERR_NO_MEMORY    no memory for the bookkeeping
 * UCXPOOL_ERR_IO           the driver or the system failed otherwise
 */
ucxpool_status_t mem_vmm_create_cuda(const struct mem_cuda_device *device,
                                     mem_vmm_t                   **vmm_p);

#endif
