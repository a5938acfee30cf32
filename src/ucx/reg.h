/*
 * Registers regions with UCX, with one call to ucp_mem_map() for each region,
 * and verifies the registrations. Also finds out what UCX can do with GPU
 * memory.
 */
#ifndef UCX_REG_H
#define UCX_REG_H

#include "mem/region.h"

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

/* --- memory domains ----------------------------------------------------------
 * The memory domains of a UCX context, in the order in which UCX numbers them.
 * A memory domain is a part of UCX that registers memory, such as one network
 * card. UCX lists their names only in printed text. Their requirements are
 * queried from UCX's lower layer (UCT), which briefly opens each domain a
 * second time.
 */

/* UCX keeps a set of domains in 64 bits. */
#define UCX_MAX_DOMAINS 64u

typedef struct ucx_domain {
    char name[64];      /* "mlx5_0", "tcp" */
    char component[32]; /* "ib", "tcp" */
    bool is_known;      /* the three members below are valid */
    bool is_network;    /* carries data between hosts */
    bool registers;     /* can register the queried kind of memory */
    bool needs_keys;    /* it can transfer only memory that it has registered */
} ucx_domain_t;

typedef struct ucx_domains {
    unsigned num; /* number of domains; 0: UCX does not list them */
    /* A bit for each domain without which the `ucx` wire would fail. These are
     * the networks that can register this memory and need keys for it. */
    uint64_t     needed;
    ucx_domain_t domains[UCX_MAX_DOMAINS];
} ucx_domains_t;

/* Buffer size for ucx_domains_format(). */
#define UCX_DOMAINS_TEXT 256

/* Write the names of a set, separated by commas. The text is "none" for an
 * empty set, and ends with "..." if there are too many names. */
void ucx_domains_format(const ucx_domains_t *domains, uint64_t set,
                        char text[UCX_DOMAINS_TEXT]);

/* --- registration --------------------------------------------------------- */

/* Register memory, as GPU memory or as host memory; deregister it. */
ucs_status_t ucx_mem_map(ucp_context_h context, void *address, size_t length,
                         bool is_on_gpu, ucp_mem_h *memh_p);
void         ucx_mem_unmap(ucp_context_h context, ucp_mem_h memh);

/*
 * Register every region, and verify the registration. Stores each region's
 * handle in its `memh`, and the memory domains that have registered it in its
 * `domains`. After an error no region is registered. num_registered is then the
 * number of regions that were registered before the failure, so that the caller
 * can retry with fewer. GPU memory is registered with UCX as GPU memory.
 *
 * UCXPOOL_ERR_UNSUPPORTED  the regions are GPU memory, and UCX has no CUDA
 *                          support; or UCX returned this error
 * UCXPOOL_ERR_NO_MEMORY
 * UCXPOOL_ERR_IO           UCX registered other memory than the region, or a
 *                          required memory domain has not registered it
 * others                   UCX failed: see ucx_status()
 */
ucxpool_status_t ucx_reg_regions(mem_regions_t *regions, ucp_context_h context);

/* Deregister all registered regions. No operation on them may be in flight. */
void ucx_dereg_regions(mem_regions_t *regions, ucp_context_h context);

/* Facts that determine what UCX can do with GPU memory. */
typedef struct ucx_facts {
    bool has_cuda;         /* UCX was built with CUDA, and its settings allow
                              CUDA */
    unsigned major, minor; /* version */
} ucx_facts_t;

/* Query these facts. Errors: UCX failed, see ucx_status(). */
ucxpool_status_t ucx_facts_get(ucp_context_h context, ucx_facts_t *facts_p);

/* Like ucx_facts_get(), but with a temporary context. */
ucxpool_status_t ucx_facts_probe(ucx_facts_t *facts_p);

/* --- verifying that a region is registered -------------------------------- */

/*
 * ucp_mem_map() succeeds if at least one memory domain has registered the
 * region. If a network card has not registered it, the first send would fail.
 * The verification detects such a card at once.
 */

/* Get the number of domains that must register every region, and the number of
 * regions for which these registrations are verified. */
void ucx_reg_verified(const mem_regions_t *regions, uint64_t *num_needed_p,
                      uint64_t *num_regions_p);

/* --- packed keys ---------------------------------------------------------- */

/*
 * A packed UCX remote key shows which memory domains have registered the
 * memory.
 *
 * A key is sent to peers with other UCX versions, so its start is a wire
 * format. UCX 1.13 to 1.22 use the same format:
 *
 *     8 bytes   bit i: domain i of the context has registered the memory
 *     1 byte    memory type
 *     for each bit, from the lowest: 1 byte length, the domain's own key
 *     optional fields (since 1.20, the location of the memory)
 */

/*
 * Parse a key; public for the tests. Bit i of *domains_p is set if domain i of
 * the context has registered the memory. Returns false if the bytes are not
 * such a key.
 *
 * num_domains  Number of domains of the context.
 */
bool ucx_key_read(const void *key, size_t size, unsigned num_domains,
                  uint64_t *domains_p);

/* --- memory that peers access --------------------------------------------- */

/*
 * The functions below register memory that peers access with UCX's get and put,
 * pack keys for the peers, and unpack the peers' keys.
 */

/* Maximum size of a packed key that is sent to peers or accepted from them. A
 * UCX key needs a few bytes for each network card, and up to 200 for GPU
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
 * UCXPOOL_ERR_IO           a network that must register the memory did not
 *                          register it, or the key is too long
 * others                   UCX failed: see ucx_status()
 */
ucxpool_status_t ucx_rma_register(ucp_context_h context, void *address,
                                  size_t length, bool is_on_gpu,
                                  const ucx_domains_t *domains,
                                  ucx_rma_memory_t    *memory_p);

/* Deregister the memory. After this, no peer may use the key. Does nothing if
 * the memory is not registered. */
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
 * Otherwise UCX emulates them through messages, which need progress of the
 * peer's worker.
 */
bool ucx_rma_is_native(ucp_ep_h ep, bool for_gpu);

#endif
