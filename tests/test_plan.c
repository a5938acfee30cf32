/*
 * Plans, gather and scatter, tested against a model that knows the place of
 * each byte of the stream.
 */
#include "base/clock.h"
#include "base/math.h"
#include "copy/engine.h"
#include "copy/list.h"
#include "copy/plan.h"
#include "rounds.h"
#include "stream_model.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SEGMENTS 64
#define ARENA_SIZE   (64 * 1024)
#define NUM_LISTS    rounds(300)

/* One list of segments on each side, and the model of their streams. */
typedef struct model {
    uint64_t          random;
    size_t            num_lengths;
    size_t            lengths[MAX_SEGMENTS];
    size_t            num_runs;
    copy_run_t        runs[MAX_SEGMENTS];
    copy_totals_t     totals;
    size_t            num_segments;
    ucxpool_segment_t segments[4 * MAX_SEGMENTS];
    size_t            pieces_length; /* 0: the segments are not pieces */
    void             *pieces[4 * MAX_SEGMENTS];
    copy_plan_t       plan;
    char              arena[ARENA_SIZE];
    size_t            stream_size;
    char             *stream[ARENA_SIZE]; /* NULL where there is padding */
    char              block[ARENA_SIZE];
    char              expected[ARENA_SIZE];
    char              copy[ARENA_SIZE]; /* expected content of the arena */
} model_t;

static model_t model;

static size_t model_random(size_t limit)
{
    return stream_model_random(&model.random, limit);
}

static size_t model_random_length(void)
{
    static const size_t lengths[] = {0, 1, 7, 16, 17, 32, 48, 100, 256, 300};

    if (model_random(4) == 0) {
        return model_random(80);
    }
    return lengths[model_random(sizeof(lengths) / sizeof(lengths[0]))];
}

/* Lengths that often repeat. */
static void model_make_lengths(bool are_alike)
{
    ucxpool_segment_t list[MAX_SEGMENTS];
    copy_memory_t     memory;

    model.num_lengths = model_random(MAX_SEGMENTS + 1);
    for (size_t i = 0; i < model.num_lengths; i++) {
        model.lengths[i] = (i > 0) && (are_alike || (model_random(3) != 0))
                               ? model.lengths[i - 1]
                               : model_random_length();
        list[i].address  = model.arena;
        list[i].length   = model.lengths[i];
    }
    memory = copy_memory_of_segments(list, model.num_lengths);
    assert_ok(copy_lengths_count(&memory, model.runs, MAX_SEGMENTS,
                                 &model.num_runs, &model.totals));
}

/* Make memory of equal pieces, of the messages' length or of any length. */
static void model_choose_pieces(bool cut_as_lengths)
{
    size_t least  = model.totals.payload_size / (4 * MAX_SEGMENTS - 1) + 1;
    size_t length = model_random_length();

    model.pieces_length = cut_as_lengths && (model.num_lengths != 0)
                              ? model.lengths[0]
                              : base_max(length, least);
}

/* A memory length that is unrelated to those of the message. */
static size_t model_memory_length(void)
{
    return model.pieces_length != 0 ? model.pieces_length
                                    : model_random_length();
}

/* Memory with the message's lengths, or cut differently and with space left. */
static void model_make_memory(bool cut_as_lengths)
{
    size_t room  = 0;
    char  *place = model.arena;
    size_t i, other;

    for (i = 0; (i < 4 * MAX_SEGMENTS) &&
                (cut_as_lengths ? i < model.num_lengths
                                : room < model.totals.payload_size);
         i++) {
        model.segments[i].length =
            cut_as_lengths ? model.lengths[i] : model_memory_length();
        if ((i + 1 == 4 * MAX_SEGMENTS) && !cut_as_lengths &&
            (model.pieces_length == 0)) {
            model.segments[i].length = model.totals.payload_size - room;
        }
        room += model.segments[i].length;
    }
    model.num_segments = i;
    if (!cut_as_lengths && (model_random(2) == 0)) {
        model.num_segments = i < 4 * MAX_SEGMENTS ? i + 1 : i;
        if (model.num_segments > i) {
            model.segments[i].length = model_memory_length();
        }
    }
    for (i = 0; i < model.num_segments; i++) {
        model.segments[i].address =
            model.segments[i].length == 0 ? NULL : place;
        place += model.segments[i].length;
        place += model_random(2) == 0 ? 0 : model_random(40);
        if (place > model.arena + ARENA_SIZE) {
            ck_abort_msg("the arena is too small");
        }
    }
    /* Shuffled, but with some neighbours left adjacent. */
    for (i = 0; !cut_as_lengths && (i < model.num_segments / 4); i++) {
        ucxpool_segment_t swapped = model.segments[i];

        other                 = model_random(model.num_segments);
        model.segments[i]     = model.segments[other];
        model.segments[other] = swapped;
    }
}

