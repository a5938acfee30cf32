#define NVTX_NO_IMPL

#include "stand_in.h"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MAX_RANGES 100000u

#define EXPORT __attribute__((visibility("default")))

struct nvtxDomainRegistration_st {
    char name[32];
};

static pthread_mutex_t                  lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvtxDomainRegistration_st domains[4];
static unsigned                         num_domains;
static nvtx_stand_in_range_t            ranges[MAX_RANGES];
static unsigned                         num_ranges;
static unsigned                         num_faults;
static uint64_t                         moment;

static nvtxDomainHandle_t NVTX_API domain_create(const char *name)
{
    nvtxDomainHandle_t domain;

    pthread_mutex_lock(&lock);
    domain = &domains[num_domains++ % 4];
    snprintf(domain->name, sizeof(domain->name), "%s", name);
    pthread_mutex_unlock(&lock);
    return domain;
}

static int is_ours(nvtxDomainHandle_t domain)
{
    return (domain == &domains[0]) && (num_domains == 1) &&
           (strcmp(domain->name, "libucxpool") == 0);
}

static int is_whole(const nvtxEventAttributes_t *event)
{
    return (event->version == NVTX_VERSION) &&
           (event->size == NVTX_EVENT_ATTRIB_STRUCT_SIZE) &&
           (event->messageType == NVTX_MESSAGE_TYPE_ASCII) &&
           (event->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64) &&
           (event->colorType == NVTX_COLOR_ARGB);
}

/* The number of a range is its index, but not 0. */
static nvtxRangeId_t NVTX_API range_start(nvtxDomainHandle_t           domain,
                                          const nvtxEventAttributes_t *event)
{
    nvtx_stand_in_range_t *range;
    nvtxRangeId_t          id = 0;

    pthread_mutex_lock(&lock);
    if (!is_ours(domain) || !is_whole(event) || (num_ranges == MAX_RANGES)) {
        num_faults++;
    } else {
        range        = &ranges[num_ranges++];
        range->size  = event->payload.ullValue;
        range->begin = ++moment;
        snprintf(range->name, sizeof(range->name), "%s", event->message.ascii);
        id = num_ranges;
    }
    pthread_mutex_unlock(&lock);
    return id;
}

static void NVTX_API range_end(nvtxDomainHandle_t domain, nvtxRangeId_t id)
{
    pthread_mutex_lock(&lock);
    if (!is_ours(domain) || (id == 0) || (id > num_ranges) ||
        (ranges[id - 1].end != 0)) {
        num_faults++;
    } else {
        ranges[id - 1].end = ++moment;
    }
    pthread_mutex_unlock(&lock);
}

EXPORT const nvtx_stand_in_range_t *nvtx_stand_in_ranges(unsigned *num_p);
EXPORT const nvtx_stand_in_range_t *nvtx_stand_in_ranges(unsigned *num_p)
{
    *num_p = num_ranges;
    return ranges;
}

EXPORT unsigned nvtx_stand_in_faults(void);
EXPORT unsigned nvtx_stand_in_faults(void)
{
    return num_faults;
}

/* NVTX calls this once, in its first call. */
EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable               table     = NULL;
    unsigned                        size      = 0;

    if ((callbacks == NULL) ||
        !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table,
                                           &size) ||
        (size <= NVTX_CBID_CORE2_DomainCreateA)) {
        return 0;
    }
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)domain_create;
    *table[NVTX_CBID_CORE2_DomainRangeStartEx] =
        (NvtxFunctionPointer)range_start;
    *table[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer)range_end;
    return 1;
}
