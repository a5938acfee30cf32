/*
 * Two hosts: a server that follows, and a client that leads. They find each
 * other by a listener of the pool, and the channel that it gives carries what
 * is elsewhere said over a socket.
 */
#ifndef PERF_REMOTE_H
#define PERF_REMOTE_H

#include "perf/control.h"
#include "perf/job.h"

#include <ucxpool/ucxpool.h>

#include <stdio.h>

typedef struct remote remote_t;

/*
 * Serve the jobs of one client.
 *
 * where   "PORT" or "HOST:PORT".
 * output  Gets the line that tells where the server listens.
 */
int remote_serve(const char *where, FILE *output);

int remote_connect(const char *where, remote_t **remote_p);
int remote_run(remote_t *remote, const job_t *job, job_result_t *result_p);

/* Tell the server that it was all. */
void remote_destroy(remote_t *remote);

#endif
