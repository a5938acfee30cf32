/*
 * How fast the heap of a GPU is, through the public API, compared with the
 * driver's pool and plug-ins of ucxpool_replay (for example RMM's), on the same
 * GPU in one run; and how fast the memory is that the heap stitches. Prints
 * tables in Markdown.
 *
 * Not installed.
 *
 * usage: bench_heap_cuda [--quick] [[NAME=]PLUGIN.so]...
 *
 * --quick  Run little of everything; the figures are meaningless.
 */
#include "bench_mapped.h"
#include "bench_rivals.h"
#include "common/error.h"
#include "common/system.h"
#include "common/samples.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

#define RING      16   /* allocations held by a thread at a time */
#define NUM_SIZES 1024 /* different sizes, used cyclically */
#define WARM      100  /* pairs of calls before the measurement */
#define HOLE_SIZE KIB
#define REPEATS   3
#define STITCHES  5

static size_t sizes[NUM_SIZES];

/* --- a pair of calls ------------------------------------------------------ */

/* Allocate and free repeatedly, and record the times. */
static void time_pairs(allocator_t *with, size_t size, unsigned num,
                       cell_t cell)
{
    void     *stream = device.streams[0];
    samples_t times  = {0};
    cell_t    text;

    snprintf(cell, CELL_SIZE, "fails");
    for (unsigned i = 0; i < WARM + num; i++) {
        uint64_t start   = clock_now();
        void    *address = take(with, size, stream);

        if (address == NULL) {
            samples_cleanup(&times);
            return;
        }
        give(with, address, size, stream);
        if (i >= WARM) {
            samples_add(&times, (double)(clock_now() - start));
        }
    }
    snprintf(cell, CELL_SIZE, "%s",
             in_words((uint64_t)samples_quantile(&times, 0.5), text));
    snprintf(cell + strlen(cell), CELL_SIZE - strlen(cell), "; %s",
             in_words((uint64_t)samples_quantile(&times, 0.99), text));
    samples_cleanup(&times);
}

static void bench_pairs(void)
{
    static const struct {
        const char *name;
        size_t      size;
    } works[] = {{"1 KiB", KIB},         {"64 KiB", 64 * KIB},
                 {"1 MiB", MIB},         {"16 MiB", 16 * MIB},
                 {"256 MiB", 256 * MIB}, {"1 GiB", 1024 * MIB}};
    enum { NUM = sizeof(works) / sizeof(works[0]) };
    unsigned num_works = is_quick ? 4 : NUM;
    cell_t   cells[NUM][RIVALS_MAX];

    for (unsigned k = 0; k < num_rivals; k++) {
        allocator_t *with = make(rivals[k], 0);

        for (unsigned i = 0; i < num_works; i++) {
            time_pairs(with, works[i].size, is_quick ? 20 : 20001, cells[i][k]);
        }
        allocator_destroy(with);
    }
    print_head("allocate + free, one stream: median; p99");
    for (unsigned i = 0; i < num_works; i++) {
        print_row(works[i].name, (const cell_t *)cells[i]);
    }
}

/* --- among holes ---------------------------------------------------------- */

/* Allocate pieces, and free every second one, last to first: a sorted free list
 * then takes the holes at its start. false: out of memory. */
static bool make_holes(allocator_t *with, size_t size, void **pieces,
                       unsigned num)
{
    void *stream = device.streams[0];

    for (unsigned i = 0; i < num; i++) {
        pieces[i] = take(with, size, stream);
        if (pieces[i] == NULL) {
            return false;
        }
    }
    for (unsigned i = num; i > 0; i -= 2) {
        give(with, pieces[i - 1], size, stream);
        pieces[i - 1] = NULL;
    }
    return true;
}

static void free_pieces(allocator_t *with, size_t size, void **pieces,
                        unsigned num)
{
    for (unsigned i = 0; i < num; i++) {
        if (pieces[i] != NULL) {
            give(with, pieces[i], size, device.streams[0]);
        }
        pieces[i] = NULL;
    }
}

