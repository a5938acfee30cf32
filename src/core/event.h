/*
 * What a channel or a listener has to tell the program (ucxpool/event.h). It
 * has the place for it in itself, so nothing is allocated, and
 *
 *     in pool->events == (kinds != 0) && the program has the handle
 */
#ifndef CORE_EVENT_H
#define CORE_EVENT_H

#include "core/pool.h"

#include <ucxpool/event.h>

typedef struct xfer_event {
    base_list_t         link; /* pool->events */
    ucxpool_t          *pool;
    ucxpool_channel_t  *channel;
    ucxpool_listener_t *listener;
    unsigned            kinds; /* ucxpool_event_kind_t */
} xfer_event_t;

/* One of channel and listener is NULL. */
void xfer_event_init(xfer_event_t *event, ucxpool_t *pool,
                     ucxpool_channel_t *channel, ucxpool_listener_t *listener);

/* Something new has come, which an event loop must not sleep on; or there is
 * nothing of this kind any more. */
void xfer_event_set(xfer_event_t *event, ucxpool_event_kind_t kind);
void xfer_event_clear(xfer_event_t *event, ucxpool_event_kind_t kind);

/* The program was given the channel, or has released it. */
void xfer_event_update(xfer_event_t *event);

/* Is there something to tell a program that asks for events? Takes the lock. */
bool xfer_event_is_pending(ucxpool_t *pool);

#endif
