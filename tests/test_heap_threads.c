/*
 * The heap used by threads that allocate from their streams' own pages: small
 * and medium allocations, on memory that tracks its users (vmm_double.h).
 */
#include "heap_fixture.h"
#include "rounds.h"
#include "test.h"

#include "core/stats.h"

#include <string.h>

/* In a heap of PLENTY bytes, a stream may have this many in its pages. */
#define PLENTY      (16 * GIB)
#define MAX_MEDIUMS 32

static void start(bool has_streams, size_t limit)
{
    start_with(has_streams, limit, limit);
    test_at_end(stop);
}

TEST_SETTINGS(.timeout = 120);

TEST(medium_allocations_share_a_page)
{
    char *first, *second, *third;

    start(true, PLENTY);
    first  = get(600 * KIB, A);
    second = get(700 * KIB, A);
    third  = get(256, A);
    ck_assert_ptr_eq(second, first + 600 * KIB);
    ck_assert_ptr_eq(third, second + 700 * KIB);
    ck_assert_uint_eq(stats().reserved, 2 * MIB);
}

TEST(allocations_beyond_the_medium_limit_waste_no_pages)
{
    start(true, PLENTY);
    for (size_t i = 0; i < 4 * MAX_MEDIUMS; i++) {
        (void)get(700 * KIB, A);
    }
    /* Two per page, and one after the other. */
    ck_assert_uint_le(stats().reserved, MAX_MEDIUMS * MIB +
                                            3 * MAX_MEDIUMS * 700 * KIB +
                                            2 * MIB);
}

TEST_EACH(freed_medium_allocation_makes_room_for_another, 2)
{
    start(true, PLENTY);
    for (size_t i = 0; i < 2 * MAX_MEDIUMS; i++) {
        put(get(600 * KIB, A), (_i == 0) ? A : B);
    }
    ck_assert_uint_eq(vmm_double_held(vmm), 2 * MIB);
}

TEST(medium_allocations_fill_a_heap_to_its_limit)
{
    size_t size = 0;
    void  *address;

    start(true, 512 * MIB);
    while (heap_alloc(heap, 700 * KIB, A, &address) == UCXPOOL_OK) {
        size += 700 * KIB;
    }
    ck_assert_uint_ge(size, 510 * MIB);
}

TEST(medium_allocations_work_without_new_driver_memory)
{
    void *address;

    start(true, PLENTY);
    vmm_double_limit(vmm, 4 * MIB);
    (void)get(700 * KIB, A);
    assert_error(heap_alloc(heap, 5 * MIB, A, &address), NO_MEMORY);
    (void)get(600 * KIB, A);
    ck_assert_uint_eq(vmm_double_held(vmm), 4 * MIB);
}

TEST(memory_kept_for_quick_reuse_is_bounded)
{
    void *live[MAX_MEDIUMS];

    start(true, PLENTY);
    for (size_t round = 0; round < 50; round++) {
        size_t size = 300 * KIB + round * 8 * KIB;

        for (size_t i = 0; i < MAX_MEDIUMS; i++) {
            live[i] = get(size, A);
        }
        for (size_t i = 0; i < MAX_MEDIUMS; i++) {
            put(live[i], A);
        }
    }
    /* All that are live at a time, two per page, plus a quarter. */
    ck_assert_uint_le(vmm_double_held(vmm), 40 * MIB);
}

TEST(medium_allocations_freed_elsewhere_return_to_their_pages)
{
    void *live[MAX_MEDIUMS];

    start(true, PLENTY);
    for (size_t round = 0; round < 20; round++) {
        for (size_t i = 0; i < MAX_MEDIUMS; i++) {
            live[i] = get(600 * KIB, A);
            vmm_double_post(vmm, A, live[i], 600 * KIB, NULL, NULL);
        }
        vmm_double_sync(vmm, A);
        for (size_t i = 0; i < MAX_MEDIUMS; i++) {
            vmm_double_post(vmm, B, live[i], 600 * KIB, NULL, NULL);
            put(live[i], B);
        }
    }
    ck_assert_uint_le(vmm_double_held(vmm), 2 * MAX_MEDIUMS * MIB);
}

