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

/* Handle a CANCEL from the sender of a message. reason: one line, or "". */
void xfer_recv_canceled(ucxpool_channel_t    *channel,
                        const proto_cancel_t *cancel, const char *reason);

#endif
