/*
 * The connection of a channel within one host: a Unix socket to the peer's pool
 * (wireup/wireup.h accepts it). It carries the messages that are not sent
 * through the ring: the handshake and DOORBELL. The connection closes when the
 * peer exits or destroys its pool, so a channel on the `map` wire needs no UCX
 * endpoint.
 */
#ifndef CORE_LOCAL_H
#define CORE_LOCAL_H

#include "core/remote.h"

/* The delay before a retry if the backlog of the peer's socket is full. */
#define CORE_LOCAL_RETRY_NS UINT64_C(10000000)

/* Returns where this process finds the socket of the blob's pool: "" for the
 * abstract name, if both are in one network namespace; otherwise the directory
 * UCXPOOL_SOCKET_DIR, if the pool has a socket there. NULL: the pool cannot be
 * reached over a socket. The abstract name is never tried in another network
 * namespace, where another process may own it. */
const char *core_local_folder(const ucxpool_t *pool, const core_blob_t *blob);

/*
 * Connect to the peer.
 *
 * UCXPOOL_INPROGRESS       the backlog of the peer's socket is full: try again
 *                          after CORE_LOCAL_RETRY_NS
 * UCXPOOL_ERR_UNSUPPORTED  the peer cannot be reached over a socket
 */
ucxpool_status_t core_local_connect(ucxpool_channel_t *channel);

/* Take over a connection that the peer has made. It replaces the channel's
 * current connection. Returns false if the new connection cannot be watched,
 * and was closed. */
bool core_local_adopt(ucxpool_channel_t *channel, int fd);

/* Read a message, if there is one. */
void core_local_progress(ucxpool_channel_t *channel);

bool core_local_is_up(const ucxpool_channel_t *channel);
void core_local_close(ucxpool_channel_t *channel);

/* Send a message. If there is no room, the message is dropped. This happens
 * only to a DOORBELL, because the handshake is short. The peer then has unread
 * messages, which wake it. A message to a closed connection is also dropped. */
void core_local_send(ucxpool_channel_t *channel, const void *fixed,
                     size_t fixed_size, const void *data, size_t data_size);

/* Returns the time at which conn.lost_at must be checked. */
uint64_t core_local_deadline(const ucxpool_channel_t *channel);

/* How a HELLO arrived, and how it is answered. */
typedef struct core_way {
    ucp_ep_h reply_ep; /* UCX's handle of an endpoint; or NULL */
    int      fd;       /* a connection within the host, or -1 */
} core_way_t;

/* Close the connection of a HELLO that is not answered. */
void core_way_close(const core_way_t *way);

#endif
