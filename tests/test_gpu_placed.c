/*
 * Messages that lie in a window of the sender's, between pools on GPUs in two
 * processes: the child sends, the parent receives.
 */
#include "copy/engine.h"
#include "core/pool.h"
#include "core/request.h"
#include "slow.h"

#include "two_gpu.h"

#include "base/math.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SIZE   ((size_t)6 << 20)
#define MAX    ((size_t)4000)
#define TAG    UINT64_C(5)
#define MINUTE UINT64_C(60000000000)

typedef enum where { ON_GPU, HEAP, PINNED, PAGEABLE } where_t;

/* Which messages are placed: not those of many short pieces, but if demanded.
 */
typedef enum placed { NONE, MOST, ALL } placed_t;

static const struct {
    const char *settings;
    where_t     window; /* the sender's memory */
    where_t     ours;   /* the receiver's */
    bool        is_adopted;
    placed_t    placed;
} kinds[] = {
    {"CUDA_BACKING=alloc WIRE=map", ON_GPU, ON_GPU, true, MOST},
    {"CUDA_BACKING=vmm WIRE=map", ON_GPU, ON_GPU, true, MOST},
    {"CUDA_BACKING=vmm WIRE=map", HEAP, ON_GPU, true, MOST},
    {"CUDA_BACKING=vmm WIRE=map", HEAP, HEAP, true, MOST},
    {"CUDA_BACKING=alloc WIRE=map", ON_GPU, PINNED, true, MOST},
    {"CUDA_BACKING=alloc WIRE=map", ON_GPU, PAGEABLE, true, NONE},
    {"CUDA_BACKING=alloc WIRE=map", PINNED, ON_GPU, false, NONE},
    {"CUDA_BACKING=alloc WIRE=map", PAGEABLE, ON_GPU, false, NONE},
    {"CUDA_BACKING=alloc WIRE=map WINDOW_WAY=messages", ON_GPU, ON_GPU, false,
     NONE},
    {"CUDA_BACKING=alloc WIRE=ucx", ON_GPU, ON_GPU, false, NONE},
    {"CUDA_BACKING=alloc WIRE=map WINDOW_WAY=direct", ON_GPU, ON_GPU, true,
     ALL},
};
#define NUM_KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

static two_t             two;
static ucxpool_window_t *window;
static where_t           where;  /* of our memory */
static uint8_t          *memory; /* SIZE bytes */
static uint8_t          *bytes;  /* the same, in host memory */

static uint8_t *heap_get(size_t size)
{
    void *address;

    two_check(ucxpool_heap_alloc(two.pool, size, NULL, &address) == UCXPOOL_OK);
    return address;
}

static bool is_on_gpu(void)
{
    return (where == ON_GPU) || (where == HEAP);
}

static uint8_t *get_memory(size_t size)
{
    switch (where) {
    case ON_GPU:
        return gpu_alloc(size);
    case HEAP:
        return heap_get(size);
    case PINNED:
        return gpu_pinned(size);
    default:
        return malloc(size);
    }
}

static void free_memory(void)
{
    if (where == ON_GPU) {
        gpu_free(memory);
    } else if (where == HEAP) {
        two_check(ucxpool_heap_free(two.pool, memory, NULL) == UCXPOOL_OK);
    } else if (where == PINNED) {
        gpu_pinned_free(memory);
    } else {
        free(memory);
    }
    free(bytes);
}

static void put(void)
{
    if (is_on_gpu()) {
        gpu_write(memory, bytes, SIZE);
    } else {
        memcpy(memory, bytes, SIZE);
    }
}

static void get(void)
{
    if (is_on_gpu()) {
        gpu_read(bytes, memory, SIZE);
    } else {
        memcpy(bytes, memory, SIZE);
    }
}