static void bench_holes(void)
{
    unsigned num    = is_quick ? 256 : 131072;
    void   **pieces = calloc(num, sizeof(*pieces));
    cell_t   cells[2][RIVALS_MAX];
    char     text[96];

    check(pieces != NULL);
    for (unsigned k = 0; k < num_rivals; k++) {
        allocator_t *with = make(rivals[k], 0);

        snprintf(cells[0][k], CELL_SIZE, "fails");
        snprintf(cells[1][k], CELL_SIZE, "fails");
        if (make_holes(with, HOLE_SIZE, pieces, num)) {
            time_pairs(with, 64 * KIB, is_quick ? 20 : 2001, cells[0][k]);
            time_pairs(with, MIB, is_quick ? 20 : 2001, cells[1][k]);
        }
        free_pieces(with, HOLE_SIZE, pieces, num);
        allocator_destroy(with);
    }
    free(pieces);
    snprintf(text, sizeof(text), "the same with %u holes of 1 KiB: median; p99",
             num / 2);
    print_head(text);
    print_row("64 KiB", (const cell_t *)cells[0]);
    print_row("1 MiB", (const cell_t *)cells[1]);
}

/* --- threads -------------------------------------------------------------- */

typedef struct worker {
    pthread_t          thread;
    allocator_t       *with;
    void              *stream;
    pthread_barrier_t *barrier;
    unsigned           offset; /* in sizes[] */
    unsigned           num;
    bool               is_full;
    uint64_t           start, end;
} worker_t;

/* 1 KiB to 1 MiB, log-uniform. */
static void draw_sizes(void)
{
    uint64_t state = 42;

    for (unsigned i = 0; i < NUM_SIZES; i++) {
        state    = state * 6364136223846793005u + 1442695040888963407u;
        sizes[i] = (size_t)(exp2((double)(state >> 40) / (1 << 24) * 10) *
                            (double)KIB);
    }
}

static size_t size_of(const worker_t *worker, unsigned i)
{
    return sizes[(worker->offset + i) % NUM_SIZES];
}

static void *work(void *arg)
{
    worker_t *worker     = arg;
    void     *ring[RING] = {NULL};

    check(device.gpu.driver.cuCtxSetCurrent(device.gpu.context) ==
          CUDA_SUCCESS);
    pthread_barrier_wait(worker->barrier);
    worker->start = clock_now();
    for (unsigned i = 0; (i < worker->num) && !worker->is_full; i++) {
        void **slot = &ring[i % RING];

        if (*slot != NULL) {
            give(worker->with, *slot, size_of(worker, i - RING),
                 worker->stream);
        }
        *slot = take(worker->with, size_of(worker, i), worker->stream);
        worker->is_full = *slot == NULL;
    }
    worker->end = clock_now();
    for (unsigned i = worker->num < RING ? 0 : worker->num - RING;
         (i < worker->num) && !worker->is_full; i++) {
        give(worker->with, ring[i % RING], size_of(worker, i), worker->stream);
    }
    return NULL;
}

