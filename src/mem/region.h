/*
 * Regions: physical allocations, mapped once and never unmapped before the
 * end. All regions of a set lie side by side in one reserved range, so that an
 * address is turned into a region by a division.
 *
 *     range:  | region 0 | region 1 | ... | region n-1 |
 *
 * Kinds of memory differ in one table of functions (mem_kind_t), from which the
 * heap beside the regions has its memory, too.
 */
#ifndef MEM_REGION_H
#define MEM_REGION_H

#include "mem/vmm.h"

#include <ucxpool/pool.h>

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
    int    fd;               /* memfd, sealed; virtual memory of a GPU: its
                                handle, once it is shared; -1: none */
    uint64_t        handle;  /* of the GPU's allocation; 0 when there is none */
    struct ucp_mem *memh;    /* NULL until registered */
    uint64_t        domains; /* a bit for each memory domain of UCX that has
                                registered it */
} mem_region_t;

/* mem/cuda_device.h, ucx/reg.h */
struct mem_cuda_device;
struct ucx_domains;

typedef struct mem_regions {
    const struct mem_kind *kind;
    void                  *address;     /* start of the reserved range */
    size_t                 region_size; /* of every region */
    size_t                 page_size;   /* of the pages really used: pieces to
                                           be stitched are multiples of it */
    unsigned      num_regions;
    mem_region_t *regions;
    int           device;             /* GPU, as the process counts them; -1 */
    unsigned      num_registered;     /* with UCX, in order; after an
                                         error those before the one that
                                         failed, which are no longer */
    unsigned                num_maps; /* calls of ucp_mem_map, ever */
    struct mem_cuda_device *cuda;     /* the same; NULL for host memory */
    struct ucx_domains     *domains;  /* NULL until registered with UCX */
} mem_regions_t;

typedef struct mem_kind {
    const char *name; /* "host", as settings and logs say it */
    /* A GPU's own memory, which other programs on it may have used up. */
    bool is_gpu;
    /* One allocation, however many regions are asked for. */
    bool is_one_region;
    /* Regions are stitched only as a whole. */
    bool stitches_whole_regions;
    /* Another process maps it through a file descriptor for each region. */
    bool shares_by_fd;
    /*
     * Create and map num_regions of region_size bytes, with memory behind every
     * page. Fills address, page_size and the array. A kind whose allocations
     * cannot be laid side by side makes one region of all, and says so in
     * num_regions and region_size. After an error nothing is left.
     */
    ucxpool_status_t (*create)(mem_regions_t *regions, int huge_pages);
    void (*destroy)(mem_regions_t *regions);
    /*
     * Map pieces of regions a second time, side by side (stitching). The
     * pieces are whole pages. *address_p is the address of the first byte.
     */
    ucxpool_status_t (*stitch)(const mem_regions_t *regions,
                               const mem_piece_t *pieces, size_t num_pieces,
                               void **address_p);
    void (*unstitch)(const mem_regions_t *regions, void *address, size_t size);
    /* The virtual memory for a heap beside the regions: see mem/vmm.h. */
    ucxpool_status_t (*create_vmm)(const struct mem_cuda_device *device,
                                   mem_vmm_t                   **vmm_p);
} mem_kind_t;

/* The tables. */
extern const mem_kind_t mem_kind_host;
extern const mem_kind_t mem_kind_cuda_alloc; /* cuMemAlloc */
extern const mem_kind_t mem_kind_cuda_vmm;   /* cuMemCreate, and mapped */
extern const mem_kind_t mem_kind_cuda_host;  /* pinned host memory */

/*
 * Reserve, create and map. After an error nothing is left, and *regions may be
 * passed to cleanup all the same.
 *
 * device       GPU, as the process counts them; -1: none.
 * region_size  A multiple of the page, or of the GPU's granularity.
 * huge_pages   The setting HUGE_PAGES (a base_switch_t).
 *
 * UCXPOOL_ERR_INVALID_PARAM  no regions, a size that is no such multiple, no
 *                            such GPU, or more files than the process may open
 * UCXPOOL_ERR_NO_MEMORY      not so much memory (of a GPU the detail tells how
 *                            much is free), or not so many huge pages
 * UCXPOOL_ERR_UNSUPPORTED    no driver, or the GPU lacks what the kind needs
 * UCXPOOL_ERR_IO             the system or the driver refused something else
 */
ucxpool_status_t mem_regions_init(mem_regions_t    *regions,
                                  const mem_kind_t *kind, int device,
                                  unsigned num_regions, size_t region_size,
                                  int huge_pages);
/*
 * No regions, on the host (device -1) or on a GPU; to be passed to cleanup.
 *
 * UCXPOOL_ERR_UNSUPPORTED, UCXPOOL_ERR_INVALID_PARAM, UCXPOOL_ERR_IO
 *                            as above, of the GPU
 */
ucxpool_status_t mem_regions_init_none(mem_regions_t *regions, int device);
/* Does the processor not reach them? */
bool mem_regions_are_on_gpu(const mem_regions_t *regions);
/* May be called twice. */
void mem_regions_cleanup(mem_regions_t *regions);

#endif
