/*
 * What ends a program's sleep: descriptors in the pool's epoll set, and events
 * that are to be told. The sleep itself is in pool/progress.c.
 */
#ifndef CORE_WAKEUP_H
#define CORE_WAKEUP_H

#include "core/pool.h"

#include <ucxpool/event.h>

/* --- sources ----------------------------------------------------------------
 * A descriptor in the pool's epoll set, and what to call when it is ready:
 * a peer's process that has ended, a socket that has something to read.
 */

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

/* Call those that are ready. Returns how many things moved. The pool itself
 * stands for UCX's worker, which is not armed any more when it is ready. */
unsigned core_source_progress(ucxpool_t *pool);

/* --- events -----------------------------------------------------------------
 * What a channel or a listener has to tell the program (ucxpool/event.h). It
 * has the place for it in itself, so nothing is allocated, and
 *
 *     in pool->channels.events == (kinds != 0) && the program has the handle
 */

typedef struct core_event {
    base_list_t         link; /* pool->channels.events */
    ucxpool_t          *pool;
    ucxpool_channel_t  *channel;
    ucxpool_listener_t *listener;
    unsigned            kinds; /* ucxpool_event_kind_t */
} core_event_t;

/* One of channel and listener is NULL. */
void core_event_init(core_event_t *event, ucxpool_t *pool,
                     ucxpool_channel_t *channel, ucxpool_listener_t *listener);

/* Something new has come, which an event loop must not sleep on; or there is
 * nothing of this kind any more. */
void core_event_set(core_event_t *event, ucxpool_event_kind_t kind);
void core_event_clear(core_event_t *event, ucxpool_event_kind_t kind);

/* One more thing that a caller may look for, and is not told of otherwise; and
 * how many there were, which is asked without the lock. */
void     core_event_count(ucxpool_t *pool);
uint64_t core_event_counted(const ucxpool_t *pool);

/* The program was given the channel, or has released it. */
void core_event_update(core_event_t *event);

/* Tell what there is. What holds on is told again, but behind the others, and
 * not in this call. Returns how many. */
size_t core_event_tell(ucxpool_t *pool, ucxpool_event_t *events, size_t max);

/* Is there something to tell: an end of a request, or an event to a program
 * that asks for them? Takes the lock. */
bool core_event_is_pending(ucxpool_t *pool);

#endif
