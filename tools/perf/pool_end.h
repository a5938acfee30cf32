/*
 * An end over a lane of the pool, as pool_end.c and pool_window.c see it.
 */
#ifndef PERF_POOL_END_H
#define PERF_POOL_END_H

#include "perf/pool_lane.h"

typedef struct pool_end {
    end_t        end; /* first: an end_t * is a pool_end_t * */
    pool_lane_t *lane;
    void        *comm; /* NULL: the buffers are not the pool's */
    int          event_fd;
    /* The buffers of this end; those of the other one, of which those of each
     * slot lie at these offsets. NULL where the way is another one. */
    ucxpool_window_t *window;
    ucxpool_remote_t *remote;
    uint64_t         *offsets;
} pool_end_t;

/* Say it once. Returns -1. */
int pool_end_fail(end_t *end, const char *what, const char *why);

/* A request has ended, and its slot has one less. Says what went wrong. */
bool pool_end_ended_well(end_slot_t *slot, ucxpool_request_t *request,
                         ucxpool_status_t status);

/*
 * Params of a request that counts as pending. No work of the GPU's is on its
 * way when a message is posted. is_data: the segments are buffers, of which the
 * caller knows that they lie in the GPU's memory; else they may be a word in
 * host memory.
 */
void pool_end_fill_params(ucxpool_request_params_t *params, end_slot_t *slot,
                          ucxpool_request_cb_t callback, bool is_data);

/* What the pool said to such a request. Returns 0, or -1 after an error. */
int pool_end_posted(end_slot_t *slot, ucxpool_status_t status);

/* For the tables of functions. */
void pool_end_progress(end_t *end);
void pool_end_destroy(end_t *end);

/* Make the buffers a window, where the side has them in one. */
int  pool_window_create(pool_end_t *pool_end);
void pool_window_destroy(pool_end_t *pool_end);

/*
 * The sender imports the receiver's window; both processes call this.
 *
 * missing [out]  Why the side cannot be had, in JOB_REASON_SIZE bytes, or "".
 */
int pool_window_connect(pool_end_t *pool_end, control_t *control,
                        char *missing);

/* Of reads and writes. */
extern const end_ops_t pool_window_ops;

#endif
