/* The host copy engine: every length and alignment, in both directions. */
#include "copy/list.h"
#include "test.h"

#include <stdint.h>
#include <string.h>

#define MAX_LENGTH 700
#define NUM_COPIES 100

typedef void (*copy_t)(const copy_entry_t *copies, size_t num_copies);

static char source[NUM_COPIES * MAX_LENGTH + 64];
static char target[NUM_COPIES * MAX_LENGTH + 64];
static char expected[sizeof(target)];

static const copy_t ways[] = {copy_list, copy_list_stream};
#define NUM_WAYS ((int)(sizeof(ways) / sizeof(ways[0])))

static void reset(void)
{
    for (size_t i = 0; i < sizeof(source); i++) {
        source[i] = (char)(i * 7 + i / 256);
    }
    memset(target, 0x11, sizeof(target));
    memset(expected, 0x11, sizeof(expected));
}

/* A copy between places that no other copy in the list touches. */
static copy_entry_t make_copy(size_t place, size_t to, size_t from,
                              size_t length)
{
    copy_entry_t copy = {target + place * MAX_LENGTH + to,
                         source + place * MAX_LENGTH + from, length};

    memcpy(expected + place * MAX_LENGTH + to, copy.source, length);
    return copy;
}

TEST_SETTINGS(.timeout = 60);

TEST_EACH(every_length_and_alignment_is_copied_exactly, NUM_WAYS)
{
    copy_entry_t copies[64];

    for (size_t length = 0; length <= 600; length++) {
        reset();
        for (size_t i = 0; i < 64; i++) {
            copies[i] = make_copy(i, i, (i * 5) % 32, length);
        }
        ways[_i](copies, 64);
        ck_assert_mem_eq(expected, target, sizeof(target));
    }
}

TEST_EACH(lists_of_any_length_are_copied_exactly, NUM_WAYS)
{
    copy_entry_t copies[NUM_COPIES];

    for (size_t num_copies = 0; num_copies <= NUM_COPIES; num_copies++) {
        reset();
        for (size_t i = 0; i < num_copies; i++) {
            copies[i] = make_copy(i, i % 3, i % 5, (i * 97) % 600);
        }
        ways[_i](copies, num_copies);
        ck_assert_mem_eq(expected, target, sizeof(target));
    }
}

TEST_EACH(empty_entries_need_no_memory, NUM_WAYS)
{
    copy_entry_t copies[40];

    memset(copies, 0, sizeof(copies));
    ways[_i](copies, 40);
    ways[_i](NULL, 0);
}

TEST_EACH(long_entries_are_copied_exactly, NUM_WAYS)
{
    const size_t size = (1 << 20) + 77;
    char        *from = test_alloc(size);
    char        *to   = test_alloc(size + 2);
    copy_entry_t copy = {to + 1, from, size};

    for (size_t i = 0; i < size; i++) {
        from[i] = (char)(i * 13 + i / 4096);
    }
    ways[_i](&copy, 1);
    ck_assert_int_eq(0, memcmp(from, to + 1, size));
    ck_assert_int_eq(0, to[0]);
    ck_assert_int_eq(0, to[size + 1]);
}

TEST(only_large_copies_bypass_the_cache)
{
    ck_assert(!copy_streams(0));
    ck_assert(!copy_streams(4096));
    ck_assert(!copy_streams(COPY_STREAM_TOTAL - 1));
    ck_assert(copy_streams(COPY_STREAM_TOTAL));
    ck_assert(copy_streams(SIZE_MAX));
}
