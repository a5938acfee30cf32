/*
 * The two processes of a job: the sender and the receiver.
 */
#ifndef PERF_PAIR_H
#define PERF_PAIR_H

#include "perf/control.h"
#include "perf/job.h"

#include <stdio.h>

/* --- one of them (measure.c) ---------------------------------------------- */

/* Run the rounds of a job as the sender. */
int measure_lead(const job_t *job, control_t *control, job_result_t *result_p);

/* Follow as the receiver, job by job, until the sender calls measure_end(). */
int measure_follow(control_t *control);
int measure_end(control_t *control);

/* --- forked here (pair.c) ------------------------------------------------- */

/*
 * Fork the receiver.
 *
 * cpus  CPUs of the two processes; -1: any.
 */
int pair_start(const int cpus[2], control_t **control_p);

/* Pin the calling process. */
int pair_pin(int cpu);

/* Check for a CUDA driver and these GPUs. Returns 0, or -1 after printing an
 * error. */
int pair_check_devices(const int32_t devices[2]);

/* --- on two hosts (remote.c) ---------------------------------------------- */

/* The server follows, and the client leads. The client connects to a listener
 * of the server's pool. The channel is the control connection. */

/*
 * Serve the jobs of one client.
 *
 * where   "PORT" or "HOST:PORT".
 *
 * output  Receives a line with the address on which the server listens.
 */
int remote_serve(const char *where, FILE *output);

int remote_connect(const char *where, control_t **control_p);

#endif
