/*
 * The blocks that a send holds, and their slices.
 *
 * A block is the unit of accounting, a slice the unit of transfer: a block of
 * 4 MiB and fragments of 256 KiB make 16 slices. The lowest free slice is used
 * first, so that what is in flight stays in the processor's cache.
 */
#ifndef XFER_SLICE_H
#define XFER_SLICE_H

#include "core/request.h"

#define XFER_NO_BLOCK UINT32_MAX

/*
 * Take a slice for one fragment; false: no block is free, or it is not the
 * send's turn to have more of them than one.
 *
 * Of the sends of a channel that fill blocks, the one that began first may have
 * any number, the others one each. Were all alike, they would come to their
 * ends together, and the link would stand idle while the next ones begin.
 */
bool xfer_slice_take(ucxpool_request_t *request, unsigned *hold_p,
                     unsigned *slice_p);

/* Nothing is in flight from the slice any more. */
void xfer_slice_give(ucxpool_request_t *request, unsigned hold, unsigned slice);

/* The send takes no more slices: blocks that fall free are for others. */
void xfer_slice_leave(ucxpool_request_t *request);

/* The request has ended: blocks go back, or to quarantine while slices of them
 * are in flight. */
void xfer_slice_release_all(ucxpool_request_t *request);

#endif
