#include "block/backing.h"

#include "base/config.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The first UCX version whose cuda_ipc can share virtual memory. The handles
 * are file descriptors. */
#define UCX_VMM_MAJOR 1
#define UCX_VMM_MINOR 22

#define PTRACE_SCOPE_FILE "/proc/sys/kernel/yama/ptrace_scope"

/* Size of a buffer for a reason; all reasons below are much shorter. */
#define WHY_SIZE 128

bool block_ucx_shares_vmm(const ucx_facts_t *ucx)
{
    if (!ucx->has_cuda) {
        return false;
    }
    return (ucx->major > UCX_VMM_MAJOR) ||
           ((ucx->major == UCX_VMM_MAJOR) && (ucx->minor >= UCX_VMM_MINOR));
}

/* Returns true if virtual memory is available. Otherwise writes the reason. */
static bool has_vmm(const mem_cuda_device_t *device, char why[WHY_SIZE])
{
    if (!device->driver->has_vmm) {
        snprintf(why, WHY_SIZE,
                 "the driver (CUDA %d.%d) has no virtual memory functions",
                 device->driver->version / 1000,
                 device->driver->version % 1000 / 10);
        return false;
    }
    if (!device->has_vmm) {
        snprintf(why, WHY_SIZE, "this GPU does not support virtual memory");
        return false;
    }
    return true;
}

/* Returns true if every process that must map virtual memory can do so.
 * Otherwise writes the reason. */
static bool is_vmm_shared(const mem_cuda_device_t    *device,
                          const block_surroundings_t *around,
                          char                        why[WHY_SIZE])
{
    if (!device->has_posix_handles) {
        snprintf(why, WHY_SIZE, "virtual memory cannot be exported to peers");
        return false;
    }
    if (!around->ucx.has_cuda) {
        return true; /* only peer pools map virtual memory, and all of them
                        can */
    }
    if (!block_ucx_shares_vmm(&around->ucx)) {
        snprintf(
            why, WHY_SIZE, "UCX %u.%u cannot share virtual memory, %d.%d can",
            around->ucx.major, around->ucx.minor, UCX_VMM_MAJOR, UCX_VMM_MINOR);
        return false;
    }
    if (!around->has_getfd) {
        snprintf(why, WHY_SIZE,
                 "UCX cannot take virtual memory's handles (no pidfd_getfd)");
        return false;
    }
    if (around->ptrace_scope > 0) {
        snprintf(why, WHY_SIZE,
                 "UCX may not take virtual memory's handles "
                 "(yama.ptrace_scope=%d)",
                 around->ptrace_scope);
        return false;
    }
    return true;
}

static void set(block_backing_t *backing, const mem_kind_t *kind,
                const ucx_facts_t *ucx, const char *what, const char *why)
{
    char tail[80] = "";

    backing->kind         = kind;
    backing->ucx_takes_it = ucx->has_cuda || !kind->is_gpu;
    if (!backing->ucx_takes_it) {
        snprintf(
            tail, sizeof(tail),
            "; UCX %u.%u has no CUDA: peers on other hosts use pinned blocks",
            ucx->major, ucx->minor);
    }
    snprintf(backing->reason, sizeof(backing->reason), "%s%s%s", what, why,
             tail);
}

const char *block_backing_why(const block_backing_t *backing)
{
    return strchr(backing->reason, ',') + 2;
}

static void choose_best(const mem_cuda_device_t    *device,
                        const block_surroundings_t *around,
                        block_backing_t            *backing)
{
    char why[WHY_SIZE] = "";

    if (around->ucx.has_cuda) {
        /*
         * UCX can share virtual memory only if it was built with the headers of
         * a kernel that has pidfd_getfd. If UCX was built without them, it does
         * not report this, and copies such memory through the host, at 0.6
         * instead of 362 GB/s.
         */
        set(backing, &mem_kind_cuda_alloc, &around->ucx, "alloc, since ",
            "any UCX with CUDA can share it");
        return;
    }
    if (has_vmm(device, why) && is_vmm_shared(device, around, why)) {
        set(backing, &mem_kind_cuda_vmm, &around->ucx,
            "vmm, since peers can map it", "");
    } else {
        set(backing, &mem_kind_cuda_alloc, &around->ucx, "alloc, since ", why);
    }
}

/* Choose virtual memory for CUDA_BACKING=vmm. Even if UCX cannot share this
 * memory, the library itself can (ipc/cuda.h). */
static ucxpool_status_t take_vmm(const mem_cuda_device_t    *device,
                                 const block_surroundings_t *around,
                                 block_backing_t            *backing)
{
    char why[WHY_SIZE] = "";

    if (!has_vmm(device, why)) {
        return base_error(
            UCXPOOL_ERR_UNSUPPORTED,
            "UCXPOOL_CUDA_BACKING=vmm is not possible on GPU %d (%s): %s; set "
            "UCXPOOL_CUDA_BACKING=auto or alloc%s",
            device->ordinal, device->name, why,
            device->driver->has_vmm ? "" : ", or install a newer driver");
    }
    if (is_vmm_shared(device, around, why)) {
        set(backing, &mem_kind_cuda_vmm, &around->ucx,
            "vmm, set by CUDA_BACKING", "");
    } else {
        set(backing, &mem_kind_cuda_vmm, &around->ucx,
            "vmm, set by CUDA_BACKING, though ", why);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t block_backing_decide(const mem_cuda_device_t    *device,
                                      const block_surroundings_t *around,
                                      int wanted, block_backing_t *backing_p)
{
    switch ((base_backing_t)wanted) {
    case BASE_BACKING_VMM:
        return take_vmm(device, around, backing_p);
    case BASE_BACKING_ALLOC:
        set(backing_p, &mem_kind_cuda_alloc, &around->ucx,
            "alloc, set by CUDA_BACKING", "");
        return UCXPOOL_OK;
    case BASE_BACKING_HOST:
        set(backing_p, &mem_kind_cuda_host, &around->ucx,
            "pinned host memory, set by CUDA_BACKING", "");
        return UCXPOOL_OK;
    case BASE_BACKING_AUTO:
        break;
    }
    choose_best(device, around, backing_p);
    return UCXPOOL_OK;
}

/* Returns true if pidfd_getfd() works. The test takes a descriptor of this
 * process itself, which ptrace rules always allow. The call then fails only on
 * old kernels and under a container's system call filter. */
static bool has_getfd(void)
{
    int process = (int)syscall(SYS_pidfd_open, getpid(), 0);
    int fd;

    if (process < 0) {
        return false;
    }
    fd = (int)syscall(SYS_pidfd_getfd, process, process, 0);
    close(process);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static int ptrace_scope(void)
{
    FILE *file  = fopen(PTRACE_SCOPE_FILE, "re");
    int   scope = 0;

    if (file == NULL) {
        return 0;
    }
    if (fscanf(file, "%d", &scope) != 1) {
        scope = 0;
    }
    fclose(file);
    return scope;
}

void block_surroundings_get(block_surroundings_t *around_p)
{
    around_p->has_getfd    = has_getfd();
    around_p->ptrace_scope = ptrace_scope();
}

ucxpool_status_t block_backing_choose(const mem_cuda_device_t *device,
                                      struct ucp_context *context, int wanted,
                                      block_backing_t *backing_p)
{
    block_surroundings_t around;
    ucxpool_status_t     status;

    block_surroundings_get(&around);
    status = ucx_facts_get(context, &around.ucx);
    if (status != UCXPOOL_OK) {
        return status;
    }
    return block_backing_decide(device, &around, wanted, backing_p);
}
