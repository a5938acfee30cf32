/*
 * The client of a listener: it connects, proves that it knows the secret, and
 * gets the listener's blob. The other side is bootstrap/listener.h.
 *
 * The caller holds a lock around all calls. No call waits.
 */
#ifndef BOOTSTRAP_CLIENT_H
#define BOOTSTRAP_CLIENT_H

#include "bootstrap/address.h"
#include "bootstrap/auth.h"

typedef struct bootstrap_client bootstrap_client_t;

/*
 * Begin to connect. A listener that is full is called again after a random
 * time, which grows, until timeout_ns is over; so is one whose system resets
 * the connection before the listener has answered. Errors of the connection
 * show in bootstrap_client_progress().
 *
 * where        From bootstrap_where_resolve(); copied. Its addresses are tried
 *              in turn, each for its part of the time until it has connected.
 * secret       NULL: none. Lives longer than the client.
 * blob         What the listener gets once it is proven that it may; copied.
 * blob_length  At most BOOTSTRAP_BLOB_MAX.
 * timeout_ns   For all of it; BASE_CLOCK_FOREVER: none.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the blob is too long
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t bootstrap_client_connect(const bootstrap_where_t *where,
                                          const base_secret_t     *secret,
                                          const void *blob, size_t blob_length,
                                          uint64_t             timeout_ns,
                                          bootstrap_client_t **client_p);

/* Hang up and release. NULL is allowed. */
void bootstrap_client_destroy(bootstrap_client_t *client);

/* Readable (level-triggered) while bootstrap_client_progress() has work, the
 * time-out excepted; may be put into an epoll. The same until destroy, which
 * owns it. */
int bootstrap_client_fd(const bootstrap_client_t *client);

/* When bootstrap_client_progress() is to be called even if the fd is not
 * readable: nanoseconds of base/clock.h, or BASE_CLOCK_FOREVER. */
uint64_t bootstrap_client_deadline(const bootstrap_client_t *client);

/*
 * Go on as far as possible. After the end it gives the same answer again.
 *
 * UCXPOOL_INPROGRESS      not yet
 * UCXPOOL_OK              the listener is proven and has our blob
 * UCXPOOL_ERR_PEER_LOST   nobody listens there, or the listener hung up
 * UCXPOOL_ERR_TIMED_OUT   no (whole) answer in time
 * UCXPOOL_ERR_PERMISSION  a side has no secret, or another one
 * UCXPOOL_ERR_PROTOCOL    another version of the protocol, or not a pool
 * UCXPOOL_ERR_LIMIT       the listener was full until the time was over
 * UCXPOOL_ERR_REFUSED     the listener says no for another reason
 * UCXPOOL_ERR_IO, UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t bootstrap_client_progress(bootstrap_client_t *client);

/* Why it failed, in a sentence. Valid until destroy. */
const char *bootstrap_client_reason(const bootstrap_client_t *client);

/* Both ends of the connection, also of one that was ended; "" before it stands.
 * Valid until destroy. */
const bootstrap_ends_t *bootstrap_client_ends(const bootstrap_client_t *client);

/* The connection, after UCXPOOL_OK: it is the caller's from now on. */
int bootstrap_client_detach_fd(bootstrap_client_t *client);

/* The listener's blob, after UCXPOOL_OK and until destroy. */
void bootstrap_client_peer(const bootstrap_client_t *client,
                           const void **blob_p, size_t *length_p);

#endif
