#include "xfer/watch.h"

#include "base/clock.h"
#include "xfer/inbox.h"

#include <sys/epoll.h>
#include <unistd.h>

/* How often a process without a descriptor is looked for. */
#define LOOK_NS UINT64_C(50000000)

bool xfer_watch_start(ucxpool_channel_t *channel, const mem_share_host_t *host)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = channel};
    xfer_peer_t       *peer  = &channel->peer;

    peer->watch_fd = mem_share_watch(host);
    if (peer->watch_fd < 0) {
        peer->next_look = 0;
        return mem_share_host_is_alive(host);
    }
    return epoll_ctl(channel->pool->epoll_fd, EPOLL_CTL_ADD, peer->watch_fd,
                     &event) == 0;
}

void xfer_watch_stop(ucxpool_channel_t *channel)
{
    xfer_peer_t *peer = &channel->peer;

    peer->next_look = BASE_CLOCK_FOREVER;
    if (peer->watch_fd >= 0) {
        /* A forked child may have the descriptor too, and would keep it in the
         * set after it is closed here. */
        epoll_ctl(channel->pool->epoll_fd, EPOLL_CTL_DEL, peer->watch_fd, NULL);
        close(peer->watch_fd);
        peer->watch_fd = -1;
    }
}

void xfer_watch_ended(ucxpool_channel_t *channel)
{
    xfer_watch_stop(channel);
    if (channel->peer.gone) {
        return;
    }
    xfer_channel_get(channel);
    /* What it had written before it died still counts. */
    xfer_inbox_drain(channel);
    channel->peer.gone = true;
    xfer_channel_fail(channel, UCXPOOL_ERR_PEER_LOST,
                      "the peer's process has ended");
    xfer_channel_peer_gone(channel);
    xfer_channel_put(channel);
}

unsigned xfer_watch_look(ucxpool_channel_t *channel)
{
    xfer_peer_t *peer = &channel->peer;

    if ((peer->next_look == BASE_CLOCK_FOREVER) ||
        (base_clock_now() < peer->next_look)) {
        return 0;
    }
    if (mem_share_host_is_alive(&peer->host)) {
        peer->next_look = base_clock_deadline(LOOK_NS);
        return 0;
    }
    xfer_watch_ended(channel);
    return 1;
}