/* Pairs per microsecond of all threads together; 0: out of memory. */
static double run_workers(allocator_t *with, unsigned num)
{
    worker_t          workers[NUM_STREAMS];
    pthread_barrier_t barrier;
    uint64_t          start = UINT64_MAX, end = 0;
    unsigned          count   = is_quick ? 100 : 50000;
    bool              is_full = false;

    pthread_barrier_init(&barrier, NULL, num);
    for (unsigned i = 0; i < num; i++) {
        workers[i] = (worker_t){.with    = with,
                                .stream  = device.streams[i],
                                .barrier = &barrier,
                                .offset  = i * (NUM_SIZES / NUM_STREAMS),
                                .num     = count};
        check(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (unsigned i = 0; i < num; i++) {
        pthread_join(workers[i].thread, NULL);
        start = workers[i].start < start ? workers[i].start : start;
        end   = workers[i].end > end ? workers[i].end : end;
        is_full |= workers[i].is_full;
    }
    pthread_barrier_destroy(&barrier);
    return is_full ? 0 : (double)num * count * 1e3 / (double)(end - start);
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;

    return (difference > 0) - (difference < 0);
}

static double rate_of(allocator_t *with, unsigned num)
{
    double rates[REPEATS];

    /* Take the memory from the driver before measuring. */
    run_workers(with, num);
    for (unsigned i = 0; i < REPEATS; i++) {
        rates[i] = run_workers(with, num);
    }
    qsort(rates, REPEATS, sizeof(rates[0]), compare);
    return rates[REPEATS / 2];
}

static void bench_threads(void)
{
    cell_t cells[3][RIVALS_MAX];

    draw_sizes();
    for (unsigned k = 0; k < num_rivals; k++) {
        allocator_t *with = make(rivals[k], 0);
        double       one  = rate_of(with, 1);
        double       all  = rate_of(with, NUM_STREAMS);

        snprintf(cells[0][k], CELL_SIZE, "%.2f", one);
        snprintf(cells[1][k], CELL_SIZE, "%.2f", all);
        snprintf(cells[2][k], CELL_SIZE, "%.2f", one > 0 ? all / one : 0);
        allocator_destroy(with);
    }
    print_head("1 KiB to 1 MiB, 16 live in each thread: pairs in 1 us");
    print_row("1 thread", (const cell_t *)cells[0]);
    print_row("8 threads, each its own stream", (const cell_t *)cells[1]);
    print_row("ratio", (const cell_t *)cells[2]);
}

/* --- stitched ranges ------------------------------------------------------ */

/* Allocate all free memory, which is in scattered chunks, first once and then
 * repeatedly. false: it fails. */
static bool stitch(const allocator_kind_t *kind, size_t chunk, unsigned num,
                   uint64_t *first_p, uint64_t *again_p)
{
    allocator_t *with        = make(kind, num * chunk);
    void        *stream      = device.streams[0];
    size_t       size        = num / 2 * chunk;
    samples_t    again       = {0};
    void        *pieces[128] = {NULL};
    bool         passes      = make_holes(with, chunk, pieces, num);

    check(device_settle(&device) == 0);
    for (unsigned i = 0; (i <= WARM) && passes; i++) {
        uint64_t start   = clock_now();
        void    *address = take(with, size, stream);
        uint64_t ns      = clock_now() - start;

        passes = address != NULL;
        if (i == 0) {
            *first_p = ns;
        } else {
            samples_add(&again, (double)ns);
        }
        if (passes) {
            give(with, address, size, stream);
        }
    }
    *again_p = (uint64_t)samples_quantile(&again, 0.5);
    samples_cleanup(&again);
    free_pieces(with, chunk, pieces, num);
    allocator_destroy(with);
    return passes;
}

static void bench_stitches(void)
{
    size_t   chunk = is_quick ? 4 * MIB : 32 * MIB;
    unsigned num   = is_quick ? 16 : 64;
    cell_t   cells[2][RIVALS_MAX];

    for (unsigned k = 0; k < num_rivals; k++) {
        samples_t first  = {0};
        samples_t again  = {0};
        bool      passes = true;

        for (unsigned i = 0; (i < STITCHES) && passes; i++) {
            uint64_t first_ns = 0, again_ns = 0;

            passes = stitch(rivals[k], chunk, num, &first_ns, &again_ns);
            samples_add(&first, (double)first_ns);
            samples_add(&again, (double)again_ns);
        }
        snprintf(cells[0][k], CELL_SIZE, "fails");
        snprintf(cells[1][k], CELL_SIZE, "-");
        if (passes) {
            in_words((uint64_t)samples_quantile(&first, 0.5), cells[0][k]);
            in_words((uint64_t)samples_quantile(&again, 0.5), cells[1][k]);
        }
        samples_cleanup(&first);
        samples_cleanup(&again);
    }
    print_head("allocate what is free, every second 32 MiB of 2 GiB");
    print_row("1 GiB, first time", (const cell_t *)cells[0]);
    print_row("1 GiB, again", (const cell_t *)cells[1]);
}

int main(int argc, char **argv)
{
    tool_name = "bench_heap_cuda";
    rivals_open(argc, argv);
    printf("%s; times of a pair hold one reading of the clock\n",
           device.gpu.name);
    bench_pairs();
    bench_holes();
    bench_threads();
    bench_stitches();
    check(bench_mapped(&device.gpu, is_quick) == 0);
    rivals_close();
    return EXIT_SUCCESS;
}
