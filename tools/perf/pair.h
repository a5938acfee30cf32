/*
 * The two processes of a job: the sender and the receiver.
 */
#ifndef PERF_PAIR_H
#define PERF_PAIR_H

#include "perf/control.h"
#include "perf/job.h"

#include <stdio.h>

/* --- one of them (measure.c) ---------------------------------------------- */

/* Run the rounds of a job as the sender, or follow as the receiver. */
int measure_lead(const job_t *job, control_t *control, job_result_t *result_p);
int measure_follow(const job_t *job, control_t *control);

/* --- forked here (pair.c) ------------------------------------------------- */

/*
 * Run a job in two new processes. The calling process never uses UCX, so it can
 * call this function repeatedly.
 *
 * cpus  Processors of the two processes; -1: any.
 */
int pair_run(const job_t *job, const int cpus[2], job_result_t *result_p);

/* Pin the calling process. */
int pair_pin(int cpu);

/* Check for a CUDA driver and these GPUs, in a child process, because a process
 * that has used a GPU cannot fork. Returns 0, or -1 after printing an error. */
int pair_check_devices(const int32_t devices[2]);

/* --- on two hosts (remote.c) ---------------------------------------------- */

/* The server follows, and the client leads. The client connects to a listener
 * of the server's pool. The channel is the control connection. */
typedef struct remote remote_t;

/*
 * Serve the jobs of one client.
 *
 * where   "PORT" or "HOST:PORT".
 *
 * output  Receives a line with the address on which the server listens.
 */
int remote_serve(const char *where, FILE *output);

int remote_connect(const char *where, remote_t **remote_p);
int remote_run(remote_t *remote, const job_t *job, job_result_t *result_p);

/* Tell the server that there are no more jobs. */
void remote_destroy(remote_t *remote);

#endif
