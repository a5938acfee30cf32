/*
 * Lists for launches of the copy kernel. The kernel's C model splits them into
 * tiles and copies them; the result must match a model that knows the address
 * of each byte of the stream.
 */
#include "base/math.h"
#include "copy/cuda_copier.h"
#include "copy_twin.h"
#include "rounds.h"
#include "stream_model.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SEGMENTS ((size_t)20000)
#define ARENA_SIZE   ((size_t)4 << 20)
#define MAX_TILES    ((size_t)1 << 18)
#define POISON       0x5a

/* A list of segments on each side, and the model of their stream. */
typedef struct model {
    uint64_t          random;
    size_t            num_lengths;
    size_t            lengths[MAX_SEGMENTS];
    size_t            num_runs;
    copy_run_t        runs[MAX_SEGMENTS];
    copy_totals_t     totals;
    size_t            num_segments;
    ucxpool_segment_t segments[MAX_SEGMENTS];
    size_t            pieces_length; /* 0: segments instead of pieces */
    void             *pieces[MAX_SEGMENTS];
    copy_plan_t       plan;
    char              arena[ARENA_SIZE];
    size_t            stream_size;
    char             *stream[ARENA_SIZE]; /* NULL for padding */
    char              block[ARENA_SIZE + 64];
    char              expected[ARENA_SIZE + 64];
    char              copy[ARENA_SIZE]; /* the expected content of the arena */
    _Alignas(16) char entries[ARENA_SIZE];
    copy_tile_t tiles[MAX_TILES];
    unsigned    num_forms[COPY_EXACT + 1]; /* how often each occurred */
} model_t;

static model_t model;

static size_t random_below(size_t limit)
{
    return stream_model_random(&model.random, limit);
}

static size_t random_length(void)
{
    static const size_t lengths[] = {0, 1, 7, 16, 17, 32, 48, 100, 160};

    if (random_below(3) == 0) {
        return random_below(200);
    }
    return lengths[random_below(sizeof(lengths) / sizeof(lengths[0]))];
}

/* Runs of one length: short ones, and some long enough for their own list. */
static void make_lengths(bool has_long_runs, bool are_alike)
{
    size_t num_groups = are_alike ? 1 : 1 + random_below(8);

    model.num_lengths = 0;
    for (size_t i = 0; i < num_groups; i++) {
        size_t length = random_length();
        size_t count  = 1 + random_below(40);

        if (has_long_runs && (random_below(3) == 0)) {
            count  = 4000 + random_below(3000);
            length = base_min(length, (size_t)33);
        }
        count = base_min(count, MAX_SEGMENTS / 2 - model.num_lengths);
        for (size_t j = 0; j < count; j++) {
            model.lengths[model.num_lengths++] = length;
        }
    }
}

/* The sender has its own segments. The receiver has any split with enough
 * room. */
static void make_memory(bool is_cut_alike)
{
    size_t left  = 0;
    char  *place = model.arena;

    for (size_t i = 0; i < model.num_lengths; i++) {
        left += model.lengths[i];
    }
    if ((model.pieces_length != 0) && is_cut_alike) {
        model.pieces_length = model.lengths[0];
    } else if (model.pieces_length != 0) {
        size_t length = random_length();

        model.pieces_length = base_max(length, left / 9999 + 1);
    }
    model.num_segments = 0;
    while (is_cut_alike ? (model.num_segments < model.num_lengths)
                        : (left > 0)) {
        size_t i      = model.num_segments++;
        size_t length = is_cut_alike ? model.lengths[i] : random_length();

        if (model.pieces_length != 0) {
            length = model.pieces_length;
        } else if (i + 1 == MAX_SEGMENTS) {
            length = left;
        }
        place += random_below(3) == 0 ? random_below(40) : 0;
        model.segments[i] =
            (ucxpool_segment_t){(length == 0) ? NULL : place, length};
        place += length;
        left -= base_min(left, length);
    }
    ck_assert(place <= model.arena + ARENA_SIZE);
}

static void shuffle_memory(void)
{
    for (size_t i = 0; i < model.num_segments; i++) {
        size_t other = random_below(model.num_segments);
        void  *address;

        /* Swap only segments of one length, since others would not fit. */
        if (model.segments[i].length == model.segments[other].length) {
            address                       = model.segments[i].address;
            model.segments[i].address     = model.segments[other].address;
            model.segments[other].address = address;
        }
    }
}

/* A plan of segments, or for pieces only of their addresses. */
static void make_plan(void)
{
    stream_model_plan_any(&model.plan, model.runs, model.num_runs,
                          &model.totals, model.segments, model.num_segments,
                          model.pieces_length, model.pieces);
}

