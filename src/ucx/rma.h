/*
 * Handles memory that peers access with UCX's get and put: registers it, packs
 * keys for peers, and unpacks the peers' keys.
 */
#ifndef UCX_RMA_H
#define UCX_RMA_H

#include "ucx/reg.h"

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

/* Maximum size of a packed key that is sent to peers or accepted from them.
 * UCX's keys have some bytes for each network card, and up to 200 for GPU
 * memory. */
#define UCX_RMA_KEY_MAX 2048u

typedef struct ucx_rma_memory {
    ucp_mem_h memh; /* NULL: not registered */
    void     *key;  /* packed */
    size_t    key_size;
} ucx_rma_memory_t;

/*
 * Register memory, and pack a key for peers.
 *
 * domains  Domains that must register memory of this kind; NULL: unknown.
 *
 * UCXPOOL_ERR_UNSUPPORTED  GPU memory, for which this UCX has no get and put
 * UCXPOOL_ERR_IO           a network did not register the memory although it
 *                          must, or the key is too long
 * others                   UCX failed: see ucx_status()
 */
ucxpool_status_t ucx_rma_register(ucp_context_h context, void *address,
                                  size_t length, bool is_on_gpu,
                                  const ucx_domains_t *domains,
                                  ucx_rma_memory_t    *memory_p);

/* Deregister the memory. No peer may use the key any more. Does nothing if the
 * memory is not registered. */
void ucx_rma_deregister(ucp_context_h context, ucx_rma_memory_t *memory);

/* Returns true if the bytes are a key for host or GPU memory. */
bool ucx_rma_key_check(const void *key, size_t size, bool *is_on_gpu_p);

/*
 * Unpack a peer's key, which must have passed ucx_rma_key_check(), for an
 * endpoint to that peer. The caller destroys the unpacked key
 * (ucp_rkey_destroy()) before the worker.
 *
 * Errors: UCX failed, see ucx_status().
 */
ucxpool_status_t ucx_rma_key_unpack(ucp_ep_h ep, const void *key, size_t size,
                                    ucp_rkey_h *rkey_p);

/*
 * Returns true if the endpoint's transports implement get and put natively.
 * Otherwise UCX emulates them by messages, which need progress of the peer's
 * worker.
 */
bool ucx_rma_is_native(ucp_ep_h ep, bool for_gpu);

#endif
