/*
 * Registration of regions with UCX: one ucp_mem_map per region, verified,
 * counted, never repeated. And what UCX can do with memory of a GPU.
 */
#ifndef UCX_REG_H
#define UCX_REG_H

#include "mem/region.h"

struct ucp_context;

/*
 * Register every region. The handle of each is stored in its memh, and which
 * memory domains have taken it in its domains: see ucx/reg_verify.h for
 * what is verified. After an error no region is registered, and num_registered
 * says how many were before the one that failed: so many may be had. Memory of
 * a GPU is registered as such.
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

/* The same for who has no context: one is made for a moment. */
ucxpool_status_t ucx_facts_probe(ucx_facts_t *facts_p);

/* Calls of ucp_mem_map made by this process since it started. */
uint64_t ucx_reg_count(void);

#endif
