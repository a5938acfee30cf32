#include <config.h>

#include "ucx/reg_verify.h"

#include "base/error.h"
#include "ucx/domains.h"
#include "ucx/key.h"
#include "ucx/status.h"

#include <stdlib.h>

#include <ucp/api/ucp.h>

ucxpool_status_t ucx_reg_error(ucs_status_t         status,
                               const mem_regions_t *regions, unsigned index,
                               const char *what, const char *advice)
{
    return base_error(ucx_status(status),
                      "%s region %u of %u (%zu bytes each) with UCX: %s; %s",
                      what, index, regions->num_regions, regions->region_size,
                      ucs_status_string(status), advice);
}

const char *ucx_reg_advice(const mem_regions_t *regions)
{
    return mem_regions_are_on_gpu(regions)
               ? "lower UCXPOOL_COMM_SIZE, or set UCXPOOL_CUDA_BACKING=host"
               : "lower UCXPOOL_COMM_SIZE, or raise the limit of locked memory "
                 "(ulimit -l)";
}

ucxpool_status_t ucx_reg_verify_init(mem_regions_t *regions,
                                     ucp_context_h  context)
{
    regions->domains = malloc(sizeof(*regions->domains));
    if (regions->domains == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for the list of UCX's memory domains");
    }
    ucx_domains_read(context, mem_regions_are_on_gpu(regions),
                     regions->domains);
    return UCXPOOL_OK;
}

/* The handle covers the region. */
static ucxpool_status_t verify_range(const mem_regions_t *regions,
                                     unsigned             index)
{
    const mem_region_t *region = &regions->regions[index];
    uintptr_t           start  = (uintptr_t)region->address;
    ucp_mem_attr_t      attr   = {0};
    uintptr_t           at;
    ucs_status_t        status;

    attr.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
    status          = ucp_mem_query(region->memh, &attr);
    at              = (uintptr_t)attr.address;
    if (status != UCS_OK) {
        return ucx_reg_error(status, regions, index, "asking for the handle of",
                             "try another UCX");
    }
    /* The region's end is the range's, and so fits; the handle's may not. */
    if ((at > start) || (attr.length < region->size) ||
        (start - at > attr.length - region->size)) {
        return base_error(UCXPOOL_ERR_IO,
                          "UCX registered %zu bytes from %p for region %u, "
                          "which has %zu from %p",
                          attr.length, attr.address, index, region->size,
                          region->address);
    }
    return UCXPOOL_OK;
}

/* What cannot be read proves nothing, and refutes nothing. */
static void read_key(mem_regions_t *regions, unsigned index, const void *key,
                     size_t size)
{
    ucx_domains_t *domains = regions->domains;

    if ((domains->num > 0) && !ucx_key_read(key, size, domains->num,
                                            &regions->regions[index].domains)) {
        base_info("this UCX (%s) packs keys of a form that is not known: which "
                  "memory domains have registered a region is not verified",
                  ucp_get_version_string());
        domains->num    = 0;
        domains->needed = 0;
    }
}

/* Peers can be told of it. UCX packs what the domains gave; a handle that none
 * took has nothing to pack. */
static ucxpool_status_t verify_key(mem_regions_t *regions, unsigned index,
                                   ucp_context_h context)
{
    void        *key  = NULL;
    size_t       size = 0;
    ucs_status_t status;

    status = ucp_rkey_pack(context, regions->regions[index].memh, &key, &size);
    if (status != UCS_OK) {
        return ucx_reg_error(status, regions, index, "packing the key of",
                             "choose other transports (UCX_TLS)");
    }
    if (size > 0) {
        read_key(regions, index, key, size);
    }
    ucp_rkey_buffer_release(key);
    if (size == 0) {
        return base_error(UCXPOOL_ERR_IO,
                          "UCX packed an empty key for region %u: no transport "
                          "registered it",
                          index);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t refused(const mem_regions_t *regions, unsigned index,
                                uint64_t missing)
{
    char names[UCX_DOMAINS_TEXT];

    ucx_domains_format(regions->domains, missing, names);
    return base_error(UCXPOOL_ERR_IO,
                      "region %u of %u (%zu bytes each) is not registered with "
                      "the memory domain %s, though UCX says that it is; %zu "
                      "bytes were registered before it; %s, or leave the "
                      "device out (UCX_NET_DEVICES)",
                      index, regions->num_regions, regions->region_size, names,
                      index * regions->region_size, ucx_reg_advice(regions));
}

/* What the first region has shown holds for all that follow. */
static void learn(mem_regions_t *regions, uint64_t missing)
{
    ucx_domains_t *domains = regions->domains;
    uint64_t       taken   = regions->regions[0].domains;
    char           names[2][UCX_DOMAINS_TEXT];

    for (unsigned i = 0; i < domains->num; i++) {
        const ucx_domain_t *domain = &domains->domains[i];

        if (domain->is_network && domain->needs_keys) {
            domains->needed |= taken & (UINT64_C(1) << i);
        }
    }
    domains->needed &= ~missing;
    ucx_domains_format(domains, taken, names[0]);
    ucx_domains_format(domains, domains->needed, names[1]);
    base_info("UCX registers %s memory with the memory domains %s; needed: %s",
              mem_regions_are_on_gpu(regions) ? "the GPU's" : "host", names[0],
              names[1]);
    if (missing != 0) {
        ucx_domains_format(domains, missing, names[0]);
        base_info("UCX leaves out %s, which could take the GPU's memory",
                  names[0]);
    }
}

static ucxpool_status_t verify_domains(mem_regions_t *regions, unsigned index)
{
    uint64_t needed  = regions->domains->needed;
    uint64_t missing = needed & ~regions->regions[index].domains;

    if ((missing != 0) && ((index > 0) || !mem_regions_are_on_gpu(regions) ||
                           (missing == needed))) {
        return refused(regions, index, missing);
    }
    if ((index == 0) && (regions->domains->num > 0)) {
        learn(regions, missing);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t ucx_reg_verify(mem_regions_t *regions, unsigned index,
                                ucp_context_h context)
{
    ucxpool_status_t status = verify_range(regions, index);

    if (status == UCXPOOL_OK) {
        status = verify_key(regions, index, context);
    }
    if (status == UCXPOOL_OK) {
        status = verify_domains(regions, index);
    }
    return status;
}

void ucx_reg_verified(const mem_regions_t *regions, uint64_t *num_needed_p,
                      uint64_t *num_regions_p)
{
    const ucx_domains_t *domains = regions->domains;

    *num_needed_p  = 0;
    *num_regions_p = 0;
    if (domains == NULL) {
        return; /* there is nothing to register */
    }
    for (uint64_t rest = domains->needed; rest != 0; rest &= rest - 1) {
        (*num_needed_p)++;
    }
    for (unsigned i = 0; (i < regions->num_regions) && (domains->num > 0);
         i++) {
        *num_regions_p += regions->regions[i].memh != NULL;
    }
}
