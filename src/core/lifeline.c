/*
 * The lifeline of a channel is the connection over which its peer was
 * authenticated. This connection stays open until one side closes it or exits.
 * It does not depend on UCX's connections: UCX may not have created one yet, or
 * may be waiting in its own close. Before a side closes the lifeline, it sends
 * one byte. No other data is sent. TCP keepalive probes prevent firewalls from
 * dropping the connection, and detect a host failure while the channel opens.
 * Later, UCX's own connections detect such a failure (ucx/peer_timeout.c).
 */
#include <config.h>

#include "core/channel.h"

#include "base/clock.h"
#include "base/math.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

/* The time to wait for messages that the peer sent over other connections
 * before it closed this one. */
#define REST_NS UINT64_C(1000000000)

static void close_socket(core_lifeline_t *lifeline)
{
    int fd = lifeline->source.fd;

    if (fd >= 0) {
        core_source_remove(&lifeline->source);
        close(fd);
    }
}

/* Handle the close of the lifeline by the peer, which sent `word` before the
 * close. A peer that has not sent HELLO has sent no other message, so there is
 * nothing to wait for. */
static void handle_end(ucxpool_channel_t *channel, bootstrap_close_t word)
{
    core_lifeline_t *lifeline = &channel->conn.lifeline;

    close_socket(lifeline);
    lifeline->last_word = word;
    lifeline->deadline  = (channel->wireup.handshake & CORE_HELLO_RECEIVED)
                              ? base_clock_deadline(REST_NS)
                              : base_clock_now();
}

/*
 * Handle the failure of the lifeline's network. Only a channel that is opening
 * fails. Such a channel may have no UCX connection, or a connection on which
 * UCX waits for an answer and sends no data. The data of an open channel may
 * use another network, where UCX detects failures.
 */
static void network_lost(ucxpool_channel_t *channel, int error)
{
    char text[64];

    close_socket(&channel->conn.lifeline);
    if (channel->state == UCXPOOL_CHANNEL_CONNECTING) {
        core_channel_set_broken(channel);
        core_channel_fail(channel, UCXPOOL_ERR_PEER_LOST,
                          "the peer's host does not answer: %s",
                          strerror_r(error, text, sizeof(text)));
    }
}

static unsigned lifeline_ready(core_source_t *source)
{
    ucxpool_channel_t *channel =
        base_container_of(source, ucxpool_channel_t, conn.lifeline.source);
    uint8_t word  = BOOTSTRAP_CLOSE_NONE;
    ssize_t size  = recv(source->fd, &word, sizeof(word), MSG_DONTWAIT);
    int     error = (size < 0) ? errno : 0;

    switch (error) {
    case EAGAIN:
    case EINTR:
        return 0;
    case 0:
    case ECONNRESET:
    case EPIPE:
        break;
    default:
        network_lost(channel, error);
        return 1;
    }
    if (word == BOOTSTRAP_CLOSE_SPARE) {
        close_socket(&channel->conn.lifeline);
    } else {
        handle_end(channel, (bootstrap_close_t)word);
    }
    return 1;
}

static void set_option(int fd, int level, int name, int value)
{
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

/* Enable keepalive probes. The idle time is a quarter of the timeout, and three
 * probes share the rest. While the last message of the authentication (a proof)
 * is unacknowledged, the kernel retransmits it and does not probe. In this case
 * TCP_USER_TIMEOUT applies. A slow peer does not cause this timeout, because
 * its receive buffer has room for a proof. */
static void keep_alive(int fd, uint64_t timeout_ns)
{
    uint64_t seconds = base_max(timeout_ns / 4 / SECOND_NS, UINT64_C(1));

    if (timeout_ns != BASE_CLOCK_FOREVER) {
        set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, (int)seconds);
        set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, (int)seconds);
        set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
        set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)(4000 * seconds));
        set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    }
}

ucxpool_status_t core_lifeline_start(ucxpool_channel_t *channel, int fd)
{
    ucxpool_status_t status;

    if (fd < 0) {
        return UCXPOOL_OK;
    }
    keep_alive(fd, channel->pool->config.peer_timeout_ns);
    status = core_source_add(&channel->conn.lifeline.source, channel->pool, fd,
                             lifeline_ready);
    if (status != UCXPOOL_OK) {
        bootstrap_close_notify(fd, BOOTSTRAP_CLOSE_FAILED);
        close(fd);
    }
    return status;
}

bool core_lifeline_is_up(const ucxpool_channel_t *channel)
{
    return channel->conn.lifeline.source.fd >= 0;
}

void core_lifeline_end(ucxpool_channel_t *channel, bootstrap_close_t word)
{
    if (core_lifeline_is_up(channel)) {
        bootstrap_close_notify(channel->conn.lifeline.source.fd, word);
        close_socket(&channel->conn.lifeline);
    }
    channel->conn.lifeline.deadline = BASE_CLOCK_FOREVER;
}

/* End a channel whose peer has closed the lifeline. A peer that closes a
 * channel normally waits for our BYE first. So this peer has failed, or it
 * closed the lifeline before it knew the channel. */
static void end_channel(ucxpool_channel_t *channel)
{
    if (channel->wireup.handshake & CORE_HELLO_RECEIVED) {
        core_channel_set_broken(channel); /* the peer has no endpoint */
    }
    switch (channel->conn.lifeline.last_word) {
    case BOOTSTRAP_CLOSE_NONE:
        core_channel_fail(channel, UCXPOOL_ERR_PEER_LOST,
                          "the peer's process has ended");
        break;
    case BOOTSTRAP_CLOSE_CLOSED:
        core_channel_peer_left(channel);
        break;
    default:
        core_channel_fail(channel, UCXPOOL_ERR_PEER_LOST,
                          "the channel has failed at the peer");
    }
}

unsigned core_lifeline_progress(ucxpool_channel_t *channel)
{
    if (base_clock_now() < channel->conn.lifeline.deadline) {
        return 0;
    }
    channel->conn.lifeline.deadline = BASE_CLOCK_FOREVER;
    if (channel->closing.step < CORE_CLOSE_ENDPOINT) {
        end_channel(channel);
    }
    return 1;
}