/* Of every three lists, one is made of pieces. */
static void make(uint64_t seed, bool has_long_runs, bool is_cut_alike)
{
    const bool         is_pieces = seed % 3 == 0;
    ucxpool_segment_t *list      = malloc(MAX_SEGMENTS * sizeof(*list));
    copy_memory_t      memory;

    model.random = seed * 4 + has_long_runs * 2 + is_cut_alike;
    for (size_t i = 0; i < ARENA_SIZE; i++) {
        model.arena[i] = (char)(i * 31 + i / 251);
    }
    memcpy(model.copy, model.arena, ARENA_SIZE);
    make_lengths(has_long_runs, is_pieces && is_cut_alike);
    model.pieces_length = is_pieces;
    make_memory(is_cut_alike);
    shuffle_memory();
    for (size_t i = 0; i < model.num_lengths; i++) {
        list[i] = (ucxpool_segment_t){model.arena, model.lengths[i]};
    }
    memory = copy_memory_of_segments(list, model.num_lengths);
    assert_ok(copy_lengths_count(&memory, model.runs, MAX_SEGMENTS,
                                 &model.num_runs, &model.totals));
    free(list);
    model.stream_size = stream_model_make(model.lengths, model.num_lengths,
                                          model.segments, model.stream);
    ck_assert_uint_eq(model.stream_size, model.totals.stream_size);
    make_plan();
}

/* Room for one entry, for some, for all. */
static size_t random_room(void)
{
    switch (random_below(3)) {
    case 0:
        return sizeof(copy_segment_t) * (1 + random_below(4));
    case 1:
        return sizeof(copy_segment_t) * (1 + random_below(300));
    default:
        return sizeof(model.entries);
    }
}

static size_t size_of_entry(copy_form_t form)
{
    return (form == COPY_UNIFORM) ? sizeof(uint64_t) : sizeof(copy_segment_t);
}

/* Let the kernel's C model process the list. */
static void copy(const copy_launch_t *launch, bool is_gather)
{
    uint32_t tile_size = (uint32_t)(COPY_UNIT * (1 + random_below(300)));
    size_t   num;

    if (launch->list.form == COPY_UNIFORM) {
        copy_twin_even(&launch->list, tile_size, is_gather);
        return;
    }
    num = copy_tiles_cut(&launch->list, tile_size, model.tiles, MAX_TILES);
    ck_assert_uint_le(num, MAX_TILES);
    copy_twin(num, model.tiles, model.entries, launch->list.form,
              launch->list.length, is_gather);
}

/* Returns how much of the range one launch covered. */
static size_t launch(size_t offset, size_t length, bool is_gather)
{
    size_t        room = random_room();
    size_t        clip = base_min(length, model.stream_size - offset);
    copy_launch_t launch;

    memset(model.entries, 0xff, base_min(room + 64, sizeof(model.entries)));
    copy_launch_fill(&model.plan, offset, length, is_gather, model.entries,
                     room, &launch);
    ck_assert_uint_gt(launch.covered, 0);
    ck_assert_uint_le(launch.covered, clip);
    ck_assert((launch.covered % COPY_ALIGNMENT == 0) ||
              (launch.covered == clip) || (launch.list.form == COPY_EXACT));
    ck_assert_uint_le(launch.list.num_entries * size_of_entry(launch.list.form),
                      room);
    model.num_forms[launch.list.form]++;
    memset(model.block, POISON, launch.covered + 64);
    launch.list.stream = (uintptr_t)model.block;
    if (!is_gather) {
        for (size_t i = 0; i < launch.covered; i++) {
            model.block[i] = (char)random_below(256);
            if (model.stream[offset + i] != NULL) {
                model.copy[model.stream[offset + i] - model.arena] =
                    model.block[i];
            }
        }
        copy(&launch, false);
        return launch.covered;
    }
    memset(model.expected, POISON, launch.covered + 64);
    for (size_t i = 0; i < launch.covered; i++) {
        const char *byte  = model.stream[offset + i];
        model.expected[i] = (byte == NULL) ? 0 : *byte;
    }
    copy(&launch, true);
    if (memcmp(model.block, model.expected, launch.covered + 64) != 0) {
        ck_abort_msg("gather of [%zu, +%zu) by form %d differs", offset,
                     (size_t)launch.covered, (int)launch.list.form);
    }
    return launch.covered;
}

static size_t whole_units(size_t length)
{
    return length & ~(size_t)(COPY_ALIGNMENT - 1);
}

/* The whole stream, in fragment-sized ranges, each with as many launches as it
 * needs. */
