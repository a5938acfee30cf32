/*
 * The speed of the copy kernel's gather and scatter on one GPU, compared with
 * its device-to-device copy: 256 MiB of the stream, pieces in random order,
 * lists in pinned memory, launches back to back. GB/s of payload, medians.
 *
 *     uniform   one length, a list of addresses
 *     segments  addresses and lengths
 *     off by 1  the pieces are unaligned, the stream is aligned
 *
 * usage: bench_copy_cuda [ROUNDS]
 */
#include "base/clock.h"
#include "base/config.h"
#include "base/math.h"
#include "copy/cuda_copier.h"
#include "mem/region.h"

#include <ucxpool/ucxpool.h>

#include <stdio.h>
#include <stdlib.h>

#define STREAM_SIZE ((size_t)256 << 20)
#define ARENA_SIZE  ((size_t)512 << 20)
#define NUM_JOBS    4u
#define MAX_ROUNDS  99u
#define SMALLEST    ((size_t)64)

typedef struct work {
    const char *name;
    copy_form_t form;
    size_t      length;
    size_t      shift; /* of the pieces, from multiples of 16 */
} work_t;

static const work_t works[] = {
    {"uniform", COPY_UNIFORM, 64, 0},
    {"uniform", COPY_UNIFORM, 100, 0},
    {"uniform", COPY_UNIFORM, 256, 0},
    {"uniform", COPY_UNIFORM, 1024, 0},
    {"uniform", COPY_UNIFORM, 4096, 0},
    {"uniform", COPY_UNIFORM, 65536, 0},
    {"uniform", COPY_UNIFORM, 1 << 20, 0},
    {"segments", COPY_SEGMENTS, 100, 0},
    {"segments", COPY_SEGMENTS, 256, 0},
    {"segments", COPY_SEGMENTS, 1000, 0},
    {"segments", COPY_SEGMENTS, 4096, 0},
    {"uniform, off by 1", COPY_UNIFORM, 100, 1},
    {"uniform, off by 1", COPY_UNIFORM, 256, 1},
    {"uniform, off by 1", COPY_UNIFORM, 1024, 1},
    {"uniform, off by 1", COPY_UNIFORM, 4096, 1},
    {"uniform, off by 1", COPY_UNIFORM, 1 << 20, 1},
};

static copy_cuda_copier_t *copier;
static copy_cuda_job_t    *jobs[NUM_JOBS];
static mem_regions_t       arena, stream;
static unsigned            num_rounds = 21;

static void check(ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        fprintf(stderr, "%s: %s\n", ucxpool_status_string(status),
                ucxpool_error_detail());
        exit(EXIT_FAILURE);
    }
}

static size_t next_random(size_t below)
{
    static uint64_t state = 42;

    state = state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(state >> 33) % below;
}

/* The addresses of the pieces, in random order. */
static size_t make_addresses(const work_t *work, uint64_t *addresses)
{
    size_t stride = base_align_up(work->length, (size_t)COPY_UNIT);
    size_t slot = base_align_up(work->length + work->shift, (size_t)COPY_UNIT);
    size_t num  = base_min(STREAM_SIZE / stride, ARENA_SIZE / slot);

    for (size_t i = 0; i < num; i++) {
        size_t other = next_random(i + 1);

        addresses[i]     = addresses[other];
        addresses[other] = (uintptr_t)arena.address + i * slot + work->shift;
    }
    return num;
}

static void fill_job(const work_t *work, const copy_cuda_job_t *job,
                     const uint64_t *addresses, size_t num)
{
    uint64_t       *uniform  = job->entries;
    copy_segment_t *segments = job->entries;

    for (size_t i = 0; i < num; i++) {
        if (work->form == COPY_UNIFORM) {
            uniform[i] = addresses[i];
        } else {
            segments[i] = (copy_segment_t){addresses[i], work->length};
        }
    }
}

