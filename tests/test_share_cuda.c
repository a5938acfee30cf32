/* Sharing GPU memory between two processes. */
#include <config.h>

#include "base/config.h"
#include "calls.h"
#include "core/proto.h"
#include "cuda_fixture.h"
#include "pair.h"
#include "test.h"
#include "ipc/cuda.h"
#include "ipc/virtual.h"

#include <ucxpool/ucxpool.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NUM_REGIONS 2u
#define REGION_SIZE ((size_t)2 << 20)

/* Indexed by ipc_cuda_way_t - 1. */
static const mem_kind_t *const kinds[] = {&mem_kind_cuda_alloc,
                                          &mem_kind_cuda_vmm};

/* Sent by the owner. */
typedef struct offer {
    ipc_host_t host;
    unsigned   num;
    ipc_cuda_t shares[NUM_REGIONS];
} offer_t;

static pid_t              owner;
static int                from_owner, to_owner;
static offer_t            offer;
static mem_cuda_device_t *device;

/* Expected byte i of all regions. */
static char byte_of(size_t i)
{
    return (char)(i * 2654435761u >> 11);
}

static void read_all(int fd, void *bytes, size_t size)
{
    char *next = bytes;

    while (size > 0) {
        ssize_t length = read(fd, next, size);

        ck_assert_int_gt(length, 0);
        next += length;
        size -= (size_t)length;
    }
}

/* The owner's process: allocates memory, sends an offer, and ends on request.
 * Its exit code is 0 if nothing failed. */
static void be_owner(const mem_kind_t *kind, int in, int out)
{
    mem_regions_t regions;
    char         *bytes = test_alloc(NUM_REGIONS * REGION_SIZE);
    offer_t       mine;
    char          end;

    cuda_start("");
    assert_ok(mem_regions_init(&regions, kind, 0, NUM_REGIONS, REGION_SIZE,
                               BASE_SWITCH_NO));
    for (size_t i = 0; i < NUM_REGIONS * REGION_SIZE; i++) {
        bytes[i] = byte_of(i);
    }
    cuda_write(regions.cuda->context, regions.address, bytes,
               NUM_REGIONS * REGION_SIZE);
    memset(&mine, 0, sizeof(mine));
    ipc_host_fill(&mine.host);
    mine.num = regions.num_regions;
    for (unsigned i = 0; i < mine.num; i++) {
        assert_ok(ipc_cuda_fill(&regions, i, &mine.shares[i]));
    }
    ck_assert_int_eq(write(out, &mine, sizeof(mine)), sizeof(mine));
    /* Each 'w' received changes one byte. */
    while ((read(in, &end, 1) == 1) && (end == 'w')) {
        cuda_write(regions.cuda->context, (char *)regions.address + 3, "!", 1);
        ck_assert_int_eq(write(out, "w", 1), 1);
    }
    mem_regions_cleanup(&regions);
    _exit(0);
}

static void start_owner(const mem_kind_t *kind)
{
    int there[2], here[2];

    ck_assert_int_eq(pipe2(there, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(here, O_CLOEXEC), 0);
    /* Before this process uses CUDA. */
    owner = fork();
    ck_assert_int_ge(owner, 0);
    if (owner == 0) {
        close(there[1]);
        close(here[0]);
        be_owner(kind, there[0], here[1]);
    }
    close(there[0]);
    close(here[1]);
    to_owner   = there[1];
    from_owner = here[0];
    read_all(from_owner, &offer, sizeof(offer));
    cuda_start("");
    assert_ok(mem_cuda_device_open(0, &device));
}

static void end_owner(void)
{
    close(to_owner);
    ck_assert_int_eq(test_exit_of(owner), 0);
    close(from_owner);
}

static void end_all(void)
{
    mem_cuda_device_close(device);
    end_owner();
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.live(), 0);
    }
}

/* A descriptor of the share in this process; -1 if it needs none. Valgrind and
 * kernels before 5.6 have no pidfd_getfd(). Then the stand-in's files are
 * opened through /proc. */
