/*
 * The GPUs of this process, for who only asks.
 */
#include <config.h>

#include <ucxpool/device.h>

#include "base/config.h"
#include "base/error.h"
#include "block/backing.h"
#include "mem/cuda_device.h"
#include "mem/cuda_driver.h"
#include "mem/nvml.h"
#include "ucx/reg.h"

#include <stdio.h>
#include <string.h>

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
        bool     is_there;
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
        set |= abilities[i].is_there ? abilities[i].ability : 0;
    }
    return set;
}

/* "GPU-" and the bytes in groups of 4, 2, 2, 2 and 6. */
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

/* A UCX that does not start, or a GPU that has not what is asked for, is an
 * answer too. */
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

static ucxpool_status_t wanted_backing(const ucxpool_config_t *config,
                                       int                    *wanted_p)
{
    ucxpool_config_t *own;
    ucxpool_status_t  status;

    if (config != NULL) {
        *wanted_p = (int)base_config_values(config)->cuda_backing;
        return UCXPOOL_OK;
    }
    status = ucxpool_config_read(&own);
    if (status == UCXPOOL_OK) {
        *wanted_p = (int)base_config_values(own)->cuda_backing;
        ucxpool_config_release(own);
    }
    return status;
}

ucxpool_status_t ucxpool_device_query(int                     device,
                                      const ucxpool_config_t *config,
                                      ucxpool_device_attr_t  *attr_p)
{
    mem_cuda_device_t described;
    ucxpool_status_t  status;
    uint64_t          fields;
    int               wanted;

    if (attr_p == NULL) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "what is asked of GPU %d has no place: attr_p is "
                          "NULL",
                          device);
    }
    status = wanted_backing(config, &wanted);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = mem_cuda_device_describe(device, &described);
    if (status != UCXPOOL_OK) {
        return status;
    }
    fields = attr_p->field_mask;
    memset(attr_p, 0, sizeof(*attr_p));
    attr_p->field_mask = fields;
    fill_device(&described, attr_p);
    if (fields & UCXPOOL_DEVICE_ATTR_FIELD_BAR1) {
        fill_bar1(attr_p);
    }
    if (fields & UCXPOOL_DEVICE_ATTR_FIELD_BACKING) {
        fill_backing(&described, wanted, attr_p);
    }
    if (fields & UCXPOOL_DEVICE_ATTR_FIELD_MEMORY_FREE) {
        status = fill_memory_free(device, attr_p);
    }
    return status;
}
