/*
 * A job: one work, done by several sides in turn, round after round.
 *
 *     round 0    A B C
 *     round 1    B C A
 *     round 2    C A B ...
 *
 * Each side's batch in a round is one sample. Ratios are made per round, so
 * that what slows the machine for a while slows both sides of a ratio.
 */
#ifndef PERF_JOB_H
#define PERF_JOB_H

#include "perf/control.h"
#include "perf/side.h"
#include "perf/test.h"
#include "perf/work.h"

#define JOB_MAX_SIDES 12
#define JOB_NAME_SIZE 16

/* Bytes of what is told of a job that cannot be done, its final 0 included. */
#define JOB_MISSING_SIZE 200

/* Bytes of the longest reason and name of a GPU, their final 0 included. */
#define JOB_REASON_SIZE 120
#define JOB_GPU_SIZE    64

/* Goes from process to process as is. */
typedef struct job {
    char     test[JOB_NAME_SIZE];
    work_t   work;
    uint32_t num_sides;
    uint32_t max_rounds;
    uint32_t may_miss; /* what cannot be had is told, and no error */
    uint32_t unused;
    uint64_t time_ns;   /* no new round after so long */
    uint64_t send_size; /* of a pool's blocks for what is sent; 0: the
                           default */
    side_t sides[JOB_MAX_SIDES];
} job_t;

/* All times in seconds and for one message. */
typedef struct job_side {
    side_t   side;
    double   median; /* of the samples */
    double   p05;
    double   p95;
    double   trip_p50; /* from post to reply, of single messages */
    double   trip_p99;
    uint64_t num_messages; /* of a batch */
    bool     verified;
    char     missing[JOB_REASON_SIZE]; /* not "": it cannot be done, and why */
    uint64_t num_moved;                /* buffers of a message that it moves */
    char     wire[8];                  /* of a pool's side: what was used */
    char     wire_reason[120];         /* and why */
    uint64_t registrations;            /* after the start */
    double   allocations;              /* heap allocations per message */
    char     way[12];                  /* of a read or write: what was used */
    char     way_reason[120];          /* and why */
} job_side_t;

/* The pool against another side: how many times as fast it is. */
typedef struct job_ratio {
    uint32_t pool; /* indices of sides */
    uint32_t raw;
    bool     is_best; /* the fastest of its group and mode */
    double   median;
    double   p05;
    double   p95;
} job_ratio_t;

typedef struct job_result {
    job_t      job;
    bool       done;
    char       missing[JOB_MISSING_SIZE]; /* why nothing was done, or "" */
    uint32_t   num_rounds;
    uint32_t   num_ratios;
    char       gpus[2][JOB_GPU_SIZE]; /* of the sender, the receiver; or "" */
    job_side_t sides[JOB_MAX_SIDES];
    /* Of the first side, and then of the one by pieces. */
    job_ratio_t ratios[2 * JOB_MAX_SIDES];
} job_result_t;

/* A job that came from another host: is it one that we would make? */
bool job_is_sane(const job_t *job);

/* Run a job as the sender, or follow as the receiver. */
int job_lead(const job_t *job, control_t *control, job_result_t *result_p);
int job_follow(const job_t *job, control_t *control);

/* Bytes of a batch's message in the way that a reader counts. */
double job_rate(const job_t *job, double seconds);

/* Million messages a second, where each buffer is one. */
double job_message_rate(const job_t *job, double seconds);

#endif
