/*
 * The listener: a listening socket at which strangers prove that they know the
 * secret. Those who do wait in a queue to be accepted.
 *
 *     free slots <-> half open (oldest first) -> proven queue -> accept
 *                          |
 *                          +-> refused, timed out, or dropped for a new one
 *
 * The memory that strangers can take is fixed at creation: max_half_open slots,
 * at most a quarter of RLIMIT_NOFILE, each with a fixed buffer, a small socket
 * buffer and a deadline. A full queue of accept_queue
 * proven peers refuses more. When all slots are taken, or fewer than
 * BASE_LIMITS_DESCRIPTORS would be left, the oldest is dropped for the new one,
 * so that silent connections can neither lock anyone out nor take the
 * descriptors that UCX needs. A client that is refused or dropped for these
 * reasons receives BOOTSTRAP_REFUSAL_FULL, and tries again. Nothing is
 * allocated after creation; the memory of a slot or a place in the queue is not
 * touched before it is needed.
 *
 * The caller holds a lock around all calls. No call waits.
 */
#ifndef BOOTSTRAP_LISTENER_H
#define BOOTSTRAP_LISTENER_H

#include "bootstrap/address.h"
#include "bootstrap/auth.h"

typedef struct bootstrap_listener bootstrap_listener_t;

typedef struct bootstrap_listener_params {
    const bootstrap_where_t *where; /* from bootstrap_where_resolve(); copied */
    /* NULL: none. Lives longer than the listener. */
    const base_secret_t *secret;

    const void *blob;        /* what each proven peer gets; copied */
    size_t      blob_length; /* at most BOOTSTRAP_BLOB_MAX */
    /* Change the blob for a proven client; NULL: it is the same for all. */
    void (*fit_blob)(void *arg, void *blob, const void *client, size_t length);
    void    *arg;
    unsigned max_half_open; /* 1 at least */
    unsigned accept_queue;  /* proven peers that may wait to be
                               accepted; 1 at least */
    uint64_t handshake_timeout_ns;
    bool     listen_without_secret;
} bootstrap_listener_params_t;

/* A proven peer, with its connection, which belongs to whoever accepts it. */
typedef struct bootstrap_peer {
    int              fd;
    bootstrap_ends_t ends; /* "127.0.0.1:7000", "127.0.0.1:34567" */
    size_t           length;
    uint8_t          blob[BOOTSTRAP_BLOB_MAX];
} bootstrap_peer_t;

/* Handshakes since creation, by how they ended. */
typedef struct bootstrap_listener_stats {
    uint64_t num_proven;
    uint64_t num_refused; /* failed, timed out and dropped ones included */
    uint64_t num_timed_out;
    uint64_t num_dropped;   /* for a new connection */
    unsigned num_half_open; /* now */
} bootstrap_listener_stats_t;

/*
 * Listen.
 *
 * UCXPOOL_ERR_PERMISSION      no secret, and the address is not a loopback one
 *                             and listen_without_secret is not set; or the port
 *                             is reserved
 * UCXPOOL_ERR_ADDRESS_IN_USE  the port is taken
 * UCXPOOL_ERR_INVALID_PARAM   the blob is too long, or no slot or no place in
 *                             the queue is asked for
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t
bootstrap_listener_create(const bootstrap_listener_params_t *params,
                          bootstrap_listener_t             **listener_p);

/* Stop listening and hang up on all that are not proven. NULL is allowed. */
void bootstrap_listener_destroy(bootstrap_listener_t *listener);

/* Readable (level-triggered) while bootstrap_listener_progress() has work,
 * time-outs excepted; may be put into another epoll. Owned by the listener. */
int bootstrap_listener_fd(const bootstrap_listener_t *listener);

/* When bootstrap_listener_progress() is to be called even if the fd is not
 * readable: nanoseconds of base/clock.h, or BASE_CLOCK_FOREVER. */
uint64_t bootstrap_listener_deadline(const bootstrap_listener_t *listener);

/* Accept, answer and time out, a bounded number in one call. Returns how many
 * events there were; 0 means that there is nothing to do now. */
unsigned bootstrap_listener_progress(bootstrap_listener_t *listener);

/* Proven peers that wait to be accepted. */
size_t bootstrap_listener_num_waiting(const bootstrap_listener_t *listener);

/* Peers that have been sent the listener's blob and are not accepted yet. */
bool bootstrap_listener_has_callers(const bootstrap_listener_t *listener);

/*
 * Accept the next proven peer.
 *
 * UCXPOOL_OK          *peer_p is filled
 * UCXPOOL_INPROGRESS  nobody waits; *peer_p is untouched
 */
ucxpool_status_t bootstrap_listener_accept(bootstrap_listener_t *listener,
                                           bootstrap_peer_t     *peer_p);

/* What clients are told from now on; BOOTSTRAP_BLOB_MAX bytes at most. */
void bootstrap_listener_set_blob(bootstrap_listener_t *listener,
                                 const void *blob, size_t length);

uint16_t bootstrap_listener_port(const bootstrap_listener_t *listener);
uint64_t bootstrap_listener_num_refused(const bootstrap_listener_t *listener);
void     bootstrap_listener_get_stats(const bootstrap_listener_t *listener,
                                      bootstrap_listener_stats_t *stats_p);

#endif
