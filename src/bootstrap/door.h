/*
 * The door: a listening socket at which strangers prove that they know the
 * secret. Those who do wait in a queue to be taken.
 *
 *     free slots <-> half open (oldest first) -> proven queue -> take
 *                          |
 *                          +-> refused, timed out, or dropped for a newcomer
 *
 * What strangers can make us hold is fixed at creation: max_half_open slots,
 * each with a fixed buffer, a small socket buffer and a deadline; a full queue
 * of accept_queue proven peers refuses more, in words. When all slots are
 * taken, or fewer than BASE_LIMITS_DESCRIPTORS would be left, the oldest is
 * dropped for the newcomer, so that silent connections can neither lock anyone
 * out nor take the descriptors that UCX needs. Nothing is allocated after
 * creation.
 *
 * The caller holds a lock around all calls. No call waits.
 */
#ifndef BOOTSTRAP_DOOR_H
#define BOOTSTRAP_DOOR_H

#include "bootstrap/greeting.h"
#include "bootstrap/where.h"

typedef struct xfer_door xfer_door_t;

typedef struct xfer_door_params {
    const xfer_where_t  *where;  /* from xfer_where_resolve(); copied */
    const xfer_secret_t *secret; /* NULL: none; lives longer than the door */
    const void          *blob;   /* what each proven peer gets; copied */
    size_t               blob_length; /* at most XFER_BLOB_MAX */
    /* Change the blob for a proven caller; NULL: it is the same for all. */
    void (*fit_blob)(void *arg, void *blob, const void *caller, size_t length);
    void    *arg;
    unsigned max_half_open; /* 1 at least */
    unsigned accept_queue;  /* proven peers that may wait to be
                               taken; 1 at least */
    uint64_t handshake_timeout_ns;
    bool     listen_without_secret;
} xfer_door_params_t;

/* A proven peer, with its connection, which belongs to who takes it. */
typedef struct xfer_door_peer {
    int         fd;
    xfer_ends_t ends; /* "127.0.0.1:7000", "127.0.0.1:34567" */
    size_t      length;
    uint8_t     blob[XFER_BLOB_MAX];
} xfer_door_peer_t;

/* Handshakes since creation, by how they ended. */
typedef struct xfer_door_stats {
    uint64_t num_proven;
    uint64_t num_refused; /* failed, timed out and dropped ones included */
    uint64_t num_timed_out;
    uint64_t num_dropped;   /* for a newcomer */
    unsigned num_half_open; /* now */
} xfer_door_stats_t;

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
ucxpool_status_t xfer_door_create(const xfer_door_params_t *params,
                                  xfer_door_t             **door_p);

/* Stop listening and hang up on all that are not proven. NULL is allowed. */
void xfer_door_destroy(xfer_door_t *door);

/* Readable (level-triggered) while xfer_door_progress() has work, time-outs
 * excepted; may be put into another epoll. Owned by the door. */
int xfer_door_fd(const xfer_door_t *door);

/* When xfer_door_progress() is to be called even if the fd is not readable:
 * nanoseconds of base/clock.h, or BASE_CLOCK_FOREVER. */
uint64_t xfer_door_deadline(const xfer_door_t *door);

/* Accept, answer and time out, a bounded number in one call. Returns how many
 * events there were; 0 means that there is nothing to do now. */
unsigned xfer_door_progress(xfer_door_t *door);

/* Proven peers that wait to be taken. */
size_t xfer_door_num_waiting(const xfer_door_t *door);

/*
 * Take the next proven peer.
 *
 * UCXPOOL_OK          *peer_p is filled
 * UCXPOOL_INPROGRESS  nobody waits; *peer_p is untouched
 */
ucxpool_status_t xfer_door_take(xfer_door_t *door, xfer_door_peer_t *peer_p);

uint16_t xfer_door_port(const xfer_door_t *door);
uint64_t xfer_door_num_refused(const xfer_door_t *door);
void xfer_door_get_stats(const xfer_door_t *door, xfer_door_stats_t *stats_p);

#endif