static void copy_all(bool is_gather)
{
    size_t range = COPY_ALIGNMENT * (1 + random_below(40000));
    size_t end, offset = 0;

    while (offset < model.stream_size) {
        end = base_min(offset + range, model.stream_size);
        while (offset < end) {
            offset += launch(offset, end - offset, is_gather);
        }
    }
}

static void check_arena(void)
{
    ck_assert(memcmp(model.copy, model.arena, ARENA_SIZE) == 0);
}

/* Loop over the shapes: long runs or not, memory split the same way or not. */
#define NUM_SHAPES 4

TEST_SETTINGS(.timeout = 300);

TEST_EACH(whole_stream_is_gathered_and_scattered, NUM_SHAPES)
{
    for (unsigned i = 0; i < rounds(60); i++) {
        make(i, (_i & 1) != 0, (_i & 2) != 0);
        copy_all(true);
        check_arena();
        copy_all(false);
        check_arena();
    }
    ck_assert_uint_gt(model.num_forms[(_i & 2) ? COPY_SEGMENTS : COPY_EXACT],
                      0);
    if (_i == 3) {
        ck_assert_uint_gt(model.num_forms[COPY_UNIFORM], 0);
    }
}

TEST_EACH(range_may_start_and_end_anywhere, NUM_SHAPES)
{
    size_t offset, length;

    for (unsigned i = 0; i < rounds(60); i++) {
        make(i + 1000, (_i & 1) != 0, (_i & 2) != 0);
        for (int j = 0; (j < 100) && (model.stream_size > 0); j++) {
            offset = whole_units(random_below(model.stream_size));
            length = 1 + random_below(20000);
            if (offset + length < model.stream_size) {
                length = base_align_up(length, COPY_ALIGNMENT);
            }
            launch(offset, length, j % 2 == 0);
        }
        check_arena();
    }
}

/* A peer may claim anything about its fragments. */
TEST_EACH(scatter_of_any_range_stays_within_it, NUM_SHAPES)
{
    for (unsigned i = 0; i < rounds(60); i++) {
        make(i + 2000, (_i & 1) != 0, (_i & 2) != 0);
        for (int j = 0; (j < 100) && (model.stream_size > 0); j++) {
            launch(random_below(model.stream_size), 1 + random_below(9000),
                   false);
        }
        check_arena();
    }
}

/* Segments of one length in one list of a plan that is split the same way as
 * the stream. */
static void make_uniform(size_t count, size_t length)
{
    model.random      = count;
    model.num_lengths = count;
    for (size_t i = 0; i < count; i++) {
        model.lengths[i] = length;
    }
    model.num_segments  = 0;
    model.pieces_length = 0;
    make_memory(true);
    model.stream_size = stream_model_make(model.lengths, model.num_lengths,
                                          model.segments, model.stream);
    model.num_runs    = 1;
    model.runs[0]     = (copy_run_t){length, count};
    assert_ok(copy_lengths_check(model.runs, 1, &model.totals));
    make_plan();
}

TEST(many_segments_of_one_length_take_8_bytes_each)
{
    copy_launch_t launch;

    make_uniform(5000, 100);
    copy_launch_fill(&model.plan, 0, model.stream_size, true, model.entries,
                     sizeof(model.entries), &launch);
    ck_assert_int_eq(launch.list.form, COPY_UNIFORM);
    ck_assert_uint_eq(launch.list.num_entries, 5000);
    ck_assert_uint_eq(launch.list.length, 100);
    ck_assert_uint_eq(launch.covered, model.stream_size);
    /* Half of the space of 16-byte entries is enough. */
    copy_launch_fill(&model.plan, 0, model.stream_size, true, model.entries,
                     5000 * sizeof(uint64_t), &launch);
    ck_assert_uint_eq(launch.covered, model.stream_size);
}

TEST(many_pieces_use_a_list_of_addresses)
{
    copy_launch_t launch;

    make_uniform(5000, 100);
    model.pieces_length = 100;
    make_plan();
    assert_ok(copy_launch_fill(&model.plan, 0, model.stream_size, true,
                               model.entries, sizeof(model.entries), &launch));
    ck_assert_int_eq(launch.list.form, COPY_UNIFORM);
    ck_assert_uint_eq(launch.list.num_entries, 5000);
    ck_assert_uint_eq(launch.covered, model.stream_size);
    ck_assert_mem_eq(model.entries, model.pieces, 5000 * sizeof(void *));
}

