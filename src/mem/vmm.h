/*
 * Explicit management of virtual memory, on the host or on a GPU: addresses,
 * physical chunks, and mappings of chunks. Also fences, which mark the progress
 * of work in a stream.
 *
 * A chunk can be mapped several times, always as a whole. It must be unmapped
 * everywhere before it is destroyed.
 */
#ifndef MEM_VMM_H
#define MEM_VMM_H

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The sizes and addresses of chunks are multiples of this on every machine. */
#define MEM_VMM_PAGE_SIZE ((size_t)2 << 20)

/* Declared in mem/cuda_device.h. */
struct mem_cuda_device;

/* A chunk; 0: none. */
typedef uint64_t mem_chunk_t;

typedef struct mem_vmm   mem_vmm_t;
typedef struct mem_fence mem_fence_t;

struct mem_vmm {
    const struct mem_vmm_calls *calls;
    /* Host memory has no streams: freed memory is available at once. */
    bool is_host;
};

/* Functions of a kind of memory. A failed call changes nothing. */
typedef struct mem_vmm_calls {
    void (*destroy)(mem_vmm_t *vmm);

    /* Reserve addresses at a multiple of `alignment`, a power of two. Nothing
     * may be mapped at the addresses when they are released. */
    ucxpool_status_t (*reserve)(mem_vmm_t *vmm, size_t size, size_t alignment,
                                void **address_p);
    void (*release)(mem_vmm_t *vmm, void *address, size_t size);

    /* UCXPOOL_ERR_NO_MEMORY: not enough memory for the chunk. */
    ucxpool_status_t (*chunk_create)(mem_vmm_t *vmm, size_t size,
                                     mem_chunk_t *chunk_p);
    void (*chunk_destroy)(mem_vmm_t *vmm, mem_chunk_t chunk, size_t size);
    /* Get the file that contains a chunk, and the chunk's offset in the file.
     * All chunks are in the same file, which cannot shrink. This function is
     * NULL if chunks are not parts of files. */
    void (*chunk_file)(mem_vmm_t *vmm, mem_chunk_t chunk, int *fd_p,
                       uint64_t *offset_p);

    /* map() maps a chunk. allow() enables access to one or several contiguous
     * mappings. unmap() removes whole mappings, which no running work may
     * use. */
    ucxpool_status_t (*map)(mem_vmm_t *vmm, void *address, mem_chunk_t chunk,
                            size_t size);
    ucxpool_status_t (*allow)(mem_vmm_t *vmm, void *address, size_t size);
    ucxpool_status_t (*unmap)(mem_vmm_t *vmm, void *address, size_t size);

    /*
     * Record a fence after the work queued in a stream so far. This and the
     * next four functions are never called if is_host is true.
     */
    ucxpool_status_t (*fence_set)(mem_vmm_t *vmm, void *stream,
                                  mem_fence_t **fence_p);
    /* Returns true if the stream has reached the fence. Returns false if not,
     * or if the driver fails. */
    bool (*fence_is_reached)(mem_vmm_t *vmm, mem_fence_t *fence);
    /* Make future work in another stream wait for the fence. */
    ucxpool_status_t (*fence_wait)(mem_vmm_t *vmm, mem_fence_t *fence,
                                   void *stream);
    /* Block until the fence is reached. */
    ucxpool_status_t (*fence_sync)(mem_vmm_t *vmm, mem_fence_t *fence);
    void (*fence_put)(mem_vmm_t *vmm, mem_fence_t *fence);

    /* Get the total and the free memory of the machine or the GPU, in bytes. */
    ucxpool_status_t (*sizes)(mem_vmm_t *vmm, uint64_t *total_p,
                              uint64_t *free_p);
} mem_vmm_calls_t;

/*
 * Host memory: chunks are parts of a memfd. If the machine lacks memory for a
 * chunk, the creation of the chunk fails, not a later access.
 *
 * UCXPOOL_ERR_IO         the file could not be created
 * UCXPOOL_ERR_NO_MEMORY  no memory for the bookkeeping
 */
ucxpool_status_t mem_vmm_create_host(mem_vmm_t **vmm_p);

/*
 * GPU memory. The device must stay open until destroy. Chunks can be exported
 * as files and accessed by network cards if the device supports that.
 *
 * UCXPOOL_ERR_UNSUPPORTED  the GPU or its driver has no virtual memory
 *                          functions, or their granularity exceeds
 *                          MEM_VMM_PAGE_SIZE
 * UCXPOOL_ERR_NO_MEMORY    no memory for the bookkeeping
 * UCXPOOL_ERR_IO           other error of the driver or the system
 */
ucxpool_status_t mem_vmm_create_cuda(const struct mem_cuda_device *device,
                                     mem_vmm_t                   **vmm_p);

#endif
