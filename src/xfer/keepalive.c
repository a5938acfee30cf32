#include <config.h>

#include "xfer/keepalive.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/math.h"
#include "mem/rdma.h"
#include "xfer/channel.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)
#define SECOND_MS UINT64_C(1000)

/* Linux takes no longer TCP_KEEPIDLE and TCP_KEEPINTVL: nine hours. */
#define MAX_KEEP_S UINT64_C(32767)

/* What the peer sent before it hung up comes by other connections. */
#define REST_NS UINT64_C(1000000000)

/* The kernel's settings: silence, then probes. */
typedef struct times {
    uint64_t idle;
    uint64_t interval;
    uint64_t count;
} times_t;

void xfer_keepalive_init(xfer_keepalive_t *keepalive)
{
    xfer_source_init(&keepalive->source);
    keepalive->heard    = XFER_LAST_WORD_NONE;
    keepalive->deadline = BASE_CLOCK_FOREVER;
}

static bool set_option(int fd, int level, int name, uint64_t value)
{
    int number = (int)value;

    return setsockopt(fd, level, name, &number, sizeof(number)) == 0;
}

/* Half of the time passes in silence, in the other half are five probes; in
 * whole seconds, as the kernel counts. */
static times_t times_of(uint64_t timeout_ns)
{
    uint64_t timeout = base_max(timeout_ns / SECOND_NS, UINT64_C(1));
    uint64_t idle    = base_min(base_max(timeout / 2, UINT64_C(1)), MAX_KEEP_S);
    uint64_t rest    = base_min(base_max(timeout - idle, UINT64_C(1)),
                                MAX_KEEP_S);
    uint64_t each    = base_max(rest / 5, UINT64_C(1));

    return (times_t){.idle = idle, .interval = each, .count = rest / each};
}

static uint64_t seconds_of(uint64_t timeout_ns)
{
    times_t times = times_of(timeout_ns);

    return times.idle + times.interval * times.count;
}

/* The kernel does not probe while the greeting's last message is unacknowledged,
 * but sends it again: then TCP_USER_TIMEOUT counts. A peer that only is slow to
 * read has room for a greeting. */
static bool set_times(int fd, uint64_t timeout_ns)
{
    times_t times = times_of(timeout_ns);

    return set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, times.idle) &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, times.interval) &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, times.count) &&
           set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
                      seconds_of(timeout_ns) * SECOND_MS) &&
           set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

/* With RDMA the data may go another way than this connection, and UCX bounds
 * the time itself. */
static bool wants_probes(uint64_t timeout_ns)
{
    return (timeout_ns != BASE_CLOCK_FOREVER) && !mem_has_rdma_device();
}

uint64_t xfer_keepalive_notice(uint64_t timeout_ns)
{
    return wants_probes(timeout_ns) ? seconds_of(timeout_ns) * SECOND_NS
                                    : UINT64_MAX;
}

static void hang_up(xfer_keepalive_t *keepalive)
{
    int fd = keepalive->source.fd;

    if (fd >= 0) {
        xfer_source_remove(&keepalive->source);
        close(fd);
    }
}

/* A peer from whom no HELLO has come has sent nothing else. */
static void hear(ucxpool_channel_t *channel, xfer_last_word_t word)
{
    xfer_keepalive_t *keepalive = &channel->keepalive;

    hang_up(keepalive);
    keepalive->heard    = word;
    keepalive->deadline = (channel->handshake & XFER_HELLO_RECEIVED)
                              ? base_clock_deadline(REST_NS)
                              : base_clock_now();
}

static void host_lost(ucxpool_channel_t *channel, int error)
{
    char text[64];

    hang_up(&channel->keepalive);
    xfer_channel_set_broken(channel);
    xfer_channel_fail(channel, UCXPOOL_ERR_PEER_LOST,
                      "the peer's host does not answer: %s",
                      strerror_r(error, text, sizeof(text)));
}

static unsigned keepalive_ready(xfer_source_t *source)
{
    ucxpool_channel_t *channel = base_container_of(source, ucxpool_channel_t,
                                                   keepalive.source);
    uint8_t            word = XFER_LAST_WORD_NONE;
    ssize_t            size = recv(source->fd, &word, sizeof(word),
                                   MSG_DONTWAIT);
    int                error = (size < 0) ? errno : 0;

    switch (error) {
    case EAGAIN:
    case EINTR:
        return 0;
    case 0:
    case ECONNRESET:
    case EPIPE:
        break;
    default:
        host_lost(channel, error);
        return 1;
    }
    if (word == XFER_LAST_WORD_SPARE) {
        hang_up(&channel->keepalive);
    } else {
        hear(channel, (xfer_last_word_t)word);
    }
    return 1;
}

void xfer_keepalive_start(ucxpool_channel_t *channel, int fd)
{
    xfer_source_t *source     = &channel->keepalive.source;
    uint64_t       timeout_ns = channel->pool->config.peer_timeout_ns;

    if (fd < 0) {
        return;
    }
    if (wants_probes(timeout_ns) && !set_times(fd, timeout_ns)) {
        base_info("%s: the system does not keep its connection alive",
                  channel->name);
    }
    if (xfer_source_add(source, channel->pool, fd, keepalive_ready) !=
        UCXPOOL_OK) {
        close(fd);
    }
}

bool xfer_keepalive_is_up(const ucxpool_channel_t *channel)
{
    return channel->keepalive.source.fd >= 0;
}

void xfer_keepalive_say(int fd, xfer_last_word_t word)
{
    uint8_t byte = (uint8_t)word;

    (void)send(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void xfer_keepalive_end(ucxpool_channel_t *channel, xfer_last_word_t word)
{
    if (xfer_keepalive_is_up(channel)) {
        xfer_keepalive_say(channel->keepalive.source.fd, word);
        hang_up(&channel->keepalive);
    }
    channel->keepalive.deadline = BASE_CLOCK_FOREVER;
}

/* A peer that has closed its channel in peace has had our BYE; this one has not
 * waited for it, or closed before it had heard of the channel. */
static void end_channel(ucxpool_channel_t *channel)
{
    if (channel->handshake & XFER_HELLO_RECEIVED) {
        xfer_channel_set_broken(channel); /* no endpoint is at its end */
    }
    switch (channel->keepalive.heard) {
    case XFER_LAST_WORD_NONE:
        xfer_channel_fail(channel, UCXPOOL_ERR_PEER_LOST,
                          "the peer's process has ended");
        break;
    case XFER_LAST_WORD_CLOSED:
        xfer_channel_peer_left(channel);
        break;
    default:
        xfer_channel_fail(channel, UCXPOOL_ERR_PEER_LOST,
                          "the peer's end of the channel has failed");
    }
}

unsigned xfer_keepalive_progress(ucxpool_channel_t *channel)
{
    if ((channel->keepalive.deadline == BASE_CLOCK_FOREVER) ||
        (base_clock_now() < channel->keepalive.deadline)) {
        return 0;
    }
    channel->keepalive.deadline = BASE_CLOCK_FOREVER;
    if (channel->close < XFER_CLOSE_ENDPOINT) {
        end_channel(channel);
    }
    return 1;
}

uint64_t xfer_keepalive_deadline(const ucxpool_channel_t *channel)
{
    return channel->keepalive.deadline;
}
