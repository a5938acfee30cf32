/* Sections of the report on GPUs, and on how much memory of each a pool may
 * use. */
#include <config.h>

#include "common/error.h"
#include "info/report.h"

#include <ucxpool/private.h>
#include <ucxpool/ucxpool.h>

#include <string.h>

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
            words_add(&names, abilities[i].name, strlen(abilities[i].name));
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
    if (attr->bar1_reason[0] != '\0') {
        report_because(report, "%s", attr->bar1_reason);
        report_text(report, "bar1_free", "unknown");
        return;
    }
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
        tool_error("no pool is possible on GPU %d: %s", device,
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
        report_because(report, "there is no room for a context");
        report_text(report, "memory_free", "unknown");
    }
    report_sharing(report, &attr);
    report_bar1(report, &attr);
    return report_backing(report, device, &attr);
}

/* --- the budget ---------------------------------------------------------- */

static void report_window(report_t                      *report,
                          const ucxpool_device_budget_t *budget)
{
    static const char *const sources[] = {
        [UCXPOOL_BAR1_UNKNOWN] = "unknown",
        [UCXPOOL_BAR1_NVML]    = "NVML",
        [UCXPOOL_BAR1_KERNEL]  = "PCI resources",
        [UCXPOOL_BAR1_NONE]    = "none",
    };

    if (budget->bar1_reason[0] != '\0') {
        report_because(report, "%s", budget->bar1_reason);
    }
    report_text(report, "bar1_from", "%s", sources[budget->bar1_source]);
    if (budget->bar1_size == 0) {
        return;
    }
    report_size(report, "bar1_total", budget->bar1_size);
    if (budget->bar1_source == UCXPOOL_BAR1_KERNEL) {
        report_because(report, "the kernel does not tell what is used");
        report_text(report, "bar1_free", "unknown");
        return;
    }
    report_because(report, "by the driver and all processes together");
    report_size(report, "bar1_held_now", budget->bar1_used);
    report_size(report, "bar1_free", budget->bar1_free);
}

static void report_limit(report_t                      *report,
                         const ucxpool_device_budget_t *budget)
{
    report_because(report, "%s", budget->usable_from);
    if (budget->usable == UCXPOOL_BUDGET_NONE) {
        report_text(report, "usable", "no limit");
        report_text(report, "limit_for_blocks", "none");
        return;
    }
    report_size(report, "usable", budget->usable);
    report_because(report, "held now, above what an idle driver holds, by "
                           "unknown processes");
    report_size(report, "minus_others", budget->others);
    report_because(report, "UCXPOOL_COMM_RESERVE%s",
                   budget->reserve_is_auto ? "=auto" : "");
    report_size(report, "minus_reserve", budget->reserve);
    report_because(report, "usable - others, or what is free, - reserve");
    report_size(report, "limit_for_blocks", budget->limit);
}

/* Report other users of BAR1, for which the reserve is kept. */
static void report_others(report_t                      *report,
                          const ucxpool_device_budget_t *budget)
{
    if (budget->ucx_staging_step == 0) {
        report_because(report, "this UCX knows no CUDA");
        report_text(report, "ucx_staging", "none");
    } else {
        report_because(report, "a step of UCX's own buffers in GPU memory, "
                               "taken when it sends what is not registered; "
                               "the pool's blocks need none");
        report_size(report, "ucx_staging", budget->ucx_staging_step);
    }
    report_because(report, budget->has_gdr_copy
                               ? "/dev/gdrdrv is there: UCX may map what it "
                                 "copies, for a moment"
                               : "there is no /dev/gdrdrv");
    report_bool(report, "gdr_copy", budget->has_gdr_copy != 0);
    report_because(report, budget->has_rdma_device
                               ? "what it registers goes through the window"
                               : "nothing registers with one here");
    report_bool(report, "rdma_device", budget->has_rdma_device != 0);
    if (budget->num_nvlinks < 0) {
        report_because(report, "what peers map over NVLink takes nothing of "
                               "the window, over PCIe it does");
        report_text(report, "nvlinks", "unknown");
        return;
    }
    report_because(report, budget->num_nvlinks > 0
                               ? "what peers map over them takes nothing of "
                                 "the window; over PCIe it does"
                               : "what peers map goes over PCIe, and through "
                                 "the window of the GPU that owns it");
    report_number(report, "nvlinks", (uint64_t)budget->num_nvlinks);
}