/* One list in three is for pieces. */
static void model_make(uint64_t seed, bool cut_as_lengths)
{
    const bool is_pieces = seed % 3 == 0;

    model.random = seed * 2 + cut_as_lengths;
    for (size_t i = 0; i < ARENA_SIZE; i++) {
        model.arena[i] = (char)(i * 31 + i / 251);
    }
    memcpy(model.copy, model.arena, ARENA_SIZE);
    model_make_lengths(is_pieces && cut_as_lengths);
    model.pieces_length = 0;
    if (is_pieces) {
        model_choose_pieces(cut_as_lengths);
    }
    model_make_memory(cut_as_lengths);
    model.stream_size = stream_model_make(model.lengths, model.num_lengths,
                                          model.segments, model.stream);
    stream_model_plan_any(&model.plan, model.runs, model.num_runs,
                          &model.totals, model.segments, model.num_segments,
                          model.pieces_length, model.pieces);
}

static void model_gather(size_t offset, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char *byte = model.stream[offset + i];

        model.expected[i] = byte == NULL ? 0 : *byte;
    }
    model.expected[length] = 0x5a;
    memset(model.block, 0x5a, length + 1);
    copy_gather(&model.plan, offset, length, model.block);
    if (memcmp(model.expected, model.block, length + 1) != 0) {
        ck_abort_msg("gather of [%zu, +%zu) differs", offset, length);
    }
}

/* The model's bytes go to a copy of the arena that model_end() compares. */
static void model_scatter(size_t offset, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char *byte = model.stream[offset + i];

        model.block[i] = (char)model_random(256);
        if (byte != NULL) {
            model.copy[byte - model.arena] = model.block[i];
        }
    }
    copy_scatter(&model.plan, offset, length, model.block);
}

static void model_end(void)
{
    ck_assert_mem_eq(model.copy, model.arena, ARENA_SIZE);
}

static void model_extent(size_t offset, size_t length)
{
    char         *first = model.stream[offset];
    size_t        n     = 1;
    copy_extent_t extent;

    while ((n < length) && (offset + n < model.stream_size) &&
           (model.stream[offset + n] == (first == NULL ? NULL : first + n))) {
        n++;
    }
    copy_plan_extent(&model.plan, offset, length, &extent);
    if ((first != extent.address) || (n != extent.length)) {
        ck_abort_msg("extent of [%zu, +%zu) is %zu, not %zu bytes", offset,
                     length, (size_t)extent.length, n);
    }
}

typedef void (*model_action_t)(size_t offset, size_t length);

/* Each list, with both cuts, by fragments of one size, from first to last. */
static void model_in_order(model_action_t action)
{
    static const size_t sizes[] = {1, 3, 8, 16, 17, 64, 256, 1000, ARENA_SIZE};
    size_t              size;

    for (size_t i = 0; i < 2 * NUM_LISTS; i++) {
        model_make(i / 2, i % 2 == 0);
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            for (size_t at = 0; at < model.stream_size; at += size) {
                size = base_min(sizes[j], model.stream_size - at);
                action(at, size);
            }
        }
        model_end();
    }
}

static void model_any_order(model_action_t action)
{
    size_t offset, length;

    for (size_t i = 0; i < 2 * NUM_LISTS; i++) {
        model_make(i / 2, i % 2 == 0);
        for (size_t j = 0; (j < 200) && (model.stream_size > 0); j++) {
            offset = model_random(model.stream_size);
            length = 1 + model_random(model.stream_size - offset);
            action(offset, length);
        }
        model_end();
    }
}

TEST_SETTINGS(.timeout = 300);

TEST(the_stream_is_as_long_as_the_model_says)
{
    for (size_t i = 0; i < 2 * NUM_LISTS; i++) {
        model_make(i / 2, i % 2 == 0);
        ck_assert_uint_eq(model.stream_size, model.totals.stream_size);
    }
}

TEST(gather_in_order_copies_data_and_clears_padding)
{
    model_in_order(model_gather);
}

TEST(gather_accepts_ranges_in_any_order)
{
    model_any_order(model_gather);
}

