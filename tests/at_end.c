/* Apart from runner.c, because fuzz targets link only this part. */
#include "test.h"

#include <stdlib.h>

#define MAX_AT_END    8
#define MAX_ALLOCATED 256

static void (*at_end[MAX_AT_END])(void);
static unsigned num_at_end;
static void    *allocated[MAX_ALLOCATED];
static unsigned num_allocated;

void test_at_end(void (*function)(void))
{
    ck_assert_uint_lt(num_at_end, MAX_AT_END);
    at_end[num_at_end++] = function;
}

void *test_alloc(size_t size)
{
    void *bytes = calloc(1, size);

    ck_assert_uint_lt(num_allocated, MAX_ALLOCATED);
    ck_assert_ptr_nonnull(bytes);
    allocated[num_allocated++] = bytes;
    return bytes;
}

void test_end(void)
{
    while (num_at_end > 0) {
        at_end[--num_at_end]();
    }
    while (num_allocated > 0) {
        free(allocated[--num_allocated]);
    }
}
