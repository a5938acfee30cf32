/*
 * The lifeline of a channel is the connection over which its peer was
 * authenticated. This connection stays open until one side closes it or exits.
 * It does not depend on UCX's connections: UCX may not have created one yet, or
 * may be waiting in its own close. Before a side closes the lifeline, it sends
 * one byte. No other data is sent. TCP keepalive probes prevent firewalls from
 * dropping the connection, and detect a host failure while the channel opens.
 * Later, UCX's own connections detect such a failure (ucx/peer_timeout.c).
 */
#ifndef CORE_LIFELINE_H
#define CORE_LIFELINE_H

#include "bootstrap/auth.h"
#include "core/wakeup.h"

typedef struct core_lifeline {
    core_source_t     source;
    bootstrap_close_t last_word;
    uint64_t          deadline; /* when a closed lifeline ends the channel;
                                   BASE_CLOCK_FOREVER: never */
} core_lifeline_t;

/*
 * Start the lifeline with a connected socket. The lifeline owns the socket,
 * even after an error. If fd is -1, there is no lifeline. On `ucx`, only
 * UCX then detects that the peer has exited.
 *
 * UCXPOOL_ERR_IO, UCXPOOL_ERR_NO_MEMORY  the socket cannot be polled. A channel
 *                                        that is being opened could then wait
 *                                        forever
 */
ucxpool_status_t core_lifeline_start(ucxpool_channel_t *channel, int fd);

bool core_lifeline_is_up(const ucxpool_channel_t *channel);

/* Send the byte `word` if the connection is up, and close the connection. */
void core_lifeline_end(ucxpool_channel_t *channel, bootstrap_close_t word);

/* End a channel whose peer has closed the lifeline. First wait some time for
 * messages that the peer sent before the close. Returns the number of channels
 * that have ended. */
unsigned core_lifeline_progress(ucxpool_channel_t *channel);

#endif
