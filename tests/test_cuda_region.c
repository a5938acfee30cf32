/* Regions of GPU memory, and of host memory pinned for a GPU. */
#include "base/config.h"
#include "calls.h"
#include "cuda_fixture.h"
#include "pair.h"
#include "test.h"
#include "mem/cuda_device.h"
#include "mem/region.h"

#include <ucxpool/ucxpool.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NUM_REGIONS 3u
#define REGION_SIZE ((size_t)2 << 20)
#define TOTAL_SIZE  (NUM_REGIONS * REGION_SIZE)

static const mem_kind_t *const kinds[] = {
    &mem_kind_cuda_alloc, &mem_kind_cuda_vmm, &mem_kind_cuda_host};

#define NUM_KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

static mem_regions_t regions;

static void setup(void)
{
    memset(&regions, 0, sizeof(regions));
    cuda_start("devices=2");
}

static void teardown(void)
{
    calls_reset();
    mem_regions_cleanup(&regions);
}

static ucxpool_status_t init(const mem_kind_t *kind)
{
    return mem_regions_init(&regions, kind, 0, NUM_REGIONS, REGION_SIZE,
                            BASE_SWITCH_NO);
}

static char *byte_at(unsigned region, size_t offset)
{
    return (char *)regions.regions[region].address + offset;
}

static void put(const void *target, const void *source, size_t size)
{
    cuda_write(regions.cuda->context, target, source, size);
}

static void get(void *target, const void *source, size_t size)
{
    cuda_read(regions.cuda->context, target, source, size);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .only_if = cuda_is_present);

TEST_EACH(every_byte_is_writable, NUM_KINDS)
{
    char *written = test_alloc(TOTAL_SIZE);
    char *is_read = test_alloc(TOTAL_SIZE);

    assert_ok(init(kinds[_i]));
    pair_fill_with(written, TOTAL_SIZE, (unsigned)getpid());
    memset(is_read, 0, TOTAL_SIZE);
    put(regions.address, written, TOTAL_SIZE);
    get(is_read, regions.address, TOTAL_SIZE);
    ck_assert_int_eq(memcmp(written, is_read, TOTAL_SIZE), 0);
}

TEST_EACH(regions_are_adjacent, NUM_KINDS)
{
    assert_ok(init(kinds[_i]));
    ck_assert_uint_eq(regions.num_regions * regions.region_size, TOTAL_SIZE);
    ck_assert_int_eq(regions.device, 0);
    for (unsigned i = 0; i < regions.num_regions; i++) {
        ck_assert_ptr_eq(regions.regions[i].address,
                         (char *)regions.address + i * regions.region_size);
        ck_assert_uint_eq(regions.regions[i].size, regions.region_size);
        ck_assert_ptr_null(regions.regions[i].memh);
    }
}

TEST(an_allocation_is_one_region)
{
    assert_ok(init(&mem_kind_cuda_alloc));
    ck_assert_uint_eq(regions.num_regions, 1);
    ck_assert_uint_eq(regions.region_size, TOTAL_SIZE);
    ck_assert_int_eq(regions.regions[0].fd, -1);
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.count("cuMemAlloc"), 1);
    }
}

STAND_IN_TEST(vmm_is_one_allocation_per_region_and_one_set_access)
{
    assert_ok(init(&mem_kind_cuda_vmm));
    ck_assert_uint_eq(regions.num_regions, NUM_REGIONS);
    ck_assert_uint_eq(regions.page_size, REGION_SIZE);
    ck_assert_uint_eq(stand_in.count("cuMemCreate"), NUM_REGIONS);
    ck_assert_uint_eq(stand_in.count("cuMemAddressReserve"), 1);
    ck_assert_uint_eq(stand_in.count("cuMemSetAccess"), 1);
    ck_assert_uint_eq(stand_in.count("cuMemAlloc"), 0);
}

TEST(host_and_gpu_read_pinned_memory)
{
    char byte = 0;

    assert_ok(init(&mem_kind_cuda_host));
    *byte_at(2, 17) = 'x';
    get(&byte, byte_at(2, 17), 1);
    ck_assert_int_eq(byte, 'x');
    put(byte_at(1, 4), "y", 1);
    ck_assert_int_eq(*byte_at(1, 4), 'y');
    ck_assert_int_ge(regions.regions[1].fd, 0);
}

STAND_IN_TEST(failed_host_allocation_leaks_nothing)
{
    static const calls_name_t calls[] = {CALLS_MEMFD_CREATE, CALLS_FTRUNCATE,
                                         CALLS_FALLOCATE, CALLS_MMAP};
    unsigned                  num_fds = fds_count();

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        calls_fail(calls[i], 1, ENOMEM);
        ck_assert_int_lt(init(&mem_kind_cuda_host), 0);
        calls_reset();
        ck_assert_uint_eq(stand_in.live(), 0);
        ck_assert_uint_eq(fds_count(), num_fds);
    }
    assert_ok(init(&mem_kind_cuda_host));
}

