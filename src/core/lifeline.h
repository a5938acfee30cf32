/*
 * The connection beside a channel: that of its authentication, which stays open
 * once both sides are proven. It ends with the peer's process, whatever UCX's
 * connections do: UCX may not have made one yet, or wait in its own close.
 * Nothing is said there but one word at the end, by the side that hangs up. The
 * kernel's probes keep firewalls on the way from forgetting it, and tell of a
 * host that goes while the channel opens; later UCX's own connections do
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
    uint64_t deadline; /* when that counts; BASE_CLOCK_FOREVER: never */
} core_lifeline_t;

static inline void core_lifeline_init(core_lifeline_t *lifeline)
{
    core_source_init(&lifeline->source);
    lifeline->heard    = BOOTSTRAP_CLOSE_NONE;
    lifeline->deadline = BASE_CLOCK_FOREVER;
}

/*
 * Begin with a connected socket, which is ours from now on, also after an
 * error. -1: there is none, and UCX alone detects the peer's end.
 *
 * UCXPOOL_ERR_IO, UCXPOOL_ERR_NO_MEMORY  it cannot be watched: nothing would
 *     end a channel that is opening
 */
ucxpool_status_t core_lifeline_start(ucxpool_channel_t *channel, int fd);

bool core_lifeline_is_up(const ucxpool_channel_t *channel);

/* Say the word, if there is somebody to hear it, and hang up. */
void core_lifeline_end(ucxpool_channel_t *channel, bootstrap_close_t word);

/* End a channel whose peer has hung up, when what it sent before has had the
 * time to come. Returns how many channels have ended. */
unsigned core_lifeline_progress(ucxpool_channel_t *channel);
uint64_t core_lifeline_deadline(const ucxpool_channel_t *channel);

#endif
