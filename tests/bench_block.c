/*
 * What taking and giving back blocks costs: the median and the 99th percentile
 * of many batches, in nanoseconds per get and put.
 *
 * Not installed: it measures the inner function that ucxpool_block_get() and
 * the transfers are built on.
 */
#include "base/clock.h"
#include "block/pool.h"

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
    if (block_pool_get_n(pool, UCXPOOL_SHARE_USER, num_blocks, indices) !=
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
                block_pool_put(pool, UCXPOOL_SHARE_USER, indices[k]);
            }
        }
        times[i] = (double)(base_clock_now() - start) / (BATCH * (double)num);
    }
    qsort(times, NUM_BATCHES, sizeof(times[0]), compare);
    printf("%-52s %7.1f %7.1f\n", name, times[NUM_BATCHES / 2],
           times[NUM_BATCHES * 99 / 100]);
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
        block_pool_put(pool, UCXPOOL_SHARE_USER, i);
    }
    measure("10000 blocks, every second free: one", 1);
    measure("10000 blocks, every second free: a run of 16", 16);
    destroy();
}

int main(void)
{
    printf("%-52s %7s %7s\n", "nanoseconds per get and put", "median", "p99");
    create(128);
    measure("128 blocks, all free: one", 1);
    measure("128 blocks, all free: a run of 2", 2);
    destroy();
    measure_large();
    return EXIT_SUCCESS;
}
