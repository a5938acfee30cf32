/*
 * Landings: fragments of the `ucx` wire that UCX writes by rendezvous, into a
 * receive block, or straight into the target where that is one piece of memory
 * and needs no registration that it has not. A fragment for which no receive
 * block is free stays with UCX, as a descriptor, until one is; its sender's
 * block waits as long.
 */
#ifndef XFER_RNDV_H
#define XFER_RNDV_H

#include "core/request.h"

/* Take a fragment whose descriptor UCX has left with us; false: no memory, and
 * UCX may have it back. */
bool xfer_rndv_start(ucxpool_request_t *request, const proto_data_t *data,
                     void *descriptor);

/* Fragments that waited for a receive block. */
unsigned xfer_rndv_progress(ucxpool_t *pool);

/* The request has ended: its fragments are not wanted any more, and receive
 * blocks that UCX still writes to go to quarantine. */
void xfer_rndv_forget(ucxpool_request_t *request);

void xfer_rndv_destroy_all(ucxpool_t *pool);

#endif
