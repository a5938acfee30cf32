/*
 * Flushes: requests that end when the sends before them have.
 */
#ifndef XFER_FLUSH_H
#define XFER_FLUSH_H

#include "xfer/request.h"

/* End those before which no send is left. */
unsigned xfer_flush_progress(ucxpool_channel_t *channel);

/* End all: the channel has ended. */
void xfer_flush_abort(ucxpool_channel_t *channel, ucxpool_status_t status);

#endif
