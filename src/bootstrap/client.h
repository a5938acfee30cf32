/*
 * The client of a listener: it connects, proves that it has the secret, and
 * receives the listener's blob. The other side is bootstrap/listener.h.
 *
 * The caller must serialize all calls with a lock. No call blocks.
 */
#ifndef BOOTSTRAP_CLIENT_H
#define BOOTSTRAP_CLIENT_H

#include "bootstrap/address.h"
#include "bootstrap/auth.h"

typedef struct bootstrap_client bootstrap_client_t;

/*
 * Start to connect. If the listener is full, or if the listener's host resets
 * the connection before the listener has answered, the client retries with
 * random, increasing delays until timeout_ns has passed.
 * bootstrap_client_progress() reports connection errors.
 *
 * where        From bootstrap_where_resolve(); copied. Its addresses are tried
 *              in turn until one is connected. Each gets an equal share of the
 *              remaining time.
 * secret       NULL: none. Must outlive the client.
 * blob         Sent to the listener with the proof; copied.
 * blob_length  At most BOOTSTRAP_BLOB_MAX.
 * timeout_ns   For all attempts; BASE_CLOCK_FOREVER: no timeout.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the blob is too long
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t bootstrap_client_connect(const bootstrap_where_t *where,
                                          const base_secret_t     *secret,
                                          const void *blob, size_t blob_length,
                                          uint64_t             timeout_ns,
                                          bootstrap_client_t **client_p);

/* Close the connection and free the client. NULL is allowed. */
void bootstrap_client_destroy(bootstrap_client_t *client);

/* Returns a descriptor that is readable (level-triggered) while
 * bootstrap_client_progress() has work other than timeouts. It may be added to
 * an epoll. The client owns the descriptor, which never changes. */
int bootstrap_client_fd(const bootstrap_client_t *client);

/* Returns the time at which bootstrap_client_progress() must be called even if
 * the fd is not readable (base/clock.h); BASE_CLOCK_FOREVER: none. */
uint64_t bootstrap_client_deadline(const bootstrap_client_t *client);

/*
 * Continue as far as possible. After the final result, every call returns that
 * result again, but an error is recorded only once.
 *
 * UCXPOOL_INPROGRESS      not done yet
 * UCXPOOL_OK              the listener is authenticated and has the client's
 *                         blob
 * UCXPOOL_ERR_PEER_LOST   no process listens there, or the listener closed the
 *                         connection
 * UCXPOOL_ERR_TIMED_OUT   no complete answer arrived in time
 * UCXPOOL_ERR_PERMISSION  a side has no secret, or the secrets differ
 * UCXPOOL_ERR_PROTOCOL    the peer has another version of the protocol, or is
 *                         not a pool
 * UCXPOOL_ERR_LIMIT       the listener was full until the timeout
 * UCXPOOL_ERR_REFUSED     the listener refused for another reason
 * UCXPOOL_ERR_IO, UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t bootstrap_client_progress(bootstrap_client_t *client);

/* Returns the addresses of both ends of the connection, even after it has
 * ended. They are "" before the connection is established. Valid until
 * destroy. */
const bootstrap_ends_t *bootstrap_client_ends(const bootstrap_client_t *client);

/* Detach the connection after UCXPOOL_OK and return its descriptor. The caller
 * then owns it. */
int bootstrap_client_detach_fd(bootstrap_client_t *client);

/* Get the listener's blob. Valid after UCXPOOL_OK and until destroy. */
void bootstrap_client_peer(const bootstrap_client_t *client,
                           const void **blob_p, size_t *length_p);

#endif
