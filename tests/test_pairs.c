/* Scans of segment lists. Each variant that the CPU supports must return
 * the same results as a plain loop. */
#include "copy/plan.c"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SEGMENTS 300u
#define ROUNDS       2000

typedef struct passes {
    size_t (*addresses)(const ucxpool_segment_t *, size_t, uint64_t,
                        uint64_t *);
    bool (*sum)(const ucxpool_segment_t *, size_t, uint64_t *);
    size_t (*present)(void *const *, size_t);
    size_t (*copy)(void *const *, size_t, uint64_t *);
    size_t (*inside)(const ucxpool_segment_t *, size_t, uint64_t, uint64_t);
    size_t (*within)(void *const *, size_t, uint64_t, uint64_t, uint64_t);
    size_t (*even)(const ucxpool_segment_t *, size_t, uint64_t, uint64_t,
                   uint64_t);
} passes_t;

static const passes_t kinds[] = {
    {addresses_any, sum_any, present_any, copy_any, inside_any, within_any,
     even_any},
    {addresses_avx2, sum_avx2, present_avx2, copy_avx2, inside_avx2,
     within_avx2, even_avx2},
    {copy_pairs_addresses, copy_pairs_sum, copy_pairs_present, copy_pairs_copy,
     copy_pairs_inside, copy_pairs_within, copy_pairs_even},
};
#define NUM_KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

static const passes_t   *passes;
static ucxpool_segment_t segments[MAX_SEGMENTS];
static uint64_t          addresses[MAX_SEGMENTS + 1];
static size_t            num;

static void choose(int kind)
{
    srandom(11);
    passes = &kinds[((kind == 1) && !HAS_AVX2()) ? 0 : kind];
}

/* Segments of equal length with addresses; any number of them. */
static void make_list(void)
{
    num = (size_t)random() % MAX_SEGMENTS;
    for (size_t i = 0; i < MAX_SEGMENTS; i++) {
        segments[i].address =
            (void *)(uintptr_t)(((uint64_t)random() << 16) | 1);
        segments[i].length = 77;
    }
}

TEST_EACH(a_run_ends_where_a_length_differs, NUM_KINDS)
{
    choose(_i);
    for (int round = 0; round < ROUNDS; round++) {
        size_t end;

        make_list();
        end                  = (size_t)random() % MAX_SEGMENTS;
        segments[end].length = 77 + ((uint64_t)1 << (random() % 60));
        ck_assert_uint_eq(passes->even(segments, num, 77, 1, COPY_ANYWHERE),
                          base_min(end, num));
    }
}

TEST_EACH(a_run_ends_where_an_address_is_null, NUM_KINDS)
{
    choose(_i);
    for (int round = 0; round < ROUNDS; round++) {
        size_t end;

        make_list();
        end                   = (size_t)random() % MAX_SEGMENTS;
        segments[end].address = NULL;
        ck_assert_uint_eq(passes->even(segments, num, 77, 1, COPY_ANYWHERE),
                          base_min(end, num));
    }
}

TEST_EACH(addresses_are_copied_while_lengths_are_equal, NUM_KINDS)
{
    choose(_i);
    for (int round = 0; round < ROUNDS; round++) {
        size_t end, count;

        make_list();
        memset(addresses, 0xee, sizeof(addresses));
        end                  = (size_t)random() % MAX_SEGMENTS;
        segments[end].length = 78;
        count                = passes->addresses(segments, num, 77, addresses);
        ck_assert_uint_eq(count, base_min(end, num));
        for (size_t i = 0; i < count; i++) {
            if (addresses[i] != (uintptr_t)segments[i].address) {
                ck_abort_msg("address %zu of %zu differs", i, count);
            }
        }
        ck_assert_uint_eq(addresses[num], UINT64_C(0xeeeeeeeeeeeeeeee));
    }
}

TEST_EACH(lengths_are_summed, NUM_KINDS)
{
    uint64_t sum, expected;

    choose(_i);
    for (int round = 0; round < ROUNDS; round++) {
        make_list();
        expected = 0;
        for (size_t i = 0; i < num; i++) {
            segments[i].length = (uint64_t)random() << 8;
            expected += segments[i].length;
        }
        ck_assert(passes->sum(segments, num, &sum));
        ck_assert_uint_eq(sum, expected);
    }
}

TEST_EACH(lists_with_null_or_huge_lengths_take_the_slow_path, NUM_KINDS)
{
    uint64_t sum;

    choose(_i);
    for (size_t i = 0; i < 40; i++) {
        make_list();
        segments[i].address = NULL;
        ck_assert(!passes->sum(segments, 40, &sum));
        make_list();
        segments[i].length = SHORT_LENGTH;
        ck_assert(!passes->sum(segments, 40, &sum));
        segments[i].length = SHORT_LENGTH - 1;
        ck_assert(passes->sum(segments, 40, &sum));
        ck_assert_uint_eq(sum, 39 * 77 + SHORT_LENGTH - 1);
    }
}

