/*
 * Shorts: messages that are one piece of host memory, go through a ring as one
 * entry, and need nothing but a credit. One that goes at once needs no request
 * either, where the caller does not ask for its end; another's is queued until
 * it goes, without a plan, a number or fragments: its struct xfer_send is not
 * touched.
 */
#ifndef XFER_SHORT_H
#define XFER_SHORT_H

#include "core/request.h"

/* Can this message be one, and does this channel take such, now or later? */
bool xfer_short_fits(const ucxpool_channel_t        *channel,
                     const copy_memory_t            *memory,
                     const ucxpool_request_params_t *params);

/* Post one that can. */
ucxpool_status_t xfer_short_post(ucxpool_channel_t   *channel,
                                 const copy_memory_t *memory, uint64_t tag,
                                 const ucxpool_request_params_t *params,
                                 ucxpool_request_t             **request_p);

#endif
