/* Regions of host memory. */
#include <config.h>

#include "base/config.h"
#include "calls.h"
#include "mem/memfd.h"
#include "mem/region.h"
#include "mem/system.h"
#include "resident.h"
#include "test.h"
#include "replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define NUM_REGIONS 3u
#define REGION_SIZE ((size_t)2 << 20)

/* The machine's properties as the library sees them; tests change them. */
static bool         is_machine_faked;
static mem_system_t fake_machine;

REPLACE(void, mem_system_query, mem_system_t *system)
{
    if (is_machine_faked) {
        *system = fake_machine;
    } else {
        __real_mem_system_query(system);
    }
}

static void fake(void)
{
    is_machine_faked = true;
    __real_mem_system_query(&fake_machine);
}

static mem_regions_t regions;
static struct rlimit real_limit;

static void setup(void)
{
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &real_limit), 0);
    /* Free huge pages of this machine would change which calls are made. */
    fake();
    fake_machine.huge_pages_free = 0;
}

static void teardown(void)
{
    is_machine_faked = false;
    calls_reset();
    mem_regions_cleanup(&regions);
    setrlimit(RLIMIT_FSIZE, &real_limit);
}

static ucxpool_status_t init_of(unsigned num, size_t size, int huge_pages)
{
    return mem_regions_init(&regions, &mem_kind_host, -1, num, size,
                            huge_pages);
}

static ucxpool_status_t init(int huge_pages)
{
    return init_of(NUM_REGIONS, REGION_SIZE, huge_pages);
}

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static char *region_byte(unsigned region, size_t offset)
{
    return (char *)regions.regions[region].address + offset;
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .timeout = 60);

TEST(regions_are_contiguous_and_hold_written_data)
{
    assert_ok(init(BASE_SWITCH_TRY));
    ck_assert_uint_eq(regions.num_regions, NUM_REGIONS);
    ck_assert_uint_eq(regions.region_size, REGION_SIZE);
    for (unsigned i = 0; i < NUM_REGIONS; i++) {
        ck_assert_ptr_eq(regions.regions[i].address,
                         (char *)regions.address + i * REGION_SIZE);
        ck_assert_uint_eq(regions.regions[i].size, REGION_SIZE);
        ck_assert_ptr_null(regions.regions[i].memh);
        memset(regions.regions[i].address, (int)i + 1, REGION_SIZE);
    }
    for (unsigned i = 0; i < NUM_REGIONS; i++) {
        ck_assert_int_eq(*region_byte(i, 0), (int)i + 1);
        ck_assert_int_eq(*region_byte(i, REGION_SIZE - 1), (int)i + 1);
    }
}

TEST(new_regions_are_zero)
{
    assert_ok(init(BASE_SWITCH_TRY));
    ck_assert_int_eq(*region_byte(0, 0), 0);
    ck_assert_int_eq(memcmp(region_byte(0, 0), region_byte(0, 1),
                            NUM_REGIONS * REGION_SIZE - 1),
                     0);
}

TEST(the_range_is_aligned_to_transparent_pages)
{
    mem_system_t system;

    mem_system_query(&system);
    assert_ok(init(BASE_SWITCH_TRY));
    if ((system.transparent_size != 0) &&
        (REGION_SIZE % system.transparent_size == 0)) {
        ck_assert_uint_eq((uintptr_t)regions.address % system.transparent_size,
                          0);
    }
}

TEST_EACH(every_page_has_memory_and_none_is_resident_before_use, 2)
{
    size_t      before = resident_size();
    struct stat is;

    assert_ok(init(_i == 0 ? BASE_SWITCH_NO : BASE_SWITCH_TRY));
    for (unsigned i = 0; i < NUM_REGIONS; i++) {
        ck_assert_int_eq(fstat(regions.regions[i].fd, &is), 0);
        ck_assert_uint_ge((size_t)is.st_blocks * 512, REGION_SIZE);
    }
    ck_assert_uint_lt(resident_size(), before + REGION_SIZE);
    memset(regions.address, 1, NUM_REGIONS * REGION_SIZE);
    ck_assert_uint_ge(resident_size(), before + NUM_REGIONS * REGION_SIZE);
}

TEST(a_region_is_a_memory_file_named_after_the_pool)
{
    char path[64], name[64];

    assert_ok(init(BASE_SWITCH_TRY));
    for (unsigned i = 0; i < NUM_REGIONS; i++) {
        ssize_t length;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", regions.regions[i].fd);
        length = readlink(path, name, sizeof(name) - 1);
        ck_assert_int_gt(length, 0);
        name[length] = '\0';
        ck_assert_int_eq(strncmp(name, "/memfd:ucxpool:", 15), 0);
        ck_assert_int_eq(fcntl(regions.regions[i].fd, F_GETFD) & FD_CLOEXEC,
                         FD_CLOEXEC);
    }
}