TEST_EACH(out_of_memory_reports_requested_and_free, 2)
{
    size_t           size        = cuda_is_real() ? (size_t)1 << 30 : 64 << 20;
    unsigned         num_regions = cuda_is_real() ? 1024 : 8;
    char             asked[64];
    ucxpool_status_t status;

    snprintf(asked, sizeof(asked), "%zu bytes are requested in total",
             size * num_regions);
    status = mem_regions_init(&regions, kinds[_i], 0, num_regions, size,
                              BASE_SWITCH_NO);
    ck_assert_int_eq(status, UCXPOOL_ERR_NO_MEMORY);
    assert_detail(asked);
    assert_detail("are free: lower UCXPOOL_COMM_SIZE");
    /* The memory that had been allocated is free again. */
    assert_ok(init(kinds[_i]));
}

STAND_IN_TEST(describe_creates_no_context)
{
    mem_cuda_device_t device;

    assert_ok(mem_cuda_device_describe(1, &device));
    ck_assert_int_eq(device.ordinal, 1);
    ck_assert_ptr_null(device.context);
    ck_assert_str_eq(device.bus_id, "0000:02:00.0");
    ck_assert_int_eq(device.compute_major, 9);
    ck_assert(device.has_ipc);
    ck_assert(device.has_gpudirect);
    ck_assert(device.has_dmabuf);
    ck_assert_uint_eq(stand_in.live(), 0);
    assert_error(mem_cuda_device_describe(2, &device), INVALID_PARAM);
}

TEST(host_memory_needs_no_driver)
{
    setenv(MEM_CUDA_DRIVER_VARIABLE, "/nonexistent/libcuda.so.1", 1);
    assert_ok(mem_regions_init(&regions, &mem_kind_host, -1, 1, REGION_SIZE,
                               BASE_SWITCH_NO));
    ck_assert_int_eq(regions.device, -1);
    ck_assert_ptr_null(regions.cuda);
}

STAND_IN_TEST(gpu_without_virtual_memory_is_an_error)
{
    stand_in.configure("vmm=n");
    assert_error_detail(init(&mem_kind_cuda_vmm), UNSUPPORTED,
                        "set it to alloc");
    ck_assert_uint_eq(stand_in.live(), 0);
    assert_ok(init(&mem_kind_cuda_alloc));
}

STAND_IN_TEST(vmm_requests_only_supported_handle_types)
{
    static const char *const poor[] = {"gdr=n", "posix=n", "fabric=y"};

    for (size_t i = 0; i < sizeof(poor) / sizeof(poor[0]); i++) {
        stand_in.configure(poor[i]);
        assert_ok(init(&mem_kind_cuda_vmm));
        ck_assert_uint_eq(stand_in.count("cuMemCreate"), NUM_REGIONS);
        mem_regions_cleanup(&regions);
    }
}

