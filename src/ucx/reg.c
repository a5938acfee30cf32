#include <config.h>

#include "ucx/reg.h"

#include "base/error.h"
#include "ucx/reg_verify.h"
#include "ucx/status.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <ucp/api/ucp.h>

static _Atomic uint64_t num_registrations;

uint64_t ucx_reg_count(void)
{
    return atomic_load_explicit(&num_registrations, memory_order_relaxed);
}

ucxpool_status_t ucx_facts_get(ucp_context_h context, ucx_facts_t *facts_p)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    ucs_status_t       status;
    unsigned           release;

    status = ucp_context_query(context, &attr);
    if (status != UCS_OK) {
        return base_error(ucx_status(status),
                          "UCX does not tell which memory it knows: %s; try "
                          "another UCX",
                          ucs_status_string(status));
    }
    facts_p->has_cuda =
        (attr.memory_types & (UINT64_C(1) << UCS_MEMORY_TYPE_CUDA)) != 0;
    ucp_get_version(&facts_p->major, &facts_p->minor, &release);
    return UCXPOOL_OK;
}

ucxpool_status_t ucx_facts_probe(ucx_facts_t *facts_p)
{
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features   = UCP_FEATURE_AM | UCP_FEATURE_RMA,
    };
    ucp_context_h    context;
    ucs_status_t     ucs_status;
    ucxpool_status_t status;

    ucs_status = ucp_init(&params, NULL, &context);
    if (ucs_status != UCS_OK) {
        return base_error(ucx_status(ucs_status),
                          "UCX could not be started: %s (look at UCX_TLS and "
                          "UCX_NET_DEVICES)",
                          ucs_status_string(ucs_status));
    }
    status = ucx_facts_get(context, facts_p);
    ucp_cleanup(context);
    return status;
}

static void region_deregister(mem_region_t *region, ucp_context_h context)
{
    if (region->memh != NULL) {
        /* It fails only for handles that are not UCX's. */
        ucs_status_t status = ucp_mem_unmap(context, region->memh);

        assert(status == UCS_OK);
        (void)status;
        region->memh    = NULL;
        region->domains = 0;
    }
}

static ucxpool_status_t region_register(mem_regions_t *regions, unsigned index,
                                        ucp_context_h context)
{
    mem_region_t        *region = &regions->regions[index];
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                      UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address     = region->address,
        .length      = region->size,
        .memory_type = mem_regions_are_on_gpu(regions) ? UCS_MEMORY_TYPE_CUDA
                                                       : UCS_MEMORY_TYPE_HOST,
    };
    ucp_mem_h        memh;
    ucs_status_t     ucs_status;
    ucxpool_status_t status;

    assert(region->memh == NULL);
    atomic_fetch_add_explicit(&num_registrations, 1, memory_order_relaxed);
    regions->num_maps++;
    ucs_status = ucp_mem_map(context, &params, &memh);
    if (ucs_status != UCS_OK) {
        return ucx_reg_error(ucs_status, regions, index, "registering",
                             ucx_reg_advice(regions));
    }
    region->memh = memh;
    status       = ucx_reg_verify(regions, index, context);
    if (status != UCXPOOL_OK) {
        region_deregister(region, context);
    }
    return status;
}

/* A UCX without CUDA takes a GPU's addresses for the host's, and reads them. */
static ucxpool_status_t check_kind(const mem_regions_t *regions,
                                   ucp_context_h        context)
{
    ucx_facts_t      facts;
    ucxpool_status_t status;

    if (!mem_regions_are_on_gpu(regions)) {
        return UCXPOOL_OK;
    }
    status = ucx_facts_get(context, &facts);
    if ((status == UCXPOOL_OK) && !facts.has_cuda) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "memory of a GPU with a UCX (%u.%u) that knows no "
                          "CUDA: use another UCX, look at UCX_TLS, or set "
                          "UCXPOOL_CUDA_BACKING=host",
                          facts.major, facts.minor);
    }
    return status;
}

ucxpool_status_t ucx_reg_regions(mem_regions_t *regions, ucp_context_h context)
{
    ucxpool_status_t status;

    status = check_kind(regions, context);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = ucx_reg_verify_init(regions, context);
    if (status != UCXPOOL_OK) {
        return status;
    }
    for (unsigned i = 0; i < regions->num_regions; i++) {
        regions->num_registered = i;
        status                  = region_register(regions, i, context);
        if (status != UCXPOOL_OK) {
            goto err_deregister_regions;
        }
    }
    regions->num_registered = regions->num_regions;
    return UCXPOOL_OK;

err_deregister_regions:
    ucx_dereg_regions(regions, context);
    return status;
}

void ucx_dereg_regions(mem_regions_t *regions, ucp_context_h context)
{
    for (unsigned i = 0; i < regions->num_regions; i++) {
        region_deregister(&regions->regions[i], context);
    }
    free(regions->domains);
    regions->domains = NULL;
}
