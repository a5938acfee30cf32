/*
 * Host memory's parts that have a file of their own.
 */
#ifndef MEM_HOST_H
#define MEM_HOST_H

#include "mem/region.h"

/* As mem_kind_t's stitch. */
ucxpool_status_t mem_host_stitch(const mem_regions_t *regions,
                                 const mem_piece_t *pieces, size_t num_pieces,
                                 void **address_p);

#endif