TEST(scatter_in_order_writes_nothing_else)
{
    model_in_order(model_scatter);
}

TEST(scatter_accepts_ranges_in_any_order)
{
    model_any_order(model_scatter);
}

TEST(extents_are_maximal)
{
    model_in_order(model_extent);
    model_any_order(model_extent);
}

/* Follow a plan's extents and return how many there are. */
static size_t count_extents(copy_plan_t *plan, uint64_t *data_p)
{
    size_t        num_extents = 0;
    copy_extent_t extent;

    *data_p = 0;
    for (uint64_t at = 0; at < plan->totals.stream_size; at += extent.length) {
        copy_plan_extent(plan, at, plan->totals.stream_size - at, &extent);
        ck_assert_uint_gt(extent.length, 0);
        *data_p += extent.address != NULL ? extent.length : 0;
        num_extents++;
    }
    return num_extents;
}

/* Of the tests that follow. */
static copy_totals_t totals;
static copy_plan_t   plan;
static copy_extent_t extent;

static void make_plan(const copy_run_t *runs, size_t num_runs,
                      const ucxpool_segment_t *segments, size_t num_segments)
{
    assert_ok(copy_lengths_check(runs, num_runs, &totals));
    stream_model_plan(&plan, runs, num_runs, &totals, segments, num_segments);
}

static void make_plan_of(const copy_run_t *run, const copy_memory_t *memory)
{
    assert_ok(copy_lengths_check(run, 1, &totals));
    copy_plan_init(&plan, run, 1, &totals, memory);
}

