/* Connections between the two processes, and the ends that use them.
 *
 *     raw_lane    raw UCX in one mode: a context, a worker, an endpoint
 *     pool_lane   a pool in each process, and the channel between them
 *
 * All sides of a mode share a lane, one at a time.
 *
 * Functions that take a control connection are called by both processes at the
 * same time. Functions return 0, or -1 after printing an error.
 */
#ifndef PERF_LANE_H
#define PERF_LANE_H

#include "perf/control.h"
#include "perf/end.h"

#include <ucxpool/ucxpool.h>

/* --- raw UCX -------------------------------------------------------------- */

typedef struct raw_lane raw_lane_t;

int  raw_lane_create(uint32_t mode, bool is_on_gpu, control_t *control,
                     raw_lane_t **lane_p);
void raw_lane_destroy(raw_lane_t *lane);

int raw_end_create(raw_lane_t *lane, const end_params_t *params,
                   control_t *control, end_t **end_p);

/* Find out whether this UCX supports GPU memory. A UCX that does not would
 * treat GPU pointers as host memory. */
int raw_is_for_gpu(bool *is_for_gpu_p);

/* --- the pool ------------------------------------------------------------- */

/*
 * Create a pool with the settings of the environment.
 *
 * mode       MODE_AUTO, MODE_MAP or MODE_UCX.
 * device     Device of the blocks; WORK_HOST: host memory.
 * comm_size  Size of the ucxpool_comm_alloc() memory that will be allocated.
 *            The pool is created larger than its default if needed.
 */
int pool_create(uint32_t mode, int device, size_t comm_size, const char *name,
                ucxpool_t **pool_p);

/* Accept the next channel, waiting for it, and destroy the listener. what: as
 * for pool_check(). */
int pool_accept(ucxpool_t *pool, ucxpool_listener_t *listener,
                ucxpool_channel_t **channel_p, const char *what);

/* Returns 0 if a call of the library succeeded. Otherwise prints an error,
 * which begins with `what`, and returns -1. */
int pool_check(ucxpool_status_t status, const char *what);

typedef struct pool_lane pool_lane_t;

/* missing [out]  The reason, in JOB_MISSING_SIZE bytes, if -1 is returned
 *                because the two pools cannot use the wire. */
int  pool_lane_create(uint32_t mode, const job_t *job, bool is_sender,
                      control_t *control, char *missing, pool_lane_t **lane_p);
void pool_lane_destroy(pool_lane_t *lane);

/* missing [out]  "", or the reason why the side is unavailable, in
 *                JOB_REASON_SIZE bytes. In that case no end is created. */
int pool_end_create(pool_lane_t *lane, const end_params_t *params,
                    control_t *control, char *missing, end_t **end_p);

/* Report in the result the wire, and the way of reads and writes. end: NULL if
 * the side is missing. */
void pool_describe(const pool_lane_t *lane, const end_t *end, job_side_t *side);

#endif