static int fetch(const ipc_cuda_t *share)
{
    int              fd = -1;
    char             path[64];
    ucxpool_status_t status;

    if (share->way != IPC_CUDA_FILE) {
        return -1;
    }
    status = ipc_cuda_import(&offer.host, share, &fd);
    if ((status == UCXPOOL_ERR_UNSUPPORTED) && !cuda_is_real()) {
        snprintf(path, sizeof(path), "/proc/%u/fd/%d", (unsigned)offer.host.pid,
                 (int)share->fd);
        fd     = open(path, O_RDWR | O_CLOEXEC);
        status = fd < 0 ? UCXPOOL_ERR_IO : UCXPOOL_OK;
    }
    assert_ok(status);
    return fd;
}

static void drop(int fd)
{
    if (fd >= 0) {
        close(fd);
    }
}

static void check_bytes(const char *address, size_t size, size_t first)
{
    char *bytes = test_alloc(size);
    bool  same  = true;

    cuda_read(device->context, bytes, address, size);
    for (size_t i = 0; i < size; i++) {
        same = same && (bytes[i] == byte_of(first + i));
    }
    ck_assert(same);
}

TEST_SETTINGS(.only_if = cuda_is_present);

TEST_EACH(a_peer_reads_the_owners_memory_and_later_writes, 2)
{
    const void *addresses[NUM_REGIONS];
    char        byte  = 0;
    size_t      first = 0;

    start_owner(kinds[_i]);
    for (unsigned i = 0; i < offer.num; i++) {
        int fd = fetch(&offer.shares[i]);

        ck_assert_int_eq((int)offer.shares[i].way, _i + 1);
        ck_assert_int_eq(memcmp(offer.shares[i].uuid, &device->uuid, 16), 0);
        assert_ok(ipc_cuda_map(device, &offer.shares[i], &fd, 1, false,
                               &addresses[i]));
        drop(fd);
        check_bytes(addresses[i], offer.shares[i].size, first);
        first += offer.shares[i].size;
    }
    ck_assert_uint_eq(first, NUM_REGIONS * REGION_SIZE);
    ck_assert_int_eq(write(to_owner, "w", 1), 1);
    read_all(from_owner, &byte, 1);
    cuda_read(device->context, &byte, (const char *)addresses[0] + 3, 1);
    ck_assert_int_eq(byte, '!');
    for (unsigned i = 0; i < offer.num; i++) {
        ipc_cuda_unmap(device, &offer.shares[i], 1, addresses[i]);
    }
    end_all();
}

TEST_EACH(sizes_beyond_the_allocation_are_rejected, 2)
{
    const void *address = NULL;
    int         fd;

    start_owner(kinds[_i]);
    fd = fetch(&offer.shares[0]);
    offer.shares[0].size *= 4;
    ck_assert_int_lt(
        ipc_cuda_map(device, &offer.shares[0], &fd, 1, false, &address), 0);
    ck_assert_ptr_null(address);
    offer.shares[0].size = 0;
    assert_error(
        ipc_cuda_map(device, &offer.shares[0], &fd, 1, false, &address),
        PROTOCOL);
    offer.shares[0].size = UINT64_MAX;
    assert_error(
        ipc_cuda_map(device, &offer.shares[0], &fd, 1, false, &address),
        PROTOCOL);
    drop(fd);
    end_all();
}

static bool has_pidfd(void)
{
    return cuda_is_present() && pair_has_pidfd();
}

TEST_WITH(forbidden_import_names_the_remedy, .end = 2, .only_if = has_pidfd)
{
    static const struct {
        int         error;
        const char *words;
    } errors[] = {
        {ENOSYS, ", needs Linux 5.6 or later): Function not implemented"},
        {EPERM, ", see kernel.yama.ptrace_scope): Operation not permitted"},
    };
    ucxpool_status_t status;
    int              fd;

    start_owner(&mem_kind_cuda_vmm);
    calls_fail(CALLS_SYSCALL, 2, errors[_i].error); /* after pidfd_open() */
    status = ipc_cuda_import(&offer.host, &offer.shares[0], &fd);
    calls_reset();
    ck_assert_int_lt(status, 0);
    assert_detail(errors[_i].words);
    ck_assert_uint_le(strlen(ucxpool_error_detail()), PROTO_TEXT_MAX);
    end_all();
}