/* work: NULL: one long copy. num: pieces. */
static void start(const work_t *work, size_t num, copy_cuda_job_t *job,
                  bool is_gather)
{
    copy_table_t list;

    if (work == NULL) {
        check(copy_cuda_job_start_long(copier, job, (uintptr_t)arena.address,
                                       (uintptr_t)stream.address, STREAM_SIZE,
                                       is_gather));
        return;
    }
    list = (copy_table_t){
        .form        = work->form,
        .entries     = job->entries,
        .num_entries = (uint32_t)num,
        .length      = (uint32_t)work->length,
        .stream      = (uintptr_t)stream.address,
    };
    check(copy_cuda_job_start(copier, job, &list, STREAM_SIZE, is_gather));
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;

    return (difference > 0) - (difference < 0);
}

/* Throughput in GB/s of all jobs, which copy `payload` bytes in `num` pieces
 * each. */
static double measure(const work_t *work, size_t num, bool is_gather,
                      size_t payload)
{
    double           rates[MAX_ROUNDS];
    ucxpool_status_t status;

    for (unsigned round = 0; round < num_rounds; round++) {
        uint64_t begin = base_clock_now();

        for (unsigned i = 0; i < NUM_JOBS; i++) {
            start(work, num, jobs[i], is_gather);
        }
        for (unsigned i = 0; i < NUM_JOBS; i++) {
            do {
                status = copy_cuda_job_poll(copier, jobs[i]);
            } while (status == UCXPOOL_INPROGRESS);
            check(status);
        }
        rates[round] =
            (double)(payload * NUM_JOBS) / (double)(base_clock_now() - begin);
    }
    qsort(rates, num_rounds, sizeof(rates[0]), compare);
    return rates[num_rounds / 2];
}

static void jobs_get(void)
{
    for (unsigned i = 0; i < NUM_JOBS; i++) {
        jobs[i] = copy_cuda_job_get(copier);
    }
}

static void jobs_put(void)
{
    for (unsigned i = 0; i < NUM_JOBS; i++) {
        copy_cuda_job_put(copier, jobs[i]);
    }
}

static void measure_work(const work_t *work, uint64_t *addresses, double copy)
{
    size_t num     = make_addresses(work, addresses);
    size_t payload = num * work->length;
    double gather, scatter;

    jobs_get();
    for (unsigned i = 0; i < NUM_JOBS; i++) {
        fill_job(work, jobs[i], addresses, num);
    }
    gather  = measure(work, num, true, payload);
    scatter = measure(work, num, false, payload);
    jobs_put();
    printf("%-18s %8zu B %9.0f %6.2f %9.0f %6.2f\n", work->name, work->length,
           gather, gather / copy, scatter, scatter / copy);
}

int main(int argc, char **argv)
{
    size_t             max_pieces = STREAM_SIZE / SMALLEST;
    uint64_t          *addresses  = malloc(max_pieces * sizeof(*addresses));
    mem_cuda_device_t *device;
    double             copy;

    const copy_cuda_copier_params_t params = {
        .num_jobs     = NUM_JOBS,
        .entries_size = max_pieces * sizeof(copy_segment_t),
        .max_tiles    = 8192,
    };

    if (argc > 1) {
        num_rounds = (unsigned)strtoul(argv[1], NULL, 10);
        num_rounds = base_max(1u, base_min(num_rounds, MAX_ROUNDS));
    }
    check(mem_cuda_device_open(0, &device));
    check(copy_cuda_copier_create(device, &params, &copier));
    check(mem_regions_init(&arena, &mem_kind_cuda_alloc, 0, 1, ARENA_SIZE,
                           BASE_SWITCH_NO));
    check(mem_regions_init(&stream, &mem_kind_cuda_alloc, 0, 1, STREAM_SIZE,
                           BASE_SWITCH_NO));
    jobs_get();
    copy = measure(NULL, 1, true, STREAM_SIZE);
    jobs_put();
    printf("%s, copy of %zu MiB: %.0f GB/s\n", device->name, STREAM_SIZE >> 20,
           copy);
    printf("%-18s %10s %9s %6s %9s %6s\n", "list", "pieces", "gather", "copies",
           "scatter", "copies");
    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
        measure_work(&works[i], addresses, copy);
    }
    copy_cuda_copier_destroy(copier);
    mem_regions_cleanup(&stream);
    mem_regions_cleanup(&arena);
    mem_cuda_device_close(device);
    free(addresses);
    return EXIT_SUCCESS;
}
