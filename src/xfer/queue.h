/*
 * A channel's queue: sends that have not gone out yet, in the order in which
 * they were posted. The first one alone takes steps; whoever leaves wakes the
 * next.
 */
#ifndef XFER_QUEUE_H
#define XFER_QUEUE_H

#include "core/request.h"

/* At the end. True: it is the first one, and nobody will wake it. */
bool xfer_queue_add(ucxpool_request_t *request);

bool xfer_queue_is_first(const ucxpool_request_t *request);

/* It has gone out. */
void xfer_queue_leave(ucxpool_request_t *request);

/* It ends without having gone out. */
void xfer_queue_end(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail);

/* Any send has ended. */
void xfer_queue_count(ucxpool_request_t *request, ucxpool_status_t status);

/* Let the first one try again, if there is one. */
void xfer_queue_wake(ucxpool_channel_t *channel);

/*
 * The first send needs a credit, and the channel has none. False: the send
 * waits on. True: the channel has had none for announce_ns; its sends announce
 * themselves without their bytes until a credit comes.
 */
bool xfer_queue_may_announce(ucxpool_channel_t *channel);

/* Wake the first send of each channel for which that has become true. */
unsigned xfer_queue_announce(ucxpool_t *pool);

/*
 * A round of progress of any send, in the queue or behind it. Those that are
 * first then, and need no more than a credit, follow in the same round, as far
 * as there are credits. Returns how many have moved. The request may be gone.
 */
unsigned xfer_queue_progress(ucxpool_request_t *request);

/* The channel has ended: so do all. */
void xfer_queue_abort(ucxpool_channel_t *channel, ucxpool_status_t status,
                      const char *detail);

#endif
