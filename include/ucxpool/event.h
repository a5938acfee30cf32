/*
 * Events report which channels and listeners need attention. A program with a
 * thousand channels then does not have to query each one.
 *
 * The pool keeps a queue of the channels and listeners that have events. Each
 * channel and listener is in the queue at most once. The events are:
 *
 *   MESSAGE  a message has arrived that matches no posted receive: call
 *            ucxpool_probe(), or post a receive
 *   STATE    the channel has opened or ended: call ucxpool_channel_query()
 *   CALLER   an authenticated peer is queued: call ucxpool_listener_accept()
 *
 * MESSAGE and CALLER are level-triggered, like epoll by default. If two
 * messages have arrived and one has been received, the event is reported again.
 * A reported channel or listener moves to the end of the queue, so that the
 * others are reported first the next time. STATE is reported once. Consecutive
 * changes are reported together, and the query returns the current state.
 *
 *     for (;;) {
 *         ucxpool_event_get(pool, events, 64, &num);
 *         for (size_t i = 0; i < num; i++) {
 *             ... handle events[i].channel or events[i].listener ...
 *         }
 *         ucxpool_wait(pool, UCXPOOL_FOREVER);
 *     }
 *
 * After the first ucxpool_event_get(), ucxpool_wait() does not sleep while an
 * event is pending. If an event is pending, ucxpool_arm() makes the event
 * descriptor readable at once. The program therefore never sleeps while an
 * event is pending. To postpone a message, take it with ucxpool_probe() and
 * keep its handle. The program then owns the message, and the library no longer
 * reports it.
 *
 * Reporting an event needs no memory, so no event is lost. A request that ends
 * generates no event. Callbacks and ucxpool_completion_get() report its end.
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

/* The events of one channel or one listener. */
typedef struct ucxpool_event {
    unsigned            kinds;    /* bitwise OR of ucxpool_event_kind_t */
    ucxpool_channel_t  *channel;  /* NULL for a listener */
    ucxpool_listener_t *listener; /* NULL for a channel */
    void               *user_ptr; /* the channel's; NULL for a listener */
    uint64_t            reserved[2];
} ucxpool_event_t;

/*
 * Get events, starting with the channel or listener that has been in the queue
 * for the longest time. Does not make progress, and does not wait.
 *
 * events  [out]  Array with room for max events.
 * num_p   [out]  Number of events written; less than max if no more are
 *                pending. Each channel and each listener is in the array at
 *                most once.
 *
 * Closed channels and destroyed listeners are not reported. However, the array
 * does not change after the function has returned. So if the program closes a
 * channel that has an event later in the array, the program must skip this
 * event. Messages of a closed channel have no events; ucxpool_recv() and
 * ucxpool_probe() find such messages if their channel argument is NULL.
 *
 * Several threads may call this function. MESSAGE and CALLER are reported to
 * every calling thread, but STATE is reported to only one of them.
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
