/*
 * A pool's UCX context and worker: its own, or borrowed ones.
 */
#ifndef XFER_CONTEXT_H
#define XFER_CONTEXT_H

#include <ucxpool/pool.h>

#include <stdbool.h>
#include <ucp/api/ucp.h>

/*
 * Comes before the pool's memory, which is registered with the context.
 *
 * for_gpu  The pool's blocks will be memory of a GPU.
 * context  Borrowed; NULL: the pool makes one. Likewise the worker.
 */
ucxpool_status_t xfer_context_init(ucxpool_t *pool, bool for_gpu,
                                   ucp_context_h context, ucp_worker_h worker);

/* Let an own worker say what it has to say, before it is destroyed. Blocks for
 * a moment at most. */
void xfer_context_settle_worker(ucxpool_t *pool);

/* UCX may end operations only when its worker goes (1.22 does), and then calls
 * back: whatever they belong to must still be there. */
void xfer_context_destroy_worker(ucxpool_t *pool);

void xfer_context_cleanup(ucxpool_t *pool);

#endif
