#include "wireup/process_watch.h"

#include "base/clock.h"
#include "core/channel.h"

#include <unistd.h>

/* How often a process without a descriptor is looked for. */
#define LOOK_NS UINT64_C(50000000)

void xfer_watch_stop(ucxpool_channel_t *channel)
{
    xfer_peer_t *peer = &channel->peer;
    int          fd   = peer->watch.fd;

    peer->next_look = BASE_CLOCK_FOREVER;
    if (fd >= 0) {
        xfer_source_remove(&peer->watch);
        close(fd);
    }
}

static void process_ended(ucxpool_channel_t *channel)
{
    xfer_watch_stop(channel);
    channel->peer.has_ended = true;
}

/* The pidfd has become readable. */
static unsigned watch_ready(xfer_source_t *source)
{
    process_ended(base_container_of(source, ucxpool_channel_t, peer.watch));
    return 1;
}

bool xfer_watch_start(ucxpool_channel_t *channel, const mem_share_host_t *host)
{
    xfer_peer_t *peer = &channel->peer;
    int          fd   = mem_share_watch(host);

    if (fd < 0) {
        peer->next_look = 0;
        return mem_share_host_is_alive(host);
    }
    if (xfer_source_add(&peer->watch, channel->pool, fd, watch_ready) !=
        UCXPOOL_OK) {
        close(fd);
        return false;
    }
    return true;
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
    process_ended(channel);
    return 1;
}
