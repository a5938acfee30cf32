#include <config.h>

#include "mem/reg_verbs.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "mem/cuda_device.h"
#include "mem/verbs_refusal.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define LIBRARY_NAME "libibverbs.so.1"
#define WORDS_SIZE   96

struct mem_verbs {
    /* libibverbs. Not named as its functions are, some of which are macros. */
    void *library;
    struct ibv_mr *(*reg)(struct ibv_pd *pd, void *address, size_t length,
                          int access);
    /* Knows access flags that a device may ignore; NULL before rdma-core 28. */
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
    /* What the CUDA driver said last; "" when it gave a file. */
    char           driver_words[WORDS_SIZE];
    char           why_no_file[WORDS_SIZE]; /* for MEM_VERBS_PEER */
    struct ibv_mr *mrs[]; /* of each region; NULL: not registered */
};

/* One function of the library; false when it is not there. */
static bool find(void *library, const char *symbol, void *place)
{
    void *function = dlsym(library, symbol);

    memcpy(place, &function, sizeof(function));
    return function != NULL;
}

/*
 * A protection domain is only known to the library that made it. Without a wish
 * nothing is loaded that is not there already: it could not be that library.
 */
static ucxpool_status_t open_library(mem_verbs_t *verbs)
{
    const char *wish     = secure_getenv(MEM_VERBS_LIBRARY_VARIABLE);
    bool        is_asked = (wish != NULL) && (*wish != '\0');
    const char *path     = is_asked ? wish : LIBRARY_NAME;

    verbs->library =
        dlopen(path, RTLD_NOW | RTLD_LOCAL | (is_asked ? 0 : RTLD_NOLOAD));
    if (verbs->library == NULL) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "%s is not loaded in this process (%s), so no "
                          "protection domain can be its: link libibverbs "
                          "dynamically, or name the library in %s",
                          path, is_asked ? dlerror() : "nobody has used it",
                          MEM_VERBS_LIBRARY_VARIABLE);
    }
    if (!find(verbs->library, "ibv_reg_mr", &verbs->reg) ||
        !find(verbs->library, "ibv_dereg_mr", &verbs->dereg)) {
        dlclose(verbs->library);
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "%s has no ibv_reg_mr: look at %s", path,
                          MEM_VERBS_LIBRARY_VARIABLE);
    }
    (void)find(verbs->library, "ibv_reg_mr_iova2", &verbs->reg_optional);
    (void)find(verbs->library, "ibv_reg_dmabuf_mr", &verbs->reg_dmabuf);
    return UCXPOOL_OK;
}

/* Of verbs, and of what regions are: they have the addresses that their blocks
 * are used by. */
static ucxpool_status_t check_access(int access)
{
    const int writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

    if (access & IBV_ACCESS_ZERO_BASED) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "access 0x%x: a pool's keys go with its own "
                          "addresses; leave IBV_ACCESS_ZERO_BASED out",
                          (unsigned)access);
    }
    if ((access & writes) && !(access & IBV_ACCESS_LOCAL_WRITE)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "access 0x%x: what peers may write must be writable "
                          "here, too; add IBV_ACCESS_LOCAL_WRITE",
                          (unsigned)access);
    }
    return UCXPOOL_OK;
}

/* By a file if that is possible at all. */
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
        why = "the GPU and its driver have none";
    } else if (verbs->reg_dmabuf == NULL) {
        why = "this libibverbs has no ibv_reg_dmabuf_mr";
    }
    verbs->way = (why == NULL) ? MEM_VERBS_DMABUF : MEM_VERBS_PEER;
    if (why != NULL) {
        snprintf(verbs->why_no_file, WORDS_SIZE, "%s", why);
    }
}

/* The file of a GPU's region; -1, and the driver's words, where there is none.
 */
static int export_region(mem_verbs_t *verbs, const mem_region_t *region)
{
    const mem_cuda_device_t *device = verbs->regions->cuda;
    const mem_cuda_driver_t *driver = device->driver;
    const char              *name   = NULL;
    int                      fd     = -1;
    CUresult                 result;

    verbs->driver_words[0] = '\0';
    if (mem_cuda_device_enter(device) != UCXPOOL_OK) {
        snprintf(verbs->driver_words, WORDS_SIZE, "the GPU's context is gone");
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
    snprintf(verbs->driver_words, WORDS_SIZE,
             "cuMemGetHandleForAddressRange: %s (%d)",
             (name != NULL) ? name : "an error without a name", (int)result);
    return -1;
}

/* The kernel keeps the memory behind the file; the file itself has done its
 * work. */
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

static struct ibv_mr *register_in_its_way(mem_verbs_t        *verbs,
                                          const mem_region_t *region)
{
    errno = 0;
    if (verbs->way == MEM_VERBS_DMABUF) {
        return register_file(verbs, region);
    }
    verbs->driver_words[0] = '\0';
    return register_addresses(verbs, region);
}

/* The first region was not taken by its file: the kernel may know the GPU's
 * addresses. */
static void fall_to_peer(mem_verbs_t *verbs)
{
    char reason[WORDS_SIZE];

    snprintf(verbs->why_no_file, WORDS_SIZE, "%s",
             (verbs->driver_words[0] != '\0')
                 ? verbs->driver_words
                 : strerror_r(errno, reason, sizeof(reason)));
    base_debug("%s takes no dmabuf of GPU %d: %s",
               verbs->pd->context->device->name, verbs->regions->device,
               verbs->why_no_file);
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

static ucxpool_status_t region_register(mem_verbs_t *verbs, unsigned index)
{
    const mem_region_t *region = &verbs->regions->regions[index];
    uint64_t            start  = base_clock_now();
    struct ibv_mr      *mr     = register_in_its_way(verbs, region);
    mem_verbs_refusal_t refusal;

    if ((mr == NULL) && (verbs->way == MEM_VERBS_DMABUF) && (index == 0)) {
        fall_to_peer(verbs);
        mr = register_in_its_way(verbs, region);
    }
    if (mr == NULL) {
        refusal = (mem_verbs_refusal_t){
            .regions = verbs->regions,
            .index   = index,
            .way     = verbs->way,
            .device  = verbs->pd->context->device->name,
            .access  = verbs->access,
            .error   = errno,
            .driver_words =
                (verbs->driver_words[0] != '\0') ? verbs->driver_words : NULL,
            .why_no_file = verbs->why_no_file,
        };
        return mem_verbs_refused(&refusal);
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
                          "deregistering region %u of %u from %s: %s; free the "
                          "memory windows that are bound to it, and try again",
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
    /* Nobody has the keys, so no window can be bound to them. */
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