STAND_IN_TEST(denied_fabric_handles_are_left_out)
{
    int fd = -1;

    stand_in.configure("fabric=try");
    assert_ok(init(&mem_kind_cuda_vmm));
    ck_assert_uint_eq(stand_in.count("cuMemCreate"), NUM_REGIONS + 1);
    ck_assert_int_eq(regions.cuda->driver->cuMemExportToShareableHandle(
                         &fd, regions.regions[2].handle,
                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                     CUDA_SUCCESS);
    close(fd);
}

TEST(region_size_must_match_the_granularity)
{
    assert_error_detail(mem_regions_init(&regions, &mem_kind_cuda_vmm, 0, 1,
                                         REGION_SIZE + 4096, BASE_SWITCH_NO),
                        INVALID_PARAM,
                        "UCXPOOL_REGION_SIZE must be a multiple of 2097152");
}

STAND_IN_TEST(gpu_without_unified_addressing_is_rejected)
{
    stand_in.configure("hostptr=n");
    assert_error(init(&mem_kind_cuda_host), UNSUPPORTED);
    ck_assert_uint_eq(stand_in.live(), 0);
}

/* The memory of a region has a handle that another process can import. */
TEST(virtual_memory_is_mappable_by_handle)
{
    const mem_cuda_driver_t     *driver;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAccessDesc desc  = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READ};
    CUdeviceptr     there = 0;
    CUcontext       context;
    char            byte = 0;
    int             fd   = -1;

    assert_ok(init(&mem_kind_cuda_vmm));
    driver             = regions.cuda->driver;
    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id   = regions.cuda->device;
    put(byte_at(1, 5), "z", 1);
    ck_assert_int_eq(driver->cuCtxPushCurrent(regions.cuda->context), 0);
    ck_assert_int_eq(driver->cuMemExportToShareableHandle(
                         &fd, regions.regions[1].handle,
                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                     CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuMemImportFromShareableHandle(
                         &handle, (void *)(intptr_t)fd,
                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                     CUDA_SUCCESS);
    close(fd);
    ck_assert_int_eq(driver->cuMemAddressReserve(&there, REGION_SIZE, 0, 0, 0),
                     CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuMemMap(there, REGION_SIZE, 0, handle, 0),
                     CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuMemSetAccess(there, REGION_SIZE, &desc, 1),
                     CUDA_SUCCESS);
    get(&byte, (void *)(uintptr_t)(there + 5), 1);
    ck_assert_int_eq(byte, 'z');
    ck_assert_int_eq(driver->cuMemUnmap(there, REGION_SIZE), CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuMemAddressFree(there, REGION_SIZE),
                     CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuMemRelease(handle), CUDA_SUCCESS);
    ck_assert_int_eq(driver->cuCtxPopCurrent(&context), CUDA_SUCCESS);
}

/* Stitch whole regions out of order, one of them twice. */
static const mem_piece_t whole_pieces[] = {
    {2, 0, REGION_SIZE}, {0, 0, REGION_SIZE}, {2, 0, REGION_SIZE}};

static void check_stitched(char *address)
{
    char bytes[3] = {0, 0, 0};

    put(byte_at(0, 7), "a", 1);
    put(byte_at(2, REGION_SIZE - 1), "b", 1);
    get(&bytes[0], address + REGION_SIZE - 1, 1);
    get(&bytes[1], address + REGION_SIZE + 7, 1);
    get(&bytes[2], address + 3 * REGION_SIZE - 1, 1);
    ck_assert_int_eq(memcmp(bytes, "bab", 3), 0);
    put(address + REGION_SIZE + 7, "c", 1);
    get(&bytes[0], byte_at(0, 7), 1);
    ck_assert_int_eq(bytes[0], 'c');
}

TEST_WITH(stitched_range_aliases_the_same_memory, .first = 1, .end = NUM_KINDS)
{
    const mem_kind_t *kind = kinds[_i];
    char             *address;
    unsigned          live = 0;

    assert_ok(init(kind));
    if (!cuda_is_real()) {
        live = stand_in.live();
    }
    for (int i = 0; i < 3; i++) {
        assert_ok(kind->stitch(&regions, whole_pieces, 3, (void **)&address));
        check_stitched(address);
        kind->unstitch(&regions, address, 3 * REGION_SIZE);
    }
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.live(), live);
    }
    put(byte_at(1, 0), "d", 1);
}

TEST_WITH(failed_stitch_leaks_nothing_and_retry_works, .first = 1,
          .end = NUM_KINDS, .only_if = cuda_is_stand_in)
{
    const mem_kind_t *kind       = kinds[_i];
    void             *address    = NULL;
    unsigned          num_failed = 0;
    unsigned          live;

    assert_ok(init(kind));
    live = stand_in.live();
    for (unsigned n = 1;; n++) {
        stand_in.fail_call(NULL, n, CUDA_ERROR_OUT_OF_MEMORY);
        if (kind->stitch(&regions, whole_pieces, 3, &address) == UCXPOOL_OK) {
            ck_assert(!stand_in.has_failed());
            break;
        }
        num_failed++;
        stand_in.fail_call(NULL, 0, 0);
        ck_assert_ptr_null(address);
        ck_assert_uint_eq(stand_in.live(), live);
    }
    stand_in.fail_call(NULL, 0, 0);
    ck_assert_uint_ge(num_failed, 3);
    check_stitched(address);
    kind->unstitch(&regions, address, 3 * REGION_SIZE);
    mem_regions_cleanup(&regions);
    ck_assert_uint_eq(stand_in.live(), 0);
}

TEST(alloc_backing_cannot_be_stitched)
{
    const mem_piece_t pieces[] = {{0, REGION_SIZE, REGION_SIZE},
                                  {0, 0, REGION_SIZE}};
    void             *address  = NULL;

    assert_ok(init(&mem_kind_cuda_alloc));
    assert_error_detail(regions.kind->stitch(&regions, pieces, 2, &address),
                        NO_BLOCKS, "free other buffers");
    ck_assert_ptr_null(address);
    regions.kind->unstitch(&regions, NULL, 0);
}

STAND_IN_TEST_EACH(destroyed_context_is_an_error_and_not_a_crash, NUM_KINDS)
{
    void *address = NULL;

    assert_ok(init(kinds[_i]));
    stand_in.reset_context(0);
    if (kinds[_i] != &mem_kind_cuda_alloc) {
        assert_error_detail(
            kinds[_i]->stitch(&regions, whole_pieces, 3, &address), IO,
            "do not reset the device's primary context");
    }
}
