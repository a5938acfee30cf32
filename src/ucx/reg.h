/*
 * Registration of regions with UCX: one ucp_mem_map per region, verified,
 * counted, never repeated. And what UCX can do with memory of a GPU.
 */
#ifndef UCX_REG_H
#define UCX_REG_H

#include "mem/region.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucp/api/ucp_def.h>

/* --- memory domains ----------------------------------------------------------
 * The memory domains of a UCX context: the parts of UCX that register memory,
 * such as one network card, in the context's own order. UCX tells their names
 * in print only; what each of them needs is asked of its lower layer (UCT),
 * which opens it a second time for a moment.
 */

struct ucp_context;

/* UCX has a bit for each in 64. */
#define UCX_MAX_DOMAINS 64u

typedef struct ucx_domain {
    char name[64];      /* "mlx5_0", "tcp" */
    char component[32]; /* "ib", "tcp" */
    bool is_known;      /* UCX has told what follows */
    bool is_network;    /* carries bytes between hosts */
    bool registers;     /* takes memory of the kind that was asked about */
    bool needs_keys;    /* moves nothing that it has not registered */
} ucx_domain_t;

typedef struct ucx_domains {
    unsigned num; /* 0: this UCX does not tell */
    /* A bit for each one without which the `ucx` wire would fail: a network
     * that takes such memory and needs keys for it. */
    uint64_t     needed;
    ucx_domain_t domains[UCX_MAX_DOMAINS];
} ucx_domains_t;

/*
 * Never fails: what UCX does not tell is not known, and not needed.
 *
 * for_gpu  The question is for memory of a GPU; else for the host's.
 */
void ucx_domains_read(struct ucp_context *context, bool for_gpu,
                      ucx_domains_t *domains_p);

/* Room for what ucx_domains_format() writes. */
#define UCX_DOMAINS_TEXT 256

/* The names of a set, with commas; "none"; "..." where there are too many. */
void ucx_domains_format(const ucx_domains_t *domains, uint64_t set,
                        char text[UCX_DOMAINS_TEXT]);

/* --- registration --------------------------------------------------------- */

/*
 * Register every region. The handle of each is stored in its memh, and which
 * memory domains have taken it in its domains: see below for what is
 * verified. After an error no region is registered, and num_registered says how
 * many were before the one that failed: so many may be had. Memory of a GPU is
 * registered as such.
 *
 * UCXPOOL_ERR_UNSUPPORTED  memory of a GPU, and UCX knows no CUDA; or UCX said
 *                          so
 * UCXPOOL_ERR_NO_MEMORY
 * UCXPOOL_ERR_IO  what UCX registered is not the region, or a memory domain
 *                 that is needed has not taken it
 * others          UCX refused: as ucx_status() translates
 */
ucxpool_status_t ucx_reg_regions(mem_regions_t      *regions,
                                 struct ucp_context *context);

/* Deregister what is registered. Nothing may be in flight on it. */
void ucx_dereg_regions(mem_regions_t *regions, struct ucp_context *context);

/* What UCX can do with memory of a GPU depends on these. */
typedef struct ucx_facts {
    bool     has_cuda;     /* it was built with CUDA, and may use it */
    unsigned major, minor; /* of its version */
} ucx_facts_t;

/* UCX refused to tell: as ucx_status() translates. */
ucxpool_status_t ucx_facts_get(struct ucp_context *context,
                               ucx_facts_t        *facts_p);

/* The same without a context: one is made for a moment. */
ucxpool_status_t ucx_facts_probe(ucx_facts_t *facts_p);

/* Calls of ucp_mem_map made by this process since it started. */
uint64_t ucx_reg_count(void);

/* --- proof that a region is registered ------------------------------------ */

/*
 * Proof that a region is registered. ucp_mem_map() says OK as soon as one
 * memory domain has taken the region, so that a network card that has not is
 * noticed only by the first send; here it is noticed at once.
 */

/*
 * Ask what is needed, before the first region is registered: fills
 * regions->domains, which the caller frees.
 *
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t ucx_reg_verify_init(mem_regions_t *regions,
                                     ucp_context_h  context);

/*
 * A region whose handle is there: the handle covers it (ucp_mem_query), and
 * packs a remote key that names every memory domain that is needed; the
 * region's `domains` are set to all that it names. Regions are verified in
 * their order, since what UCX takes for the first it has to take for all.
 *
 * On memory of a GPU one network is enough, because UCX may leave others out
 * that are far from the GPU.
 *
 * Where keys or names cannot be read (below, and above), only that
 * there is a key is verified, and regions->domains->num is 0.
 *
 * UCXPOOL_ERR_IO  it is not so; the detail names region and domain
 * others          UCX refused to tell: as ucx_status() translates
 */
ucxpool_status_t ucx_reg_verify(mem_regions_t *regions, unsigned index,
                                ucp_context_h context);

/* How many domains have to register every region, and how many regions they
 * have been shown to have registered. */
void ucx_reg_verified(const mem_regions_t *regions, uint64_t *num_needed_p,
                      uint64_t *num_regions_p);

/* --- packed keys ---------------------------------------------------------- */

/*
 * Packed remote keys of UCX: which memory domains have registered the memory.
 *
 * A key goes to peers with another UCX, so its beginning is a format of the
 * wire; UCX 1.13 to 1.22 write it the same way:
 *
 *     8 bytes   a bit for each memory domain of the context that has it
 *     1 byte    type of the memory
 *     for each bit, from the lowest: 1 byte length, the domain's own key
 *     what may follow (from 1.20 on, where the memory lies)
 */

/*
 * For the tests. Bit i of *domains_p: domain i of the context has registered
 * the memory. False when the bytes are not such a key.
 *
 * num_domains  That the context has.
 */
bool ucx_key_read(const void *key, size_t size, unsigned num_domains,
                  uint64_t *domains_p);

#endif
