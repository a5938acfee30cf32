/*
 * Which memory is readable: mapped, unmapped, and without read permission. Few
 * spans are probed byte by byte. For many, the kernel is asked for their
 * mappings, if it can be.
 */
#define _GNU_SOURCE
#include "mem/readable.h"
#include "test.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define NUM  MEM_SPANS_MAX
#define PAGE ((size_t)65536)

static mem_span_t spans[NUM];
static char *memory; /* pages: mapped, mapped, unmapped, mapped, PROT_NONE */

static void set_up(void)
{
    memory = mmap(NULL, 5 * PAGE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    ck_assert_int_eq(munmap(memory + 2 * PAGE, PAGE), 0);
    ck_assert_int_eq(mprotect(memory + 4 * PAGE, PAGE, PROT_NONE), 0);
    for (size_t i = 0; i < NUM; i++) {
        spans[i] = (mem_span_t){(uintptr_t)memory + i * 37, 60000};
    }
}

static void tear_down(void)
{
    munmap(memory, 5 * PAGE);
}

/* Numbers of spans below and above the number from which mappings are
 * queried. */
static const size_t numbers[] = {1, 5, 15, 16, 100, NUM};
#define NUM_NUMBERS ((int)(sizeof(numbers) / sizeof(numbers[0])))

TEST_SETTINGS(.setup = set_up, .teardown = tear_down);

TEST_EACH(mapped_memory_is_readable, NUM_NUMBERS)
{
    ck_assert_uint_eq(mem_find_unreadable(spans, 0), 0);
    ck_assert_uint_eq(mem_find_unreadable(spans, numbers[_i]), numbers[_i]);
    /* Untouched pages, read-only pages, and pages of two mappings. */
    ck_assert_int_eq(mprotect(memory + PAGE, PAGE, PROT_READ), 0);
    spans[0] = (mem_span_t){(uintptr_t)memory, 2 * PAGE};
    ck_assert_uint_eq(mem_find_unreadable(spans, numbers[_i]), numbers[_i]);
}

static void check_found(size_t num, size_t at, uint64_t address,
                        uint64_t length)
{
    mem_span_t before = spans[at];

    spans[at] = (mem_span_t){address, length};
    ck_assert_uint_eq(mem_find_unreadable(spans, num), at);
    spans[at] = before;
    ck_assert_uint_eq(mem_find_unreadable(spans, num), num);
}

TEST_EACH(the_first_unmapped_span_is_found, NUM_NUMBERS)
{
    uintptr_t start = (uintptr_t)memory;
    size_t    num   = numbers[_i];

    for (size_t at = 0; at < num; at += 1 + num / 4) {
        check_found(num, at, start + 2 * PAGE, 1);
        check_found(num, at, start + 2 * PAGE + 77, 10);
        check_found(num, at, start + 2 * PAGE - 1, 2);
        check_found(num, at, start + 3 * PAGE - 1, 2);
        check_found(num, at, start + 4 * PAGE, 100);
        check_found(num, at, start + 3 * PAGE, PAGE + 1);
        check_found(num, at, start, (uint64_t)1 << 62);
        check_found(num, at, 0, 1);
        check_found(num, at, UINT64_MAX, 1);
    }
    spans[num - 1].address = 5;
    spans[num / 2].address = 5;
    ck_assert_uint_eq(mem_find_unreadable(spans, num), num / 2);
}

/* Does this kernel answer queries for mappings (Linux 6.11)? Not under
 * valgrind. */
static bool tells_of_mappings(void)
{
    /* Laid out as struct procmap_query of <linux/fs.h>: size, flags,
     * address. */
    uint64_t query[13] = {sizeof(query), 0, (uintptr_t)memory};
    int      fd        = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    int      result    = ioctl(fd, _IOWR('f', 17, query), query);

    close(fd);
    return result == 0;
}

/* On kernels that can be asked for mappings. A neighbouring mapping must not be
 * mistaken for it. */
TEST(a_mapping_without_a_file_is_found)
{
    uintptr_t  start = (uintptr_t)memory;
    int        fd    = memfd_create("readable", MFD_CLOEXEC);
    mem_span_t found;
    void      *file;

    ck_assert_int_eq(ftruncate(fd, PAGE), 0);
    file = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(file, MAP_FAILED);
    if (tells_of_mappings()) {
        ck_assert(mem_find_anonymous(start + 3 * PAGE + 5, &found));
        ck_assert_uint_eq(found.address, start + 3 * PAGE);
        ck_assert_uint_eq(found.length, PAGE);
        ck_assert(mem_find_anonymous(start + PAGE, &found));
        ck_assert_uint_le(found.address, start);
        ck_assert_uint_eq(found.address + found.length, start + 2 * PAGE);
    }
    ck_assert(!mem_find_anonymous(start + 2 * PAGE, &found));
    ck_assert(!mem_find_anonymous(start + 4 * PAGE, &found));
    ck_assert(!mem_find_anonymous((uintptr_t)file, &found));
    ck_assert(!mem_find_anonymous(5, &found));
    ck_assert(!mem_find_anonymous(UINT64_MAX, &found));
    munmap(file, PAGE);
    close(fd);
}
