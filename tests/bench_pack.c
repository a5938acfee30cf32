/*
 * The speed of gathering segments into a block and scattering them from one,
 * compared with memcpy. A block of 256 KiB or 1 MiB is filled (or emptied)
 * repeatedly until the whole list has been copied.
 *
 *     plain   memcpy between the block and contiguous memory, as many bytes
 *     naive   a simple loop with one memcpy per segment
 *     pool    copy_gather, copy_scatter
 *
 * The three alternate; GB/s of payload, medians. usage: bench_pack [ROUNDS]
 */
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/math.h"
#include "copy/list.h"
#include "copy/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_SIZE ((size_t)64 << 20)
#define MAX_ROUNDS 99

typedef struct work {
    const char        *name;
    size_t             slot;      /* distance of segments in the arena */
    size_t             length;    /* of each; 0: mixed, up to the slot */
    bool               is_one;    /* the pool gets a single segment */
    bool               is_pieces; /* the pool gets only addresses */
    size_t             num_segments;
    ucxpool_segment_t *segments;
    ucxpool_segment_t  one;
    void             **pieces;
    size_t             num_runs;
    copy_run_t        *runs;
    copy_totals_t      totals;
} work_t;

typedef uint64_t (*pass_t)(work_t *work, char *block, size_t block_size);

static char *arena;

static uint64_t next_random(void)
{
    static uint64_t state = 42;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

static void work_shuffle(work_t *work)
{
    for (size_t i = work->num_segments; i-- > 1;) {
        size_t            other = next_random() % (i + 1);
        ucxpool_segment_t swap  = work->segments[i];

        work->segments[i]     = work->segments[other];
        work->segments[other] = swap;
    }
}

/* Segments that are adjacent in memory, which the pool is not told. */
static void work_join(work_t *work)
{
    char *address = arena;

    for (size_t i = 0; i < work->num_segments; i++) {
        work->segments[i].address = address;
        address += work->segments[i].length;
    }
}

static void work_create(work_t *work)
{
    work->num_segments = base_min(ARENA_SIZE / work->slot, (size_t)65536);
    work->segments     = calloc(work->num_segments, sizeof(*work->segments));
    work->runs         = calloc(work->num_segments, sizeof(*work->runs));
    for (size_t i = 0; i < work->num_segments; i++) {
        work->segments[i].address = arena + i * work->slot;
        work->segments[i].length =
            work->length != 0 ? work->length : 1 + next_random() % work->slot;
    }
    work_shuffle(work);
    if (work->is_one) {
        work_join(work);
    }
    work->pieces = calloc(work->num_segments, sizeof(*work->pieces));
    for (size_t i = 0; i < work->num_segments; i++) {
        work->pieces[i] = work->segments[i].address;
    }
    if (copy_lengths_count(work->segments, work->num_segments, work->runs,
                           work->num_segments, &work->num_runs,
                           &work->totals) != UCXPOOL_OK) {
        exit(EXIT_FAILURE);
    }
}

static void work_destroy(work_t *work)
{
    free(work->segments);
    free(work->runs);
    free(work->pieces);
}

static void work_plan(work_t *work, copy_plan_t *plan)
{
    copy_memory_t memory;

    work->one.address = arena;
    work->one.length  = work->totals.payload_size;
    memory = copy_memory_of_segments(work->is_one ? &work->one : work->segments,
                                     work->is_one ? 1 : work->num_segments);
    if (work->is_pieces) {
        memory = copy_memory_of_pieces(work->pieces, work->num_segments,
                                       work->length);
    }
    copy_plan_init(plan, work->runs, work->num_runs, &work->totals, &memory);
}

static uint64_t pool_gather(work_t *work, char *block, size_t block_size)
{
    uint64_t    size = work->totals.stream_size;
    copy_plan_t plan;

    work_plan(work, &plan);
    for (uint64_t at = 0; at < size; at += block_size) {
        copy_gather(&plan, at, base_min(block_size, size - at), block);
    }
    return work->totals.payload_size;
}

static uint64_t pool_scatter(work_t *work, char *block, size_t block_size)
{
    uint64_t    size = work->totals.stream_size;
    copy_plan_t plan;

    work_plan(work, &plan);
    for (uint64_t at = 0; at < size; at += block_size) {
        copy_scatter(&plan, at, base_min(block_size, size - at), block);
    }
    return work->totals.payload_size;
}

static uint64_t naive(work_t *work, char *block, size_t block_size,
                      bool is_scatter)
{
    size_t at = 0, length, n;
    char  *address;

    for (size_t i = 0; i < work->num_segments; i++) {
        address = work->segments[i].address;
        for (length = work->segments[i].length; length > 0; length -= n) {
            n = base_min(length, block_size - at);
            if (is_scatter) {
                memcpy(address, block + at, n);
            } else {
                memcpy(block + at, address, n);
            }
            address += n;
            at = base_align_up(at + n, COPY_ALIGNMENT) % block_size;
        }
    }
    return work->totals.payload_size;
}

static uint64_t naive_gather(work_t *work, char *block, size_t block_size)
{
    return naive(work, block, block_size, false);
}

static uint64_t naive_scatter(work_t *work, char *block, size_t block_size)
{
    return naive(work, block, block_size, true);
}

static uint64_t plain_gather(work_t *work, char *block, size_t block_size)
{
    for (size_t at = 0; at < ARENA_SIZE; at += block_size) {
        memcpy(block, arena + at, block_size);
    }
    return ARENA_SIZE;
}

static uint64_t plain_scatter(work_t *work, char *block, size_t block_size)
{
    for (size_t at = 0; at < ARENA_SIZE; at += block_size) {
        memcpy(arena + at, block, block_size);
    }
    return ARENA_SIZE;
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;

    return (difference > 0) - (difference < 0);
}

static void measure(work_t *work, const char *direction, const pass_t *passes,
                    size_t block_size, size_t num_rounds)
{
    double   rates[3][MAX_ROUNDS];
    char    *block = aligned_alloc(4096, block_size);
    uint64_t start, payload_size;

    memset(block, 1, block_size);
    for (size_t round = 0; round < num_rounds; round++) {
        for (size_t i = 0; i < 3; i++) {
            start        = base_clock_now();
            payload_size = passes[i](work, block, block_size);
            rates[i][round] =
                (double)payload_size / (double)(base_clock_now() - start);
        }
    }
    printf("%-22s %-8s %4zu KiB", work->name, direction, block_size >> 10);
    for (size_t i = 0; i < 3; i++) {
        qsort(rates[i], num_rounds, sizeof(rates[i][0]), compare);
        printf(" %9.2f", rates[i][num_rounds / 2]);
    }
    printf("\n");
    free(block);
}

static void measure_crc(size_t num_rounds)
{
    static const size_t sizes[] = {64, 4096, 1 << 20};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        double   rates[MAX_ROUNDS];
        size_t   num = ((size_t)4 << 20) / sizes[i];
        uint32_t crc = 0;

        for (size_t round = 0; round < num_rounds; round++) {
            uint64_t start = base_clock_now();

            for (size_t j = 0; j < num; j++) {
                crc = base_crc32c(crc, arena, sizes[i]);
            }
            rates[round] =
                (double)(num * sizes[i]) / (double)(base_clock_now() - start);
        }
        qsort(rates, num_rounds, sizeof(rates[0]), compare);
        printf("crc32c (%s) of %7zu bytes: %.2f GB/s (%08x)\n",
               base_crc32c_name(), sizes[i], rates[num_rounds / 2], crc);
    }
}

