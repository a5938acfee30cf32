/*
 * Short messages: one segment of host memory, sent through a ring as one entry,
 * which needs only a credit. If the message can be sent at once and the caller
 * requests neither a handle nor a notification, no request is created.
 * Otherwise a request is queued, without a plan, a number or fragments, and its
 * struct xfer_send is not accessed.
 */
#ifndef XFER_SHORT_H
#define XFER_SHORT_H

#include "core/request.h"

/* Returns true if this message can be sent as a short one on this channel, now
 * or later. */
bool xfer_short_fits(const ucxpool_channel_t        *channel,
                     const copy_memory_t            *memory,
                     const ucxpool_request_params_t *params);

/* Send one segment now, without a request, if possible. Returns false if this
 * is not possible; the message must then be posted. */
bool xfer_short_try(ucxpool_channel_t       *channel,
                    const ucxpool_segment_t *segment, uint64_t tag);

/* Post a message for which xfer_short_fits() returned true. */
ucxpool_status_t xfer_short_post(ucxpool_channel_t   *channel,
                                 const copy_memory_t *memory, uint64_t tag,
                                 const ucxpool_request_params_t *params,
                                 ucxpool_request_t             **request_p);

#endif
