/*
 * The lifeline of a channel: the connection of its authentication, which stays
 * open afterwards. It ends with the peer's process, whatever the state of UCX's
 * connections: UCX may not have created one yet, or may wait in its own close.
 * The side that hangs up sends one byte, and nothing else is sent. TCP
 * keepalive probes keep the state of firewalls alive, and detect the failure of
 * a host while the channel opens; later, UCX's own connections detect it
 * (ucx/peer_timeout.h).
 */
#ifndef CORE_LIFELINE_H
#define CORE_LIFELINE_H

#include "base/clock.h"
#include "bootstrap/auth.h"
#include "core/wakeup.h"

typedef struct core_lifeline {
    core_source_t     source;
    bootstrap_close_t heard;
    uint64_t deadline; /* when its end counts; BASE_CLOCK_FOREVER: never */
} core_lifeline_t;

static inline void core_lifeline_init(core_lifeline_t *lifeline)
{
    core_source_init(&lifeline->source);
    lifeline->heard    = BOOTSTRAP_CLOSE_NONE;
    lifeline->deadline = BASE_CLOCK_FOREVER;
}

/*
 * Start with a connected socket, which this call takes over even if it fails.
 * -1: no connection, so that only UCX detects the end of the peer.
 *
 * UCXPOOL_ERR_IO, UCXPOOL_ERR_NO_MEMORY  it cannot be watched, so an opening
 *                                        channel could wait forever
 */
ucxpool_status_t core_lifeline_start(ucxpool_channel_t *channel, int fd);

bool core_lifeline_is_up(const ucxpool_channel_t *channel);

/* Send the byte, if the connection is up, and hang up. */
void core_lifeline_end(ucxpool_channel_t *channel, bootstrap_close_t word);

/* Fail a channel whose peer has hung up, after messages that it sent before
 * have had time to arrive. Returns the number of channels that have ended. */
unsigned core_lifeline_progress(ucxpool_channel_t *channel);
uint64_t core_lifeline_deadline(const ucxpool_channel_t *channel);

#endif