/* Of pieces, and of segments of one length. */
TEST_EACH(many_pinned_entries_are_used_as_the_list, 2)
{
    const bool    is_pieces = _i == 0;
    const size_t  rest      = 112 * (is_pieces ? 5 : 990);
    copy_launch_t launch;

    make_uniform(6000, 100);
    model.pieces_length = is_pieces ? 100 : 0;
    make_plan();
    model.plan.memory.is_pinned = true;
    model.plan.memory.length    = 100;
    memset(model.entries, 0xff, sizeof(model.entries));
    assert_ok(copy_launch_fill(&model.plan, 112 * 10, 112 * 5000, true,
                               model.entries, 64, &launch));
    ck_assert_int_eq(launch.list.form,
                     is_pieces ? COPY_UNIFORM : COPY_EVEN_SEGMENTS);
    ck_assert_ptr_eq(launch.list.entries, is_pieces
                                              ? (void *)&model.pieces[10]
                                              : (void *)&model.segments[10]);
    ck_assert_uint_eq(launch.list.num_entries, 5000);
    ck_assert_uint_eq(launch.list.length, 100);
    ck_assert_uint_eq(launch.first, 10);
    ck_assert_uint_eq(launch.covered, 112 * 5000);
    /* The remainder is short, and its addresses are copied. */
    assert_ok(copy_launch_fill(&model.plan, 112 * 5010, rest, true,
                               model.entries, sizeof(model.entries), &launch));
    ck_assert_int_eq(launch.list.form, COPY_UNIFORM);
    ck_assert_ptr_eq(launch.list.entries, model.entries);
    /* The last segment of the stream is not padded. */
    ck_assert_uint_eq(launch.covered, is_pieces ? rest : rest - 12);
}

/* Requires that the NULL piece is found among 5000 when the stream has segments
 * of this length. */
static void check_null_is_found(size_t piece, size_t sent_length)
{
    copy_memory_t    memory = copy_memory_of_pieces(model.pieces, 5000, 100);
    copy_run_t       run    = {sent_length, 500000 / sent_length};
    size_t           offset = 0;
    copy_launch_t    launch;
    char             name[32];
    ucxpool_status_t status;

    make_uniform(5000, 100);
    model.pieces_length = 100;
    make_plan();
    model.pieces[piece] = NULL;
    assert_ok(copy_lengths_check(&run, 1, &model.totals));
    copy_plan_init(&model.plan, &run, 1, &model.totals, &memory);
    do {
        ck_assert_uint_lt(offset, model.totals.stream_size);
        status =
            copy_launch_fill(&model.plan, offset, 40000, false, model.entries,
                             sizeof(model.entries), &launch);
        offset += launch.covered;
    } while (status == UCXPOOL_OK);
    ck_assert_int_eq(status, UCXPOOL_ERR_INVALID_PARAM);
    snprintf(name, sizeof(name), "piece %zu ", piece);
    assert_detail(name);
}

TEST(piece_without_an_address_is_reported)
{
    static const size_t lengths[] = {100, 10, 1000, 125, 500000};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        check_null_is_found(0, lengths[i]);
        check_null_is_found(2501, lengths[i]);
        check_null_is_found(4999, lengths[i]);
    }
}

TEST(range_past_the_end_gives_an_empty_list)
{
    copy_launch_t launch;

    make_uniform(3, 100);
    copy_launch_fill(&model.plan, model.stream_size, 100, true, model.entries,
                     sizeof(model.entries), &launch);
    ck_assert_uint_eq(launch.covered, 0);
    ck_assert_uint_eq(launch.list.num_entries, 0);
    copy_launch_fill(&model.plan, 0, 0, true, model.entries,
                     sizeof(model.entries), &launch);
    ck_assert_uint_eq(launch.covered, 0);
}

/* The addresses need not be mapped, since this test never accesses them. */
TEST(one_launch_stays_within_its_integer_limits)
{
    ucxpool_segment_t segment = {(void *)(uintptr_t)0x100000000u,
                                 (size_t)10 << 30};
    uint64_t          offset  = 0;
    unsigned          count   = 0;
    copy_launch_t     launch;
    copy_run_t        run = {segment.length, 1};

    assert_ok(copy_lengths_check(&run, 1, &model.totals));
    stream_model_plan(&model.plan, &run, 1, &model.totals, &segment, 1);
    while (offset < segment.length) {
        copy_launch_fill(&model.plan, offset, segment.length - offset, true,
                         model.entries, 64, &launch);
        ck_assert_uint_le(launch.covered, UINT32_MAX);
        ck_assert_uint_eq(((copy_segment_t *)(void *)model.entries)->address,
                          0x100000000u + offset);
        offset += launch.covered;
        count++;
    }
    ck_assert_uint_eq(offset, segment.length);
    ck_assert_uint_le(count, 16);
}
