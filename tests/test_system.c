/* The machine's properties, read from files that a test makes up. */
#include "mem/system.h"
#include "test.h"
#include "replace.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

typedef struct made_up {
    const char *path;
    const char *text;
} made_up_t;

/* The simulated machine: files that are not listed do not exist. */
static const made_up_t *files;

REPLACE(FILE *, fopen, const char *path, const char *mode)
{
    for (const made_up_t *file = files; file->path != NULL; file++) {
        if (strcmp(file->path, path) == 0) {
            return fmemopen((void *)(uintptr_t)file->text, strlen(file->text),
                            "r");
        }
    }
    errno = ENOENT;
    return NULL;
}

static mem_system_t query(const made_up_t *machine)
{
    mem_system_t system;

    files = machine;
    mem_system_query(&system);
    return system;
}

#define MEMINFO \
    { \
        "/proc/meminfo", "MemTotal:       8388608 kB\n" \
                         "MemFree:         100000 kB\n" \
                         "MemAvailable:   1048576 kB\n" \
                         "HugePages_Total:      9\n" \
                         "HugePages_Free:       7\n" \
                         "HugePages_Rsvd:       2\n" \
                         "Hugepagesize:       2048 kB\n" \
    }

TEST(a_machine_without_proc_has_base_pages_and_no_known_limit)
{
    static const made_up_t machine[] = {{NULL, NULL}};
    mem_system_t           system    = query(machine);

    ck_assert_uint_eq(system.available, SIZE_MAX);
    ck_assert_uint_gt(system.page_size, 0);
    ck_assert_uint_eq(system.huge_page_size, 0);
    ck_assert_uint_eq(system.huge_pages_free, 0);
    ck_assert_uint_eq(system.transparent_size, 0);
}

TEST(available_memory_is_used_instead_of_free_memory)
{
    static const made_up_t machine[] = {MEMINFO, {NULL, NULL}};

    ck_assert_uint_eq(query(machine).available, 1024 * MIB);
}

TEST(reserved_huge_pages_are_not_free)
{
    static const made_up_t machine[] = {MEMINFO, {NULL, NULL}};
    mem_system_t           system    = query(machine);

    ck_assert_uint_eq(system.huge_page_size, 2 * MIB);
    ck_assert_uint_eq(system.huge_pages_free, 5);
}

TEST(the_size_of_transparent_huge_pages_is_read)
{
    static const made_up_t machine[] = {
        {"/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152\n"},
        {NULL, NULL}};

    ck_assert_uint_eq(query(machine).transparent_size, 2 * MIB);
}

TEST(a_size_that_is_not_a_power_of_two_is_ignored)
{
    static const made_up_t machine[] = {
        {"/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "0\n"},
        {"/proc/meminfo", "Hugepagesize:       1000 kB\n"},
        {NULL, NULL}};
    mem_system_t system = query(machine);

    ck_assert_uint_eq(system.transparent_size, 0);
    ck_assert_uint_eq(system.huge_page_size, 0);
}

TEST(a_control_groups_limit_applies_without_its_page_cache)
{
    static const made_up_t machine[] = {
        MEMINFO,
        {"/proc/self/cgroup", "0::/a\n"},
        {"/sys/fs/cgroup/a/memory.max", "104857600\n"},
        {"/sys/fs/cgroup/a/memory.current", "62914560\n"},
        {"/sys/fs/cgroup/a/memory.stat",
         "anon 1\ninactive_anon 5\nactive_file 1048576\n"
         "inactive_file 2097152\n"},
        {NULL, NULL}};

    /* 100 - (60 - 1 - 2) */
    ck_assert_uint_eq(query(machine).available, 43 * MIB);
}

TEST(the_lowest_limit_of_all_parent_groups_applies)
{
    static const made_up_t machine[] = {
        MEMINFO,
        {"/proc/self/cgroup", "0::/a/b/c\n"},
        {"/sys/fs/cgroup/a/b/c/memory.max", "max\n"},
        {"/sys/fs/cgroup/a/b/c/memory.current", "1\n"},
        {"/sys/fs/cgroup/a/b/memory.max", "52428800\n"},
        {"/sys/fs/cgroup/a/b/memory.current", "10485760\n"},
        {"/sys/fs/cgroup/a/memory.max", "104857600\n"},
        {"/sys/fs/cgroup/a/memory.current", "10485760\n"},
        {NULL, NULL}};

    ck_assert_uint_eq(query(machine).available, 40 * MIB);
}

TEST(a_containers_limit_is_read_at_the_root)
{
    static const made_up_t machine[] = {
        MEMINFO,
        {"/proc/self/cgroup", "5:cpu:/docker/x\n4:memory:/docker/x\n0::/\n"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "20971520\n"},
        {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "10485760\n"},
        {"/sys/fs/cgroup/memory/memory.stat",
         "total_inactive_file 1048576\ntotal_active_file 0\n"},
        {NULL, NULL}};

    ck_assert_uint_eq(query(machine).available, 11 * MIB);
}

TEST(a_group_over_its_limit_has_nothing_left)
{
    static const made_up_t machine[] = {
        MEMINFO,
        {"/proc/self/cgroup", "0::/\n"},
        {"/sys/fs/cgroup/memory.max", "1048576\n"},
        {"/sys/fs/cgroup/memory.current", "2097152\n"},
        {NULL, NULL}};

    ck_assert_uint_eq(query(machine).available, 0);
}
