/*
 * The choice of what the blocks of a pool on a GPU are: memory of cuMemAlloc,
 * virtual memory, or pinned host memory.
 *
 * Memory of cuMemAlloc is shared by every UCX that knows CUDA, and by the
 * driver's own handles. Virtual memory can be stitched, but its handle is a
 * file, which a peer has to get from this process. Peers of ours are given it
 * where they may not take it. UCX can take it from 1.22 on, if it was built so
 * and the system lets it, which nothing but a transfer tells: so beside such a
 * UCX it is taken only when asked for. A UCX without CUDA never sees the
 * memory, whatever it is.
 */
#ifndef BLOCK_BACKING_H
#define BLOCK_BACKING_H

#include "mem/cuda_device.h"
#include "mem/region.h"
#include "ucx/reg.h"

#include <stdbool.h>

#define BLOCK_BACKING_REASON_SIZE 160

typedef struct block_backing {
    const mem_kind_t *kind;
    /* UCX may be given addresses of such memory. If not, what goes by UCX goes
     * through pinned host blocks. */
    bool ucx_takes_it;
    /* A sentence for people: what, why, and what follows. */
    char reason[BLOCK_BACKING_REASON_SIZE];
} block_backing_t;

/* The reason without what it is the reason of. */
const char *block_backing_why(const block_backing_t *backing);

/* What the choice depends on beside the device. */
typedef struct block_surroundings {
    ucx_facts_t ucx;
    bool        has_getfd;    /* pidfd_getfd() works here */
    int         ptrace_scope; /* kernel.yama.ptrace_scope; 0 without Yama */
} block_surroundings_t;

/*
 * Choose for a device and a UCX context.
 *
 * wanted  The setting CUDA_BACKING, a base_backing_t.
 *
 * UCXPOOL_ERR_UNSUPPORTED  virtual memory is asked for, and the device or its
 *                          driver has none
 * others                   UCX does not answer: as ucx_status() translates
 */
ucxpool_status_t block_backing_choose(const mem_cuda_device_t *device,
                                      struct ucp_context *context, int wanted,
                                      block_backing_t *backing_p);

/* All of it but what UCX tells. */
void block_surroundings_get(block_surroundings_t *around_p);

/* Does UCX share virtual memory with peers of the same host? */
bool block_ucx_shares_vmm(const ucx_facts_t *ucx);

/* The same when all is known: the choice itself. */
ucxpool_status_t block_backing_decide(const mem_cuda_device_t    *device,
                                      const block_surroundings_t *around,
                                      int wanted, block_backing_t *backing_p);

#endif
