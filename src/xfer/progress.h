/*
 * Progress and waiting.
 */
#ifndef XFER_PROGRESS_H
#define XFER_PROGRESS_H

#include "xfer/request.h"

/* A round that leaves nothing out; with the lock held. */
unsigned xfer_progress_all(ucxpool_t *pool);

/*
 * Progress until the request has ended, or (without one) anything has moved, or
 * the moment `until` has come. The lock is not held.
 */
ucxpool_status_t xfer_wait(ucxpool_t *pool, const ucxpool_request_t *request,
                           uint64_t until);

#endif
