#include "perf/target.h"

#include <stddef.h>
#include <string.h>

#define SIZE_64M ((uint64_t)64 << 20)
#define SIZE_1G  ((uint64_t)1 << 30)

/* The GPU that the promises in GB/s are made for, and its links. */
#define GPU_NAME "H200"

typedef enum place { PLACE_HOST, PLACE_TWO_GPUS, PLACE_ONE_GPU } place_t;

static const struct {
    const char *test;
    uint64_t    size;
    uint64_t    count;
    uint32_t    pool_mode;
    uint32_t    other_mode;
    target_t    target;
} targets[] = {
    {"each", 256, 65536, MODE_MAP, MODE_PEER, {60, 0, false}},
    {"each", 256, 65536, MODE_MAP, MODE_NONE, {3, 0, false}},
    {"each", 4096, 16384, MODE_MAP, MODE_PEER, {8, 0, false}},
    {"each", 4096, 16384, MODE_MAP, MODE_NONE, {1.3, 0, false}},
    {"iov", 256, 65536, MODE_MAP, MODE_PEER, {4, 0, false}},
    {"iov", 256, 65536, MODE_MAP, MODE_NONE, {1.0, 0, false}},
    {"iov", 4096, 16384, MODE_MAP, MODE_PEER, {5, 0, false}},
    {"iov", 4096, 16384, MODE_MAP, MODE_NONE, {1.2, 0, false}},
    {"comm", SIZE_64M, 1, MODE_MAP, MODE_PEER, {4, 0, false}},
    {"comm", SIZE_64M, 1, MODE_MAP, MODE_NONE, {1.0, 1.2, false}},
    {"any", SIZE_64M, 1, MODE_MAP, MODE_PEER, {4, 0, false}},
    {"any", SIZE_64M, 1, MODE_MAP, MODE_NONE, {0.9, 1.1, false}},
    {"pingpong", 64, 1, MODE_MAP, MODE_PEER, {1.3, 0, true}},
    {"pingpong", 64, 1, MODE_MAP, MODE_NONE, {0, 0, true}},
    {"each", 256, 65536, MODE_UCX, MODE_PEER, {20, 0, false}},
    {"each", 4096, 16384, MODE_UCX, MODE_PEER, {2.5, 0, false}},
    {"iov", 256, 65536, MODE_UCX, MODE_PEER, {0.95, 0, false}},
    {"iov", 4096, 16384, MODE_UCX, MODE_PEER, {0.95, 0, false}},
    {"comm", SIZE_64M, 1, MODE_UCX, MODE_PEER, {0.95, 0, false}},
    {"any", SIZE_64M, 1, MODE_UCX, MODE_PEER, {0.9, 0, false}},
};

#define NOTHING \
    { \
        0, 0, false \
    }

/* With buffers in a GPU's memory; against raw UCX in either mode, but there and
 * back in that of failure handling. */
