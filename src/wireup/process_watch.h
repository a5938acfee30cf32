/*
 * Watching the process of a peer whose memory is mapped: its end means that it
 * will never touch ours again. By a pidfd; on a kernel without one (before 5.3)
 * the process is looked for now and then.
 */
#ifndef WIREUP_PROCESS_WATCH_H
#define WIREUP_PROCESS_WATCH_H

#include "core/channel.h"

/* False: there is no such process, or it cannot be watched. */
bool wireup_process_watch_start(ucxpool_channel_t *channel,
                                const ipc_host_t  *host);
void wireup_process_watch_stop(ucxpool_channel_t *channel);

/* Look for a process that has no descriptor, when it is time. */
unsigned wireup_process_watch_look(ucxpool_channel_t *channel);

#endif
