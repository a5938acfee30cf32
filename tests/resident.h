/*
 * The size of the shared memory in this process's page tables: pages that the
 * process has touched of memory files and of the files that it executes.
 */
#ifndef TESTS_RESIDENT_H
#define TESTS_RESIDENT_H

#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

static inline size_t resident_size(void)
{
    FILE  *file  = fopen("/proc/self/statm", "re");
    size_t pages = 0;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%*s %*s %zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

#endif
