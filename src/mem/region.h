/*
 * Regions: physical allocations that are mapped when they are created, and stay
 * mapped until they are destroyed. All regions of a set are contiguous in one
 * reserved range, so a division by the region size finds the region of an
 * address.
 *
 *     range:  | region 0 | region 1 | ... | region n-1 |
 *
 * Each kind of memory has a table of functions (mem_kind_t).
 */
#ifndef MEM_REGION_H
#define MEM_REGION_H

#include <ucxpool/pool.h>
#include <ucxpool/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A physically contiguous piece of one region. */
typedef struct mem_piece {
    uint32_t region;
    size_t   offset;
    size_t   length;
} mem_piece_t;

typedef struct mem_region {
    void  *address; /* in the reserved range */
    size_t size;
    /* For host memory the sealed memfd; for GPU virtual memory the exported
     * handle, once it is shared; -1: none. */
    int             fd;
    uint64_t        handle; /* GPU allocation handle; 0: none */
    struct ucp_mem *memh;   /* NULL until registered */
    /* A bit per UCX memory domain that has registered the region. */
    uint64_t domains;
} mem_region_t;

/* Declared in mem/cuda_device.h and ucx/reg.h. */
struct mem_cuda_device;
struct ucx_domains;

typedef struct mem_regions {
    const struct mem_kind *kind;
    void                  *address;     /* start of the reserved range */
    size_t                 region_size; /* of each region */
    /* Size of the pages that back the regions; the sizes of stitched pieces are
     * multiples of it. */
    size_t        page_size;
    unsigned      num_regions;
    mem_region_t *regions;
    int           device; /* CUDA ordinal of the GPU; -1: none */
    /* Number of regions registered with UCX. After an error, the number of
     * regions before the failed one; these have been deregistered. */
    unsigned                num_registered;
    unsigned                num_maps; /* total calls of ucp_mem_map */
    struct mem_cuda_device *cuda;     /* the GPU; NULL for host memory */
    struct ucx_domains     *domains;  /* NULL until registered with UCX */
} mem_regions_t;

typedef struct mem_kind {
    const char *name; /* "host", as in settings and logs */
    /* The memory is GPU memory. Other processes may use the same GPU. */
    bool is_gpu;
    /* The memory is always a single allocation, regardless of num_regions. */
    bool is_one_region;
    /* Only whole regions can be stitched. */
    bool stitches_whole_regions;
    /* Another process maps each region through a file descriptor. */
    bool shares_by_fd;
    /*
     * Create and map num_regions of region_size bytes, with memory for every
     * page. The GPU, if any, is open, and its context is current. Fills
     * address, page_size and the array of regions. A kind whose allocations
     * cannot be contiguous makes a single region and updates num_regions and
     * region_size. Leaves nothing allocated after an error.
     */
    ucxpool_status_t (*create)(mem_regions_t *regions, int huge_pages);
    void (*destroy)(mem_regions_t *regions);
    /*
     * Stitch pieces of regions: map them a second time, contiguously. Pieces
     * are multiples of page_size. *address_p is the first byte.
     */
    ucxpool_status_t (*stitch)(const mem_regions_t *regions,
                               const mem_piece_t *pieces, size_t num_pieces,
                               void **address_p);
    void (*unstitch)(const mem_regions_t *regions, void *address, size_t size);
} mem_kind_t;

/* Available kinds. */
extern const mem_kind_t mem_kind_host;
extern const mem_kind_t mem_kind_cuda_alloc; /* cuMemAlloc */
extern const mem_kind_t mem_kind_cuda_vmm;   /* cuMemCreate and cuMemMap */
extern const mem_kind_t mem_kind_cuda_host;  /* pinned host memory */

/*
 * Reserve, create and map regions. After an error nothing is allocated; passing
 * *regions to cleanup is allowed but not necessary.
 *
 * device       CUDA ordinal of the GPU; -1: none.
 * region_size  A multiple of the page size or of the GPU's granularity.
 * huge_pages   The setting HUGE_PAGES (a base_switch_t).
 *
 * UCXPOOL_ERR_INVALID_PARAM  no regions, an unaligned size, no such GPU, or
 *                            more files than the process may open
 * UCXPOOL_ERR_NO_MEMORY      not enough memory (for a GPU the detail gives
 *                            the free size), or not enough huge pages
 * UCXPOOL_ERR_UNSUPPORTED    no driver, or the GPU does not support the kind
 * UCXPOOL_ERR_IO             other error of the system or the driver
 */
ucxpool_status_t mem_regions_init(mem_regions_t    *regions,
                                  const mem_kind_t *kind, int device,
                                  unsigned num_regions, size_t region_size,
                                  int huge_pages);
/*
 * Initialize a set without regions, on the host (device -1) or on a GPU. The
 * caller must call cleanup.
 *
 * UCXPOOL_ERR_UNSUPPORTED, UCXPOOL_ERR_INVALID_PARAM, UCXPOOL_ERR_IO
 *                            see mem_regions_init(); only for a GPU
 */
ucxpool_status_t mem_regions_init_none(mem_regions_t *regions, int device);

static inline size_t mem_regions_size(const mem_regions_t *regions)
{
    return regions->num_regions * regions->region_size;
}

/* Returns the total length of pieces. */
size_t mem_pieces_size(const mem_regions_t *regions, const mem_piece_t *pieces,
                       size_t num_pieces);

/* Returns true if the memory is GPU memory, which the CPU cannot access. */
bool mem_regions_are_on_gpu(const mem_regions_t *regions);
/* Destroy the regions. May be called twice. */
void mem_regions_cleanup(mem_regions_t *regions);

#endif