/* No process has addresses with the highest bit set, but they are not NULL. */
TEST_EACH(addresses_are_counted_up_to_the_first_null, NUM_KINDS)
{
    static void *list[MAX_SEGMENTS];

    choose(_i);
    for (int round = 0; round < ROUNDS; round++) {
        size_t end = (size_t)random() % MAX_SEGMENTS;
        size_t max = (size_t)random() % (MAX_SEGMENTS + 1);

        for (size_t i = 0; i < MAX_SEGMENTS; i++) {
            list[i] = (void *)(((uintptr_t)random() << 33) |
                               ((uintptr_t)random() & 1) | 2);
        }
        list[end] = NULL;
        ck_assert_uint_eq(passes->present(list, max), base_min(end, max));
        memset(addresses, 0xee, sizeof(addresses));
        ck_assert_uint_eq(passes->copy(list, max, addresses),
                          base_min(end, max));
        ck_assert_mem_eq(addresses, list, base_min(end, max) * sizeof(*list));
        ck_assert_uint_eq(addresses[max], UINT64_C(0xeeeeeeeeeeeeeeee));
    }
}

#define START UINT64_C(0x7f0000001000)
#define ROOM  (UINT64_C(1) << 33)

/* Outside by one byte, or so far outside that the sum overflows. */
static const struct {
    uint64_t at; /* after the start */
    uint64_t length;
} outsiders[] = {
    {ROOM, 1},
    {ROOM - 6, 7},
    {0, ROOM + 1},
    {UINT64_MAX, 1},
    {UINT64_MAX, 7},
    {1, UINT64_MAX},
    {HIGHEST_BIT, 1},
    {1, HIGHEST_BIT},
    {HIGHEST_BIT - 1, HIGHEST_BIT - 1},
    {HIGHEST_BIT, HIGHEST_BIT},
    {HIGHEST_BIT - 1, ROOM},
    {ROOM, HIGHEST_BIT - 1},
};
#define NUM_OUTSIDERS (sizeof(outsiders) / sizeof(outsiders[0]))

TEST_EACH(even_segments_end_at_the_first_odd_one, NUM_KINDS)
{
    static const ucxpool_segment_t others[] = {
        {(void *)(uintptr_t)(START + ROOM + 1), 77},
        {(void *)(uintptr_t)(START - 1), 77},
        {NULL, 77},
        {(void *)(uintptr_t)(START + HIGHEST_BIT), 77},
        {(void *)(uintptr_t)START, 76},
        {(void *)(uintptr_t)START, 0},
        {(void *)(uintptr_t)START, 77 + HIGHEST_BIT},
        {(void *)(uintptr_t)START, UINT64_MAX},
    };

    choose(_i);
    for (int round = 0; round < ROUNDS; round++) {
        size_t end = (size_t)random() % MAX_SEGMENTS;
        size_t i   = (size_t)round % (sizeof(others) / sizeof(others[0]));

        make_list();
        for (size_t j = 0; j < MAX_SEGMENTS; j++) {
            uint64_t at = (uint64_t)random() << (random() % 3);

            segments[j].address = (void *)(uintptr_t)(START + at);
        }
        segments[0].address       = (void *)(uintptr_t)(START + ROOM);
        segments[num / 2].address = (void *)(uintptr_t)START;
        ck_assert_uint_eq(passes->even(segments, num, 77, START, ROOM + 77),
                          num);
        segments[end] = others[i];
        ck_assert_uint_eq(passes->even(segments, num, 77, START, ROOM + 77),
                          base_min(end, num));
    }
}

TEST_EACH(segments_inside_end_at_the_first_outside, NUM_KINDS)
{
    choose(_i);
    for (int round = 0; round < ROUNDS; round++) {
        size_t end = (size_t)random() % MAX_SEGMENTS;
        size_t i   = (size_t)round % NUM_OUTSIDERS;

        num = (size_t)random() % (MAX_SEGMENTS + 1);
        for (size_t j = 0; j < MAX_SEGMENTS; j++) {
            uint64_t at = (uint64_t)random() << (random() % 3);

            segments[j].address = (void *)(uintptr_t)(START + at);
            segments[j].length =
                base_min((uint64_t)random() % 10000, ROOM - at);
            if (random() % 8 == 0) {
                segments[j].length = ROOM - at;
            }
        }
        ck_assert_uint_eq(passes->inside(segments, num, START, ROOM), num);
        segments[end] = (ucxpool_segment_t){
            (void *)(uintptr_t)(START + outsiders[i].at), outsiders[i].length};
        ck_assert_uint_eq(passes->inside(segments, num, START, ROOM),
                          base_min(end, num));
    }
}

TEST_EACH(pieces_inside_end_at_the_first_outside, NUM_KINDS)
{
    static const uint64_t places[] = {ROOM + 1, UINT64_MAX, HIGHEST_BIT,
                                      HIGHEST_BIT - 1};
    static void          *list[MAX_SEGMENTS];

    choose(_i);
    for (int round = 0; round < ROUNDS; round++) {
        size_t end = (size_t)random() % MAX_SEGMENTS;
        size_t max = (size_t)random() % (MAX_SEGMENTS + 1);

        for (size_t j = 0; j < MAX_SEGMENTS; j++) {
            uint64_t at = (random() % 8 == 0)
                              ? ROOM
                              : (uint64_t)random() << (random() % 3);

            list[j] = (void *)(uintptr_t)(START + at);
        }
        ck_assert_uint_eq(passes->within(list, max, 7, START, ROOM + 7), max);
        list[end] = (void *)(uintptr_t)(START + places[round % 4]);
        ck_assert_uint_eq(passes->within(list, max, 7, START, ROOM + 7),
                          base_min(end, max));
    }
}
