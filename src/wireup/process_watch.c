#include "wireup/process_watch.h"

#include "base/clock.h"
#include "core/channel.h"

#include <unistd.h>

/* How often a process without a descriptor is looked for. */
#define LOOK_NS UINT64_C(50000000)

void wireup_process_watch_stop(ucxpool_channel_t *channel)
{
    core_peer_t *peer = &channel->peer;
    int          fd   = peer->watch.fd;

    peer->next_look = BASE_CLOCK_FOREVER;
    if (fd >= 0) {
        core_source_remove(&peer->watch);
        close(fd);
    }
}

static void process_ended(ucxpool_channel_t *channel)
{
    wireup_process_watch_stop(channel);
    channel->peer.has_ended = true;
}

/* The pidfd has become readable. */
static unsigned watch_ready(core_source_t *source)
{
    process_ended(base_container_of(source, ucxpool_channel_t, peer.watch));
    return 1;
}

bool wireup_process_watch_start(ucxpool_channel_t *channel,
                                const ipc_host_t  *host)
{
    core_peer_t *peer = &channel->peer;
    int          fd   = ipc_watch(host);

    if (fd < 0) {
        peer->next_look = 0;
        return ipc_host_is_alive(host);
    }
    if (core_source_add(&peer->watch, channel->pool, fd, watch_ready) !=
        UCXPOOL_OK) {
        close(fd);
        return false;
    }
    return true;
}

unsigned wireup_process_watch_look(ucxpool_channel_t *channel)
{
    core_peer_t *peer = &channel->peer;

    if ((peer->next_look == BASE_CLOCK_FOREVER) ||
        (base_clock_now() < peer->next_look)) {
        return 0;
    }
    if (ipc_host_is_alive(&peer->host)) {
        peer->next_look = base_clock_deadline(LOOK_NS);
        return 0;
    }
    process_ended(channel);
    return 1;
}
