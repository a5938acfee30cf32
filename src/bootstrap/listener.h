/*
 * The listener: a listening socket where clients prove that they have the
 * secret. Authenticated clients wait in a queue to be accepted.
 *
 *     free slots <-> half open (oldest first) -> queue -> accept
 *                          |
 *                          +-> refused, timed out, or dropped for a new one
 *
 * The memory for unauthenticated clients is fixed at creation: max_half_open
 * slots, but at most a quarter of RLIMIT_NOFILE. Each slot has a fixed buffer,
 * a small socket buffer and a deadline. When the queue has accept_queue
 * authenticated peers, further clients are refused. When all slots are in use,
 * or fewer than BASE_LIMITS_DESCRIPTORS descriptors would be left, the oldest
 * connection is dropped for the new one. Connections that send no data can
 * therefore neither lock out other clients nor use up the descriptors that UCX
 * needs. A client that is refused or dropped for these reasons receives
 * BOOTSTRAP_REFUSAL_FULL and tries again. Nothing is allocated after creation.
 * The memory of a slot or a queue entry is not touched before the slot or the
 * entry is used.
 *
 * The caller must serialize all calls with a lock. No call blocks.
 */
#ifndef BOOTSTRAP_LISTENER_H
#define BOOTSTRAP_LISTENER_H

#include "bootstrap/address.h"
#include "bootstrap/auth.h"

typedef struct bootstrap_listener bootstrap_listener_t;

typedef struct bootstrap_listener_params {
    const bootstrap_where_t *where; /* from bootstrap_where_resolve(); copied */
    /* NULL: none. Must outlive the listener. */
    const base_secret_t *secret;

    const void *blob;        /* sent to each authenticated peer; copied */
    size_t      blob_length; /* at most BOOTSTRAP_BLOB_MAX */
    /* Change the blob for an authenticated client. NULL: all clients get the
     * same blob. */
    void (*fit_blob)(void *arg, void *blob, const void *client, size_t length);
    void    *arg;
    unsigned max_half_open; /* at least 1 */
    unsigned accept_queue;  /* maximum number of authenticated peers that wait
                               to be accepted; at least 1 */
    uint64_t handshake_timeout_ns;
    bool     listen_without_secret;
} bootstrap_listener_params_t;

/* An authenticated peer and its connection. The caller of
 * bootstrap_listener_accept() owns the connection. */
typedef struct bootstrap_peer {
    int              fd;
    bootstrap_ends_t ends; /* "127.0.0.1:7000", "127.0.0.1:34567" */
    size_t           length;
    uint8_t          blob[BOOTSTRAP_BLOB_MAX];
} bootstrap_peer_t;

/* Handshakes since creation, by result. */
typedef struct bootstrap_listener_stats {
    uint64_t num_refused; /* includes those that failed, timed out or were
                             dropped */
    uint64_t num_timed_out;
    uint64_t num_dropped;   /* to accept a new connection */
    unsigned num_half_open; /* now */
} bootstrap_listener_stats_t;

/*
 * Create a listener.
 *
 * UCXPOOL_ERR_PERMISSION      there is no secret, the address is not a loopback
 *                             address, and listen_without_secret is not set; or
 *                             the port is reserved
 * UCXPOOL_ERR_ADDRESS_IN_USE  the port is in use
 * UCXPOOL_ERR_INVALID_PARAM   the blob is too long, or max_half_open or
 *                             accept_queue is 0
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t
bootstrap_listener_create(const bootstrap_listener_params_t *params,
                          bootstrap_listener_t             **listener_p);

/* Stop listening, and close all connections that have not been accepted. NULL
 * is allowed. */
void bootstrap_listener_destroy(bootstrap_listener_t *listener);

/* Returns a descriptor that is readable (level-triggered) while
 * bootstrap_listener_progress() has work other than timeouts. It may be added
 * to another epoll. The listener owns it. */
int bootstrap_listener_fd(const bootstrap_listener_t *listener);

/* Returns the time at which bootstrap_listener_progress() must be called even
 * if the fd is not readable (base/clock.h); BASE_CLOCK_FOREVER: none. */
uint64_t bootstrap_listener_deadline(const bootstrap_listener_t *listener);

/* Accept connections, answer messages and handle timeouts, a bounded number per
 * call. Returns the number of events; 0 if there was no work. */
unsigned bootstrap_listener_progress(bootstrap_listener_t *listener);

/* Returns the number of authenticated peers that wait to be accepted. */
size_t bootstrap_listener_num_waiting(const bootstrap_listener_t *listener);

/* Returns true if the listener's blob was sent to a peer that has not been
 * accepted yet. */
bool bootstrap_listener_has_callers(const bootstrap_listener_t *listener);

/*
 * Accept the next authenticated peer.
 *
 * UCXPOOL_OK          *peer_p is filled
 * UCXPOOL_INPROGRESS  no peer is waiting; *peer_p is unchanged
 */
ucxpool_status_t bootstrap_listener_accept(bootstrap_listener_t *listener,
                                           bootstrap_peer_t     *peer_p);

/* Set the blob that clients receive from now on; at most BOOTSTRAP_BLOB_MAX
 * bytes. */
void bootstrap_listener_set_blob(bootstrap_listener_t *listener,
                                 const void *blob, size_t length);

uint16_t bootstrap_listener_port(const bootstrap_listener_t *listener);

/* Returns the counts so far. Valid until destroy. */
const bootstrap_listener_stats_t *
bootstrap_listener_stats(const bootstrap_listener_t *listener);

#endif
