#include <config.h>

#include "mem/reg_verbs.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "mem/cuda_device.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LIBRARY_NAME "libibverbs.so.1"
#define WORDS_SIZE   128

struct mem_verbs {
    /* libibverbs. The members are not named like its functions, because some of
     * those are macros. */
    void *library;
    struct ibv_mr *(*reg)(struct ibv_pd *pd, void *address, size_t length,
                          int access);
    /* Supports optional access flags; NULL before rdma-core 28. */
    struct ibv_mr *(*reg_optional)(struct ibv_pd *pd, void *address,
                                   size_t length, uint64_t iova,
                                   unsigned access);
    /* NULL before rdma-core 34. */
    struct ibv_mr *(*reg_dmabuf)(struct ibv_pd *pd, uint64_t offset,
                                 size_t length, uint64_t iova, int fd,
                                 int access);
    int (*dereg)(struct ibv_mr *mr);

    const mem_regions_t *regions;
    struct ibv_pd       *pd;
    int                  access;
    mem_verbs_counts_t  *counts;
    mem_verbs_way_t      way;
    char                 no_file[WORDS_SIZE]; /* why dmabuf failed; or "" */
    struct ibv_mr       *mrs[]; /* per region; NULL: not registered */
};

/* Look up a function of the library. Returns false if it is missing. */
static bool find(void *library, const char *symbol, void *place)
{
    void *function = dlsym(library, symbol);

    memcpy(place, &function, sizeof(function));
    return function != NULL;
}

/*
 * Open libibverbs. A protection domain belongs to the libibverbs that created
 * it. Unless a library is configured, only a libibverbs that is already loaded
 * is used, because a newly loaded one cannot have created the domain.
 */
static ucxpool_status_t open_library(mem_verbs_t *verbs)
{
    const char *wish     = secure_getenv(MEM_VERBS_LIBRARY_VARIABLE);
    bool        is_asked = (wish != NULL) && (*wish != '\0');
    const char *path     = is_asked ? wish : LIBRARY_NAME;

    verbs->library =
        dlopen(path, RTLD_NOW | RTLD_LOCAL | (is_asked ? 0 : RTLD_NOLOAD));
    if ((verbs->library == NULL) && is_asked) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "cannot open the library in %s: %s",
                          MEM_VERBS_LIBRARY_VARIABLE, dlerror());
    }
    if (verbs->library == NULL) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "%s is not loaded in this process, so it did not "
                          "create the protection domain: link libibverbs "
                          "dynamically, or set %s to the library that did",
                          path, MEM_VERBS_LIBRARY_VARIABLE);
    }
    if (!find(verbs->library, "ibv_reg_mr", &verbs->reg) ||
        !find(verbs->library, "ibv_dereg_mr", &verbs->dereg)) {
        dlclose(verbs->library);
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "%s has no ibv_reg_mr: check %s", path,
                          MEM_VERBS_LIBRARY_VARIABLE);
    }
    (void)find(verbs->library, "ibv_reg_mr_iova2", &verbs->reg_optional);
    (void)find(verbs->library, "ibv_reg_dmabuf_mr", &verbs->reg_dmabuf);
    return UCXPOOL_OK;
}

/* Check the access flags against the rules of verbs. Also reject zero-based
 * keys, because a region's keys use its virtual addresses. */
static ucxpool_status_t check_access(int access)
{
    const int writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

    if (access & IBV_ACCESS_ZERO_BASED) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "invalid access 0x%x: a pool's keys use its virtual "
                          "addresses; remove IBV_ACCESS_ZERO_BASED",
                          (unsigned)access);
    }
    if ((access & writes) && !(access & IBV_ACCESS_LOCAL_WRITE)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "invalid access 0x%x: remotely writable memory must "
                          "be locally writable; add IBV_ACCESS_LOCAL_WRITE",
                          (unsigned)access);
    }
    return UCXPOOL_OK;
}

