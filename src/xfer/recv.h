/*
 * Receives.
 */
#ifndef XFER_RECV_H
#define XFER_RECV_H

#include "core/request.h"
#include "xfer/message.h"

extern const core_request_kind_t xfer_recv_kind;

/* Count a receive that has ended. */
void xfer_recv_count(ucxpool_request_t *request, ucxpool_status_t status);

/* Start a receive with its message, and release the message. */
void xfer_recv_start(ucxpool_request_t *request, ucxpool_message_t *message);

/* The receive of a fragment; NULL: it has ended. */
ucxpool_request_t *xfer_recv_find(ucxpool_channel_t  *channel,
                                  const proto_data_t *data);

/* Is the fragment valid now? Counts it, or fails the channel. is_in_order: the
 * wire keeps the order of fragments. */
bool xfer_recv_check(ucxpool_request_t *request, const proto_data_t *data,
                     bool is_in_order);

/* Scatter a fragment. False: its checksum is wrong, and nothing was copied. */
bool xfer_recv_scatter(ucxpool_request_t *request, const proto_data_t *data,
                       const void *bytes);

/* The delivery of a fragment has ended: count the fragment, or stop the receive
 * if the checksum is wrong. */
void xfer_recv_delivered(ucxpool_request_t *request, const proto_data_t *data,
                         ucxpool_status_t status, core_mode_t mode);

/* A writer to the caller's memory has stopped. If the end of the request waited
 * for the last one, end it now. */
void xfer_recv_let_go(ucxpool_request_t *request);

/* End the receive early, and send DONE with the reason to the sender. */
void xfer_recv_stop(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail);

/* The channel has ended: end the request. */
void xfer_recv_abort(ucxpool_request_t *request, ucxpool_status_t status,
                     const char *detail);

/* The sender has canceled a message. reason: one line, or "". */
void xfer_recv_canceled(ucxpool_channel_t    *channel,
                        const proto_cancel_t *cancel, const char *reason);

#endif
