/*
 * The budget of a GPU, for who only asks.
 */
#include <config.h>

#include <ucxpool/device.h>

#include "base/error.h"
#include "base/math.h"
#include "block/backing.h"
#include "block/budget.h"
#include "block/sizes.h"
#include "block/split.h"
#include "mem/cuda_device.h"
#include "mem/system.h"
#include "ucx/reg.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What a program opens to map GPU memory by the module of gdr_copy. */
#define GDR_COPY_FILE "/dev/gdrdrv"

static void fill_bar1(const mem_bar_t *bar, ucxpool_device_budget_t *budget)
{
    static const ucxpool_bar1_source_t sources[] = {
        [MEM_BAR_UNKNOWN] = UCXPOOL_BAR1_UNKNOWN,
        [MEM_BAR_NVML]    = UCXPOOL_BAR1_NVML,
        [MEM_BAR_SYSFS]   = UCXPOOL_BAR1_KERNEL,
        [MEM_BAR_NONE]    = UCXPOOL_BAR1_NONE,
    };

    budget->bar1_source = sources[bar->source];
    budget->bar1_size   = bar->size;
    budget->bar1_used   = bar->used;
    budget->bar1_free   = bar->free;
    budget->num_nvlinks = bar->num_nvlinks;
    snprintf(budget->bar1_reason, sizeof(budget->bar1_reason), "%s",
             bar->reason);
}

static void fill_limit(const block_budget_t    *from,
                       ucxpool_device_budget_t *budget)
{
    budget->usable          = from->usable;
    budget->others          = from->others;
    budget->reserve         = from->reserve;
    budget->reserve_is_auto = from->is_reserve_auto;
    budget->limit           = from->limit;
    snprintf(budget->usable_from, sizeof(budget->usable_from), "%s",
             from->usable_from);
}

static ucxpool_status_t choose_backing(const mem_cuda_device_t *device,
                                       const base_config_t     *config,
                                       block_backing_t         *backing,
                                       ucxpool_device_budget_t *budget)
{
    block_surroundings_t around;
    ucxpool_status_t     status;

    block_surroundings_get(&around);
    status = ucx_facts_probe(&around.ucx);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = block_backing_decide(device, &around, (int)config->cuda_backing,
                                  backing);
    if (status != UCXPOOL_OK) {
        return status;
    }
    budget->backing =
        backing->kind == &mem_kind_cuda_alloc ? UCXPOOL_CUDA_BACKING_ALLOC
        : backing->kind == &mem_kind_cuda_vmm ? UCXPOOL_CUDA_BACKING_VMM
                                              : UCXPOOL_CUDA_BACKING_HOST;
    budget->uses_bar1        = backing->kind != &mem_kind_cuda_host;
    budget->is_registered    = backing->ucx_takes_it;
    budget->ucx_staging_step = around.ucx.has_cuda ? BLOCK_BUDGET_UCX_STEP : 0;
    return UCXPOOL_OK;
}

static ucxpool_status_t fill_blocks(const base_config_t     *config,
                                    unsigned                 num_regions,
                                    ucxpool_device_budget_t *budget)
{
    const mem_regions_t       regions = {.region_size = config->region_size,
                                         .num_regions = num_regions};
    const block_pool_params_t params  = {
         .regions    = &regions,
         .block_size = config->block_size,
         .send_share = config->send_share,
         .recv_share = config->recv_share,
    };
    uint32_t         totals[UCXPOOL_SHARE_LAST];
    ucxpool_status_t status = block_split(&params, totals);

    if (status != UCXPOOL_OK) {
        return status;
    }
    budget->comm_size             = num_regions * config->region_size;
    budget->block_size            = config->block_size;
    budget->region_size           = config->region_size;
    budget->num_regions           = num_regions;
    budget->blocks_to_send        = totals[UCXPOOL_SHARE_SEND];
    budget->blocks_to_receive     = totals[UCXPOOL_SHARE_RECV];
    budget->blocks_for_the_caller = totals[UCXPOOL_SHARE_USER];
    return UCXPOOL_OK;
}

/* As ucxpool_create() does it. */
static ucxpool_status_t fill_pool(const mem_cuda_device_t *device,
                                  base_config_t           *config,
                                  ucxpool_device_budget_t *budget)
{
    block_sizes_params_t sizes = {.for_gpu     = true,
                                  .memory_size = device->total_size,
                                  .limit       = BLOCK_BUDGET_NONE};
    block_backing_t      backing;
    unsigned             num_regions;
    ucxpool_status_t     status;

    status = choose_backing(device, config, &backing, budget);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (config->comm_size == 0) {
        return UCXPOOL_OK; /* no blocks */
    }
    sizes.kind                = backing.kind;
    budget->is_comm_size_auto = config->comm_size == BASE_SIZE_AUTO;
    if (budget->is_comm_size_auto && budget->uses_bar1) {
        sizes.limit = budget->limit;
    }
    status = block_sizes_settle(&sizes, config, &num_regions);
    if (status != UCXPOOL_OK) {
        return status;
    }
    return fill_blocks(config, num_regions, budget);
}

static ucxpool_status_t fill(int device, base_config_t *config,
                             ucxpool_device_budget_t *budget)
{
    mem_cuda_device_t described;
    block_budget_t    limit;
    mem_bar_t         bar;
    ucxpool_status_t  status;

    status = mem_cuda_device_describe(device, &described);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = block_budget_query(config, described.name, described.bus_id, &bar,
                                &limit);
    if (status != UCXPOOL_OK) {
        return status;
    }
    memset(budget, 0, sizeof(*budget));
    fill_bar1(&bar, budget);
    fill_limit(&limit, budget);
    budget->has_gdr_copy    = access(GDR_COPY_FILE, F_OK) == 0;
    budget->has_rdma_device = mem_has_rdma_device();
    return fill_pool(&described, config, budget);
}

ucxpool_status_t ucxpool_device_budget(int                      device,
                                       const ucxpool_config_t  *config,
                                       ucxpool_device_budget_t *budget_p)
{
    ucxpool_config_t *own = NULL;
    base_config_t     values;
    ucxpool_status_t  status;

    if (budget_p == NULL) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the budget of GPU %d has no place: budget_p is NULL",
                          device);
    }
    if (config == NULL) {
        status = ucxpool_config_read(&own);
        if (status != UCXPOOL_OK) {
            return status;
        }
        config = own;
    }
    values = *base_config_values(config);
    if (own != NULL) {
        ucxpool_config_release(own);
    }
    return fill(device, &values, budget_p);
}
