#include "core/local.h"

#include "base/clock.h"
#include "base/log.h"
#include "core/inbox.h"
#include "core/wire.h"
#include "ipc/socket.h"

#include <errno.h>
#include <string.h>

/* The maximum number of messages that are read before other channels have their
 * turn. */
#define ROUND_MAX 16

/* If a peer has closed the connection this many times before the channel was
 * open, this side assumes that the peer does not accept this process's
 * identity. */
#define UNANSWERED_MAX 3

/*
 * The time between the loss of the connection and the failure of the channel.
 * The system closes a process's sockets before it reports that the process has
 * exited. This report, or a BYE in the ring, is a more precise reason for the
 * failure.
 */
#define GRACE_NS UINT64_C(100000000)

const char *core_local_folder(const ucxpool_t *pool, const core_blob_t *blob)
{
    char reason[PROTO_TEXT_MAX + 1];

    if ((pool->config.wire == BASE_WIRE_UCX) ||
        !ipc_host_fits(&blob->host, reason, sizeof(reason))) {
        return NULL;
    }
    if ((blob->net_namespace != 0) &&
        (blob->net_namespace == ipc_net_namespace())) {
        return "";
    }
    return ipc_folder_has(pool->config.socket_dir, blob->id)
               ? pool->config.socket_dir
               : NULL;
}

/* Check that the process at the other end is the peer. In the peer's network
 * namespace, no other process can own the peer's abstract name, unless the peer
 * has ended. */
static bool is_peer(const ucxpool_channel_t *channel, int fd)
{
    const ipc_host_t *host = &channel->conn.remote->blob.host;
    ipc_caller_t      who;

    return (ipc_socket_caller(fd, &who) == 0) && ipc_caller_is(&who, host);
}

/* --- incoming messages ---------------------------------------------------- */

static void handle(ucxpool_channel_t *channel, const uint8_t *bytes,
                   size_t length)
{
    size_t        fixed_size = proto_fixed_size(bytes[0]);
    proto_fixed_t message;

    if ((length < fixed_size) ||
        (proto_parse(bytes, fixed_size, length - fixed_size, &message) !=
         UCXPOOL_OK)) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL, "%s",
                          ucxpool_error_detail());
    } else {
        channel->pool->dispatch->from_local(
            channel, &message, bytes + fixed_size, length - fixed_size);
    }
}

/* Called when the peer has closed the connection: the peer's pool was
 * destroyed, or has refused the connection. */
static void disconnected(ucxpool_channel_t *channel)
{
    core_local_close(channel);
    if (!core_wire_is_connected(channel)) {
        return; /* an endpoint is used instead */
    }
    if (channel->state == UCXPOOL_CHANNEL_CONNECTING) {
        channel->conn.num_unanswered++;
        channel->pool->dispatch->unanswered(channel);
    } else if (channel->conn.endpoint == NULL) {
        channel->conn.lost_at = base_clock_deadline(GRACE_NS);
    }
}

/* Read at most `max` messages. A doorbell does not count as an event, because
 * each round of progress reads the ring. */
static unsigned read_some(ucxpool_channel_t *channel, unsigned max)
{
    uint8_t *bytes = (uint8_t *)&channel->pool->local_message;
    unsigned count = 0;
    size_t   length;
    int      error = 0;

    core_channel_get(channel);
    for (unsigned i = 0; (i < max) && (error == 0) && core_local_is_up(channel);
         i++) {
        error =
            ipc_socket_recv_any(channel->conn.local.fd, bytes,
                                sizeof(channel->pool->local_message), &length);
        if (error == 0) {
            count += (bytes[0] == PROTO_DOORBELL) ? 0 : 1;
            handle(channel, bytes, length);
        } else if ((error == ECONNRESET) || (error == EPROTO)) {
            disconnected(channel);
            count++;
        }
    }
    core_channel_put(channel);
    return count;
}

/* Called when the socket is readable. On an open channel, usually only a
 * doorbell has arrived. If there are more messages, the descriptor stays
 * readable. */
static unsigned ready(core_source_t *source)
{
    ucxpool_channel_t *channel =
        base_container_of(source, ucxpool_channel_t, conn.local);

    return read_some(channel,
                     (channel->state == UCXPOOL_CHANNEL_OPEN) ? 1 : ROUND_MAX);
}

void core_local_progress(ucxpool_channel_t *channel)
{
    read_some(channel, 1);
}

/* --- the connection ------------------------------------------------------- */

bool core_local_adopt(ucxpool_channel_t *channel, int fd)
{
    core_local_close(channel);
    if (core_source_add(&channel->conn.local, channel->pool, fd, ready) !=
        UCXPOOL_OK) {
        ipc_socket_close(fd);
        return false;
    }
    return true;
}

ucxpool_status_t core_local_connect(ucxpool_channel_t *channel)
{
    core_remote_t *remote = channel->conn.remote;
    const char    *folder;
    int            fd;
    int            error;

    /* Only one channel at a time retries, for all channels to this peer. If
     * each of a thousand channels retried, this thread would do nothing else,
     * but it may also have to progress the peer's pool. */
    if (base_clock_now() < remote->full_until) {
        return UCXPOOL_INPROGRESS;
    }
    folder = core_local_folder(channel->pool, &remote->blob);
    if ((channel->conn.num_unanswered >= UNANSWERED_MAX) || (folder == NULL)) {
        return UCXPOOL_ERR_UNSUPPORTED;
    }
    error = ipc_socket_connect(folder, remote->blob.id, &fd);
    if (error == EAGAIN) {
        remote->full_until = base_clock_deadline(CORE_LOCAL_RETRY_NS);
        return UCXPOOL_INPROGRESS;
    }
    if (error != 0) {
        base_debug("%s: cannot connect to the peer's socket: %s", channel->name,
                   strerror(error));
        return UCXPOOL_ERR_UNSUPPORTED;
    }
    if (!is_peer(channel, fd)) {
        ipc_socket_close(fd);
        return UCXPOOL_ERR_UNSUPPORTED;
    }
    return core_local_adopt(channel, fd) ? UCXPOOL_OK : UCXPOOL_ERR_UNSUPPORTED;
}

bool core_local_is_up(const ucxpool_channel_t *channel)
{
    return channel->conn.local.fd >= 0;
}

void core_local_close(ucxpool_channel_t *channel)
{
    int fd = channel->conn.local.fd;

    if (fd >= 0) {
        core_source_remove(&channel->conn.local);
        ipc_socket_close(fd);
    }
}

void core_local_send(ucxpool_channel_t *channel, const void *fixed,
                     size_t fixed_size, const void *data, size_t data_size)
{
    int error = ipc_socket_send_parts(channel->conn.local.fd, fixed, fixed_size,
                                      data, data_size);

    if (error != 0) {
        base_debug("%s: dropped a message to the peer's socket: %s",
                   channel->name, strerror(error));
    }
    /* If the peer has closed the connection, what it sent before can still be
     * read. The reader notices the end after that. */
    if ((error != 0) && (error != EPIPE) && (error != ECONNRESET) &&
        (channel->state == UCXPOOL_CHANNEL_CONNECTING)) {
        disconnected(channel);
    }
}

uint64_t core_local_deadline(const ucxpool_channel_t *channel)
{
    return core_channel_is_broken(channel) ? BASE_CLOCK_FOREVER
                                           : channel->conn.lost_at;
}

void core_way_close(const core_way_t *way)
{
    if (way->fd >= 0) {
        ipc_socket_close(way->fd);
    }
}