TEST(a_region_cannot_shrink_nor_grow_nor_be_unsealed)
{
    int seals;

    assert_ok(init(BASE_SWITCH_TRY));
    for (unsigned i = 0; i < NUM_REGIONS; i++) {
        int fd = regions.regions[i].fd;

        seals = fcntl(fd, F_GET_SEALS);
        ck_assert_int_eq(seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
                         F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
        ck_assert_int_eq(ftruncate(fd, 0), -1);
        ck_assert_int_eq(ftruncate(fd, (off_t)REGION_SIZE * 2), -1);
        ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    }
}

TEST(a_private_region_is_not_mapped_for_writing_by_others)
{
    assert_ok(init(BASE_SWITCH_TRY));
    for (unsigned i = 0; i < NUM_REGIONS; i++) {
        int   fd = regions.regions[i].fd;
        void *address;

        if (mem_memfd_is_private(fd)) {
            address = mmap(NULL, REGION_SIZE, PROT_READ | PROT_WRITE,
                           MAP_SHARED, fd, 0);
            ck_assert_ptr_eq(address, MAP_FAILED);
            ck_assert_int_eq(errno, EPERM);
            ck_assert_int_eq(pwrite(fd, "x", 1, 0), -1);
        }
    }
}

/* Reads through pieces of all regions, in random order. */
static void check_stitching(void)
{
    size_t            page     = page_size();
    const mem_piece_t pieces[] = {
        {2, page, page},
        {0, REGION_SIZE - 2 * page, 2 * page},
        {1, 0, page},
        {0, 0, REGION_SIZE},
    };
    size_t num_pieces = sizeof(pieces) / sizeof(pieces[0]);
    size_t size       = 0;
    size_t offset     = 0;
    void  *address;

    assert_ok(regions.kind->stitch(&regions, pieces, num_pieces, &address));
    for (size_t i = 0; i < num_pieces; i++) {
        char *here  = (char *)address + size;
        char *there = region_byte(pieces[i].region, pieces[i].offset);

        here[0]                     = (char)('a' + i);
        there[pieces[i].length - 1] = (char)('A' + i);
        ck_assert_int_eq(there[0], 'a' + (int)i);
        ck_assert_int_eq(here[pieces[i].length - 1], 'A' + (int)i);
        size += pieces[i].length;
    }
    for (size_t i = 0; i < num_pieces; i++) {
        ck_assert_int_eq(memcmp((char *)address + offset,
                                region_byte(pieces[i].region, pieces[i].offset),
                                pieces[i].length),
                         0);
        offset += pieces[i].length;
    }
    regions.kind->unstitch(&regions, address, size);
    *region_byte(0, 0) = 'z';
}

TEST(a_stitched_range_is_the_same_memory)
{
    size_t mapped = calls_mapped_size();

    assert_ok(init(BASE_SWITCH_TRY));
    check_stitching();
    mem_regions_cleanup(&regions);
    ck_assert_uint_eq(calls_mapped_size(), mapped);
}

TEST(regions_are_stitched_from_their_files_if_mremap_cannot_copy)
{
    calls_fail_from(CALLS_MREMAP, 1, EINVAL);
    assert_ok(init(BASE_SWITCH_TRY));
    for (unsigned i = 0; i < NUM_REGIONS; i++) {
        ck_assert(!mem_memfd_is_private(regions.regions[i].fd));
    }
    check_stitching();
}

TEST(init_works_without_the_write_seal_in_the_kernel)
{
    bool is_private;

    assert_ok(init(BASE_SWITCH_TRY));
    is_private = mem_memfd_is_private(regions.regions[0].fd);
    mem_regions_cleanup(&regions);
    if (!is_private) {
        /* The seal is not requested, so nothing can be missing. */
        return;
    }
    calls_fail(CALLS_FCNTL, 1, EINVAL);
    assert_ok(init(BASE_SWITCH_TRY));
    ck_assert_int_eq(fcntl(regions.regions[0].fd, F_GET_SEALS) &
                         (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    check_stitching();
}

TEST(stitching_can_be_retried_after_a_failure)
{
    static const calls_name_t names[] = {CALLS_MMAP, CALLS_MREMAP};
    const mem_piece_t pieces[]   = {{1, 0, page_size()}, {0, 0, page_size()}};
    void             *address    = NULL;
    unsigned          num_failed = 0;

    assert_ok(init(BASE_SWITCH_NO));
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (unsigned n = 1;; n++) {
            size_t mapped = calls_mapped_size();

            calls_fail(names[i], n, ENOMEM);
            if (regions.kind->stitch(&regions, pieces, 2, &address) ==
                UCXPOOL_OK) {
                ck_assert(!calls_has_failed());
                regions.kind->unstitch(&regions, address, 2 * page_size());
                break;
            }
            calls_reset();
            num_failed++;
            ck_assert_ptr_null(address);
            ck_assert_uint_eq(calls_mapped_size(), mapped);
        }
        address = NULL;
    }
    ck_assert_uint_ge(num_failed, 3);
    calls_reset();
    check_stitching();
}

TEST_EACH(init_can_be_retried_after_a_failed_call, CALLS_FCNTL + 1)
{
    calls_name_t name       = (calls_name_t)_i;
    unsigned     num_fds    = fds_count();
    unsigned     num_errors = 0;
    size_t       mapped     = calls_mapped_size();

    for (unsigned n = 1;; n++) {
        ucxpool_status_t status;

        calls_fail(name, n, ENOMEM);
        status = init(BASE_SWITCH_TRY);
        if (!calls_has_failed()) {
            calls_reset();
            assert_ok(status);
            mem_regions_cleanup(&regions);
            break;
        }
        calls_reset();
        if (status == UCXPOOL_OK) {
            /* The failure of this call is tolerated: the result is the same. */
            check_stitching();
        } else {
            num_errors++;
            ck_assert_int_eq(status, UCXPOOL_ERR_NO_MEMORY);
            ck_assert_ptr_null(regions.regions);
            assert_detail(name == CALLS_CALLOC ? "list" : "UCXPOOL_COMM_SIZE");
        }
        mem_regions_cleanup(&regions);
        ck_assert_uint_eq(fds_count(), num_fds);
        ck_assert_uint_eq(calls_mapped_size(), mapped);
    }
    /* A second seal call is made only if the first one failed, and large pages
     * are optional. */
    ck_assert_uint_ge(num_errors, (name == CALLS_MREMAP) ||
                                          (name == CALLS_FCNTL) ||
                                          (name == CALLS_MADVISE)
                                      ? 0
                                      : 1);
    assert_ok(init(BASE_SWITCH_TRY));
}

TEST(a_file_that_cannot_be_sealed_is_an_error)
{
    unsigned num_fds = fds_count();

    for (unsigned n = 1; n <= NUM_REGIONS; n++) {
        calls_fail_from(CALLS_FCNTL, n, EPERM);
        ck_assert_int_lt(init(BASE_SWITCH_TRY), 0);
        calls_reset();
        ck_assert_uint_eq(fds_count(), num_fds);
    }
    assert_ok(init(BASE_SWITCH_TRY));
}

TEST(init_works_without_transparent_huge_pages)
{
    calls_fail_from(CALLS_MADVISE, 1, EINVAL);
    assert_ok(init(BASE_SWITCH_TRY));
    check_stitching();
}

TEST(init_continues_after_a_signal)
{
    static const calls_name_t names[] = {CALLS_FTRUNCATE, CALLS_FALLOCATE,
                                         CALLS_MADVISE};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        for (unsigned n = 1; n <= 4; n++) {
            calls_fail(names[i], n, EINTR);
            assert_ok(init(BASE_SWITCH_TRY));
            calls_reset();
            mem_regions_cleanup(&regions);
        }
    }
}

TEST(the_error_for_too_many_files_names_the_region_size)
{
    calls_fail(CALLS_MEMFD_CREATE, 2, EMFILE);
    assert_error_detail(init(BASE_SWITCH_TRY), INVALID_PARAM,
                        "UCXPOOL_REGION_SIZE");
    assert_detail("ulimit -n");
}

TEST(the_error_for_too_little_memory_names_the_amount_and_setting)
{
    fake_machine.available = NUM_REGIONS * REGION_SIZE - 1;
    assert_error_detail(init(BASE_SWITCH_TRY), NO_MEMORY, "6291456 bytes");
    assert_detail("6291455 are");
    assert_detail("UCXPOOL_COMM_SIZE");
}

TEST(a_file_size_limit_is_an_error_and_raises_no_signal)
{
    struct rlimit limit = real_limit;

    limit.rlim_cur = REGION_SIZE - 1;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_error_detail(init(BASE_SWITCH_TRY), INVALID_PARAM, "ulimit -f");
}

TEST(a_size_that_is_not_a_multiple_of_the_page_size_is_rejected)
{
    assert_error_detail(init_of(1, page_size() + 1, BASE_SWITCH_TRY),
                        INVALID_PARAM, "UCXPOOL_REGION_SIZE");
}

TEST(zero_regions_and_too_many_for_the_address_space_are_rejected)
{
    assert_error(init_of(0, REGION_SIZE, BASE_SWITCH_TRY), INVALID_PARAM);
    assert_error(init_of(1, 0, BASE_SWITCH_TRY), INVALID_PARAM);
    assert_error(init_of(4, SIZE_MAX / 2, BASE_SWITCH_TRY), INVALID_PARAM);
}

TEST(a_size_beyond_the_address_space_is_out_of_memory)
{
    fake_machine.available = SIZE_MAX;
    assert_error(init_of(1, (size_t)1 << 62, BASE_SWITCH_NO), NO_MEMORY);
    assert_error(init_of(1, SIZE_MAX & ~(REGION_SIZE - 1), BASE_SWITCH_TRY),
                 NO_MEMORY);
}

TEST(missing_huge_pages_are_an_error_if_they_are_required)
{
    fake_machine.huge_page_size  = REGION_SIZE;
    fake_machine.huge_pages_free = NUM_REGIONS - 1;
    assert_error_detail(init(BASE_SWITCH_YES), NO_MEMORY, "vm.nr_hugepages");

    fake_machine.huge_page_size = 0;
    assert_error_detail(init(BASE_SWITCH_YES), NO_MEMORY, "UCXPOOL_HUGE_PAGES");
}

TEST(huge_pages_require_regions_of_whole_pages)
{
    fake_machine.huge_page_size  = REGION_SIZE * 2;
    fake_machine.huge_pages_free = 1000;
    assert_error_detail(init(BASE_SWITCH_YES), INVALID_PARAM,
                        "UCXPOOL_REGION_SIZE");
    assert_ok(init(BASE_SWITCH_TRY));
    ck_assert_uint_eq(regions.page_size, page_size());
}

TEST(base_pages_are_used_if_huge_pages_run_out)
{
    unsigned num_fds = fds_count();

    fake_machine.huge_page_size  = REGION_SIZE;
    fake_machine.huge_pages_free = NUM_REGIONS;
    /* The first mapping reserves the range; the second is of huge pages. */
    calls_fail(CALLS_MMAP, 2, ENOMEM);
    assert_ok(init(BASE_SWITCH_TRY));
    calls_reset();
    ck_assert_uint_eq(regions.page_size, page_size());
    check_stitching();
    mem_regions_cleanup(&regions);
    ck_assert_uint_eq(fds_count(), num_fds);
}

TEST(real_huge_pages_are_used_if_the_machine_has_some)
{
    mem_system_t system;

    is_machine_faked = false;
    mem_system_query(&system);
    if ((system.huge_page_size == 0) || (system.huge_pages_free < 2)) {
        fprintf(stderr, "skipped: no free huge pages\n");
        return;
    }
    assert_ok(init_of(2, system.huge_page_size, BASE_SWITCH_TRY));
    ck_assert_uint_eq(regions.page_size, system.huge_page_size);
    {
        const mem_piece_t pieces[] = {{1, 0, system.huge_page_size},
                                      {0, 0, system.huge_page_size}};
        void             *address;

        assert_ok(regions.kind->stitch(&regions, pieces, 2, &address));
        *(char *)address = 'x';
        ck_assert_int_eq(*region_byte(1, 0), 'x');
        regions.kind->unstitch(&regions, address, 2 * system.huge_page_size);
    }
    mem_regions_cleanup(&regions);
    assert_ok(init_of(2, system.huge_page_size, BASE_SWITCH_NO));
    ck_assert_uint_eq(regions.page_size, system.page_size);
}

TEST(cleanup_may_be_called_twice_and_releases_everything)
{
    unsigned num_fds = fds_count();
    size_t   mapped  = calls_mapped_size();

    assert_ok(init(BASE_SWITCH_TRY));
    ck_assert_uint_gt(fds_count(), num_fds);
    mem_regions_cleanup(&regions);
    mem_regions_cleanup(&regions);
    ck_assert_uint_eq(fds_count(), num_fds);
    ck_assert_uint_eq(calls_mapped_size(), mapped);
}

TEST(the_machine_has_pages_and_memory)
{
    mem_system_t system;

    is_machine_faked = false;
    mem_system_query(&system);
    ck_assert_uint_eq(system.page_size, page_size());
    ck_assert_uint_gt(system.available, 0);
}
