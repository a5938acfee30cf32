/*
 * The lifeline of a channel is the connection over which its peer was
 * authenticated. This connection stays open, and is closed when the peer's
 * process ends, whatever the state of UCX's connections: UCX may not have
 * created one yet, or may wait in its own close. The side that hangs up sends
 * one byte; nothing else is sent. TCP keepalive probes keep the state of
 * firewalls alive, and detect the failure of a host while the channel opens;
 * later, UCX's own connections detect such a failure (ucx/peer_timeout.h).
 */
#ifndef CORE_LIFELINE_H
#define CORE_LIFELINE_H

#include "base/clock.h"
#include "bootstrap/auth.h"
#include "core/wakeup.h"

typedef struct core_lifeline {
    core_source_t     source;
    bootstrap_close_t last_word;
    uint64_t deadline; /* when the end of the lifeline ends the channel;
                          BASE_CLOCK_FOREVER: never */
} core_lifeline_t;

static inline void core_lifeline_init(core_lifeline_t *lifeline)
{
    core_source_init(&lifeline->source);
    lifeline->last_word = BOOTSTRAP_CLOSE_NONE;
    lifeline->deadline  = BASE_CLOCK_FOREVER;
}

/*
 * Start the lifeline with a connected socket, which this call takes over even
 * if it fails. -1: no connection, so that only UCX detects the end of the peer.
 *
 * UCXPOOL_ERR_IO, UCXPOOL_ERR_NO_MEMORY  the socket cannot be watched, so an
 *                                        opening channel could wait forever
 */
ucxpool_status_t core_lifeline_start(ucxpool_channel_t *channel, int fd);

bool core_lifeline_is_up(const ucxpool_channel_t *channel);

/* Send `word` as the byte, if the connection is up, and hang up. */
void core_lifeline_end(ucxpool_channel_t *channel, bootstrap_close_t word);

/* End a channel whose peer has hung up, after a time in which messages that the
 * peer sent before can arrive. Returns the number of channels that have
 * ended. */
unsigned core_lifeline_progress(ucxpool_channel_t *channel);
uint64_t core_lifeline_deadline(const ucxpool_channel_t *channel);

#endif
