/*
 * The crew: the worker processes of one host, as their main process sees them.
 */
#ifndef SHUFFLE_CREW_H
#define SHUFFLE_CREW_H

#include "tools/shuffle/board.h"
#include "tools/shuffle/job.h"

#include <sys/types.h>

typedef struct crew_member {
    pid_t pid;    /* 0: never started               */
    int   socket; /* -1: closed, the process is gone */
    int   status; /* as waitpid() says it           */
    bool  has_failed;
    bool  was_killed; /* by us */
} crew_member_t;

typedef struct crew {
    const job_t   *job;
    crew_member_t *members;
    board_place_t *board;
    unsigned       num_alive;
} crew_t;

/* Start all workers. Returns -1 with a complaint; those that were started are
 * alive then. */
int  crew_init(crew_t *crew, const job_t *job);
int  crew_start(crew_t *crew);
void crew_cleanup(crew_t *crew);

/* Say a word to all that are alive. */
void crew_tell(crew_t *crew, board_word_t word);
void crew_kill(crew_t *crew);

/* What a worker says; 0 when it is gone, and reaped. */
char crew_hear(crew_t *crew, unsigned index);

/*
 * Complain about the worker that is the cause of the failure: one that died
 * comes before one that complained, and that before one that only lost
 * another.
 */
int crew_complain(const crew_t *crew);

#endif
