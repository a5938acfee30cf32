/*
 * A stage consists of the lanes and ends of all sides of a job in one process.
 *
 * A side may be missing in both processes: raw UCX does not always support GPU
 * memory, and some reads and writes need an owner that is awake.
 */
#ifndef PERF_STAGE_H
#define PERF_STAGE_H

#include "perf/lane.h"

/* Lanes by mode; NULL if not needed. */
typedef struct stage {
    control_t   *control;
    unsigned     num_sides;
    raw_lane_t  *raw_lanes[MODE_LAST];
    pool_lane_t *pool_lanes[MODE_LAST];
    /* The end of this direction and, if both directions run at once, the end of
     * the other one. NULL: the side is missing or uses one direction. */
    end_t   *ends[JOB_MAX_SIDES][2];
    unsigned current; /* side chosen by stage_enter() */
    /* Why a side is missing, or "". */
    char     missing[JOB_MAX_SIDES][JOB_REASON_SIZE];
    memory_t memory;                /* memory of the buffers */
    char     gpus[2][JOB_GPU_SIZE]; /* the sender's and the receiver's */
} stage_t;

/*
 * Create the stage. Both processes call this function at the same time.
 *
 * missing [out]  JOB_MISSING_SIZE bytes; "" before the call. If -1 is returned
 *                because a side needs something that is unavailable, `missing`
 *                says what. If it is still "", an error was printed.
 */
int  stage_init(stage_t *stage, const job_t *job, control_t *control,
                bool is_sender, char *missing);
void stage_cleanup(stage_t *stage);

/* Destroy the ends that send. A GPU's sender has mapped memory of the other
 * process, which must not be freed before. */
void stage_destroy_senders(stage_t *stage);

/* Check that the host has enough memory for the buffers of this number of
 * processes. Otherwise the system would kill one of them. Returns -1
 * after printing an error. */
int stage_check_memory(const job_t *job, unsigned num_processes);

static inline bool stage_has(const stage_t *stage, unsigned side)
{
    return stage->ends[side][0] != NULL;
}

/* Choose the end that makes progress while the control connection waits. */
end_t *stage_enter(stage_t *stage, unsigned side);

/* Copy the properties of the side's lane to its result. */
void stage_describe(const stage_t *stage, unsigned index, job_side_t *side);

/* --- batches -------------------------------------------------------------- */

/* The control messages of the two processes for a batch.
 *
 *     leader     BATCH ------------>  follower   posts its receives
 *                <------------ READY
 *                ====== messages =====>
 *                <------------- DONE             verified on request
 *
 * If messages go both ways at once, the leader posts its receives first, and
 * verifies the bytes that it receives. If it reads or writes the follower's
 * memory directly, it then sends OVER:
 *
 *                ==== reads, writes ==>          makes progress, or sleeps
 *     leader     OVER ------------->
 *
 * If both read or write directly, the leader first waits for the follower's
 * OVER.
 */

/* Send one batch of a side. is_verified: fill the memory with new bytes, and
 * let the receiver compare every byte. */
int batch_lead(stage_t *stage, unsigned side, uint64_t num_messages,
               bool is_verified, samples_t *times, double *seconds_p);

/* Serve batches until the leader reports the last one. */
int batch_follow(stage_t *stage);

/* Report to the follower that the batch was the last one. */
int batch_end(stage_t *stage);

#endif
