/*
 * The launcher: the program that started one process per worker, on one host or
 * several (mpirun, srun), and introduces them to each other through PMIx.
 *
 * launcher_pmix.c does it; launcher_none.c is built where PMIx is missing.
 */
#ifndef SHUFFLE_LAUNCHER_H
#define SHUFFLE_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct launcher {
    unsigned rank;
    unsigned num_ranks;
    unsigned local_rank; /* among those on this host */
    bool     has_shown;  /* others may be connected */
    void    *inside;
} launcher_t;

/* Whether this process was started by one. */
bool launcher_is_present(void);

/* All return -1 with an error. */

int launcher_init(launcher_t *launcher);

/* Worker 0 gives a text to all, itself too. Waits until all are there. size:
 * bytes of the text, its final 0 included. */
int launcher_share(launcher_t *launcher, char *text, size_t size);

/* Show a card to all others, and wait until all have shown theirs. */
int launcher_show(launcher_t *launcher, const void *card, size_t length);

/* The card of another, to be released by free(). */
int launcher_look(launcher_t *launcher, unsigned rank, void **card_p,
                  size_t *length_p);

/*
 * What follows a failure. Workers are to stop before any connection breaks,
 * which makes UCX loud, and 1.13 abort those that use it. So
 *
 * abort   asks for the end of all workers, after an error, and waits for it;
 * delay_exit  waits, after a signal, until the others will have had theirs;
 * await   waits for a signal, after the loss of another worker, which has told
 *         why, or the launcher does.
 *
 * None waits for more than seconds, or before there are connections.
 */
void launcher_abort(const launcher_t *launcher, int status);
void launcher_delay_exit(const launcher_t *launcher);
void launcher_await(const launcher_t *launcher);

/* Say good-bye. */
void launcher_cleanup(launcher_t *launcher);

#endif
