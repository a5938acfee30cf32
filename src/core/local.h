/*
 * The connection of a channel within one host: a Unix socket to the peer's pool
 * (wireup/fd_passing.h takes the calls). Over it go the messages that are not
 * for the ring: the handshake, and DOORBELL. It ends with the peer's process or
 * pool, so that a channel on `map` needs no endpoint of UCX.
 */
#ifndef CORE_LOCAL_H
#define CORE_LOCAL_H

#include "core/remote.h"

/* Longest message: HELLO. */
#define CORE_LOCAL_MAX \
    (sizeof(proto_hello_t) + PROTO_FILES_MAX * sizeof(ipc_file_t))

/* When the peer's socket has more callers waiting than the system keeps. */
#define CORE_LOCAL_RETRY_NS UINT64_C(10000000)

/* May the pool of this blob be reached in this way? */
bool core_local_reaches(const ucxpool_t *pool, const core_blob_t *blob);

/*
 * Connect to the peer.
 *
 * UCXPOOL_INPROGRESS       it has too many callers: try again after
 *                          CORE_LOCAL_RETRY_NS
 * UCXPOOL_ERR_UNSUPPORTED  it is not to be reached in this way
 */
ucxpool_status_t core_local_connect(ucxpool_channel_t *channel);

/* Take a connection that the peer has made, in place of one of ours. False: it
 * cannot be watched, and is closed. */
bool core_local_adopt(ucxpool_channel_t *channel, int fd);

/* Read a message, if there is one. */
void core_local_progress(ucxpool_channel_t *channel);

bool core_local_is_up(const ucxpool_channel_t *channel);
void core_local_close(ucxpool_channel_t *channel);

/* Send a message. What finds no room is lost: it is DOORBELL then, since the
 * handshake is short, and a peer that does not read will look anyway. */
void core_local_send(ucxpool_channel_t *channel, const void *fixed,
                     size_t fixed_size, const void *data, size_t data_size);

/* The fixed part of a HELLO; false: it is none. */
bool core_local_parse_hello(const void *bytes, size_t length,
                            proto_hello_t *hello_p);

/* Has the connection ended, and the time in which the peer's end should have
 * been told by other ways? */
bool core_local_is_lost(const ucxpool_channel_t *channel);

/* When that is to be looked at. */
uint64_t core_local_deadline(const ucxpool_channel_t *channel);

/* How a HELLO came, and is to be answered. */
typedef struct core_way {
    ucp_ep_h reply_ep; /* UCX's name of an endpoint: to be compared; or NULL */
    int      fd;       /* a connection within the host, or -1 */
} core_way_t;

/* It is not answered: hang up. */
void core_way_close(const core_way_t *way);

#endif
