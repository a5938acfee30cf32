/*
 * The public functions for GPUs: properties, the memory budget that a pool
 * would have, lists, and streams.
 */
#include <config.h>

#include "api/config.h"
#include "base/error.h"
#include "base/math.h"
#include "block/backing.h"
#include "block/budget.h"
#include "mem/cuda_device.h"
#include "mem/cuda_driver.h"
#include "mem/cuda_pinned.h"
#include "mem/cuda_stream.h"
#include "mem/nvml.h"
#include "mem/system.h"
#include "ucx/reg.h"

#include <ucxpool/device.h>
#include <ucxpool/private.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- budgets -------------------------------------------------------------- */

/* Programs open this to map GPU memory with the gdrcopy module. */
#define GDR_COPY_FILE "/dev/gdrdrv"

static void fill_budget_bar1(const mem_bar_t         *bar,
                             ucxpool_device_budget_t *budget)
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
    budget->uses_bar1        = backing->kind->is_gpu;
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
    uint32_t         totals[BLOCK_SHARE_LAST];
    ucxpool_status_t status = block_split(&params, totals);

    if (status != UCXPOOL_OK) {
        return status;
    }
    budget->comm_size             = num_regions * config->region_size;
    budget->block_size            = config->block_size;
    budget->region_size           = config->region_size;
    budget->num_regions           = num_regions;
    budget->blocks_to_send        = totals[BLOCK_SHARE_SEND];
    budget->blocks_to_receive     = totals[BLOCK_SHARE_RECV];
    budget->blocks_for_the_caller = totals[BLOCK_SHARE_USER];
    return UCXPOOL_OK;
}

/* Compute the same sizes as ucxpool_create(). */
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
        return UCXPOOL_OK; /* a pool without blocks */
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

static ucxpool_status_t fill_budget(int device, base_config_t *config,
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
    fill_budget_bar1(&bar, budget);
    fill_limit(&limit, budget);
    budget->has_gdr_copy    = access(GDR_COPY_FILE, F_OK) == 0;
    budget->has_rdma_device = mem_has_rdma_device();
    return fill_pool(&described, config, budget);
}

ucxpool_status_t ucxpool_device_budget(int                      device,
                                       const ucxpool_config_t  *config,
                                       ucxpool_device_budget_t *budget_p)
{
    base_config_t    values;
    ucxpool_status_t status;

    if (budget_p == NULL) {
        return base_error(
            UCXPOOL_ERR_INVALID_PARAM,
            "cannot return the budget of GPU %d: budget_p is NULL", device);
    }
    status = api_config_values(config, &values);
    if (status != UCXPOOL_OK) {
        return status;
    }
    return fill_budget(device, &values, budget_p);
}

/* --- devices -------------------------------------------------------------- */

int ucxpool_device_count(void)
{
    base_log_level_t         level = base_error_log_at(BASE_LOG_DEBUG);
    const mem_cuda_driver_t *driver;
    int                      num = 0;

    if (mem_cuda_driver_get(&driver) == UCXPOOL_OK) {
        CUresult result = driver->cuDeviceGetCount(&num);

        if (result != CUDA_SUCCESS) {
            (void)mem_cuda_error(driver, result, "cuDeviceGetCount");
            num = 0;
        }
    }
    base_error_log_at(level);
    return num;
}

static uint32_t abilities_of(const mem_cuda_device_t *device)
{
    const struct {
        bool     is_present;
        uint32_t ability;
    } abilities[] = {
        {device->has_ipc, UCXPOOL_DEVICE_IPC},
        {device->has_vmm, UCXPOOL_DEVICE_VMM},
        {device->has_posix_handles, UCXPOOL_DEVICE_POSIX_HANDLES},
        {device->has_fabric_handles, UCXPOOL_DEVICE_FABRIC_HANDLES},
        {device->has_gpudirect, UCXPOOL_DEVICE_GPUDIRECT},
        {device->has_gpudirect_vmm, UCXPOOL_DEVICE_GPUDIRECT_VMM},
        {device->has_dmabuf, UCXPOOL_DEVICE_DMABUF},
        {device->has_mem_ops, UCXPOOL_DEVICE_MEM_OPS},
    };
    uint32_t set = 0;

    for (size_t i = 0; i < sizeof(abilities) / sizeof(abilities[0]); i++) {
        set |= abilities[i].is_present ? abilities[i].ability : 0;
    }
    return set;
}

/* Format "GPU-" and the bytes in groups of 4, 2, 2, 2 and 6. */
static void format_uuid(const CUuuid *uuid, char *text, size_t size)
{
    static const char ends[16] = {[3] = '-', [5] = '-', [7] = '-', [9] = '-'};
    int               length   = snprintf(text, size, "GPU-");

    for (size_t i = 0; i < sizeof(uuid->bytes); i++) {
        length += snprintf(text + length, size - (size_t)length, "%02x%.1s",
                           (unsigned)(unsigned char)uuid->bytes[i], &ends[i]);
    }
}

static void fill_device(const mem_cuda_device_t *device,
                        ucxpool_device_attr_t   *attr)
{
    snprintf(attr->name, sizeof(attr->name), "%s", device->name);
    snprintf(attr->bus_id, sizeof(attr->bus_id), "%s", device->bus_id);
    format_uuid(&device->uuid, attr->uuid, sizeof(attr->uuid));
    attr->memory_size    = device->total_size;
    attr->cuda_version   = device->driver->version;
    attr->compute_major  = device->compute_major;
    attr->compute_minor  = device->compute_minor;
    attr->num_processors = device->num_processors;
    attr->abilities      = abilities_of(device);
}