TEST(invalid_shares_are_rejected)
{
    ipc_cuda_t       share;
    const void      *address = NULL;
    ucxpool_status_t status;
    int              fd;

    start_owner(&mem_kind_cuda_vmm);
    share     = offer.shares[0];
    share.way = IPC_CUDA_FILE + 1;
    assert_error(ipc_cuda_map(device, &share, &(int){0}, 1, false, &address),
                 PROTOCOL);
    assert_error(ipc_cuda_import(&offer.host, &share, &fd), PROTOCOL);
    share = offer.shares[0];
    assert_error(ipc_cuda_map(device, &share, &(int){-1}, 1, false, &address),
                 PROTOCOL);
    share.fd = 1 << 20;
    status   = ipc_cuda_import(&offer.host, &share, &fd);
    ck_assert((status == UCXPOOL_ERR_PROTOCOL) ||
              (status == UCXPOOL_ERR_UNSUPPORTED));
    share.fd = -5;
    assert_error(ipc_cuda_import(&offer.host, &share, &fd), PROTOCOL);
    /* Random bytes are not a handle, and an ordinary file is not GPU memory. */
    share     = offer.shares[0];
    share.way = IPC_CUDA_IPC;
    ck_assert_int_lt(
        ipc_cuda_map(device, &share, &(int){-1}, 1, false, &address), 0);
    ck_assert_int_lt(ipc_cuda_map(device, &offer.shares[0], &(int){to_owner}, 1,
                                  false, &address),
                     0);
    ck_assert_ptr_null(address);
    end_all();
}

TEST(shares_of_a_dead_process_are_rejected)
{
    int fd = -1;

    start_owner(&mem_kind_cuda_vmm);
    end_all();
    assert_error(ipc_cuda_import(&offer.host, &offer.shares[0], &fd),
                 PEER_LOST);
    ck_assert_int_eq(fd, -1);
}

TEST(a_region_has_one_file_which_is_closed_with_it)
{
    mem_regions_t regions;
    ipc_cuda_t    share, again;
    unsigned      num_fds = fds_count();

    cuda_start("");
    assert_ok(mem_regions_init(&regions, &mem_kind_cuda_vmm, 0, NUM_REGIONS,
                               REGION_SIZE, BASE_SWITCH_NO));
    assert_ok(ipc_cuda_fill(&regions, 1, &share));
    ck_assert_int_ge(share.fd, 0);
    assert_ok(ipc_cuda_fill(&regions, 1, &again));
    ck_assert_int_eq(memcmp(&share, &again, sizeof(share)), 0);
    mem_regions_cleanup(&regions);
    if (!cuda_is_real()) {
        ck_assert_uint_eq(fds_count(), num_fds);
    }
}

static void check_not_shared(const mem_kind_t *kind)
{
    mem_regions_t regions;
    ipc_cuda_t    share;

    assert_ok(
        mem_regions_init(&regions, kind, 0, 1, REGION_SIZE, BASE_SWITCH_NO));
    assert_error(ipc_cuda_fill(&regions, 0, &share), UNSUPPORTED);
    mem_regions_cleanup(&regions);
}

TEST(pinned_memory_has_no_gpu_handle)
{
    cuda_start("");
    check_not_shared(&mem_kind_cuda_host);
}

STAND_IN_TEST(a_gpu_without_file_handles_shares_no_virtual_memory)
{
    cuda_start("posix=n");
    check_not_shared(&mem_kind_cuda_vmm);
}

STAND_IN_TEST_EACH(filling_a_share_can_be_retried_after_a_failure, 2)
{
    mem_regions_t regions;
    ipc_cuda_t    share;
    unsigned      num_failed = 0;

    cuda_start("");
    assert_ok(mem_regions_init(&regions, kinds[_i], 0, 1, REGION_SIZE,
                               BASE_SWITCH_NO));
    for (unsigned n = 1;; n++) {
        stand_in.fail_call(NULL, n, CUDA_ERROR_UNKNOWN);
        if (ipc_cuda_fill(&regions, 0, &share) == UCXPOOL_OK) {
            break;
        }
        num_failed++;
    }
    stand_in.fail_call(NULL, 0, 0);
    ck_assert_uint_ge(num_failed, 1);
    mem_regions_cleanup(&regions);
    ck_assert_uint_eq(stand_in.live(), 0);
}