/* Choose how to register the regions: GPU memory by dmabuf if possible. */
static void choose_way(mem_verbs_t *verbs)
{
    const mem_cuda_device_t *device = verbs->regions->cuda;
    const char              *why    = NULL;

    if (!mem_regions_are_on_gpu(verbs->regions)) {
        verbs->way = MEM_VERBS_HOST;
        return;
    }
    if (!device->has_dmabuf ||
        (device->driver->cuMemGetHandleForAddressRange == NULL)) {
        why = "the GPU or its driver does not support it";
    } else if (verbs->reg_dmabuf == NULL) {
        why = "this libibverbs has no ibv_reg_dmabuf_mr";
    }
    verbs->way = (why == NULL) ? MEM_VERBS_DMABUF : MEM_VERBS_PEER;
    if (why != NULL) {
        snprintf(verbs->no_file, WORDS_SIZE, "%s", why);
    }
}

/* Export a GPU region as a file. Returns -1 and sets no_file on failure. */
static int export_region(mem_verbs_t *verbs, const mem_region_t *region)
{
    const mem_cuda_device_t *device = verbs->regions->cuda;
    const mem_cuda_driver_t *driver = device->driver;
    const char              *name   = NULL;
    int                      fd     = -1;
    CUresult                 result;

    if (mem_cuda_device_enter(device) != UCXPOOL_OK) {
        snprintf(verbs->no_file, WORDS_SIZE,
                 "the GPU's context has been destroyed");
        return -1;
    }
    result = driver->cuMemGetHandleForAddressRange(
        &fd, (CUdeviceptr)(uintptr_t)region->address, region->size,
        CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    mem_cuda_device_leave(device);
    if (result == CUDA_SUCCESS) {
        return fd;
    }
    (void)driver->cuGetErrorName(result, &name);
    snprintf(verbs->no_file, WORDS_SIZE,
             "cuMemGetHandleForAddressRange: %s (%d)",
             (name != NULL) ? name : "unknown error", (int)result);
    return -1;
}

/* Register a region by dmabuf. The registration keeps the memory alive, so the
 * file is closed at once. */
static struct ibv_mr *register_file(mem_verbs_t        *verbs,
                                    const mem_region_t *region)
{
    int            fd = export_region(verbs, region);
    int            saved_errno;
    struct ibv_mr *mr;

    if (fd < 0) {
        errno = EIO;
        return NULL;
    }

    mr = verbs->reg_dmabuf(verbs->pd, 0, region->size,
                           (uintptr_t)region->address, fd, verbs->access);

    saved_errno = errno;
    close(fd);
    errno = saved_errno;
    return mr;
}

static struct ibv_mr *register_addresses(const mem_verbs_t  *verbs,
                                         const mem_region_t *region)
{
    if ((verbs->access & IBV_ACCESS_OPTIONAL_RANGE) &&
        (verbs->reg_optional != NULL)) {
        return verbs->reg_optional(verbs->pd, region->address, region->size,
                                   (uintptr_t)region->address,
                                   (unsigned)verbs->access);
    }
    return verbs->reg(verbs->pd, region->address, region->size,
                      verbs->access & ~IBV_ACCESS_OPTIONAL_RANGE);
}

static struct ibv_mr *register_by_way(mem_verbs_t        *verbs,
                                      const mem_region_t *region)
{
    return (verbs->way == MEM_VERBS_DMABUF) ? register_file(verbs, region)
                                            : register_addresses(verbs, region);
}

/* Register by address from now on, because the first region could not be
 * registered by dmabuf. Registration by address works if a kernel module
 * supports GPU addresses. */
static void fall_back_to_peer(mem_verbs_t *verbs)
{
    char reason[WORDS_SIZE];

    if (verbs->no_file[0] == '\0') {
        snprintf(verbs->no_file, WORDS_SIZE, "%s",
                 strerror_r(errno, reason, sizeof(reason)));
    }
    base_debug("%s cannot register a dmabuf of GPU %d: %s",
               verbs->pd->context->device->name, verbs->regions->device,
               verbs->no_file);
    verbs->way = MEM_VERBS_PEER;
}

static void count(uint64_t *number, uint64_t more)
{
    __atomic_fetch_add(number, more, __ATOMIC_RELAXED);
}

static void uncount(uint64_t *number, uint64_t less)
{
    __atomic_fetch_sub(number, less, __ATOMIC_RELAXED);
}

static ucxpool_status_t status_of(const mem_verbs_t *verbs, int error)
{
    switch (error) {
    case EINVAL:
        /* Without nvidia-peermem, the kernel does not know GPU addresses. */
        return (verbs->way == MEM_VERBS_PEER) ? UCXPOOL_ERR_UNSUPPORTED
                                              : UCXPOOL_ERR_INVALID_PARAM;
    case EFAULT:
        return (verbs->way == MEM_VERBS_PEER) ? UCXPOOL_ERR_UNSUPPORTED
                                              : UCXPOOL_ERR_IO;
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

/* Returns advice: a constant, or a text written to `text`, which has WORDS_SIZE
 * bytes. */
static const char *advice_for(const mem_verbs_t *verbs, int error, char *text)
{
    struct rlimit locked = {RLIM_INFINITY, RLIM_INFINITY};

    if (error == EAGAIN) {
        return "raise the limit of regions (rdma.max of the control group) or "
               "UCXPOOL_REGION_SIZE";
    }
    if (verbs->way == MEM_VERBS_HOST) {
        if (error != ENOMEM) {
            return "check the access flags and the device";
        }
        (void)getrlimit(RLIMIT_MEMLOCK, &locked);
        if (locked.rlim_cur == RLIM_INFINITY) {
            return "lower UCXPOOL_COMM_SIZE";
        }
        snprintf(text, WORDS_SIZE,
                 "raise the limit of locked memory (ulimit -l; now %llu bytes) "
                 "or lower UCXPOOL_COMM_SIZE",
                 (unsigned long long)locked.rlim_cur);
        return text;
    }
    /* If verbs->way is still dmabuf, the first region was registered by
     * dmabuf. */
    return ((verbs->way == MEM_VERBS_DMABUF) || (error == ENOMEM))
               ? "the GPU's BAR1 may be full: lower UCXPOOL_COMM_SIZE or set "
                 "UCXPOOL_CUDA_BACKING=host"
               : "check the access flags, load nvidia-peermem, or set "
                 "UCXPOOL_CUDA_BACKING=host";
}

/* Record why the device or the driver did not register a region. */
static ucxpool_status_t refused(const mem_verbs_t *verbs, unsigned index,
                                int error)
{
    const mem_regions_t *regions    = verbs->regions;
    bool                 has_reason = verbs->no_file[0] != '\0';
    char                 reason[WORDS_SIZE];
    char                 advice[WORDS_SIZE];

    return base_error(
        status_of(verbs, error),
        "cannot register region %u of %u (%zu bytes each) with %s by %s: "
        "%s%s%s%s; %s",
        index, regions->num_regions, regions->region_size,
        verbs->pd->context->device->name,
        (verbs->way == MEM_VERBS_DMABUF) ? "ibv_reg_dmabuf_mr" : "ibv_reg_mr",
        strerror_r(error, reason, sizeof(reason)),
        has_reason ? " (dmabuf: " : "", verbs->no_file, has_reason ? ")" : "",
        advice_for(verbs, error, advice));
}

static ucxpool_status_t region_register(mem_verbs_t *verbs, unsigned index)
{
    const mem_region_t *region = &verbs->regions->regions[index];
    uint64_t            start  = base_clock_now();
    struct ibv_mr      *mr     = register_by_way(verbs, region);

    if ((mr == NULL) && (verbs->way == MEM_VERBS_DMABUF) && (index == 0)) {
        fall_back_to_peer(verbs);
        mr = register_by_way(verbs, region);
    }
    if (mr == NULL) {
        return refused(verbs, index, errno);
    }
    verbs->mrs[index] = mr;
    count(&verbs->counts->num_regions[verbs->way], 1);
    count(&verbs->counts->bytes[verbs->way], region->size);
    count(&verbs->counts->num_calls, 1);
    count(&verbs->counts->ns, base_clock_now() - start);
    return UCXPOOL_OK;
}

static ucxpool_status_t region_deregister(mem_verbs_t *verbs, unsigned index)
{
    int error;

    if (verbs->mrs[index] == NULL) {
        return UCXPOOL_OK;
    }
    error = verbs->dereg(verbs->mrs[index]);
    if (error != 0) {
        return base_error(UCXPOOL_ERR_IO,
                          "cannot deregister region %u of %u from %s: %s; if "
                          "memory windows are bound to it, free them and try "
                          "again",
                          index, verbs->regions->num_regions,
                          verbs->pd->context->device->name, strerror(error));
    }
    verbs->mrs[index] = NULL;
    uncount(&verbs->counts->num_regions[verbs->way], 1);
    uncount(&verbs->counts->bytes[verbs->way],
            verbs->regions->regions[index].size);
    return UCXPOOL_OK;
}

ucxpool_status_t mem_verbs_deregister(mem_verbs_t *verbs)
{
    ucxpool_status_t status = UCXPOOL_OK;

    for (unsigned i = verbs->regions->num_regions; i-- > 0;) {
        ucxpool_status_t one = region_deregister(verbs, i);

        if (one != UCXPOOL_OK) {
            status = one;
        }
    }
    return status;
}

void mem_verbs_destroy(mem_verbs_t *verbs)
{
    bool is_used = false;

    if (verbs == NULL) {
        return;
    }
    for (unsigned i = 0; i < verbs->regions->num_regions; i++) {
        is_used = is_used || (verbs->mrs[i] != NULL);
    }
    if (!is_used) {
        dlclose(verbs->library);
    }
    free(verbs);
}

ucxpool_status_t mem_verbs_create(const mem_regions_t *regions,
                                  struct ibv_pd *pd, int access,
                                  mem_verbs_counts_t *counts,
                                  mem_verbs_t       **verbs_p)
{
    ucxpool_status_t status = check_access(access);
    mem_verbs_t     *verbs;

    if (status != UCXPOOL_OK) {
        return status;
    }
    verbs = calloc(1, sizeof(*verbs) +
                          regions->num_regions * sizeof(verbs->mrs[0]));
    if (verbs == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for the keys of %u regions",
                          regions->num_regions);
    }
    verbs->regions = regions;
    verbs->pd      = pd;
    verbs->access  = access;
    verbs->counts  = counts;
    status         = open_library(verbs);
    if (status != UCXPOOL_OK) {
        goto err_free_verbs;
    }
    choose_way(verbs);
    for (unsigned i = 0; i < regions->num_regions; i++) {
        status = region_register(verbs, i);
        if (status != UCXPOOL_OK) {
            goto err_deregister;
        }
    }
    *verbs_p = verbs;
    return UCXPOOL_OK;

err_deregister:
    /* The application does not have the keys yet, so no memory window is bound
     * to them. */
    (void)mem_verbs_deregister(verbs);
    mem_verbs_destroy(verbs);
    return status;
err_free_verbs:
    free(verbs);
    return status;
}

bool mem_verbs_keys(const mem_verbs_t *verbs, uint32_t region, uint32_t *lkey_p,
                    uint32_t *rkey_p)
{
    const struct ibv_mr *mr;

    assert(region < verbs->regions->num_regions);
    mr = verbs->mrs[region];
    if (mr == NULL) {
        return false;
    }
    *lkey_p = mr->lkey;
    *rkey_p = mr->rkey;
    return true;
}
