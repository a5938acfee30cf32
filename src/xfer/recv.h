/*
 * Receives.
 */
#ifndef XFER_RECV_H
#define XFER_RECV_H

#include "core/request.h"
#include "xfer/message.h"

/* --- receives ------------------------------------------------------------- */

extern const core_request_kind_t xfer_recv_kind;

/* Any receive has ended. */
void xfer_recv_count(ucxpool_request_t *request, ucxpool_status_t status);

/* A message has met its receive; the message is used up. */
void xfer_recv_start(ucxpool_request_t *request, ucxpool_message_t *message);

/* The receive that a fragment belongs to; NULL when it has ended. */
ucxpool_request_t *xfer_recv_find(ucxpool_channel_t  *channel,
                                  const proto_data_t *data);

/* Is the fragment one that may come now? Counts it, or fails the channel.
 * is_in_order: fragments arrive in their order. */
bool xfer_recv_check(ucxpool_request_t *request, const proto_data_t *data,
                     bool is_in_order);

/* Scatter a fragment; false: its checksum is wrong, and nothing was done. */
bool xfer_recv_scatter(ucxpool_request_t *request, const proto_data_t *data,
                       const void *bytes);

/* The delivery of a fragment is over: count it, or end because of a wrong
 * checksum. */
void xfer_recv_delivered(ucxpool_request_t *request, const proto_data_t *data,
                         ucxpool_status_t status, core_mode_t mode);

/* Something that wrote to the caller's memory has stopped: an end that waited
 * for it may come. */
void xfer_recv_let_go(ucxpool_request_t *request);

/* End early, and tell the sender. */
void xfer_recv_stop(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail);

/* The channel has ended: so does the request. */
void xfer_recv_abort(ucxpool_request_t *request, ucxpool_status_t status,
                     const char *detail);

/* The sender has taken a message back, for a reason of one line, or "". */
void xfer_recv_canceled(ucxpool_channel_t    *channel,
                        const proto_cancel_t *cancel, const char *reason);

#endif
