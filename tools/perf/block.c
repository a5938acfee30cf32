#include "perf/block.h"
#include "common/clock.h"
#include "perf/error.h"
#include "perf/pool_lane.h"
#include "perf/samples.h"

#include <string.h>

/* Pairs of get and put between two looks at the clock. */
#define NUM_PAIRS 20000u

static int time_pairs(ucxpool_t *pool, double *seconds_p)
{
    ucxpool_block_t block;
    uint64_t        start = clock_now();

    for (unsigned i = 0; i < NUM_PAIRS; i++) {
        if (ucxpool_block_get(pool, &block) != UCXPOOL_OK) {
            return perf_error("no block: %s", ucxpool_error_detail());
        }
        ucxpool_block_put(pool, &block);
    }
    *seconds_p = (double)(clock_now() - start) * 1e-9 / NUM_PAIRS;
    return 0;
}

static int measure_rounds(ucxpool_t *pool, const job_t *job, samples_t *samples)
{
    uint64_t start   = clock_now();
    double   seconds = 0;

    for (unsigned round = 0; round < job->max_rounds; round++) {
        if ((round != 0) && (clock_now() - start > job->time_ns)) {
            break;
        }
        if ((time_pairs(pool, &seconds) != 0) ||
            (samples_add(samples, seconds) != 0)) {
            return -1;
        }
    }
    return 0;
}

int block_measure(const job_t *job, job_result_t *result_p)
{
    const pool_lane_params_t pool_params = {.mode = MODE_AUTO};
    ucxpool_params_t  params  = {.field_mask = UCXPOOL_PARAM_FIELD_CONFIG};
    job_side_t       *side    = &result_p->sides[0];
    samples_t         samples = {0};
    ucxpool_config_t *config;
    ucxpool_t        *pool;
    ucxpool_status_t  status;
    int               result;

    if (pool_lane_config(&pool_params, &config) != 0) {
        return -1;
    }
    params.config = config;
    pool_lane_set_device(&params, job->work.devices[0]);
    status = ucxpool_create(&params, &pool);
    ucxpool_config_release(config);
    if (status != UCXPOOL_OK) {
        return perf_error("the pool cannot be made: %s",
                          ucxpool_error_detail());
    }
    result = measure_rounds(pool, job, &samples);
    ucxpool_destroy(pool);
    result_p->job        = *job;
    result_p->num_rounds = (uint32_t)samples.num;
    result_p->done       = result == 0;
    side->side           = job->sides[0];
    side->num_messages   = NUM_PAIRS;
    side->num_moved      = job->work.count;
    side->median         = samples_quantile(&samples, 0.5);
    side->p05            = samples_quantile(&samples, 0.05);
    side->p95            = samples_quantile(&samples, 0.95);
    samples_cleanup(&samples);
    return result;
}
