/*
 * The stage: lanes and ends of all sides of a job, in one process.
 *
 * With buffers in a GPU's memory a side may be missing, at both processes: raw
 * UCX where the UCX at hand knows of no GPU, copies where the two GPUs cannot
 * reach each other.
 */
#ifndef PERF_STAGE_H
#define PERF_STAGE_H

#include "perf/control.h"
#include "perf/end.h"
#include "perf/job.h"
#include "perf/lane.h"
#include "perf/pool_lane.h"

/* Lanes by mode; NULL where none is needed. */
typedef struct stage {
    control_t   *control;
    unsigned     num_sides;
    lane_t      *lanes[MODE_LAST];      /* of raw UCX */
    pool_lane_t *pool_lanes[MODE_LAST]; /* of the pool */
    end_t       *ends[JOB_MAX_SIDES];   /* NULL: the side is missing */
    /* Of the other direction, where both go at once; else NULL. */
    end_t   *back_ends[JOB_MAX_SIDES];
    unsigned current; /* side, that stage_enter() has chosen */
    /* Of each side's own batches; and before the present one. */
    pool_count_t counts[JOB_MAX_SIDES];
    pool_count_t before;
    char         missing[JOB_MAX_SIDES][JOB_REASON_SIZE]; /* why */
    memory_t     memory;                                  /* of the buffers */
    char         gpus[2][JOB_GPU_SIZE]; /* the sender's and the receiver's */
} stage_t;

/*
 * Both processes call these at the same time.
 *
 * missing [out]  What a side needs and these two cannot have, in
 *                JOB_MISSING_SIZE bytes. With -1, and "" before: else the error
 *                was said.
 */
int  stage_init(stage_t *stage, const job_t *job, control_t *control,
                bool is_sender, char *missing);
void stage_cleanup(stage_t *stage);

/* Has this machine host memory for the buffers of so many processes? Without,
 * the system would kill one of them. -1 after having said so. */
int stage_check_memory(const job_t *job, unsigned num_processes);

static inline bool stage_has(const stage_t *stage, unsigned side)
{
    return stage->ends[side] != NULL;
}

/* Choose the end that is progressed while the control connection waits. */
end_t *stage_enter(stage_t *stage, unsigned side);

/* Count what the side's pool does from here, and up to here. */
void stage_count_begin(stage_t *stage, unsigned side);
void stage_count_end(stage_t *stage, unsigned side);

/* Tell what the side's lane knows. */
void stage_describe(const stage_t *stage, unsigned index, job_side_t *side);

#endif
