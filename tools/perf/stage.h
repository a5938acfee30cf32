/*
 * The stage: lanes and ends of all sides of a job, in one process.
 *
 * With buffers in a GPU's memory a side may be missing, at both processes: raw
 * UCX where the UCX at hand knows of no GPU, copies where the two GPUs cannot
 * reach each other.
 */
#ifndef PERF_STAGE_H
#define PERF_STAGE_H

#include "perf/lane.h"

/* Lanes by mode; NULL where none is needed. */
typedef struct stage {
    control_t   *control;
    unsigned     num_sides;
    raw_lane_t  *raw_lanes[MODE_LAST];
    pool_lane_t *pool_lanes[MODE_LAST];
    /* Of this direction and, where both go at once, of the other one; NULL: the
     * side is missing, or goes one way. */
    end_t   *ends[JOB_MAX_SIDES][2];
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
    return stage->ends[side][0] != NULL;
}

/* Choose the end that is progressed while the control connection waits. */
end_t *stage_enter(stage_t *stage, unsigned side);

/* Count what the side's pool does from here, and up to here. */
void stage_count_begin(stage_t *stage, unsigned side);
void stage_count_end(stage_t *stage, unsigned side);

/* Tell what the side's lane knows. */
void stage_describe(const stage_t *stage, unsigned index, job_side_t *side);

/* --- batches -------------------------------------------------------------- */

/* The messages of the two processes about a batch.
 *
 *     leader     BATCH ------------>  follower   posts what it expects
 *                <------------ READY
 *                ====== messages =====>
 *                <------------- DONE             verified where asked
 * If messages go both ways at once, the leader posts its receives first, and
 * verifies the bytes that it receives. If it reads or writes the follower's
 * memory by itself, it sends OVER when that is done:
 *
 *                ==== reads, writes ==>          progresses, or sleeps
 *     leader     OVER ------------->
 *
 * and where both do it, the leader waits for the follower's OVER before.
 */

/* Send one batch of a side. is_verified: fill the memory afresh, and have the
 * receiver compare every byte. */
int batch_lead(stage_t *stage, unsigned side, uint64_t num_messages,
               bool is_verified, samples_t *times, double *seconds_p);

/* Serve batches until the leader says that it was the last. */
int batch_follow(stage_t *stage);

/* Say that it was the last. */
int batch_end(stage_t *stage);

#endif
