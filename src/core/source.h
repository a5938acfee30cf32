/*
 * A descriptor in the pool's epoll set, and what to call when it is ready:
 * a peer's process that has ended, a socket that has something to read.
 */
#ifndef CORE_SOURCE_H
#define CORE_SOURCE_H

#include "core/pool.h"

typedef struct core_source {
    ucxpool_t *pool;
    int        fd; /* -1: not in the set */
    /*
     * Called by progress, with the lock held. May remove this source and any
     * other. NULL: the descriptor only ends a sleep, and its owner looks at it
     * in each round of progress.
     *
     * Returns how many things moved.
     */
    unsigned (*ready)(struct core_source *source);
} core_source_t;

/* A source that is not in the set. */
void core_source_init(core_source_t *source);

/*
 * Put a descriptor, which stays its owner's, into the set: ready while it can
 * be read.
 *
 * UCXPOOL_ERR_IO, UCXPOOL_ERR_NO_MEMORY  it cannot be watched
 */
ucxpool_status_t core_source_add(core_source_t *source, ucxpool_t *pool, int fd,
                                 unsigned (*ready)(core_source_t *source));

/* Look away from a descriptor that stays readable, and at it again. False: the
 * system refuses. */
bool core_source_set_watched(core_source_t *source, bool is_watched);

/*
 * Take it out; to be called before the descriptor is closed, since a forked
 * child may hold a copy, which would stay in the set. It is not called any
 * more, though it may have been ready already.
 */
void core_source_remove(core_source_t *source);

/* Call those that are ready. Returns how many things moved. */
unsigned core_source_progress(ucxpool_t *pool);

#endif