TEST_EACH(medium_allocation_is_freed_once_by_its_start, 3)
{
    char *address;

    start(_i != 0, PLENTY);
    address = get(600 * KIB, A);
    assert_error(heap_free(heap, address + 256, A), INVALID_PARAM);
    assert_error(heap_free(heap, address + 600 * KIB, A), INVALID_PARAM);
    put(address, (_i == 2) ? B : A);
    assert_error(heap_free(heap, address, A), INVALID_PARAM);
    assert_error(heap_free(heap, address, B), INVALID_PARAM);
    ck_assert_uint_eq(stats().num_live, 0);
}

/* Each driver call fails in turn; the heap finds other memory. */
TEST_EACH(without_a_page_the_allocation_uses_other_memory, 2)
{
    bool     has_failed = true;
    unsigned n;

    for (n = 1; has_failed; n++) {
        void            *address;
        ucxpool_status_t status;

        start(true, PLENTY);
        vmm_double_fail(vmm, VMM_LAST, n,
                        (_i == 0) ? UCXPOOL_ERR_NO_MEMORY : UCXPOOL_ERR_IO);
        status     = heap_alloc(heap, 600 * KIB, A, &address);
        has_failed = vmm_double_has_failed(vmm);
        assert_ok(status);
        ck_assert_uint_eq(stats().reserved, vmm_double_held(vmm));
        put(address, A);
        (void)get(600 * KIB, A);
        test_end();
    }
    ck_assert_uint_gt(n, 2);
}

/* --- threads -------------------------------------------------------------- */

#define NUM_THREADS 8
#define NUM_LIVE    16
#define NUM_BOARD   16

typedef struct live {
    char  *address;
    size_t size;
    char   pattern;
    void  *stream; /* for which it was allocated */
} live_t;

/* Allocations that one thread makes and another frees. */
static struct {
    pthread_mutex_t lock;
    live_t          live[NUM_BOARD];
} board = {.lock = PTHREAD_MUTEX_INITIALIZER};

typedef struct worker {
    unsigned number;
    bool     shares; /* shares two streams with other threads */
    bool     strays; /* also frees in other streams */
    uint64_t state;
} worker_t;

static unsigned draw(worker_t *worker, unsigned below)
{
    worker->state = worker->state * UINT64_C(6364136223846793005) +
                    UINT64_C(1442695040888963407);
    return (unsigned)((worker->state >> 33) % below);
}

static void *stream_number(unsigned number)
{
    return (void *)(uintptr_t)(16 * (number + 1));
}

static void *own_stream(const worker_t *worker)
{
    return stream_number(worker->shares ? worker->number % 2 : worker->number);
}

static void fill(const live_t *live)
{
    for (size_t at = 0; at < live->size; at += 4096) {
        live->address[at] = live->pattern;
    }
    live->address[live->size - 1] = live->pattern;
}

static void verify(const live_t *live)
{
    for (size_t at = 0; at < live->size; at += 4096) {
        ck_assert_int_eq(live->address[at], live->pattern);
    }
    ck_assert_int_eq(live->address[live->size - 1], live->pattern);
}

static void begin(worker_t *worker, live_t *live)
{
    /* 256 bytes to 1.5 MiB, log-uniform. */
    unsigned top = 8 + draw(worker, 13);

    live->size    = ((size_t)1 << top) + draw(worker, 1u << (top - 1));
    live->stream  = own_stream(worker);
    live->pattern = (char)draw(worker, 256);
    live->address = get(live->size, live->stream);
    fill(live);
    if (!vmm->is_host && (draw(worker, 8) == 0)) {
        vmm_double_post(vmm, live->stream, live->address, live->size, NULL,
                        NULL);
        vmm_double_sync(vmm, live->stream);
    }
}

static void end(worker_t *worker, live_t *live)
{
    void *stream = live->stream;

    if (worker->strays && (draw(worker, 3) == 0)) {
        stream = stream_number(draw(worker, NUM_THREADS));
    }
    verify(live);
    put(live->address, stream);
    live->address = NULL;
}

