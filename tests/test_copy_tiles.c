/* Cutting a list into tiles. The kernel's C model copies each byte of each
 * piece, clears the padding, and writes no other byte. */
#include "copy_twin.h"
#include "test.h"

#include "base/math.h"
#include "copy/tiles.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY_SIZE ((size_t)1 << 20)
#define NUM_PIECES  600
#define MAX_TILES   4096

static uint8_t memory[MEMORY_SIZE];
static uint8_t stream[2 * MEMORY_SIZE];
static uint8_t expected[2 * MEMORY_SIZE];

static copy_exact_t   exact[NUM_PIECES];
static copy_segment_t segments[NUM_PIECES];
static uint64_t       addresses[NUM_PIECES];
static copy_tile_t    tiles[MAX_TILES];

static uint64_t address_of(const void *pointer)
{
    return (uint64_t)(uintptr_t)pointer;
}

/* Lengths of all magnitudes, some 0. `uniform` is the length of all pieces, or
 * 0. */
static size_t next_length(uint32_t uniform)
{
    return (uniform > 0) ? uniform
                         : (size_t)random() % ((size_t)1 << (random() % 14));
}

/* Some pieces are zeros instead of memory. */
static void make_zeros(uint32_t num)
{
    for (uint32_t i = 0; i < num; i++) {
        exact[i].address = (random() % 8 == 0) ? 0 : exact[i].address;
    }
}

/*
 * Pieces in order in memory, with gaps. In the stream each starts at the next
 * multiple of the unit, or (exact) anywhere after the previous one.
 */
static copy_table_t make_list(copy_form_t form, uint32_t uniform)
{
    copy_table_t list = {
        .form = form, .length = uniform, .stream = address_of(stream)};
    size_t   at        = 0;
    size_t   in_stream = 0;
    uint32_t n         = 0;

    for (; n < NUM_PIECES; n++) {
        size_t length = next_length(uniform);

        at += (size_t)random() % 40;
        if ((at + length > MEMORY_SIZE) ||
            (in_stream + length > sizeof(stream))) {
            break;
        }
        exact[n]     = (copy_exact_t){address_of(memory + at), (uint32_t)length,
                                      (uint32_t)in_stream};
        segments[n]  = (copy_segment_t){address_of(memory + at), length};
        addresses[n] = address_of(memory + at);
        at += length;
        in_stream += length;
        in_stream = (form == COPY_EXACT) ? in_stream + (size_t)random() % 40
                                         : base_align_up(in_stream, COPY_UNIT);
    }
    if (form == COPY_EXACT) {
        make_zeros(n);
    }
    list.num_entries = n;
    list.is_padded   = (form != COPY_EXACT) && (random() % 2 != 0);
    list.entries     = (form == COPY_UNIFORM) ? (const void *)addresses
                       : (form == COPY_EXACT) ? (const void *)exact
                                              : (const void *)segments;
    return list;
}

static void fill(uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)random();
    }
}

/* The expected copy of one piece and of the padding after it. */
static void expect(const copy_table_t *list, uint32_t i, bool gather)
{
    const uint8_t *in_memory = (const uint8_t *)(uintptr_t)exact[i].address;
    size_t         length    = exact[i].length;
    size_t         stride    = length;

    if (!gather) {
        if (in_memory != NULL) {
            memcpy(expected + (in_memory - memory), stream + exact[i].offset,
                   length);
        }
        return;
    }
    if ((list->form != COPY_EXACT) &&
        ((i + 1 < list->num_entries) || list->is_padded)) {
        stride = base_align_up(length, (size_t)COPY_UNIT);
    }
    memset(expected + exact[i].offset, 0, stride);
    if (in_memory != NULL) {
        memcpy(expected + exact[i].offset, in_memory, length);
    }
}

/* Copy a list by tiles, and piece by piece, and compare. */
static void compare(const copy_table_t *list, uint32_t tile_size, bool gather)
{
    uint8_t *target = gather ? stream : memory;
    size_t   size   = gather ? sizeof(stream) : sizeof(memory);
    size_t   num_tiles;

    fill(gather ? memory : stream, gather ? sizeof(memory) : sizeof(stream));
    memset(target, 0xcd, size);
    memset(expected, 0xcd, size);
    for (uint32_t i = 0; i < list->num_entries; i++) {
        expect(list, i, gather);
    }
    if (copy_is_even(list->form)) {
        copy_twin_even(list, tile_size, gather);
    } else {
        num_tiles = copy_tiles_cut(list, tile_size, tiles, MAX_TILES);
        ck_assert_uint_le(num_tiles, MAX_TILES);
        copy_twin(num_tiles, tiles, list->entries, list->form, 0, gather);
    }
    ck_assert_mem_eq(target, expected, size);
}