/* What both know without telling. */
static void fill(uint8_t *at, unsigned seed)
{
    for (size_t i = 0; i < SIZE; i++) {
        seed  = seed * 1664525u + 1013904223u;
        at[i] = (uint8_t)(seed >> 24);
    }
}

/* --- the bytes of one message ---------------------------------------------
 * Pieces in any order, the same list on both sides.
 */

static size_t            offsets[MAX];
static size_t            lengths[MAX];
static ucxpool_segment_t segments[MAX * 3];
static void             *pieces[MAX];

typedef struct work {
    size_t num, longest;
    bool   is_even;
    bool   is_cut; /* the receiver's otherwise than the sender's */
} work_t;

static const work_t works[] = {
    {1, SIZE - 1, false, false}, {1, SIZE - 1, false, true},
    {3, 1 << 20, false, true},   {100, 50000, false, true},
    {MAX, 256, false, true},     {MAX, 1500, false, false},
    {MAX, 1024, true, false},    {300, 20000, true, false},
    {300, 20000, true, true},
};
#define NUM_WORKS (sizeof(works) / sizeof(works[0]))

static size_t make_pieces(const work_t *work)
{
    size_t room  = SIZE / work->num;
    size_t total = 0;

    for (size_t i = 0; i < work->num; i++) {
        size_t slot = (i * 7919) % work->num;

        lengths[i] = work->is_even
                         ? work->longest
                         : 1 + (size_t)rand() % base_min(work->longest, room);
        offsets[i] = slot * room;
        total += lengths[i];
    }
    return total;
}

static ucxpool_data_t sent_data(const work_t *work)
{
    for (size_t i = 0; i < work->num; i++) {
        segments[i] = (ucxpool_segment_t){memory + offsets[i], lengths[i]};
        pieces[i]   = memory + offsets[i];
    }
    return work->is_even ? ucxpool_data_pieces(pieces, work->num, work->longest)
                         : ucxpool_data_segments(segments, work->num);
}

/* All of it in one, or cut otherwise, or in pieces of the same length. */
static ucxpool_data_t received_data(const work_t *work, size_t total)
{
    uint8_t *at  = memory;
    size_t   num = 0;

    if (work->is_even && !work->is_cut) {
        for (size_t i = 0; i < work->num; i++) {
            pieces[i] = memory + i * work->longest;
        }
        return ucxpool_data_pieces(pieces, work->num, work->longest);
    }
    if (!work->is_cut) {
        return ucxpool_data_buffer(memory, total);
    }
    while (total != 0) {
        size_t part = 1 + (size_t)rand() % (work->longest * 2);

        part            = base_min(part, total);
        part            = (num + 1 == MAX * 3) ? total : part;
        segments[num++] = (ucxpool_segment_t){at, part};
        at += part;
        total -= part;
    }
    return ucxpool_data_segments(segments, num);
}

static void check_received(const work_t *work, const uint8_t *right)
{
    size_t at = 0;

    get();
    for (size_t i = 0; i < work->num; i++) {
        two_check(memcmp(bytes + at, right + offsets[i], lengths[i]) == 0);
        at += lengths[i];
    }
}

/* --- both sides ----------------------------------------------------------- */

static void begin(int kind)
{
    /* Copies take their time, as a GPU's do. */
    setenv("CUDA_STAND_IN", "run=late", 1);
    srand((unsigned)kind + 1);
    two_gpu_start(&two, kinds[kind].settings);
    where  = two.is_child ? kinds[kind].window : kinds[kind].ours;
    memory = get_memory(SIZE);
    bytes  = malloc(SIZE);
    fill(bytes, two.is_child ? 1 : 2);
    put();
    if (two.is_child) {
        two_check(ucxpool_window_create(two.pool, memory, SIZE, NULL,
                                        &window) == UCXPOOL_OK);
    }
}

static void end(void)
{
    if (two.is_child) {
        pair_destroy_window(window);
    }
    two_settle(&two);
    free_memory();
    mem_cuda_device_close(gpu);
    two_cleanup(&two);
}

