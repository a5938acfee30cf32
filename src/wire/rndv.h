/*
 * Rendezvous: fragments of the `ucx` wire that UCX writes to a receive block,
 * or in place. One that finds no receive block waits; until then its bytes stay
 * with the sender.
 */
#ifndef WIRE_RNDV_H
#define WIRE_RNDV_H

#include "core/request.h"

struct wire_pool {
    base_list_t writing; /* fragments that UCX writes, or that are delivered */
    base_list_t waiting; /* for a receive block, or their callers' streams */
    base_list_t free;
};

/* UCXPOOL_ERR_NO_MEMORY */
ucxpool_status_t wire_pool_create(ucxpool_t *pool);

/* Frees what is left of it; no request is. */
void wire_pool_destroy(ucxpool_t *pool);

/* A fragment is ready: `descriptor` is what UCX's handler was given. False:
 * there is no memory, and UCX may have it back. */
bool wire_rndv_start(ucxpool_request_t *request, const proto_data_t *data,
                     void *descriptor);

/* The receive has ended: its fragments are not wanted any more, and receive
 * blocks that UCX still writes to go to quarantine. */
void wire_rndv_forget(ucxpool_request_t *request);

/* Fragments that waited. */
unsigned wire_rndv_progress(ucxpool_t *pool);

#endif
