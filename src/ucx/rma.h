/*
 * Memory that peers read and write by UCX's get and put: registered here, with
 * a key for them; and the keys of theirs.
 */
#ifndef UCX_RMA_H
#define UCX_RMA_H

#include "ucx/reg.h"

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

/* Longest packed key that is given to peers, and taken from them. UCX's has
 * some bytes for each network card, and up to 200 for a GPU's memory. */
#define UCX_RMA_KEY_MAX 2048u

typedef struct ucx_rma_memory {
    ucp_mem_h memh; /* NULL: not registered */
    void     *key;  /* packed */
    size_t    key_size;
} ucx_rma_memory_t;

/*
 * Register memory, and pack a key for peers.
 *
 * domains   Those that must take memory of this kind; NULL: not known.
 *
 * UCXPOOL_ERR_UNSUPPORTED  memory of a GPU, which this UCX cannot get and put
 * UCXPOOL_ERR_IO           a network that must take the memory has not; or the
 *                          key is too long
 * others                   UCX refused: as ucx_status() translates
 */
ucxpool_status_t ucx_rma_register(ucp_context_h context, void *address,
                                  size_t length, bool is_on_gpu,
                                  const ucx_domains_t *domains,
                                  ucx_rma_memory_t    *memory_p);

/* Nobody uses the key any more. What is not registered is left alone. */
void ucx_rma_deregister(ucp_context_h context, ucx_rma_memory_t *memory);

/* False: these are not the bytes of a key for memory of the host or a GPU. */
bool ucx_rma_key_check(const void *key, size_t size, bool *is_on_gpu_p);

/*
 * A peer's key, which was checked, for an endpoint to that peer. The caller
 * destroys it (ucp_rkey_destroy()), while the worker is there.
 *
 * others  UCX refused: as ucx_status() translates
 */
ucxpool_status_t ucx_rma_key_unpack(ucp_ep_h ep, const void *key, size_t size,
                                    ucp_rkey_h *rkey_p);

/*
 * Do the endpoint's transports get and put by themselves? Else UCX does so by
 * messages, which the peer's worker has to progress.
 */
bool ucx_rma_is_native(ucp_ep_h ep, bool for_gpu);

#endif