static ucxpool_request_t *post(const ucxpool_data_t           *data,
                               const ucxpool_request_params_t *params)
{
    ucxpool_request_t *request;

    two_check((two.is_child
                   ? ucxpool_send(two.channel, data, TAG, params, &request)
                   : ucxpool_recv(two.pool, two.channel, data, TAG, UINT64_MAX,
                                  params, &request)) == UCXPOOL_OK);
    return request;
}

/* The first message offers the window, and goes by blocks. */
static void warm(int kind)
{
    ucxpool_window_attr_t attr = {.num_pulling = 0};
    ucxpool_data_t        data = ucxpool_data_buffer(memory, 100000);

    two_check(two_finish(&two, post(&data, NULL)) == UCXPOOL_OK);
    while (two.is_child && kinds[kind].is_adopted && (attr.num_pulling == 0)) {
        ucxpool_progress(two.pool);
        ucxpool_window_query(window, &attr, sizeof(attr));
    }
    if (two.is_child) {
        two_say(&two);
    } else {
        two_hear(&two);
    }
}

static size_t num_placed(placed_t which)
{
    size_t num = 0;

    for (size_t i = 0; i < NUM_WORKS; i++) {
        num += ((which == ALL) || ((which == MOST) && (works[i].num != MAX)))
                   ? 1
                   : 0;
    }
    return num;
}

START_TEST(every_byte_is_pulled)
{
    uint8_t *right = malloc(SIZE);

    begin(_i);
    fill(right, 1);
    warm(_i);
    for (size_t i = 0; i < NUM_WORKS; i++) {
        size_t         total;
        ucxpool_data_t data;

        srand((unsigned)i);
        total = make_pieces(&works[i]);
        if (!two.is_child) {
            memset(bytes, 0xfe, SIZE);
            put();
        }
        data = two.is_child ? sent_data(&works[i])
                            : received_data(&works[i], total);
        two_check(two_finish(&two, post(&data, NULL)) == UCXPOOL_OK);
        if (!two.is_child) {
            check_received(&works[i], right);
        }
    }
    two_check(two_count(&two, two.is_child ? "sent_map_placed_fragments"
                                           : "received_map_placed_fragments") ==
              num_placed(kinds[_i].placed));
    end();
    free(right);
}
END_TEST

/* --- the callers' streams ------------------------------------------------- */

/* What would be done by then if nothing waited. */
#define TURNS  20
#define ROUNDS 100

/* The child's message, or the parent's receive, which its stream holds up. */
static ucxpool_request_t *post_behind(CUstream stream, uint8_t *staged)
{
    const ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_STREAM,
        .stream     = stream,
    };
    ucxpool_data_t data = ucxpool_data_buffer(memory, SIZE);

    if (two.is_child) {
        fill(staged, 77);
        gpu_copy(stream, memory, staged, SIZE);
    } else {
        /* What the stream still reads of the target. */
        get();
        gpu_copy(stream, staged, memory, SIZE);
    }
    return post(&data, &params);
}

/* Until it is seen that the stream has come to the request. */
static void await_stream(const ucxpool_request_t *request)
{
    uint64_t late = pair_deadline();

    while (request->stream.marker != NULL) {
        ucxpool_progress(two.pool);
        two_check(!pair_is_late(late));
    }
}

/* Nothing ends, though both sides progress in turns. The GPU takes as long as
 * it likes: a copy that was launched too early is waited for. */
static void require_held(const ucxpool_request_t *request)
{
    for (int i = 0; i < TURNS; i++) {
        for (int j = 0; j < ROUNDS; j++) {
            ucxpool_progress(two.pool);
        }
        copy_engine_wait(two.pool->engine);
        two_say(&two);
        two_hear(&two);
    }
    two_check(!pair_ended(request));
}

/* The child's stream goes on first, or the parent's; the other's alone still
 * holds the message up. */
