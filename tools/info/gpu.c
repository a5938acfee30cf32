/* Section of the report on GPUs. */
#include "common/error.h"
#include "info/report.h"

#include <ucxpool/ucxpool.h>

#define ALL_FIELDS \
    (UCXPOOL_DEVICE_ATTR_FIELD_MEMORY_FREE | UCXPOOL_DEVICE_ATTR_FIELD_BAR1 | \
     UCXPOOL_DEVICE_ATTR_FIELD_BACKING)

static const char *const backing_names[] = {
    [UCXPOOL_CUDA_BACKING_NONE]  = "none",
    [UCXPOOL_CUDA_BACKING_ALLOC] = "alloc",
    [UCXPOOL_CUDA_BACKING_VMM]   = "vmm",
    [UCXPOOL_CUDA_BACKING_HOST]  = "host",
};

/* An ability of a GPU, and its readable name. */
typedef struct ability {
    uint32_t    ability;
    const char *name;
} ability_t;

static void report_abilities(report_t *report, const char *key,
                             const ucxpool_device_attr_t *attr,
                             const ability_t *abilities, size_t num)
{
    words_t names = {NULL, 0};

    for (size_t i = 0; i < num; i++) {
        if (attr->abilities & abilities[i].ability) {
            words_add(&names, abilities[i].name);
        }
    }
    report_words(report, key, &names);
}

static void report_sharing(report_t *report, const ucxpool_device_attr_t *attr)
{
    static const ability_t handles[] = {
        {UCXPOOL_DEVICE_IPC, "CUDA IPC"},
        {UCXPOOL_DEVICE_POSIX_HANDLES, "POSIX file"},
        {UCXPOOL_DEVICE_FABRIC_HANDLES, "fabric"},
    };
    static const ability_t direct[] = {
        {UCXPOOL_DEVICE_GPUDIRECT, "allocations"},
        {UCXPOOL_DEVICE_GPUDIRECT_VMM, "virtual memory"},
    };

    report_bool(report, "virtual_memory",
                (attr->abilities & UCXPOOL_DEVICE_VMM) != 0);
    report_abilities(report, "handles", attr, handles,
                     sizeof(handles) / sizeof(handles[0]));
    report_abilities(report, "gpudirect", attr, direct,
                     sizeof(direct) / sizeof(direct[0]));
    report_bool(report, "dmabuf",
                (attr->abilities & UCXPOOL_DEVICE_DMABUF) != 0);
    report_bool(report, "memory_operations",
                (attr->abilities & UCXPOOL_DEVICE_MEM_OPS) != 0);
}

static void report_bar1(report_t *report, const ucxpool_device_attr_t *attr)
{
    if (attr->bar1_size == 0) {
        report_because(report, "%s", attr->bar1_reason);
        report_text(report, "bar1", "unknown");
        return;
    }
    report_size(report, "bar1", attr->bar1_size);
    report_size(report, "bar1_free", attr->bar1_free);
}

static bool report_backing(report_t *report, int device,
                           const ucxpool_device_attr_t *attr)
{
    bool is_good = attr->backing != UCXPOOL_CUDA_BACKING_NONE;

    report_bool(report, "ucx_sends_from_it",
                (attr->ucx_abilities & UCXPOOL_DEVICE_UCX_TAKES) != 0);
    report_bool(report, "ucx_shares_virtual_memory",
                (attr->ucx_abilities & UCXPOOL_DEVICE_UCX_SHARES_VMM) != 0);
    if (!is_good) {
        tool_error("cannot create a pool on GPU %d: %s", device,
                   attr->backing_reason);
    }
    report_because(report, "%s", attr->backing_reason);
    report_text(report, "blocks", "%s", backing_names[attr->backing]);
    return is_good;
}

/* Query a GPU. If the GPU has too little memory for a context, its free memory
 * is not queried. */
static ucxpool_status_t query(int device, const ucxpool_config_t *config,
                              ucxpool_device_attr_t *attr)
{
    ucxpool_status_t status;

    attr->field_mask = ALL_FIELDS;
    status = ucxpool_device_query(device, config, attr, sizeof(*attr));
    if (status != UCXPOOL_ERR_NO_MEMORY) {
        return status;
    }
    attr->field_mask &= ~(uint64_t)UCXPOOL_DEVICE_ATTR_FIELD_MEMORY_FREE;
    return ucxpool_device_query(device, config, attr, sizeof(*attr));
}

static bool report_gpu(report_t *report, int device,
                       const ucxpool_config_t *config)
{
    ucxpool_device_attr_t attr;

    if (query(device, config, &attr) != UCXPOOL_OK) {
        tool_error("cannot query GPU %d: %s", device, ucxpool_error_detail());
        report_text(report, "error", "%s", ucxpool_error_detail());
        return false;
    }
    report_text(report, "name", "%s", attr.name);
    report_text(report, "bus_id", "%s", attr.bus_id);
    report_text(report, "uuid", "%s", attr.uuid);
    report_text(report, "driver", "%s",
                (attr.driver_version[0] != '\0') ? attr.driver_version
                                                 : "unknown");
    report_text(report, "cuda", "%d.%d", attr.cuda_version / 1000,
                attr.cuda_version % 1000 / 10);
    report_text(report, "compute_capability", "%d.%d", attr.compute_major,
                attr.compute_minor);
    report_number(report, "multiprocessors", (uint64_t)attr.num_processors);
    report_size(report, "memory", attr.memory_size);
    if (attr.field_mask & UCXPOOL_DEVICE_ATTR_FIELD_MEMORY_FREE) {
        report_size(report, "memory_free", attr.memory_free);
    } else {
        report_because(report,
                       "the GPU has too little free memory for a context");
        report_text(report, "memory_free", "unknown");
    }
    report_sharing(report, &attr);
    report_bar1(report, &attr);
    return report_backing(report, device, &attr);
}

bool info_gpu_report(report_t *report, const ucxpool_config_t *config)
{
    int  num     = ucxpool_device_count();
    bool is_good = true;
    char key[32], title[32];

    report_section_begin(report, "gpus", "GPUs");
    if (num == 0) {
        report_because(report, "%s", ucxpool_error_detail());
    }
    report_number(report, "number", (uint64_t)num);
    for (int i = 0; i < num; i++) {
        snprintf(key, sizeof(key), "gpu_%d", i);
        snprintf(title, sizeof(title), "GPU %d", i);
        report_section_begin(report, key, title);
        is_good = report_gpu(report, i, config) && is_good;
        report_section_end(report);
    }
    report_section_end(report);
    return is_good;
}
