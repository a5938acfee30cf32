/*
 * What a channel or a listener has to tell the program (ucxpool/event.h). It
 * has the place for it in itself, so nothing is allocated, and
 *
 *     in pool->channels.events == (kinds != 0) && the program has the handle
 */
#ifndef CORE_EVENT_H
#define CORE_EVENT_H

#include "core/pool.h"

#include <ucxpool/event.h>

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

/* The program was given the channel, or has released it. */
void core_event_update(core_event_t *event);

/* Is there something to tell: an end of a request, or an event to a program
 * that asks for them? Takes the lock. */
bool core_event_is_pending(ucxpool_t *pool);

#endif