/* Swap an allocation with one that another thread left on the board. */
static void exchange(worker_t *worker, live_t *live)
{
    unsigned place = draw(worker, NUM_BOARD);
    live_t   left;

    pthread_mutex_lock(&board.lock);
    left              = board.live[place];
    board.live[place] = *live;
    pthread_mutex_unlock(&board.lock);
    *live = left;
}

/* Does no other thread use the worker's stream? */
static bool is_alone(const worker_t *worker)
{
    return !worker->shares && !worker->strays;
}

static void *work(void *arg)
{
    worker_t *worker         = arg;
    live_t    live[NUM_LIVE] = {{.address = NULL}};

    for (unsigned i = 0; i < rounds(400); i++) {
        live_t *one = &live[draw(worker, NUM_LIVE)];

        if (is_alone(worker) && (draw(worker, 50) == 0)) {
            assert_ok(heap_stream_end(heap, own_stream(worker)));
        }
        if (one->address == NULL) {
            begin(worker, one);
        } else if (worker->strays && (draw(worker, 4) == 0)) {
            exchange(worker, one);
        } else {
            end(worker, one);
        }
    }
    for (unsigned i = 0; i < NUM_LIVE; i++) {
        if (live[i].address != NULL) {
            end(worker, &live[i]);
        }
    }
    return NULL;
}

static void clear_table(worker_t *worker)
{
    for (unsigned i = 0; i < NUM_BOARD; i++) {
        if (board.live[i].address != NULL) {
            end(worker, &board.live[i]);
        }
    }
}

static void run_threads(bool shares, bool strays)
{
    worker_t workers[NUM_THREADS];

    for (unsigned i = 0; i < NUM_THREADS; i++) {
        workers[i] = (worker_t){.number = i,
                                .shares = shares,
                                .strays = strays,
                                .state  = i * UINT64_C(0x9E3779B97F4A7C15)};
        test_thread(work, &workers[i]);
    }
    test_join(NUM_THREADS);
    clear_table(&workers[0]);
}

/* Loop: with and without streams; much and little memory; separate and shared
 * streams; freed in the same stream and in any. */
TEST_EACH(threads_keep_their_bytes, 16)
{
    heap_stats_t now;

    start((_i & 1) != 0, (_i & 2) != 0 ? 128 * MIB : PLENTY);
    run_threads((_i & 4) != 0, (_i & 8) != 0);
    now = stats();
    ck_assert_uint_eq(now.num_live, 0);
    ck_assert_uint_eq(now.live, 0);
    ck_assert_uint_eq(now.reserved, vmm_double_held(vmm));
    assert_ok(heap_trim(heap, 0, NULL));
    ck_assert_uint_eq(vmm_double_held(vmm), 0);
}

/* Large ones of one rounded size, which a stream keeps for quick reuse and
 * allocates and frees without the heap's lock. */
#define LARGE (3 * MIB)

static bool is_over; /* atomic */

static void *reuse(void *arg)
{
    worker_t *worker = arg;
    void     *stream = own_stream(worker);

    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        put(get(LARGE - draw(worker, 256), stream), stream);
    }
    return NULL;
}

/* Small allocations of a stream that other threads do not use. Walking them
 * takes long enough for the other threads to allocate. */
#define MANY 20000

TEST(statistics_work_while_threads_allocate)
{
    worker_t workers[2] = {{.number = 0}, {.number = 1}};

    start(true, PLENTY);
    for (unsigned i = 0; i < 2; i++) {
        put(get(LARGE, own_stream(&workers[i])), own_stream(&workers[i]));
    }
    for (unsigned i = 0; i < MANY; i++) {
        (void)get(256, stream_number(2));
    }
    for (unsigned i = 0; i < 2; i++) {
        test_thread(reuse, &workers[i]);
    }
    for (unsigned i = 0; i < rounds(200); i++) {
        heap_stats_t now = stats();

        ck_assert_uint_ge(now.num_live, MANY);
        ck_assert_uint_le(now.num_live, MANY + 2);
        ck_assert_uint_eq(now.live, MANY * 256 + (now.num_live - MANY) * LARGE);
        ck_assert_uint_le(now.asked, now.live);
        ck_assert_uint_le(now.live, now.asked + 2 * 255);
    }
    __atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
    test_join(2);
}
