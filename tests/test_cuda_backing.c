/* How the library chooses the kind of memory for the blocks of a pool on
 * a GPU. */
#include "base/config.h"
#include "block/backing.h"
#include "cuda_fixture.h"
#include "test.h"
#include "replace.h"

#include <ucp/api/ucp.h>
#include <ucxpool/ucxpool.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The answers of the system and of UCX; NULL: the file does not exist. */
static const char  *scope_file;
static int          getfd_error;
static int          pidfd_error;
static ucs_status_t query_status;
static bool         ucx_has_cuda;

static mem_cuda_device_t   *device;
static block_backing_t      backing;
static block_surroundings_t around;

REPLACE(FILE *, fopen, const char *path, const char *mode)
{
    if (strstr(path, "ptrace_scope") == NULL) {
        return __real_fopen(path, mode);
    }
    if (scope_file == NULL) {
        errno = ENOENT;
        return NULL;
    }
    return fmemopen((void *)(uintptr_t)scope_file, strlen(scope_file), "r");
}

REPLACE(long, syscall, long number, long a, long b, long c, long d, long e,
        long f)
{
    /* The program that runs the test (valgrind, for one) may support
     * neither. */
    if (number == SYS_pidfd_open) {
        errno = pidfd_error;
        return pidfd_error != 0 ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    if (number == SYS_pidfd_getfd) {
        errno = getfd_error;
        return getfd_error != 0 ? -1 : dup((int)b);
    }
    return __real_syscall(number, a, b, c, d, e, f);
}

REPLACE(ucs_status_t, ucp_context_query, ucp_context_h context,
        ucp_context_attr_t *attr)
{
    ck_assert_uint_eq(attr->field_mask, UCP_ATTR_FIELD_MEMORY_TYPES);
    attr->memory_types = UINT64_C(1) << UCS_MEMORY_TYPE_HOST;
    if (ucx_has_cuda) {
        attr->memory_types |= UINT64_C(1) << UCS_MEMORY_TYPE_CUDA;
    }
    return query_status;
}

static void open_device(const char *configuration)
{
    cuda_start(configuration);
    assert_ok(mem_cuda_device_open(0, &device));
}

static void setup(void)
{
    memset(&backing, 0, sizeof(backing));
    around = (block_surroundings_t){.has_getfd = true};
}

static void teardown(void)
{
    mem_cuda_device_close(device);
    device = NULL;
}

static void set_ucx(bool has_cuda, unsigned major, unsigned minor)
{
    around.ucx =
        (ucx_facts_t){.has_cuda = has_cuda, .major = major, .minor = minor};
}

/* It is a complete sentence, not truncated. */
static void check_choice(int wanted, const mem_kind_t *kind, bool ucx_takes_it,
                         const char *words)
{
    assert_ok(block_backing_decide(device, &around, wanted, &backing));
    ck_assert_str_eq(backing.kind->name, kind->name);
    ck_assert_int_eq(backing.ucx_takes_it, ucx_takes_it);
    ck_assert_uint_lt(strlen(backing.reason), sizeof(backing.reason) - 1);
    assert_has(backing.reason, words);
    ck_assert((strncmp(block_backing_why(&backing), "since ", 6) == 0) ||
              (strncmp(block_backing_why(&backing), "set by ", 7) == 0));
    ck_assert_int_eq(strstr(backing.reason, "pinned blocks") == NULL,
                     ucx_takes_it);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .only_if = cuda_is_present);

TEST(ucx_with_cuda_selects_alloc)
{
    open_device("");
    for (unsigned minor = 13; minor < 24; minor++) {
        set_ucx(true, 1, minor);
        check_choice(BASE_BACKING_AUTO, &mem_kind_cuda_alloc, true,
                     "alloc, since any UCX with CUDA can share it");
    }
}

TEST(ucx_without_cuda_does_not_register_gpu_memory)
{
    open_device("");
    set_ucx(false, 1, 13);
    check_choice(
        BASE_BACKING_AUTO, &mem_kind_cuda_vmm, false,
        "UCX 1.13 has no CUDA: peers on other hosts use pinned blocks");
    check_choice(BASE_BACKING_ALLOC, &mem_kind_cuda_alloc, false,
                 "alloc, set by CUDA_BACKING; UCX 1.13 has no CUDA");
    set_ucx(false, 1, 22);
    check_choice(BASE_BACKING_VMM, &mem_kind_cuda_vmm, false, "UCX 1.22");
}

TEST(forced_backing_is_used)
{
    open_device("");
    set_ucx(true, 1, 22);
    check_choice(BASE_BACKING_ALLOC, &mem_kind_cuda_alloc, true,
                 "alloc, set by CUDA_BACKING");
    check_choice(BASE_BACKING_VMM, &mem_kind_cuda_vmm, true,
                 "vmm, set by CUDA_BACKING");
    check_choice(BASE_BACKING_HOST, &mem_kind_cuda_host, true,
                 "pinned host memory, set by CUDA_BACKING");
}

TEST(pinned_host_memory_works_with_every_ucx)
{
    open_device("");
    set_ucx(false, 1, 13);
    check_choice(BASE_BACKING_HOST, &mem_kind_cuda_host, true, "pinned");
}

TEST(forced_virtual_memory_reports_its_cost)
{
    open_device("");
    set_ucx(true, 1, 18);
    check_choice(
        BASE_BACKING_VMM, &mem_kind_cuda_vmm, true,
        "vmm, set by CUDA_BACKING, though UCX 1.18 cannot share virtual "
        "memory");
}

TEST(restricted_handles_are_for_peers_and_not_for_ucx)
{
    open_device("");
    around.ptrace_scope = 1;
    set_ucx(false, 1, 23);
    check_choice(BASE_BACKING_AUTO, &mem_kind_cuda_vmm, false,
                 "vmm, since peers can map it");
    set_ucx(true, 1, 23);
    check_choice(BASE_BACKING_AUTO, &mem_kind_cuda_alloc, true,
                 "alloc, since any UCX");
    check_choice(BASE_BACKING_VMM, &mem_kind_cuda_vmm, true,
                 "though UCX may not take virtual memory's handles "
                 "(yama.ptrace_scope=1)");
}

TEST(missing_pidfd_getfd_is_reported_if_ucx_needs_it)
{
    open_device("");
    around.has_getfd = false;
    set_ucx(false, 1, 13);
    check_choice(BASE_BACKING_AUTO, &mem_kind_cuda_vmm, false,
                 "vmm, since peers can map it");
    set_ucx(true, 1, 22);
    check_choice(BASE_BACKING_VMM, &mem_kind_cuda_vmm, true,
                 "though UCX cannot take virtual memory's handles (no "
                 "pidfd_getfd)");
}

STAND_IN_TEST(gpu_without_file_handles_selects_alloc)
{
    open_device("posix=n");
    set_ucx(false, 1, 13);
    check_choice(BASE_BACKING_AUTO, &mem_kind_cuda_alloc, false,
                 "cannot be exported to peers");
    check_choice(BASE_BACKING_VMM, &mem_kind_cuda_vmm, false,
                 "though virtual memory cannot be exported to peers");
}

static void check_no_vmm(const char *why, const char *advice)
{
    set_ucx(false, 1, 13);
    check_choice(BASE_BACKING_AUTO, &mem_kind_cuda_alloc, false, why);
    set_ucx(true, 1, 22);
    backing.kind = NULL;
    assert_error(
        block_backing_decide(device, &around, BASE_BACKING_VMM, &backing),
        UNSUPPORTED);
    ck_assert_ptr_null(backing.kind);
    ck_assert_msg((strstr(ucxpool_error_detail(), why) != NULL) &&
                      (strstr(ucxpool_error_detail(), advice) != NULL),
                  "%s", ucxpool_error_detail());
}

STAND_IN_TEST(forced_vmm_fails_on_a_gpu_without_it)
{
    open_device("vmm=n");
    check_no_vmm("this GPU does not support virtual memory",
                 "set UCXPOOL_CUDA_BACKING=auto or alloc");
}

STAND_IN_TEST(forced_vmm_fails_naming_the_driver_version)
{
    open_device("without=cuMemSetAccess,version=11040");
    check_no_vmm("the driver (CUDA 11.4) has no virtual memory functions",
                 "or install a newer driver");
}

static ucxpool_status_t choose(int wanted)
{
    return block_backing_choose(device, NULL, wanted, &backing);
}

/* Version and capabilities of the loaded UCX. */
STAND_IN_TEST(system_and_ucx_are_queried)
{
    open_device("");
    scope_file = NULL;
    assert_ok(choose(BASE_BACKING_AUTO));
    ck_assert_ptr_eq(backing.kind, &mem_kind_cuda_vmm);
    ck_assert(!backing.ucx_takes_it);

    scope_file = "0\n";
    assert_ok(choose(BASE_BACKING_AUTO));
    ck_assert_ptr_eq(backing.kind, &mem_kind_cuda_vmm);

    scope_file = "no number";
    assert_ok(choose(BASE_BACKING_AUTO));
    ck_assert_ptr_eq(backing.kind, &mem_kind_cuda_vmm);

    scope_file = "2\n";
    block_surroundings_get(&around);
    ck_assert_int_eq(around.ptrace_scope, 2);

    ucx_has_cuda = true;
    assert_ok(choose(BASE_BACKING_ALLOC));
    ck_assert(backing.ucx_takes_it);
}

STAND_IN_TEST(seccomp_filter_on_pidfd_getfd_is_detected)
{
    open_device("");
    block_surroundings_get(&around);
    ck_assert(around.has_getfd);
    getfd_error = EPERM;
    block_surroundings_get(&around);
    ck_assert(!around.has_getfd);
    getfd_error = 0;
    pidfd_error = ENOSYS;
    block_surroundings_get(&around);
    ck_assert(!around.has_getfd);
}

TEST(failing_ucx_query_is_an_error)
{
    open_device("");
    query_status = UCS_ERR_IO_ERROR;
    assert_error(choose(BASE_BACKING_AUTO), IO);
    ck_assert_ptr_null(backing.kind);
    assert_detail(ucs_status_string(UCS_ERR_IO_ERROR));
}