/* A tile size for which the array has enough room. */
static uint32_t choose_size(const copy_table_t *list, uint32_t size)
{
    if (!copy_is_even(list->form) &&
        (copy_tiles_cut(list, size, NULL, 0) > MAX_TILES)) {
        return 4096;
    }
    return size;
}

/* Sizes of lists and of the stream. */
static const copy_form_t forms[] = {COPY_UNIFORM, COPY_SEGMENTS,
                                    COPY_EVEN_SEGMENTS, COPY_EXACT};
#define NUM_FORMS ((int)(sizeof(forms) / sizeof(forms[0])))

TEST_EACH(tiles_copy_exactly_the_bytes_of_a_list, 2 * NUM_FORMS)
{
    static const uint32_t sizes[] = {16, 48, 4096, 65536};
    copy_form_t           form    = forms[_i / 2];

    srandom(7);
    for (int round = 0; round < 8; round++) {
        uint32_t uniform =
            copy_is_even(form) ? 1 + (uint32_t)random() % 300 : 0;
        copy_table_t list = make_list(form, uniform);

        ck_assert_uint_gt(list.num_entries, 50);
        compare(&list, choose_size(&list, sizes[round % 4]), _i % 2);
    }
}

TEST(no_tile_exceeds_the_maximum)
{
    copy_table_t list      = make_list(COPY_SEGMENTS, 0);
    size_t       num_tiles = copy_tiles_cut(&list, 4096, tiles, MAX_TILES);

    for (size_t i = 0; i < num_tiles; i++) {
        ck_assert_uint_gt(tiles[i].size, 0);
        ck_assert_uint_le(tiles[i].size, 4096);
        ck_assert_uint_gt(tiles[i].count, 0);
    }
}

TEST(tile_within_one_piece_has_its_address)
{
    copy_segment_t one  = {0x1000, 100000};
    copy_table_t   list = {.form        = COPY_SEGMENTS,
                           .entries     = &one,
                           .num_entries = 1,
                           .stream      = 0x100000};

    ck_assert_uint_eq(copy_tiles_cut(&list, 65536, tiles, MAX_TILES), 2);
    ck_assert_uint_eq(tiles[1].count, 1);
    ck_assert_uint_eq(tiles[1].origin, 0x1000 + 65536);
    ck_assert_uint_eq(tiles[1].stream, 0x100000 + 65536);
    ck_assert_uint_eq(tiles[1].size, 100000 - 65536);
}

TEST(tile_of_one_piece_has_its_padding)
{
    copy_segment_t two[2] = {{0x1000, 4100}, {0x9000, 5}};
    copy_table_t   list   = {.form        = COPY_SEGMENTS,
                             .entries     = two,
                             .num_entries = 2,
                             .stream      = 0x100000};

    ck_assert_uint_eq(copy_tiles_cut(&list, 4112, tiles, MAX_TILES), 2);
    ck_assert_uint_eq(tiles[0].size, 4112);
    ck_assert_uint_eq(tiles[0].padding, 12);
    ck_assert_uint_eq(tiles[1].size, 5);
    ck_assert_uint_eq(tiles[1].padding, 0);
    list.is_padded = true;
    ck_assert_uint_eq(copy_tiles_cut(&list, 4112, tiles, MAX_TILES), 2);
    ck_assert_uint_eq(tiles[1].size, 16);
    ck_assert_uint_eq(tiles[1].padding, 11);
}

TEST(a_list_without_bytes_takes_no_tile)
{
    copy_segment_t empty[3] = {{1, 0}, {2, 0}, {3, 0}};
    copy_table_t   list     = {
              .form = COPY_SEGMENTS, .entries = empty, .num_entries = 3};

    ck_assert_uint_eq(copy_tiles_cut(&list, 4096, tiles, MAX_TILES), 0);
    list.num_entries = 0;
    ck_assert_uint_eq(copy_tiles_cut(&list, 4096, tiles, MAX_TILES), 0);
}

TEST(tiles_of_a_short_stream_are_short)
{
    ck_assert_uint_eq(copy_tile_size((uint64_t)1 << 30, 132, false), 65536);
    ck_assert_uint_eq(copy_tile_size(1, 132, false), 4096);
    ck_assert_uint_eq(copy_tile_size((uint64_t)4 << 20, 132, false) % 512, 0);
}

TEST(stream_in_remote_memory_has_few_tiles)
{
    const uint64_t size = (uint64_t)16 << 20;

    ck_assert_uint_le(size / copy_tile_size(size, 132, true), 132 / 2);
    ck_assert_uint_eq(copy_tile_size(1, 132, true), 4096);
    ck_assert_uint_eq(copy_tile_size(size, 1, true), 512 << 10);
    ck_assert_uint_eq(copy_tile_size(size + 1, 132, true) % 512, 0);
}