int main(int argc, char **argv)
{
    static const pass_t gather[]  = {plain_gather, naive_gather, pool_gather};
    static const pass_t scatter[] = {plain_scatter, naive_scatter,
                                     pool_scatter};
    work_t              works[]   = {
                       {.name = "65536 x 64 B", .slot = 1024, .length = 64},
                       {.name = "65536 x 256 B", .slot = 1024, .length = 256},
                       {.name = "65536 x 1 KiB", .slot = 1024, .length = 1024},
                       {.name = "16384 x 4 KiB", .slot = 4096, .length = 4096},
                       {.name      = "65536 x 64 B, pieces",
                        .slot      = 1024,
                        .length    = 64,
                        .is_pieces = true},
                       {.name      = "65536 x 256 B, pieces",
                        .slot      = 1024,
                        .length    = 256,
                        .is_pieces = true},
                       {.name = "1024 x 64 KiB", .slot = 65536, .length = 65536},
                       {.name = "1 x 64 MiB", .slot = ARENA_SIZE, .length = ARENA_SIZE},
                       {.name = "1 to 500 bytes", .slot = 500},
                       {.name = "1 to 8000 bytes", .slot = 8000},
                       {.name   = "65536 x 100, one piece",
                        .slot   = 100,
                        .length = 100,
                        .is_one = true},
                       {.name = "1 to 500 B, one piece", .slot = 500, .is_one = true},
                       {.name   = "4 KiB, one piece",
                        .slot   = 4096,
                        .length = 4096,
                        .is_one = true}};
    size_t num_rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 9;

    num_rounds = base_max(1u, base_min(num_rounds, (size_t)MAX_ROUNDS));
    arena      = aligned_alloc(4096, ARENA_SIZE);
    memset(arena, 1, ARENA_SIZE);
    printf("%-22s %-8s %8s %9s %9s %9s\n", "GB/s", "", "block", "plain",
           "naive", "pool");
    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
        work_create(&works[i]);
        for (size_t size = 256 << 10; size <= 1 << 20; size *= 4) {
            measure(&works[i], "gather", gather, size, num_rounds);
            measure(&works[i], "scatter", scatter, size, num_rounds);
        }
        work_destroy(&works[i]);
    }
    measure_crc(num_rounds);
    free(arena);
    return EXIT_SUCCESS;
}
