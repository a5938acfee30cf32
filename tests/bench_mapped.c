#include "bench_mapped.h"
#include "bench_triad.h"
#include "common/error.h"
#include "common/system.h"

#include <ucxpool/heap.h>
#include <ucxpool/pool.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB ((size_t)1 << 20)

#define NUM_RANGES 3 /* a = b + 3 c */
#define MAX_PIECES 192
#define ROUNDS     11
/* Initial bytes of b and c: the float 0x3f3f3f3f. */
#define FILL 0x3f

/* Memory of one kind, NUM_RANGES times. */
typedef struct memory {
    const char *name;
    ucxpool_t  *pool; /* NULL: the driver's */
    void       *ranges[NUM_RANGES];
    void       *pieces[MAX_PIECES]; /* pieces between the ranges */
    double      copy[ROUNDS];       /* GB/s */
    double      triad[ROUNDS];
} memory_t;

enum { CONTIGUOUS, HOME, STITCHED, NUM_MEMORIES };

static gpu_t   *gpu;
static triad_t  triad;
static size_t   range_size, piece_size;
static unsigned num_times; /* repetitions in a round */

/* --- the measured operations ---------------------------------------------- */

static int start_copy(const memory_t *memory)
{
    CUresult result = gpu->driver.cuMemcpyAsync(
        (CUdeviceptr)(uintptr_t)memory->ranges[0],
        (CUdeviceptr)(uintptr_t)memory->ranges[1], range_size, gpu->stream);

    return gpu_check(gpu, result, "cuMemcpyAsync");
}

static int start_triad(const memory_t *memory)
{
    void *const *ranges = memory->ranges;

    return triad_start(&triad, gpu, ranges[0], ranges[1], ranges[2],
                       range_size);
}

/* GB/s of bytes read and written. */
static int measure(const memory_t *memory, int (*start)(const memory_t *),
                   unsigned num_ranges, double *rate_p)
{
    uint64_t begin = clock_now();

    for (unsigned i = 0; i < num_times; i++) {
        if (start(memory) != 0) {
            return -1;
        }
    }
    if (gpu_wait(gpu, gpu->stream) != 0) {
        return -1;
    }
    *rate_p = (double)range_size * num_ranges * num_times /
              (double)(clock_now() - begin);
    return 0;
}

/* Does a range hold this value at its start, in its middle, and at its end? */
static int verify(const memory_t *memory, float expected)
{
    size_t places[] = {0, range_size / 2 + piece_size - sizeof(float),
                       range_size - sizeof(float)};
    float  found;

    for (unsigned i = 0; i < 3; i++) {
        if (gpu_copy(gpu, &found, (char *)memory->ranges[0] + places[i],
                     sizeof(found)) != 0) {
            return -1;
        }
        if (found != expected) {
            return tool_error("%s: %g at %zu, not %g", memory->name,
                              (double)found, places[i], (double)expected);
        }
    }
    return 0;
}

static float fill_value(void)
{
    union {
        uint32_t bits;
        float    value;
    } fill = {.bits = 0x01010101u * FILL};

    return fill.value;
}

/* Run both operations once on each memory, and check the results. */
static int check_work(const memory_t *memory)
{
    float value = fill_value();

    if ((gpu_fill(gpu, memory->ranges[0], 0, range_size) != 0) ||
        (gpu_fill(gpu, memory->ranges[1], FILL, range_size) != 0) ||
        (gpu_fill(gpu, memory->ranges[2], FILL, range_size) != 0)) {
        return -1;
    }
    if ((start_copy(memory) != 0) || (gpu_wait(gpu, gpu->stream) != 0) ||
        (verify(memory, value) != 0)) {
        return -1;
    }
    if (triad.function == NULL) {
        return 0;
    }
    if ((start_triad(memory) != 0) || (gpu_wait(gpu, gpu->stream) != 0)) {
        return tool_error("the kernel has failed");
    }
    return verify(memory, fmaf(TRIAD_FACTOR, value, value));
}

/* --- the memory ----------------------------------------------------------- */

/* A pool whose heap has this size. */
static int make_pool(size_t size, ucxpool_t **pool_p)
{
    ucxpool_params_t  params = {0};
    ucxpool_config_t *config;
    ucxpool_status_t  status;
    char              text[32];

    if (ucxpool_config_read(&config) != UCXPOOL_OK) {
        return tool_error("%s", ucxpool_error_detail());
    }
    snprintf(text, sizeof(text), "%zu", size + 8 * MIB);
    if (((status = ucxpool_config_modify(config, "COMM_SIZE", "8m")) ==
         UCXPOOL_OK) &&
        ((status = ucxpool_config_modify(config, "BLOCK_SIZE", "2m")) ==
         UCXPOOL_OK) &&
        ((status = ucxpool_config_modify(config, "MEMORY_LIMIT", text)) ==
         UCXPOOL_OK)) {
        params.field_mask = UCXPOOL_PARAM_FIELD_CONFIG |
                            UCXPOOL_PARAM_FIELD_MEMORY_KIND |
                            UCXPOOL_PARAM_FIELD_DEVICE;
        params.config      = config;
        params.memory_kind = UCXPOOL_MEMORY_CUDA;
        params.device      = gpu->ordinal;
        status             = ucxpool_create(&params, pool_p);
    }
    ucxpool_config_release(config);
    return status == UCXPOOL_OK ? 0 : tool_error("%s", ucxpool_error_detail());
}