static const struct {
    place_t      place;
    const char  *test;
    uint64_t     size;
    uint64_t     count;
    uint32_t     pool_mode;
    double       rate; /* GB/s; 0: none */
    side_group_t group;
    target_t     target; /* against a side of that group */
} gpu_targets[] = {
    {PLACE_TWO_GPUS,
     "each",
     4096,
     131072,
     MODE_MAP,
     345,
     SIDE_EACH,
     {250, 0, false}},
    {PLACE_TWO_GPUS, "each", 1024, 131072, MODE_MAP, 340, SIDE_POOL, NOTHING},
    {PLACE_TWO_GPUS, "each", 256, 262144, MODE_MAP, 300, SIDE_POOL, NOTHING},
    {PLACE_TWO_GPUS, "each", 64, 1048576, MODE_MAP, 80, SIDE_POOL, NOTHING},
    {PLACE_TWO_GPUS, "each", 1 << 20, 512, MODE_MAP, 345, SIDE_POOL, NOTHING},
    {PLACE_TWO_GPUS, "mixed", 8 << 20, 1170, MODE_MAP, 300, SIDE_POOL, NOTHING},
    {PLACE_TWO_GPUS, "misaligned", 4096, 131072, MODE_MAP, 200, SIDE_POOL,
     NOTHING},
    {PLACE_TWO_GPUS, "few-blocks", 4096, 131072, MODE_MAP, 240, SIDE_POOL,
     NOTHING},
    {PLACE_TWO_GPUS,
     "any",
     SIZE_1G,
     1,
     MODE_MAP,
     0,
     SIDE_WHOLE,
     {0.9, 0, false}},
    {PLACE_TWO_GPUS,
     "comm",
     SIZE_1G,
     1,
     MODE_MAP,
     0,
     SIDE_WHOLE,
     {0.98, 0, false}},
    {PLACE_TWO_GPUS,
     "pingpong",
     4096,
     1,
     MODE_MAP,
     0,
     SIDE_WHOLE,
     {1.5, 0, true}},
    {PLACE_TWO_GPUS,
     "pingpong-comm",
     4096,
     1,
     MODE_MAP,
     0,
     SIDE_WHOLE,
     {1.1, 0, true}},
    {PLACE_ONE_GPU, "each", 4096, 131072, MODE_MAP, 300, SIDE_POOL, NOTHING},
    {PLACE_ONE_GPU,
     "any",
     SIZE_1G,
     1,
     MODE_MAP,
     0,
     SIDE_WHOLE,
     {0.9, 0, false}},
    {PLACE_TWO_GPUS, "each", 4096, 131072, MODE_UCX, 330, SIDE_POOL, NOTHING},
    {PLACE_TWO_GPUS, "each", 1024, 131072, MODE_UCX, 320, SIDE_POOL, NOTHING},
    {PLACE_TWO_GPUS,
     "any",
     SIZE_1G,
     1,
     MODE_UCX,
     0,
     SIDE_WHOLE,
     {0.85, 0, false}},
    {PLACE_TWO_GPUS,
     "comm",
     SIZE_1G,
     1,
     MODE_UCX,
     0,
     SIDE_WHOLE,
     {0.95, 0, false}},
};

#define NUM(_array) (sizeof(_array) / sizeof((_array)[0]))

static place_t place_of(const work_t *work)
{
    if (!work_is_on_gpu(work)) {
        return PLACE_HOST;
    }
    return work->devices[0] == work->devices[1] ? PLACE_ONE_GPU
                                                : PLACE_TWO_GPUS;
}

static bool fits(const job_t *job, const char *test, uint64_t size,
                 uint64_t count)
{
    return (strcmp(job->test, test) == 0) && (job->work.size == size) &&
           (job->work.count == count);
}

/* Index in gpu_targets, or NUM(gpu_targets). */
static size_t find_on_gpu(const job_t *job, uint32_t mode)
{
    size_t i = 0;

    while ((i < NUM(gpu_targets)) &&
           ((gpu_targets[i].place != place_of(&job->work)) ||
            (gpu_targets[i].pool_mode != mode) ||
            !fits(job, gpu_targets[i].test, gpu_targets[i].size,
                  gpu_targets[i].count))) {
        i++;
    }
    return i;
}

const target_t *target_find(const job_t *job, uint32_t mode, side_t other)
{
    size_t i;

    if (place_of(&job->work) != PLACE_HOST) {
        i = find_on_gpu(job, mode);
        if ((i == NUM(gpu_targets)) ||
            (gpu_targets[i].group != side_group(other)) ||
            (job->work.echo && (other.mode != MODE_PEER))) {
            return NULL;
        }
        return &gpu_targets[i].target;
    }
    for (i = 0; i < NUM(targets); i++) {
        if (fits(job, targets[i].test, targets[i].size, targets[i].count) &&
            (targets[i].pool_mode == mode) &&
            (targets[i].other_mode == other.mode)) {
            return &targets[i].target;
        }
    }
    return NULL;
}

double target_rate(const job_result_t *result, uint32_t mode)
{
    size_t i;

    if ((place_of(&result->job.work) == PLACE_HOST) ||
        (strstr(result->gpus[0], GPU_NAME) == NULL) ||
        (strstr(result->gpus[1], GPU_NAME) == NULL)) {
        return 0;
    }
    i = find_on_gpu(&result->job, mode);
    return i == NUM(gpu_targets) ? 0 : gpu_targets[i].rate;
}