static void report_blocks(report_t                      *report,
                          const ucxpool_device_budget_t *budget)
{
    if (!budget->uses_bar1) {
        report_because(report, "host memory takes nothing of the window");
    } else if (!budget->is_registered) {
        report_because(report, "this UCX is not given them: only peers that "
                               "map them over PCIe use the window");
    }
    report_text(report, "blocks", "%s", backing_names[budget->backing]);
    if (!budget->is_comm_size_auto) {
        report_because(report, "UCXPOOL_COMM_SIZE%s",
                       budget->uses_bar1 && (budget->comm_size > budget->limit)
                           ? ", though it is above the limit"
                           : "");
    } else if (budget->uses_bar1 && (budget->comm_size > budget->limit)) {
        report_because(report, "the least that a pool needs, though it is "
                               "above the limit");
    } else {
        report_because(report, "UCXPOOL_COMM_SIZE=auto: 500m, a 32nd of the "
                               "memory, or the limit");
    }
    report_size(report, "pool", budget->comm_size);
    report_number(report, "regions", budget->num_regions);
    report_size(report, "region_size", budget->region_size);
    report_size(report, "block_size", budget->block_size);
    report_number(report, "blocks_to_send", budget->blocks_to_send);
    report_number(report, "blocks_to_receive", budget->blocks_to_receive);
    report_number(report, "blocks_for_the_caller",
                  budget->blocks_for_the_caller);
}

static bool report_budget(report_t *report, int device,
                          const ucxpool_config_t *config)
{
    ucxpool_device_budget_t budget;
    ucxpool_device_attr_t   attr = {.field_mask = 0};

    if ((ucxpool_device_query(device, config, &attr, sizeof(attr)) !=
         UCXPOOL_OK) ||
        (ucxpool_device_budget(device, config, &budget) != UCXPOOL_OK)) {
        tool_error("no budget for GPU %d: %s", device, ucxpool_error_detail());
        report_text(report, "error", "%s", ucxpool_error_detail());
        return false;
    }
    report_text(report, "name", "%s", attr.name);
    report_size(report, "memory", attr.memory_size);
    report_window(report, &budget);
    report_limit(report, &budget);
    report_others(report, &budget);
    report_blocks(report, &budget);
    return true;
}

/* --- sections ------------------------------------------------------------ */

/* Report one section for each GPU. */
static bool report_all(report_t *report, const char *number_key,
                       bool (*report_one)(report_t *report, int device,
                                          const ucxpool_config_t *config),
                       const ucxpool_config_t *config)
{
    int  num     = ucxpool_device_count();
    bool is_good = true;
    char key[32], title[32];

    if (num == 0) {
        report_because(report, "%s", ucxpool_error_detail());
    }
    report_number(report, number_key, (uint64_t)num);
    for (int i = 0; i < num; i++) {
        snprintf(key, sizeof(key), "gpu_%d", i);
        snprintf(title, sizeof(title), "GPU %d", i);
        report_section_begin(report, key, title);
        is_good = report_one(report, i, config) && is_good;
        report_section_end(report);
    }
    report_section_end(report);
    return is_good;
}

bool info_gpu_report(report_t *report, const ucxpool_config_t *config)
{
    report_section_begin(report, "gpus", "GPUs");
    return report_all(report, "number", report_gpu, config);
}

bool info_budget_report(report_t *report, const ucxpool_config_t *config)
{
    report_section_begin(report, "budget", "The BAR budget");
    return report_all(report, "gpus", report_budget, config);
}
