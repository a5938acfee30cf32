/*
 * Chooses the kind of memory for the blocks of a pool on a GPU: memory from
 * cuMemAlloc(), virtual memory, or pinned host memory.
 *
 * Memory from cuMemAlloc() can be shared by any UCX built with CUDA, and
 * through CUDA IPC handles. Virtual memory can be stitched, but its handle is a
 * file descriptor, which a peer must get from this process. If the system does
 * not allow a peer pool to take the descriptor, this process sends it. Since
 * 1.22, UCX can take the descriptor, but only if UCX was built for it and the
 * system allows it. Only a transfer shows whether this works. With a UCX that
 * has CUDA, the library therefore uses virtual memory only if the user requests
 * it. The library never passes GPU addresses to a UCX without CUDA, whatever
 * the kind of memory.
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
    /* The library may pass addresses of this memory to UCX. If false, the `ucx`
     * wire uses pinned host blocks. */
    bool ucx_takes_it;
    /* A sentence for users: the choice, the reason, the consequences. */
    char reason[BLOCK_BACKING_REASON_SIZE];
} block_backing_t;

/* Returns the part of `reason` after the choice. */
const char *block_backing_why(const block_backing_t *backing);

/* Properties of the system and of UCX that determine the kind of memory, in
 * addition to the properties of the device. */
typedef struct block_surroundings {
    ucx_facts_t ucx;
    bool        has_getfd;    /* pidfd_getfd() works here */
    int         ptrace_scope; /* kernel.yama.ptrace_scope; 0 without Yama */
} block_surroundings_t;

/*
 * Choose the kind of memory for a device and a UCX context.
 *
 * wanted  The setting CUDA_BACKING, a base_backing_t.
 *
 * UCXPOOL_ERR_UNSUPPORTED  virtual memory is requested, but the device or its
 *                          driver has none
 * others                   the UCX query failed: see ucx_status()
 */
ucxpool_status_t block_backing_choose(const mem_cuda_device_t *device,
                                      struct ucp_context *context, int wanted,
                                      block_backing_t *backing_p);

/* Fill in everything except the facts about UCX. */
void block_surroundings_get(block_surroundings_t *around_p);

/* Returns true if UCX can share virtual memory with processes of the same
 * host. */
bool block_ucx_shares_vmm(const ucx_facts_t *ucx);

/* Like block_backing_choose(), from facts that the caller provides. */
ucxpool_status_t block_backing_decide(const mem_cuda_device_t    *device,
                                      const block_surroundings_t *around,
                                      int wanted, block_backing_t *backing_p);

#endif
