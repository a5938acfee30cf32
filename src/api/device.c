/* The public functions for GPUs: properties, lists, and streams. */
#include "api/api.h"
#include "base/error.h"
#include "block/backing.h"
#include "mem/cuda_device.h"
#include "mem/cuda_driver.h"
#include "mem/cuda_pinned.h"
#include "mem/cuda_stream.h"
#include "mem/nvml.h"
#include "ucx/reg.h"

#include <ucxpool/device.h>
#include <ucxpool/private.h>

#include <stdio.h>

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
    return (device->has_ipc ? UCXPOOL_DEVICE_IPC : 0u) |
           (device->has_vmm ? UCXPOOL_DEVICE_VMM : 0u) |
           (device->has_posix_handles ? UCXPOOL_DEVICE_POSIX_HANDLES : 0u) |
           (device->has_fabric_handles ? UCXPOOL_DEVICE_FABRIC_HANDLES : 0u) |
           (device->has_gpudirect ? UCXPOOL_DEVICE_GPUDIRECT : 0u) |
           (device->has_gpudirect_vmm ? UCXPOOL_DEVICE_GPUDIRECT_VMM : 0u) |
           (device->has_dmabuf ? UCXPOOL_DEVICE_DMABUF : 0u) |
           (device->has_mem_ops ? UCXPOOL_DEVICE_MEM_OPS : 0u);
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
    size_t             size, total;
    ucxpool_status_t   status = mem_cuda_device_open(ordinal, &device);

    if (status != UCXPOOL_OK) {
        return status;
    }
    mem_cuda_device_do(device, status,
                       mem_cuda_device_sizes(device, &size, &total));
    if (status == UCXPOOL_OK) {
        attr->memory_free = size;
    }
    mem_cuda_device_close(device);
    return status;
}

static void fill_bar1(ucxpool_device_attr_t *attr)
{
    mem_nvml_facts_t facts;

    mem_nvml_query(attr->bus_id, &facts);
    attr->bar1_size = facts.bar1_size;
    attr->bar1_used = facts.bar1_used;
    attr->bar1_free = facts.bar1_free;
    snprintf(attr->bar1_reason, sizeof(attr->bar1_reason), "%s", facts.reason);
    snprintf(attr->driver_version, sizeof(attr->driver_version), "%s",
             facts.driver_version);
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
