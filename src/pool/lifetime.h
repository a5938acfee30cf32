/*
 * The begin and the end of a pool's transfers. Its memory and its UCX context
 * (context.h) are there before, and go after.
 */
#ifndef POOL_LIFETIME_H
#define POOL_LIFETIME_H

#include "core/pool.h"

#include <ucxpool/pool.h>

/* Lists, identity, UCX's handlers, the event descriptor. */
ucxpool_status_t pool_init(ucxpool_t *pool);

/* End everything and tell the peers; waits for CLOSE_TIMEOUT at most. UCX may
 * still have operations of a pool over a borrowed worker then. */
void pool_shutdown(ucxpool_t *pool);

void pool_cleanup(ucxpool_t *pool);

#endif