STAND_IN_TEST_EACH(mapping_can_be_retried_after_a_failure, 2)
{
    const void *address    = NULL;
    unsigned    num_failed = 0;
    unsigned    live;
    int         fd;

    start_owner(kinds[_i]);
    fd   = fetch(&offer.shares[0]);
    live = stand_in.live();
    for (unsigned n = 1;; n++) {
        stand_in.fail_call(NULL, n, CUDA_ERROR_UNKNOWN);
        if (ipc_cuda_map(device, &offer.shares[0], &fd, 1, false, &address) ==
            UCXPOOL_OK) {
            break;
        }
        num_failed++;
        ck_assert_ptr_null(address);
        stand_in.fail_call(NULL, 0, 0);
        ck_assert_uint_eq(stand_in.live(), live);
    }
    stand_in.fail_call(NULL, 0, 0);
    ck_assert_uint_ge(num_failed, 3);
    check_bytes(address, 100, 0);
    ipc_cuda_unmap(device, &offer.shares[0], 1, address);
    ck_assert_uint_eq(stand_in.live(), live);
    drop(fd);
    end_all();
}

/* --- virtual memory, allocation by allocation ----------------------------- */

#define MIDDLE (REGION_SIZE / 2)

static void virtual_start(mem_regions_t *regions)
{
    cuda_start("");
    assert_ok(mem_regions_init(regions, &mem_kind_cuda_vmm, 0, NUM_REGIONS,
                               REGION_SIZE, BASE_SWITCH_NO));
    assert_ok(mem_cuda_device_open(0, &device));
}

static void virtual_end(mem_regions_t *regions)
{
    mem_cuda_device_close(device);
    mem_regions_cleanup(regions);
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.live(), 0);
    }
}

/* From the middle of the first allocation to the middle of the second. */
static ucxpool_status_t retain_middle(const mem_regions_t  *regions,
                                      ipc_virtual_memory_t *memory)
{
    return ipc_virtual_retain(device, (char *)regions->address + MIDDLE,
                              REGION_SIZE, memory);
}

static void close_all(const int *fds, unsigned num)
{
    for (unsigned i = 0; i < num; i++) {
        close(fds[i]);
    }
}

TEST(allocations_are_exported_and_mapped_contiguously)
{
    unsigned             num_fds;
    mem_regions_t        regions;
    ipc_virtual_memory_t memory;
    ipc_virtual_t        range = {.size = 0};
    int                  fds[NUM_REGIONS];
    char                 byte = 0;

    virtual_start(&regions);
    num_fds = fds_count();
    assert_ok(retain_middle(&regions, &memory));
    ck_assert_uint_eq(fds_count(), num_fds);
    ck_assert_uint_eq(memory.num, 2);
    ck_assert_uint_eq(memory.layout.offset, MIDDLE);
    ck_assert_uint_eq(memory.layout.num_runs, 1);
    ck_assert_uint_eq(memory.layout.runs[0].size, REGION_SIZE);
    ck_assert_uint_eq(memory.layout.runs[0].count, 2);
    assert_ok(ipc_virtual_export(device, &memory, 0, 2, fds));
    assert_ok(ipc_virtual_reserve(device, &memory.layout, REGION_SIZE, &range));
    ck_assert_uint_eq(range.num, 2);
    /* Some at a time. */
    assert_ok(
        ipc_virtual_map(device, &memory.layout, &fds[0], 1, false, &range));
    assert_ok(
        ipc_virtual_map(device, &memory.layout, &fds[1], 1, false, &range));
    ck_assert_uint_eq(range.mapped_size, range.size);
    cuda_write(device->context, (char *)regions.address + REGION_SIZE, "!", 1);
    cuda_read(device->context, &byte,
              (void *)(uintptr_t)(range.address + REGION_SIZE), 1);
    ck_assert_int_eq(byte, '!');
    ipc_virtual_unmap(device, &range);
    ipc_virtual_unmap(device, &range); /* has no effect */
    /* Larger than the allocation. */
    memory.layout.runs[0].size *= 2;
    assert_ok(ipc_virtual_reserve(device, &memory.layout, 4 * MIDDLE, &range));
    ck_assert_int_ne(
        ipc_virtual_map(device, &memory.layout, fds, 1, true, &range),
        UCXPOOL_OK);
    ipc_virtual_unmap(device, &range);
    close_all(fds, 2);
    ck_assert_uint_eq(fds_count(), num_fds);
    ipc_virtual_release(device, &memory);
    ipc_virtual_release(device, &memory); /* has no effect */
    virtual_end(&regions);
}

