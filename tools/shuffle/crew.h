/*
 * The crew: the worker processes of one host, as their main process sees them.
 */
#ifndef SHUFFLE_CREW_H
#define SHUFFLE_CREW_H

#include "tools/shuffle/board.h"
#include "tools/shuffle/job.h"

#include <sys/types.h>

typedef struct crew_member {
    pid_t    pid;        /* 0: never started */
    int      socket;     /* -1: closed, the process is gone */
    int      status;     /* as waitpid() says it */
    bool     has_failed; /* parked: waits for its end */
    bool     was_killed; /* by us */
    bool     is_late;    /* failed, or gone, after the crew was told to end */
    unsigned order;      /* in which they failed, or went */
} crew_member_t;

typedef struct crew {
    const job_t   *job;
    crew_member_t *members;
    board_place_t *board;
    unsigned       num_alive;
    unsigned       num_failed; /* or gone */
    bool           is_ending;  /* told to, or killed */
} crew_t;

/* Start all workers. Returns -1 with a complaint; those that were started are
 * alive then. */
int  crew_init(crew_t *crew, const job_t *job);
int  crew_start(crew_t *crew);
void crew_cleanup(crew_t *crew);

/* Say a word to all that are alive. */
void crew_tell(crew_t *crew, board_word_t word);

/*
 * End all that are alive, at once: UCX complains, or aborts the process, when a
 * peer goes away, the more so while the two are still being connected.
 */
void crew_kill(crew_t *crew);

/* Whether all that are alive have failed, and wait for their end. */
bool crew_is_parked(const crew_t *crew);

/* What a worker says; 0 when it is gone, and reaped. */
char crew_hear(crew_t *crew, unsigned index);

/* Whether somebody else has killed a worker that is gone. */
bool crew_was_slain(const crew_t *crew, unsigned index);

/*
 * Complain about the worker that is the cause of the failure. One that
 * complained before the crew was told to end is a cause; one that died by
 * itself may have done so for want of a peer, by a fault of UCX; one that only
 * lost a peer never is. The end of a worker that somebody has killed may be
 * heard after what comes of it, because the system closes what it had in any
 * order; so it counts even when it is heard late.
 */
int crew_complain(const crew_t *crew);

#endif
