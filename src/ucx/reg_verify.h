/*
 * Proof that a region is registered. ucp_mem_map() says OK as soon as one
 * memory domain has taken the region, so that a network card that has not is
 * noticed only by the first send; here it is noticed at once.
 */
#ifndef UCX_REG_VERIFY_H
#define UCX_REG_VERIFY_H

#include "mem/region.h"

#include <ucp/api/ucp_def.h>

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
 * Where keys or names cannot be read (ucx/key.h, ucx/domains.h), only
 * that there is a key is verified, and regions->domains->num is 0.
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

/* UCX said no to something about a region: in its words, and what to change. */
ucxpool_status_t ucx_reg_error(ucs_status_t         status,
                               const mem_regions_t *regions, unsigned index,
                               const char *what, const char *advice);

/* What to change when a region was not registered. */
const char *ucx_reg_advice(const mem_regions_t *regions);

#endif