/* Instead of MIDDLE bytes from the middle of one allocation. */
static const struct {
    uint64_t             length;
    ipc_virtual_layout_t layout;
} misfits[] = {
    {MIDDLE, {MIDDLE, {{REGION_SIZE, 1}}, 0}},
    {MIDDLE, {REGION_SIZE, {{REGION_SIZE, 1}}, 1}},
    {MIDDLE, {UINT64_MAX, {{REGION_SIZE, 1}}, 1}},
    {MIDDLE + 1, {MIDDLE, {{REGION_SIZE, 1}}, 1}},
    {UINT64_MAX, {MIDDLE, {{REGION_SIZE, 1}}, 1}},
    {MIDDLE, {MIDDLE, {{0, 1}}, 1}},
    {MIDDLE, {MIDDLE, {{REGION_SIZE, 0}}, 1}},
    {MIDDLE, {MIDDLE, {{REGION_SIZE, 2}}, 1}}, /* the second is not touched */
    {MIDDLE, {MIDDLE, {{REGION_SIZE, UINT64_MAX / REGION_SIZE + 2}}, 1}},
    {IPC_VIRTUAL_MAX + 1, {0, {{1, IPC_VIRTUAL_MAX + 1}}, 1}},
    {MIDDLE,
     {MIDDLE, {{REGION_SIZE, 1}, {UINT64_MAX - REGION_SIZE + 1, 1}}, 2}},
    {UINT64_MAX / 2, {MIDDLE, {{UINT64_MAX / 2 + 1, 1}}, 1}},
};
#define NUM_MISFITS ((int)(sizeof(misfits) / sizeof(misfits[0])))

TEST_EACH(layout_that_does_not_fit_the_memory_is_rejected, NUM_MISFITS)
{
    ipc_virtual_t range = {.size = 0};
    mem_regions_t regions;

    virtual_start(&regions);
    assert_error(ipc_virtual_reserve(device, &misfits[_i].layout,
                                     misfits[_i].length, &range),
                 PROTOCOL);
    ck_assert_uint_eq(range.size, 0);
    virtual_end(&regions);
}

STAND_IN_TEST(a_failed_export_or_map_of_allocations_leaves_nothing)
{
    unsigned             num_failed = 0;
    unsigned             num_fds, live;
    mem_regions_t        regions;
    ipc_virtual_memory_t memory;
    ipc_virtual_t        range = {.size = 0};
    int                  fds[NUM_REGIONS];
    ucxpool_status_t     status;

    virtual_start(&regions);
    num_fds = fds_count();
    live    = stand_in.live();
    for (unsigned n = 1;; n++) {
        stand_in.fail_call(NULL, n, CUDA_ERROR_UNKNOWN);
        if (retain_middle(&regions, &memory) == UCXPOOL_OK) {
            break;
        }
        num_failed++;
        stand_in.fail_call(NULL, 0, 0);
        ck_assert_uint_eq(memory.num, 0);
        ck_assert_uint_eq(fds_count(), num_fds);
        ck_assert_uint_eq(stand_in.live(), live);
    }
    ck_assert_uint_ge(num_failed, 5);
    for (unsigned n = 1;; n++) {
        stand_in.fail_call(NULL, n, CUDA_ERROR_UNKNOWN);
        if (ipc_virtual_export(device, &memory, 0, NUM_REGIONS, fds) ==
            UCXPOOL_OK) {
            break;
        }
        num_failed++;
        ck_assert_uint_eq(fds_count(), num_fds);
    }
    ck_assert_uint_ge(num_failed, 8);
    live = stand_in.live();
    for (unsigned n = 1;; n++) {
        stand_in.fail_call(NULL, n, CUDA_ERROR_UNKNOWN);
        status =
            ipc_virtual_reserve(device, &memory.layout, REGION_SIZE, &range);
        if (status == UCXPOOL_OK) {
            status = ipc_virtual_map(device, &memory.layout, fds, NUM_REGIONS,
                                     true, &range);
        }
        stand_in.fail_call(NULL, 0, 0);
        if (status == UCXPOOL_OK) {
            break;
        }
        num_failed++;
        ipc_virtual_unmap(device, &range);
        ck_assert_uint_eq(range.size, 0);
        ck_assert_uint_eq(stand_in.live(), live);
    }
    ck_assert_uint_ge(num_failed, 15);
    ipc_virtual_unmap(device, &range);
    close_all(fds, NUM_REGIONS);
    ipc_virtual_release(device, &memory);
    virtual_end(&regions);
}
