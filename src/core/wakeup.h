/*
 * Wakeups of a sleeping application: descriptors in the pool's epoll, and
 * events to report. The sleep itself is in pool/sleep.c.
 */
#ifndef CORE_WAKEUP_H
#define CORE_WAKEUP_H

#include "core/pool.h"

#include <ucxpool/event.h>

/* --- sources ----------------------------------------------------------------
 * A descriptor in the pool's epoll, and a function to call when it is ready,
 * for example when a peer's process has ended, or when a socket is readable.
 */

typedef struct core_source {
    ucxpool_t *pool;
    int        fd; /* -1: not in the epoll set */
    /*
     * Called by progress, with the lock held. May remove this source and any
     * other. NULL: the descriptor only ends a sleep, and its owner checks it in
     * each round of progress.
     *
     * Returns the number of events handled.
     */
    unsigned (*ready)(struct core_source *source);
} core_source_t;

/* Initialize a source that is not in the epoll set. */
void core_source_init(core_source_t *source);

/*
 * Add a descriptor, which the caller still owns, to the epoll. The source is
 * ready if the descriptor is readable.
 *
 * UCXPOOL_ERR_IO, UCXPOOL_ERR_NO_MEMORY  the descriptor cannot be watched
 */
ucxpool_status_t core_source_add(core_source_t *source, ucxpool_t *pool, int fd,
                                 unsigned (*ready)(core_source_t *source));

/* Ignore a descriptor that remains readable, or watch it again. Returns false
 * if the system call fails. */
bool core_source_set_watched(core_source_t *source, bool is_watched);

/*
 * Remove the source. Its function is no longer called, even if the source was
 * ready. Call this before the descriptor is closed. Otherwise, if a forked
 * child has a copy of the descriptor, the descriptor stays in the epoll.
 */
void core_source_remove(core_source_t *source);

/* Call the functions of ready sources. Returns the number of events handled. In
 * the epoll, the pool's own address represents UCX's worker, which is no longer
 * armed when it is ready. */
unsigned core_source_progress(ucxpool_t *pool);

/* --- events -----------------------------------------------------------------
 * The events of a channel or a listener for the application (ucxpool/event.h).
 * They are stored in the object itself, so nothing is allocated. The object is
 * in pool->channels.events if and only if kinds != 0 and its handle is in use.
 */

typedef struct core_event {
    base_list_t         link; /* pool->channels.events */
    ucxpool_t          *pool;
    ucxpool_channel_t  *channel;
    ucxpool_listener_t *listener;
    unsigned            kinds; /* ucxpool_event_kind_t */
} core_event_t;

/* Initialize the events of a channel or of a listener; the other one is
 * NULL. */
void core_event_init(core_event_t *event, ucxpool_t *pool,
                     ucxpool_channel_t *channel, ucxpool_listener_t *listener);

/* Set an event, which keeps an event loop from sleeping, or clear it. */
void core_event_set(core_event_t *event, ucxpool_event_kind_t kind);
void core_event_clear(core_event_t *event, ucxpool_event_kind_t kind);

/* core_event_count() counts an event for which the application may poll, but
 * which is not reported. core_event_counted() returns the count, and needs no
 * lock. */
void     core_event_count(ucxpool_t *pool);
uint64_t core_event_counted(const ucxpool_t *pool);

/* Update the pool's list of events, after the application has received or
 * released the handle of the channel or listener. */
void core_event_update(core_event_t *event);

/* Report events, at most `max`. Returns how many. Conditions that persist are
 * reported again, but after all other events, and not in this call. */
size_t core_event_report(ucxpool_t *pool, ucxpool_event_t *events, size_t max);

/* Returns true if there is a completion to report, or an event for an
 * application that polls for events. Takes the lock. */
bool core_event_is_pending(ucxpool_t *pool);

#endif
