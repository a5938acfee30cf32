/*
 * Flushes: requests that end when the sends before them have.
 */
#ifndef XFER_FLUSH_H
#define XFER_FLUSH_H

#include "core/request.h"

/* Is a send under way whose order is lower than `before`? UINT64_MAX: any send.
 * What has left the queue, and goes on, has a number and so stands in
 * channel->requests.sends; that includes those in channel->requests.packing. */
bool xfer_flush_has_sends(const ucxpool_channel_t *channel, uint64_t before);

/* End those before which no send is left. */
unsigned xfer_flush_progress(ucxpool_channel_t *channel);

/* End all: the channel has ended. */
void xfer_flush_abort(ucxpool_channel_t *channel, ucxpool_status_t status);

#endif
