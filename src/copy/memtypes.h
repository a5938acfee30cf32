/*
 * The type of memory at an address, according to the CUDA driver.
 *
 * The result of a query is valid for the whole allocation, so a list of
 * segments in few allocations needs few queries.
 */
#ifndef COPY_MEMTYPES_H
#define COPY_MEMTYPES_H

#include "copy/plan.h"
#include "mem/cuda_driver.h"

typedef enum copy_memtype {
    COPY_MEMTYPE_PAGEABLE =
        1 << 0, /* host memory that the driver does not know, and no kernel can
                   access; also returned for freed memory */
    COPY_MEMTYPE_PINNED  = 1 << 1, /* host memory that kernels can access */
    COPY_MEMTYPE_DEVICE  = 1 << 2,
    COPY_MEMTYPE_MANAGED = 1 << 3 /* accessible by host and GPU; migrates */
} copy_memtype_t;

typedef struct copy_pointer {
    copy_memtype_t place;
    int            device; /* ordinal; -1 for host memory */
    /* The allocation. For virtual memory: the reserved range, which may be only
     * partly mapped. */
    uint64_t start;
    uint64_t size; /* 0: unknown */
} copy_pointer_t;

/*
 * Query one address.
 *
 * UCXPOOL_ERR_IO  the driver failed
 */
ucxpool_status_t copy_pointer_query(const mem_cuda_driver_t *driver,
                                    uint64_t                 address,
                                    copy_pointer_t          *pointer_p);

/* The types of memory in a list of segments. */
typedef struct copy_memtypes {
    unsigned types;         /* copy_memtype_t values, ORed */
    int      device;        /* of device segments; -1: none, -2: several */
    size_t   num_questions; /* queries of the driver */
} copy_memtypes_t;

/*
 * Query the first and the last byte of each segment, piece or range, except
 * empty ones and ranges of files.
 *
 * UCXPOOL_ERR_INVALID_PARAM  there is no memory at an address; the detail names
 *                            the segment
 * UCXPOOL_ERR_IO             the driver failed
 */
ucxpool_status_t copy_memtypes_query(const mem_cuda_driver_t *driver,
                                     const copy_memory_t     *memory,
                                     copy_memtypes_t         *memtypes_p);

#endif