static ucxpool_status_t fill_memory_free(int                    ordinal,
                                         ucxpool_device_attr_t *attr)
{
    mem_cuda_device_t *device;
    ucxpool_status_t   status;
    size_t             size;

    status = mem_cuda_device_open(ordinal, &device);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = mem_cuda_device_enter(device);
    if (status == UCXPOOL_OK) {
        status = mem_cuda_device_free_size(device, &size);
        mem_cuda_device_leave(device);
    }
    if (status == UCXPOOL_OK) {
        attr->memory_free = size;
    }
    mem_cuda_device_close(device);
    return status;
}

static void fill_bar1(ucxpool_device_attr_t *attr)
{
    mem_bar_t bar;

    mem_bar_query(attr->bus_id, &bar);
    attr->bar1_size = bar.size;
    attr->bar1_used = bar.used;
    attr->bar1_free = bar.free;
    snprintf(attr->bar1_reason, sizeof(attr->bar1_reason), "%s", bar.reason);
    snprintf(attr->driver_version, sizeof(attr->driver_version), "%s",
             bar.driver_version);
}

static ucxpool_cuda_backing_t backing_of(const mem_kind_t *kind)
{
    if (kind == &mem_kind_cuda_alloc) {
        return UCXPOOL_CUDA_BACKING_ALLOC;
    }
    return kind == &mem_kind_cuda_vmm ? UCXPOOL_CUDA_BACKING_VMM
                                      : UCXPOOL_CUDA_BACKING_HOST;
}

/* Fill the backing and its reason. If UCX fails to start or the GPU lacks the
 * requested backing, the reason is the error. */
static void fill_backing(const mem_cuda_device_t *device, int wanted,
                         ucxpool_device_attr_t *attr)
{
    base_log_level_t     level = base_error_log_at(BASE_LOG_DEBUG);
    block_surroundings_t around;
    block_backing_t      backing;
    ucxpool_status_t     status;

    block_surroundings_get(&around);
    status = ucx_facts_probe(&around.ucx);
    if (status == UCXPOOL_OK) {
        attr->ucx_abilities =
            (around.ucx.has_cuda ? UCXPOOL_DEVICE_UCX_TAKES : 0u) |
            (block_ucx_shares_vmm(&around.ucx) ? UCXPOOL_DEVICE_UCX_SHARES_VMM
                                               : 0u);
        status = block_backing_decide(device, &around, wanted, &backing);
    }
    base_error_log_at(level);
    if (status == UCXPOOL_OK) {
        attr->backing = backing_of(backing.kind);
    }
    snprintf(attr->backing_reason, sizeof(attr->backing_reason), "%s",
             status == UCXPOOL_OK ? block_backing_why(&backing)
                                  : ucxpool_error_detail());
}

ucxpool_status_t ucxpool_device_query(int                     device,
                                      const ucxpool_config_t *config,
                                      ucxpool_device_attr_t  *attr_p,
                                      size_t                  attr_size)
{
    ucxpool_device_attr_t attr = {.field_mask = 0};
    mem_cuda_device_t     described;
    base_config_t         values;
    ucxpool_status_t      status;

    if (base_missing(attr_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    if (attr_size < sizeof(attr.field_mask)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "attr_size is %zu bytes: pass sizeof(*attr_p)",
                          attr_size);
    }
    status = api_config_values(config, &values);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = mem_cuda_device_describe(device, &described);
    if (status != UCXPOOL_OK) {
        return status;
    }
    attr.field_mask = attr_p->field_mask;
    fill_device(&described, &attr);
    if (attr.field_mask & UCXPOOL_DEVICE_ATTR_FIELD_BAR1) {
        fill_bar1(&attr);
    }
    if (attr.field_mask & UCXPOOL_DEVICE_ATTR_FIELD_BACKING) {
        fill_backing(&described, (int)values.cuda_backing, &attr);
    }
    if (attr.field_mask & UCXPOOL_DEVICE_ATTR_FIELD_MEMORY_FREE) {
        status = fill_memory_free(device, &attr);
    }
    if (status == UCXPOOL_OK) {
        base_output(attr_p, attr_size, &attr, sizeof(attr));
    }
    return status;
}

/* --- lists ---------------------------------------------------------------- */

ucxpool_status_t ucxpool_device_list_alloc(int device, size_t size,
                                           void **list_p)
{
    if (base_missing(list_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    *list_p = NULL;
    if (size == 0) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "cannot allocate a list of 0 bytes: pass 1 or more");
    }
    return mem_cuda_pinned_alloc(device, size, list_p);
}

void ucxpool_device_list_free(void *list)
{
    mem_cuda_pinned_free(list);
}

/* --- streams -------------------------------------------------------------- */

ucxpool_status_t ucxpool_device_join_streams(int device, void *stream,
                                             void *const *streams,
                                             size_t       num_streams,
                                             void       **stream_p)
{
    if (base_missing(stream_p) ||
        ((num_streams > 0) && base_missing(streams))) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return mem_cuda_join(device, stream, streams, num_streams, stream_p);
}

void ucxpool_device_synchronize(int device)
{
    mem_cuda_synchronize(device);
}
