#include "base/trace.h"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stddef.h>

bool base_trace_is_on;

static pthread_once_t     once = PTHREAD_ONCE_INIT;
static nvtxDomainHandle_t domain;

static const struct {
    const char *name;
    uint32_t    color; /* alpha, red, green, blue */
} kinds[BASE_RANGE_KINDS] = {
    [BASE_RANGE_GATHER]  = {"gather", 0xff1b7837},
    [BASE_RANGE_WIRE]    = {"wire", 0xff2166ac},
    [BASE_RANGE_SCATTER] = {"scatter", 0xff7fbf7b},
    [BASE_RANGE_BLOCK]   = {"wait for block", 0xffb2182b},
    [BASE_RANGE_READ]    = {"read", 0xffd9a441},
    [BASE_RANGE_WRITE]   = {"write", 0xff8c510a},
};

/* Create the domain. NVTX returns NULL if no profiler is attached. */
static void init(void)
{
    domain           = nvtxDomainCreateA("libucxpool");
    base_trace_is_on = domain != NULL;
}

void base_trace_init(void)
{
    pthread_once(&once, init);
}

void base_trace_begin(base_range_t *range, base_range_kind_t kind,
                      uint64_t size)
{
    nvtxEventAttributes_t event = {
        .version       = NVTX_VERSION,
        .size          = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .colorType     = NVTX_COLOR_ARGB,
        .color         = kinds[kind].color,
        .payloadType   = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
        .payload       = {.ullValue = size},
        .messageType   = NVTX_MESSAGE_TYPE_ASCII,
        .message.ascii = kinds[kind].name,
    };

    range->id      = nvtxDomainRangeStartEx(domain, &event);
    range->is_open = true;
}

void base_trace_end(base_range_t *range)
{
    range->is_open = false;
    nvtxDomainRangeEnd(domain, range->id);
}
