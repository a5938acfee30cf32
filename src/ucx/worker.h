/*
 * The end of a UCX worker of ours.
 */
#ifndef UCX_WORKER_H
#define UCX_WORKER_H

#include <stdbool.h>
#include <ucp/api/ucp.h>

/*
 * Let UCX say what it has to say before the worker is destroyed.
 *
 * UCX before 1.14 ends the process, by an assertion, when a worker is destroyed
 * whose answer to a peer's handshake has not left yet; and the answer waits for
 * the peer to make progress, which may be busy, stopped or gone.
 *
 * Blocks for a moment at most. False: such an answer may be left, and the
 * worker must stay.
 */
bool ucx_worker_settle(ucp_worker_h worker);

#endif
