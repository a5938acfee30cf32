/*
 * Events: which channels and listeners have something for the program, so that
 * it need not ask each of a thousand.
 *
 * The pool keeps a line of those that have something to tell, each in it once:
 *
 *   MESSAGE  a message waits that no receive has taken: ucxpool_probe(), or a
 *            receive
 *   STATE    the channel has opened, or has ended: ucxpool_channel_query()
 *   CALLER   a proven peer waits to be taken: ucxpool_listener_accept()
 *
 * MESSAGE and CALLER are told for as long as they hold, as epoll does where it
 * is not told otherwise: after one of two messages was received the other is
 * told. A channel or listener that was told of goes to the end of the line, so
 * that all have their turn. STATE is told once; changes that came one after the
 * other are told together, and the query tells how things stand now.
 *
 *     for (;;) {
 *         ucxpool_event_get(pool, events, 64, &num);
 *         for (size_t i = 0; i < num; i++) {
 *             ... see to events[i].channel or events[i].listener ...
 *         }
 *         ucxpool_wait(pool, UCXPOOL_FOREVER);
 *     }
 *
 * From the first ucxpool_event_get() on, ucxpool_wait() does not sleep while
 * there is something to tell, and ucxpool_arm() makes the event descriptor
 * readable; so nothing is slept on, whatever the loop has left undone. A
 * message that is to lie there for now is taken by ucxpool_probe() and kept:
 * it then is the program's, and is told of no more.
 *
 * Nothing is allocated for an event, and none is lost. Requests are not told
 * of: they have callbacks, and ucxpool_completion_get().
 */
#ifndef UCXPOOL_EVENT_H
#define UCXPOOL_EVENT_H

#include <ucxpool/channel.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum ucxpool_event_kind {
    UCXPOOL_EVENT_MESSAGE = 1u << 0,
    UCXPOOL_EVENT_STATE   = 1u << 1,
    UCXPOOL_EVENT_CALLER  = 1u << 2
} ucxpool_event_kind_t;

/* What one channel or one listener has to tell. */
typedef struct ucxpool_event {
    unsigned            kinds;    /* ucxpool_event_kind_t, one or more */
    ucxpool_channel_t  *channel;  /* NULL: it is a listener's */
    ucxpool_listener_t *listener; /* NULL: it is a channel's */
    void               *user_ptr; /* the channel's; NULL for a listener */
    uint64_t            reserved[2];
} ucxpool_event_t;

/*
 * What has happened, on the channel or listener first that has waited longest.
 * Does not progress, and does not wait.
 *
 * events  [out]  Array of max.
 * num_p   [out]  How many were written: fewer than max when there are no more.
 *                No channel and no listener is among them twice.
 *
 * Channels that the program has released, and listeners that it has destroyed,
 * are not told of. What was written before stays as it is: a program that
 * releases another channel than that of the event at hand must not use the
 * events of that one which are still to come. Messages of a released channel
 * are found by ucxpool_probe() alone.
 *
 * Several threads may ask; what holds is told to each, and a change of state to
 * one of them.
 *
 * UCXPOOL_ERR_INVALID_PARAM  an argument is NULL
 */
ucxpool_status_t ucxpool_event_get(ucxpool_t *pool, ucxpool_event_t *events,
                                   size_t max, size_t *num_p);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