static void *fake_address(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

TEST(segments_over_4_gib_are_located)
{
    const uint64_t    size       = ((uint64_t)5 << 30) + 3;
    ucxpool_segment_t segments[] = {{fake_address(1ull << 40), size},
                                    {NULL, 0},
                                    {fake_address(1ull << 41), size}};
    copy_memory_t     memory     = copy_memory_of_segments(segments, 3);
    copy_run_t        runs[3];
    size_t            num_runs;
    uint64_t          data;

    assert_ok(copy_lengths_count(&memory, runs, 3, &num_runs, &totals));
    ck_assert_uint_eq(2 * size, totals.payload_size);
    ck_assert_uint_eq(2 * size + 13, totals.stream_size);
    stream_model_plan(&plan, runs, num_runs, &totals, segments, 3);
    ck_assert_uint_eq(3, count_extents(&plan, &data));
    ck_assert_uint_eq(2 * size, data);

    copy_plan_extent(&plan, size + 13 + ((uint64_t)9 << 29), 4096, &extent);
    ck_assert_ptr_eq(fake_address((1ull << 41) + ((uint64_t)9 << 29)),
                     extent.address);
    ck_assert_uint_eq(4096, extent.length);
}

TEST(skipping_a_run_of_2_to_the_40_segments_takes_one_step)
{
    const copy_run_t  run        = {32, (uint64_t)1 << 40};
    ucxpool_segment_t segments[] = {{fake_address(4096), (size_t)1 << 46}};
    uint64_t          data;

    make_plan(&run, 1, segments, 1);
    ck_assert_uint_eq(1, count_extents(&plan, &data));
    ck_assert_uint_eq((uint64_t)1 << 45, data);
}

TEST(seeking_over_2_to_the_40_padded_segments_takes_constant_time)
{
    const uint64_t    count      = (uint64_t)1 << 40;
    const copy_run_t  runs[]     = {{0, count}, {17, count}, {5, 1}};
    ucxpool_segment_t segments[] = {{fake_address(4096), (size_t)1 << 46}};

    make_plan(runs, 3, segments, 1);
    copy_plan_extent(&plan, 32 * count, 100, &extent);
    ck_assert_ptr_eq(fake_address(4096 + 17 * count), extent.address);
    ck_assert_uint_eq(5, extent.length);
    copy_plan_extent(&plan, 32 * (count - 1) + 16, 100, &extent);
    ck_assert_ptr_eq(fake_address(4096 + 17 * count - 1), extent.address);
    ck_assert_uint_eq(1, extent.length);
    copy_plan_extent(&plan, 32 * (count - 1) + 17, 100, &extent);
    ck_assert_ptr_eq(NULL, extent.address);
    ck_assert_uint_eq(15, extent.length);
}

TEST(seeking_over_2_to_the_40_pieces_takes_constant_time)
{
    const uint64_t   count   = (uint64_t)1 << 40;
    const copy_run_t run     = {24, count};
    void            *first[] = {NULL};
    copy_memory_t    memory  = copy_memory_of_pieces(first, count, 24);

    make_plan_of(&run, &memory);
    ck_assert_uint_eq(8, copy_plan_padding(&plan, 32 * (count - 2) + 24));
    ck_assert_uint_eq(0, copy_plan_padding(&plan, 32 * (count - 1)));
    ck_assert_uint_eq(count - 1, plan.at.memory);
    ck_assert_uint_eq(0, copy_plan_padding(&plan, totals.stream_size));
}

TEST(a_piece_without_an_address_is_not_padding)
{
    const copy_run_t run      = {24, 3};
    void            *pieces[] = {model.arena, NULL, model.arena};
    copy_memory_t    memory   = copy_memory_of_pieces(pieces, 3, 24);

    make_plan_of(&run, &memory);
    copy_plan_extent(&plan, 32 + 8, 100, &extent);
    ck_assert_ptr_null(extent.address);
    ck_assert_uint_eq(16, extent.length);
    ck_assert_uint_eq(0, copy_plan_padding(&plan, 32 + 8));
}

TEST(empty_pieces_are_not_dereferenced)
{
    const copy_run_t run    = {0, 1000};
    void            *none[] = {NULL};
    copy_memory_t    memory = copy_memory_of_pieces(none, 1000, 0);

    make_plan_of(&run, &memory);
    copy_plan_extent(&plan, 0, 10, &extent);
    ck_assert_uint_eq(0, extent.length);
    copy_gather(&plan, 0, 0, NULL);
}

TEST(segments_adjacent_in_memory_and_stream_form_one_extent)
{
    ucxpool_segment_t segments[] = {
        {model.arena, 64}, {NULL, 0}, {model.arena + 64, 160}};
    const copy_run_t runs[] = {{32, 3}, {0, 5}, {128, 1}};

    make_plan(runs, 3, segments, 3);
    copy_plan_extent(&plan, 8, 1000, &extent);
    ck_assert_ptr_eq(model.arena + 8, extent.address);
    ck_assert_uint_eq(216, extent.length);
}

TEST(an_empty_message_has_no_extents_and_copies_nothing)
{
    const copy_run_t run  = {0, 7};
    char             byte = 1;

    totals = (copy_totals_t){0, 0, 0};
    stream_model_plan(&plan, NULL, 0, &totals, NULL, 0);
    copy_plan_extent(&plan, 0, 10, &extent);
    ck_assert_uint_eq(0, extent.length);
    copy_gather(&plan, 0, 0, NULL);

    make_plan(&run, 1, NULL, 0);
    copy_gather(&plan, 0, 0, &byte);
    copy_scatter(&plan, 0, 0, &byte);
    ck_assert_int_eq(1, byte);
}

/* A copy that completes in start() does not call its callback. */
static void never(copy_job_t *copy, ucxpool_status_t status)
{
    ck_abort_msg("told of %d", (int)status);
}

TEST(the_cpu_engine_copies_before_start_returns)
{
    char              memory[] = "0123456789abcdefghij";
    char              block[32];
    ucxpool_segment_t segments[] = {{memory, 5}, {memory + 10, 5}};
    const copy_run_t  run        = {5, 2};
    copy_job_t        copy       = {.done = never};
    uint64_t          covered    = 0;
    copy_engine_t    *engine;

    make_plan(&run, 1, segments, 2);
    assert_ok(copy_engine_create_host(&engine));
    copy_engine_enter(engine);
    assert_ok(copy_engine_start(
        engine, &copy,
        &(copy_work_t){
            .plan = &plan, .length = 1000, .block = block, .is_gather = true},
        &covered));
    ck_assert_uint_eq(covered, 21); /* the second segment begins at 16 */
    ck_assert_ptr_null(copy.job);
    ck_assert_mem_eq(block, "01234\0\0\0\0\0\0\0\0\0\0\0abcde", 21);

    memset(block, 'x', sizeof(block));
    assert_ok(copy_engine_start(
        engine, &copy,
        &(copy_work_t){
            .plan = &plan, .offset = 16, .block = block, .length = 3},
        &covered));
    ck_assert_uint_eq(covered, 3);
    ck_assert_str_eq(memory, "0123456789xxxdefghij");
    ck_assert_uint_eq(copy_engine_progress(engine), 0);
    ck_assert_uint_eq(copy_engine_deadline(engine), BASE_CLOCK_FOREVER);
    copy_engine_leave(engine);
    copy_engine_destroy(engine);
}
