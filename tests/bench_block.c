/*
 * The cost of allocating and freeing blocks, and of finding the blocks of a
 * buffer: the median and the 99th percentile of many batches.
 *
 * Not installed: it measures the internal functions of ucxpool_block_get() and
 * of transfers.
 */
#include "base/clock.h"
#include "base/config.h"
#include "block/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BLOCK_SIZE  ((size_t)4096)
#define NUM_BATCHES 2001
#define BATCH       1000

static mem_regions_t regions;
static block_pool_t *pool;

static void create(size_t num_blocks)
{
    block_pool_params_t params = {
        .regions    = &regions,
        .block_size = BLOCK_SIZE,
        .send_share = 1,
        .recv_share = 1,
    };

    regions.num_regions = 1;
    regions.region_size = num_blocks * BLOCK_SIZE;
    /* Only addresses: no block is touched. */
    regions.address = mmap(NULL, regions.region_size, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if ((regions.address == MAP_FAILED) ||
        (block_pool_create(&params, &pool) != UCXPOOL_OK)) {
        fprintf(stderr, "bench_block: no pool of %zu blocks\n", num_blocks);
        exit(EXIT_FAILURE);
    }
}

static void destroy(void)
{
    block_pool_destroy(pool);
    munmap(regions.address, regions.region_size);
}

static void take(size_t num_blocks, uint32_t *indices)
{
    if (block_pool_get_n(pool, BLOCK_SHARE_USER, num_blocks, indices) !=
        UCXPOOL_OK) {
        fprintf(stderr, "bench_block: %zu blocks are not free\n", num_blocks);
        exit(EXIT_FAILURE);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_row(const char *name, double *times)
{
    qsort(times, NUM_BATCHES, sizeof(times[0]), compare);
    printf("%-52s %7.1f %7.1f\n", name, times[NUM_BATCHES / 2],
           times[NUM_BATCHES * 99 / 100]);
}

/* Get and put num blocks at a time, and print what one get and put costs. */
static void measure(const char *name, size_t num)
{
    static double times[NUM_BATCHES];
    uint32_t      indices[64];

    for (int i = 0; i < NUM_BATCHES; i++) {
        uint64_t start = base_clock_now();

        for (int j = 0; j < BATCH; j++) {
            take(num, indices);
            for (size_t k = 0; k < num; k++) {
                block_pool_put(pool, BLOCK_SHARE_USER, indices[k]);
            }
        }
        times[i] = (double)(base_clock_now() - start) / (BATCH * (double)num);
    }
    print_row(name, times);
}

static void measure_large(void)
{
    static uint32_t indices[10000];

    create(10000);
    measure("10000 blocks, all free: one", 1);
    measure("10000 blocks, all free: a run of 16", 16);
    take(9700, indices);
    measure("10000 blocks, the first 9700 taken: one", 1);
    measure("10000 blocks, the first 9700 taken: a run of 16", 16);
    for (uint32_t i = 0; i < 9600; i += 2) {
        block_pool_put(pool, BLOCK_SHARE_USER, i);
    }
    measure("10000 blocks, every second free: one", 1);
    measure("10000 blocks, every second free: a run of 16", 16);
    destroy();
}

/* --- where the bytes of a buffer lie --- */

#define NUM_BUFFERS 64
#define NUM_BLOCKS  1024
#define RUN_BLOCKS  16

static block_comm_t *comm;
static char         *buffers[NUM_BUFFERS];

/* Stitched buffers of two blocks, every second block being taken. */
static void create_buffers(void)
{
    static uint32_t indices[NUM_BLOCKS];
    uint32_t        num     = NUM_BLOCKS - 2 - RUN_BLOCKS;
    void           *address = NULL;

    take(num, indices);
    for (uint32_t i = 0; i < num; i += 2) {
        block_pool_put(pool, BLOCK_SHARE_USER, indices[i]);
    }
    for (int i = 0; i < NUM_BUFFERS; i++) {
        if (block_comm_alloc(comm, 2 * BLOCK_SIZE, &address) != UCXPOOL_OK) {
            fprintf(stderr, "bench_block: no buffers\n");
            exit(EXIT_FAILURE);
        }
        buffers[i] = address;
    }
}

static void measure_find(const char *name, const void *const *addresses,
                         unsigned num, bool wanted)
{
    static double        times[NUM_BATCHES];
    mem_piece_t          piece;
    block_comm_buffer_t *buffer;

    for (int i = 0; i < NUM_BATCHES; i++) {
        uint64_t start = base_clock_now();

        for (unsigned j = 0; j < BATCH; j++) {
            if (block_comm_find(comm, addresses[j % num], 256, &piece,
                                &buffer) != wanted) {
                fprintf(stderr, "bench_block: found is not %d\n", wanted);
                exit(EXIT_FAILURE);
            }
        }
        times[i] = (double)(base_clock_now() - start) / BATCH;
    }
    print_row(name, times);
}

static void measure_comm(void)
{
    block_pool_params_t params  = {.regions    = &regions,
                                   .block_size = BLOCK_SIZE};
    const void         *outside = &params;
    const void         *all[NUM_BUFFERS];
    void               *run = NULL;

    if ((mem_regions_init(&regions, &mem_kind_host, -1, 1,
                          NUM_BLOCKS * BLOCK_SIZE,
                          BASE_SWITCH_NO) != UCXPOOL_OK) ||
        (block_pool_create(&params, &pool) != UCXPOOL_OK) ||
        (block_comm_create(pool, &comm) != UCXPOOL_OK) ||
        (block_comm_alloc(comm, RUN_BLOCKS * BLOCK_SIZE, &run) != UCXPOOL_OK)) {
        fprintf(stderr, "bench_block: no memory\n");
        exit(EXIT_FAILURE);
    }
    measure_find("find: in no buffer, none stitched", &outside, 1, false);
    measure_find("find: in a run", (const void *const *)&run, 1, true);
    create_buffers();
    for (int i = 0; i < NUM_BUFFERS; i++) {
        all[i] = buffers[i];
    }
    measure_find("find: in no buffer, 64 stitched", &outside, 1, false);
    measure_find("find: in one of 64 stitched, the same", all, 1, true);
    measure_find("find: in one of 64 stitched, each in turn", all, NUM_BUFFERS,
                 true);
    block_comm_destroy(comm);
    block_pool_destroy(pool);
    mem_regions_cleanup(&regions);
}

int main(void)
{
    printf("%-52s %7s %7s\n", "nanoseconds per get and put", "median", "p99");
    create(128);
    measure("128 blocks, all free: one", 1);
    measure("128 blocks, all free: a run of 2", 2);
    destroy();
    measure_large();
    printf("\n%-52s %7s %7s\n", "nanoseconds per find", "median", "p99");
    measure_comm();
    return EXIT_SUCCESS;
}