START_TEST(a_message_is_pulled_when_both_streams_are_there)
{
    ucxpool_request_t *request;
    gpu_gate_t         gate;
    CUstream           stream;
    uint8_t           *staged;

    begin(0);
    warm(0);
    stream = gpu_stream(CU_STREAM_NON_BLOCKING);
    staged = gpu_pinned(SIZE);
    gpu_gate_init(&gate);
    gpu_gate_wait(&gate, stream);
    request = post_behind(stream, staged);
    require_held(request);
    if (two.is_child == (_i == 0)) {
        __atomic_store_n(gate.word, 1, __ATOMIC_RELEASE);
        await_stream(request);
        require_held(request);
    } else {
        require_held(request);
        __atomic_store_n(gate.word, 1, __ATOMIC_RELEASE);
    }
    two_check(two_finish(&two, request) == UCXPOOL_OK);
    if (!two.is_child) {
        two_check(memcmp(staged, bytes, SIZE) == 0);
        get();
        fill(staged, 77);
        two_check(memcmp(staged, bytes, SIZE) == 0);
    }
    two_check(two_count(&two, two.is_child
                                  ? "sent_map_placed_fragments"
                                  : "received_map_placed_fragments") == 1);
    gpu_stream_wait(stream);
    gpu_gate_cleanup(&gate);
    gpu_stream_destroy(stream);
    gpu_pinned_free(staged);
    end();
}
END_TEST

/* --- ended early ---------------------------------------------------------- */

START_TEST(one_that_is_canceled_leaves_nothing)
{
    const work_t       work = {MAX, 1024, true, false};
    bool               cancels;
    int                num = slow_is() ? 5 : 40;
    ucxpool_data_t     data;
    ucxpool_request_t *request;

    begin(0);
    warm(0);
    make_pieces(&work);
    data    = two.is_child ? sent_data(&work) : received_data(&work, 0);
    cancels = two.is_child == (_i == 0);
    for (int i = 0; i < num; i++) {
        request = post(&data, NULL);
        two_progress(&two, rand() % 60);
        /* The other one's may wait for what has been canceled. */
        if (!cancels) {
            two_hear(&two);
        }
        ucxpool_request_cancel(request);
        two_check(two_is_early(two_finish(&two, request)));
        two_say(&two);
        if (cancels) {
            two_hear(&two);
        }
    }
    end();
}
END_TEST

/* The sender's window goes while messages out of it are under way. */
START_TEST(a_send_outlives_its_window)
{
    const work_t       work = {MAX, 1024, true, false};
    ucxpool_data_t     data;
    ucxpool_request_t *requests[6];
    uint8_t           *right = malloc(SIZE);

    begin(0);
    fill(right, 1);
    warm(0);
    srand((unsigned)_i);
    make_pieces(&work);
    data = two.is_child ? sent_data(&work) : received_data(&work, 0);
    for (int i = 0; i < 6; i++) {
        requests[i] = post(&data, NULL);
    }
    two_progress(&two, rand() % 300);
    if (two.is_child) {
        two_check(ucxpool_window_revoke(window, MINUTE) == UCXPOOL_OK);
    }
    for (int i = 0; i < 6; i++) {
        two_check(two_finish(&two, requests[i]) == UCXPOOL_OK);
    }
    if (!two.is_child) {
        check_received(&work, right);
    }
    end();
    free(right);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("gpu_placed");
    TCase *tcase = tcase_create("stand-in or real");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, every_byte_is_pulled, 0, NUM_KINDS);
    tcase_add_loop_test(tcase, a_message_is_pulled_when_both_streams_are_there,
                        0, 2);
    tcase_add_loop_test(tcase, one_that_is_canceled_leaves_nothing, 0, 2);
    tcase_add_loop_test(tcase, a_send_outlives_its_window, 0, 5);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return cuda_main(suite());
}
