/*
 * The blocks that a send holds, and their slices.
 *
 * A block is the unit of accounting, a slice the unit of transfer: a block of
 * 4 MiB and fragments of 256 KiB make 16 slices. The lowest free slice is used
 * first, so that what is in flight stays in the processor's cache.
 */
#ifndef XFER_HOLD_H
#define XFER_HOLD_H

#include "xfer/request.h"

#define XFER_NO_BLOCK UINT32_MAX

/* Take a slice for one fragment; false: no block is free. */
bool xfer_hold_take(ucxpool_request_t *request, unsigned *hold_p,
                    unsigned *slice_p);

/* Nothing is in flight from the slice any more. */
void xfer_hold_give(ucxpool_request_t *request, unsigned hold, unsigned slice);

/* The request has ended: blocks go back, or to quarantine while slices of them
 * are in flight. */
void xfer_hold_release_all(ucxpool_request_t *request);

#endif
