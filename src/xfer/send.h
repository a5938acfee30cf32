/*
 * Sends.
 */
#ifndef XFER_SEND_H
#define XFER_SEND_H

#include "core/request.h"

#include "xfer/request.h"

extern const core_request_kind_t xfer_send_kind;

/*
 * Does the peer take a message like this? Where its limits are not known yet:
 * yes; step TURN asks again.
 *
 * UCXPOOL_ERR_LIMIT
 */
ucxpool_status_t xfer_send_check_limits(const ucxpool_request_t *request);

/*
 * A short send that is the first in its queue, and that no credit has come for,
 * becomes one of xfer_send_kind. False: it has ended, without memory.
 */
bool xfer_send_from_short(ucxpool_request_t *request);

/* It is posted: where it is pushed, it has the GPU's link in its turn. */
void xfer_send_want_link(ucxpool_request_t *request);

/* The channel is open: so have those that were posted before, and the first
 * one goes. */
void xfer_send_opened(ucxpool_channel_t *channel);

/* Do the next steps, as far as they can go; false: not at all. */
bool xfer_send_advance(ucxpool_request_t *request);

/* A fragment is not in flight any more. */
void xfer_send_fragment_done(xfer_fragment_t *fragment);

/* What the peer said. */
void xfer_send_accepted(ucxpool_channel_t    *channel,
                        const proto_accept_t *accept, const void *data,
                        size_t data_size);
void xfer_send_taken(ucxpool_channel_t *channel, const proto_taken_t *taken);
void xfer_send_done(ucxpool_channel_t *channel, const proto_done_t *done,
                    const char *reason);

/* End early: by cancel or deadline. */
void xfer_send_stop(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail);

/* The channel has ended: so does the request. */
void xfer_send_abort(ucxpool_request_t *request, ucxpool_status_t status,
                     const char *detail);

/* Nobody will touch what is in flight: take it back. */
void xfer_send_forget(ucxpool_request_t *request);

/* Give the blocks back, or to quarantine; called at the request's end. */
void xfer_send_release(ucxpool_request_t *request);

/* Let sends that wait for blocks go on, as far as there are blocks. */
unsigned xfer_send_wake_waiters(ucxpool_t *pool);

/* Is a send under way whose order is lower than `before`? UINT64_MAX: any send.
 * What has left the queue, and goes on, is in channel->xfer->sent. */
bool xfer_flush_has_sends(const ucxpool_channel_t *channel, uint64_t before);

/* End those before which no send is left. */
unsigned xfer_flush_progress(ucxpool_channel_t *channel);

/* End when the sends that were posted before have. */
ucxpool_status_t xfer_flush_post(ucxpool_channel_t              *channel,
                                 const ucxpool_request_params_t *params,
                                 ucxpool_request_t             **request_p);

/* End all: the channel has ended. */
void xfer_flush_abort(ucxpool_channel_t *channel, ucxpool_status_t status);

#endif
