/*
 * What kind of memory an address leads to, as the CUDA driver knows it.
 *
 * The answer to one question holds for the whole allocation. So a list of
 * segments that lie in few allocations takes few questions.
 */
#ifndef COPY_MEMTYPES_H
#define COPY_MEMTYPES_H

#include "copy/tiles.h"
#include "mem/cuda_driver.h"

#include <ucxpool/transfer.h>

typedef enum copy_memtype {
    COPY_MEMTYPE_PAGEABLE =
        1 << 0, /* host memory, unknown to the driver: no kernel
               reaches it. What has been freed looks so */
    COPY_MEMTYPE_PINNED  = 1 << 1, /* host memory that kernels reach */
    COPY_MEMTYPE_DEVICE  = 1 << 2,
    COPY_MEMTYPE_MANAGED = 1 << 3 /* both reach it; it moves */
} copy_memtype_t;

typedef struct copy_pointer {
    copy_memtype_t place;
    int            device; /* ordinal; -1 for host memory */
    uint64_t       start;  /* of the allocation; of virtual memory: of the */
    uint64_t       size;   /* reserved range, all of which may not be
                              mapped. 0 when unknown */
} copy_pointer_t;

/*
 * Of one address.
 *
 * UCXPOOL_ERR_IO  the driver failed
 */
ucxpool_status_t copy_pointer_query(const mem_cuda_driver_t *driver,
                                    uint64_t                 address,
                                    copy_pointer_t          *pointer_p);

/* What the segments of a list are, together. */
typedef struct copy_memtypes {
    unsigned types;         /* copy_memtype_t, any of them ored */
    int      device;        /* of those on a device; -1: none, -2: several */
    size_t   num_questions; /* that the driver was asked */
} copy_memtypes_t;

/*
 * Of the first and the last byte of each segment; segments without bytes are
 * left out.
 *
 * UCXPOOL_ERR_INVALID_PARAM  there is no memory; the detail tells which segment
 * UCXPOOL_ERR_IO             the driver failed
 */
ucxpool_status_t copy_memtypes_query(const mem_cuda_driver_t *driver,
                                     const copy_segment_t    *segments,
                                     size_t                   num_segments,
                                     copy_memtypes_t         *memtypes_p);

/* The same of pieces that have one length. */
ucxpool_status_t copy_memtypes_of_pieces(const mem_cuda_driver_t *driver,
                                         void *const             *addresses,
                                         size_t num_pieces, uint64_t length,
                                         copy_memtypes_t *memtypes_p);

/* The same of ranges; those of files are left out. */
ucxpool_status_t copy_memtypes_of_ranges(const mem_cuda_driver_t *driver,
                                         const ucxpool_range_t   *ranges,
                                         size_t                   num_ranges,
                                         copy_memtypes_t         *memtypes_p);

#endif
