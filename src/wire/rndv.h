/*
 * Rendezvous: fragments of the `ucx` wire that UCX writes to a receive block or
 * in place. If no receive block is free, the fragment waits, and its data stays
 * at the sender.
 */
#ifndef WIRE_RNDV_H
#define WIRE_RNDV_H

#include "core/request.h"

/* Start or queue a fragment, and keep its descriptor, which UCX passed to the
 * active message handler. Returns false if out of memory; the descriptor is
 * then not kept. */
bool wire_rndv_start(ucxpool_request_t *request, const proto_data_t *data,
                     void *descriptor);

/* Drop the waiting fragments of a receive that has ended, and quarantine the
 * receive blocks of its other fragments, to which UCX may still write. */
void wire_rndv_forget(ucxpool_request_t *request);

/* Start the waiting fragments that can start. Returns their number. */
unsigned wire_rndv_progress(ucxpool_t *pool);

/* Free all fragments. All requests must have been freed. */
void wire_rndv_destroy_all(ucxpool_t *pool);

#endif