static int take(memory_t *memory, size_t size, void **address_p)
{
    if (memory->pool == NULL) {
        return gpu_alloc(gpu, size, address_p);
    }
    return ucxpool_heap_alloc(memory->pool, size, gpu->stream, address_p) ==
                   UCXPOOL_OK
               ? 0
               : tool_error("%s", ucxpool_error_detail());
}

/* Allocate pieces in the whole heap, and free every second one. */
static int scatter(memory_t *memory)
{
    size_t num = 2 * NUM_RANGES * range_size / piece_size;

    for (size_t i = 0; i < num; i++) {
        if (take(memory, piece_size, &memory->pieces[i]) != 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < num; i += 2) {
        if (ucxpool_heap_free(memory->pool, memory->pieces[i], gpu->stream) !=
            UCXPOOL_OK) {
            return tool_error("%s", ucxpool_error_detail());
        }
        memory->pieces[i] = NULL;
    }
    return 0;
}

static int memory_init(memory_t *memory, unsigned which)
{
    static const char *const names[]      = {"cuMemAlloc", "heap, in one range",
                                             "heap, stitched"};
    uint64_t                 num_stitched = 0;

    memory->name = names[which];
    if ((which != CONTIGUOUS) &&
        (make_pool(2 * NUM_RANGES * range_size, &memory->pool) != 0)) {
        return -1;
    }
    if ((which == STITCHED) && (scatter(memory) != 0)) {
        return -1;
    }
    for (unsigned i = 0; i < NUM_RANGES; i++) {
        if (take(memory, range_size, &memory->ranges[i]) != 0) {
            return -1;
        }
    }
    if (memory->pool != NULL) {
        (void)ucxpool_stats_get(memory->pool, "heap_stitched_live",
                                &num_stitched);
        if (num_stitched != (which == STITCHED ? NUM_RANGES : 0)) {
            return tool_error(
                "ranges are stitched where they should not be, or not "
                "where they should");
        }
    }
    return check_work(memory);
}

/* The remaining pieces are freed with the pool. */
static void memory_cleanup(memory_t *memory)
{
    if (memory->pool != NULL) {
        ucxpool_destroy(memory->pool);
        return;
    }
    for (unsigned i = 0; i < NUM_RANGES; i++) {
        gpu_free(gpu, memory->ranges[i]);
    }
}

/* --- all measurements ----------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;

    return (difference > 0) - (difference < 0);
}

static double median(double *rates)
{
    qsort(rates, ROUNDS, sizeof(rates[0]), compare);
    return rates[ROUNDS / 2];
}

static void print(memory_t *memories)
{
    double copy = 0, kernel = 0;

    printf("\n| memory of three times %zu MiB | copy, GB/s read and written | "
           "of cuMemAlloc | triad, GB/s | of cuMemAlloc |\n"
           "|---|---|---|---|---|\n",
           range_size / MIB);
    for (unsigned i = 0; i < NUM_MEMORIES; i++) {
        double rates[] = {median(memories[i].copy), median(memories[i].triad)};

        copy   = i == 0 ? rates[0] : copy;
        kernel = i == 0 ? rates[1] : kernel;
        printf("| %s | %.0f | %.3f |", memories[i].name, rates[0],
               rates[0] / copy);
        if (triad.function == NULL) {
            printf(" - | - |\n");
        } else {
            printf(" %.0f | %.3f |\n", rates[1], rates[1] / kernel);
        }
    }
}

/* The kinds of memory alternate, so that drift affects all of them equally. */
static int measure_all(memory_t *memories)
{
    for (unsigned i = 0; i < NUM_MEMORIES; i++) {
        if (memory_init(&memories[i], i) != 0) {
            return -1;
        }
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < NUM_MEMORIES; i++) {
            memory_t *memory = &memories[i];

            if (measure(memory, start_copy, 2, &memory->copy[round]) != 0) {
                return -1;
            }
            if ((triad.function != NULL) &&
                (measure(memory, start_triad, 3, &memory->triad[round]) != 0)) {
                return -1;
            }
        }
    }
    print(memories);
    return 0;
}

int bench_mapped(gpu_t *on, bool is_quick)
{
    static memory_t memories[NUM_MEMORIES];
    int             code;

    gpu        = on;
    range_size = is_quick ? 16 * MIB : 1024 * MIB;
    piece_size = is_quick ? 4 * MIB : 32 * MIB;
    num_times  = is_quick ? 1 : 10;
    if (triad_init(&triad, gpu) != 0) {
        return -1;
    }
    code = measure_all(memories);
    for (unsigned i = 0; i < NUM_MEMORIES; i++) {
        memory_cleanup(&memories[i]);
    }
    triad_cleanup(&triad);
    return code;
}
