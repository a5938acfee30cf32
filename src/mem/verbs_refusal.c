#include <config.h>

#include "mem/verbs_refusal.h"
#include "base/error.h"
#include "mem/cuda_device.h"
#include "mem/nvml.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define ADVICE_SIZE 224

static bool is_of_gpu(const mem_verbs_refusal_t *refusal)
{
    return refusal->way != MEM_VERBS_HOST;
}

/* Addresses of a GPU mean nothing to a kernel without a module that knows
 * them. */
static bool is_unknown_address(const mem_verbs_refusal_t *refusal)
{
    return (refusal->way == MEM_VERBS_PEER) &&
           ((refusal->error == EFAULT) || (refusal->error == EINVAL));
}

static ucxpool_status_t status_of(const mem_verbs_refusal_t *refusal)
{
    if (is_unknown_address(refusal)) {
        return UCXPOOL_ERR_UNSUPPORTED;
    }
    switch (refusal->error) {
    case EINVAL:
        return UCXPOOL_ERR_INVALID_PARAM;
    case ENOMEM:
    case ENOSPC:
        return UCXPOOL_ERR_NO_MEMORY;
    case EAGAIN:
        return UCXPOOL_ERR_LIMIT;
    case EPERM:
    case EACCES:
        return UCXPOOL_ERR_PERMISSION;
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
    case ENOSYS:
        return UCXPOOL_ERR_UNSUPPORTED;
    default:
        return UCXPOOL_ERR_IO;
    }
}

static void advise_memory(char *text)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

    (void)getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur == RLIM_INFINITY) {
        snprintf(text, ADVICE_SIZE,
                 "locked memory is without limit here, so the device or the "
                 "system has no room: lower UCXPOOL_COMM_SIZE");
        return;
    }
    snprintf(text, ADVICE_SIZE,
             "the limit of locked memory is %" PRIu64 " bytes for all that "
             "this process registers: raise it (ulimit -l), or lower "
             "UCXPOOL_COMM_SIZE",
             (uint64_t)limit.rlim_cur);
}

static void advise_gpu(const mem_verbs_refusal_t *refusal, char *text)
{
    mem_nvml_facts_t facts;
    char             window[80] = "";

    mem_nvml_query(refusal->regions->cuda->bus_id, &facts);
    if (facts.bar1_size != 0) {
        snprintf(window, sizeof(window),
                 " (%" PRIu64 " of %" PRIu64 " bytes are free)",
                 facts.bar1_free, facts.bar1_size);
    }
    snprintf(text, ADVICE_SIZE,
             "what is registered has to fit in the GPU's BAR1%s: lower "
             "UCXPOOL_COMM_SIZE, or set UCXPOOL_CUDA_BACKING=host",
             window);
}

static void advise(const mem_verbs_refusal_t *refusal, char *text)
{
    if (refusal->error == EAGAIN) {
        snprintf(text, ADVICE_SIZE,
                 "the device, or the control group (rdma.max), allows no more "
                 "regions: raise that, or make fewer and larger ones "
                 "(UCXPOOL_REGION_SIZE)");
    } else if (is_unknown_address(refusal)) {
        snprintf(text, ADVICE_SIZE,
                 "have the module nvidia-peermem loaded, or a driver, kernel "
                 "and card that know dmabuf, or set "
                 "UCXPOOL_CUDA_BACKING=host");
    } else if ((refusal->driver_words == NULL) &&
               ((refusal->error == EINVAL) || (refusal->error == EOPNOTSUPP))) {
        snprintf(text, ADVICE_SIZE,
                 "does it take this memory with the access 0x%x? Leave flags "
                 "out%s",
                 (unsigned)refusal->access,
                 is_of_gpu(refusal) ? ", or set UCXPOOL_CUDA_BACKING=host"
                                    : "");
    } else if (is_of_gpu(refusal)) {
        advise_gpu(refusal, text);
    } else if (refusal->error == ENOMEM) {
        advise_memory(text);
    } else {
        snprintf(text, ADVICE_SIZE,
                 "look at the device (rdma link, the kernel's log)");
    }
}

ucxpool_status_t mem_verbs_refused(const mem_verbs_refusal_t *refusal)
{
    static const char *const calls[MEM_VERBS_WAYS] = {
        [MEM_VERBS_HOST]   = "ibv_reg_mr",
        [MEM_VERBS_DMABUF] = "ibv_reg_dmabuf_mr",
        [MEM_VERBS_PEER]   = "ibv_reg_mr",
    };
    const mem_regions_t *regions = refusal->regions;
    char                 reason[96];
    char                 advice[ADVICE_SIZE];
    const char          *words       = refusal->driver_words;
    bool                 has_no_file = refusal->way == MEM_VERBS_PEER;

    if (words == NULL) {
        words = strerror_r(refusal->error, reason, sizeof(reason));
    }
    advise(refusal, advice);
    return base_error(
        status_of(refusal),
        "registering region %u of %u (%zu bytes each) with %s by %s: %s%s%s%s; "
        "%u regions (%zu bytes) had been registered, and are not any more; %s",
        refusal->index, regions->num_regions, regions->region_size,
        refusal->device, calls[refusal->way], words,
        has_no_file ? " (not by dmabuf: " : "",
        has_no_file ? refusal->why_no_file : "", has_no_file ? ")" : "",
        refusal->index, refusal->index * regions->region_size, advice);
}
