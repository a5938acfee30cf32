/*
 * A lane of the pool: a pool in each process and the channel between them. All
 * sides of one wire share it, one at a time.
 */
#ifndef PERF_POOL_LANE_H
#define PERF_POOL_LANE_H

#include "perf/control.h"
#include "perf/end.h"
#include "perf/job.h"

#include <ucxpool/ucxpool.h>

/* What a pool counts. */
typedef struct pool_count {
    uint64_t num_allocations; /* of the heap */
    uint64_t num_messages;    /* sent */
} pool_count_t;

typedef struct pool_lane {
    uint32_t           mode; /* MODE_AUTO, MODE_MAP or MODE_UCX */
    ucxpool_t         *pool;
    ucxpool_channel_t *channel;
} pool_lane_t;

/* What pools are made for. */
typedef struct pool_lane_params {
    uint32_t mode;   /* MODE_AUTO, MODE_MAP or MODE_UCX */
    int      device; /* of the blocks; WORK_HOST: host memory */
    /* Bytes of ucxpool_comm_alloc() memory that will be asked for; the pool is
     * made larger than its default where they need it. */
    size_t comm_size;
    size_t send_size; /* of all blocks for what is sent; 0: the default */
} pool_lane_params_t;

/* Make settings from the environment. */
int pool_lane_config(const pool_lane_params_t *params,
                     ucxpool_config_t        **config_p);

/* Have the blocks in a GPU's memory; WORK_HOST: nothing to be done. */
void pool_lane_set_device(ucxpool_params_t *params, int device);

/*
 * Create a lane and connect it; both processes call this.
 *
 * missing [out]  Where -1 is returned because these two cannot have the wire:
 *                that, in JOB_MISSING_SIZE bytes.
 */
int  pool_lane_create(const pool_lane_params_t *params, control_t *control,
                      char *missing, pool_lane_t **lane_p);
void pool_lane_destroy(pool_lane_t *lane);

/* What was counted so far, by all sides that share the lane. */
pool_count_t pool_lane_count(const pool_lane_t *lane);

/* Tell about the wire, and what was counted in the side's own batches. */
void pool_lane_describe(const pool_lane_t *lane, const pool_count_t *count,
                        job_side_t *side);

/*
 * Create an end for a side of the pool. It borrows the lane. Both processes
 * call this.
 *
 * missing [out]  Why the side cannot be had, in JOB_REASON_SIZE bytes; then no
 *                end is made. Else "".
 */
int pool_end_create(pool_lane_t *lane, const end_params_t *params,
                    control_t *control, char *missing, end_t **end_p);

/* Bytes of ucxpool_comm_alloc() memory that such an end takes. */
size_t pool_end_comm_size(side_t side, const work_t *work, bool is_sender);

#endif
