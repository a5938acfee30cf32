/*
 * Greeting a listener: connect, prove, and have its blob. The other side is a
 * door (bootstrap/door.h).
 *
 * The caller holds a lock around all calls. No call waits.
 */
#ifndef BOOTSTRAP_GREET_H
#define BOOTSTRAP_GREET_H

#include "bootstrap/greeting.h"
#include "bootstrap/where.h"

typedef struct xfer_greet xfer_greet_t;

/*
 * Begin to connect. Errors of the connection show in xfer_greet_progress().
 *
 * where        From xfer_where_resolve(); copied. Its addresses are tried in
 *              turn.
 * secret       NULL: none. Lives longer than the greet.
 * blob         What the listener gets once it is proven that it may; copied.
 * blob_length  At most XFER_BLOB_MAX.
 * timeout_ns   For all of it; BASE_CLOCK_FOREVER: none.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the blob is too long
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t xfer_greet_connect(const xfer_where_t  *where,
                                    const xfer_secret_t *secret,
                                    const void *blob, size_t blob_length,
                                    uint64_t       timeout_ns,
                                    xfer_greet_t **greet_p);

/* Hang up and release. NULL is allowed. */
void xfer_greet_destroy(xfer_greet_t *greet);

/* Readable (level-triggered) while xfer_greet_progress() has work, the time-out
 * excepted; may be put into an epoll. The same until destroy, which owns it. */
int xfer_greet_fd(const xfer_greet_t *greet);

/* When xfer_greet_progress() is to be called even if the fd is not readable:
 * nanoseconds of base/clock.h, or BASE_CLOCK_FOREVER. */
uint64_t xfer_greet_deadline(const xfer_greet_t *greet);

/*
 * Go on as far as possible. After the end it gives the same answer again.
 *
 * UCXPOOL_INPROGRESS      not yet
 * UCXPOOL_OK              the listener is proven and has our blob
 * UCXPOOL_ERR_PEER_LOST   nobody listens there, or the listener hung up
 * UCXPOOL_ERR_TIMED_OUT   no (whole) answer in time
 * UCXPOOL_ERR_PERMISSION  a side has no secret, or another one
 * UCXPOOL_ERR_PROTOCOL    another version of the protocol, or not a pool
 * UCXPOOL_ERR_LIMIT       too many peers wait there
 * UCXPOOL_ERR_REFUSED     the listener says no for another reason
 * UCXPOOL_ERR_IO, UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t xfer_greet_progress(xfer_greet_t *greet);

/* Why it failed, in a sentence; "" before. Valid until destroy. */
const char *xfer_greet_reason(const xfer_greet_t *greet);

/* Both ends of the connection, also of one that was ended; "" before it stands.
 * Valid until destroy. */
const xfer_ends_t *xfer_greet_ends(const xfer_greet_t *greet);

/* The connection, after UCXPOOL_OK: it is the caller's from now on. */
int xfer_greet_take_fd(xfer_greet_t *greet);

/* The listener's blob, after UCXPOOL_OK and until destroy. */
void xfer_greet_peer(const xfer_greet_t *greet, const void **blob_p,
                     size_t *length_p);

#endif
