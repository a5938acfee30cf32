/*
 * The group: the worker processes of one host, as their main process sees them.
 */
#ifndef SHUFFLE_WORKER_GROUP_H
#define SHUFFLE_WORKER_GROUP_H

#include "tools/shuffle/shared.h"
#include "tools/shuffle/job.h"

#include <sys/types.h>

typedef struct worker_process {
    pid_t    pid;        /* 0: never started */
    int      socket;     /* -1: closed, the process is gone */
    int      status;     /* as waitpid() says it */
    bool     has_failed; /* parked: waits for its end */
    bool     was_killed; /* by us */
    bool     is_late;    /* failed, or gone, after the group was told to end */
    unsigned order;      /* in which they failed, or went */
} worker_process_t;

typedef struct worker_group {
    const job_t      *job;
    worker_process_t *members;
    shared_place_t   *shared;
    unsigned          num_alive;
    unsigned          num_failed; /* or gone */
    bool              is_ending;  /* told to, or killed */
} worker_group_t;

/* Start all workers. Returns -1 with an error; those that were started are
 * alive then. */
int  group_init(worker_group_t *group, const job_t *job);
int  group_start(worker_group_t *group);
void group_cleanup(worker_group_t *group);

/* Say a word to all that are alive. */
void group_tell(worker_group_t *group, shared_word_t word);

/*
 * End all that are alive, at once: UCX reports an error, or aborts the process,
 * when a peer goes away, the more so while the two are still being connected.
 */
void group_kill(worker_group_t *group);

/* Whether all that are alive have failed, and wait for their end. */
bool group_is_parked(const worker_group_t *group);

/* What a worker says; 0 when it is gone, and reaped. */
char group_hear(worker_group_t *group, unsigned index);

/* Whether somebody else has killed a worker that is gone. */
bool group_was_slain(const worker_group_t *group, unsigned index);

/*
 * Report an error about the worker that is the cause of the failure. One that
 * reported an error before the group was told to end is a cause; one that died
 * by itself may have done so for want of a peer, by a fault of UCX; one that
 * only lost a peer never is. The end of a worker that somebody has killed may
 * be heard after what comes of it, because the system closes what it had in any
 * order; so it counts even when it is heard late.
 */
int group_say_error(const worker_group_t *group);

#endif
