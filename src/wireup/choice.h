/*
 * Which wire a channel takes: `map` when both sides can read the other's
 * memory, otherwise `ucx`.
 */
#ifndef WIREUP_CHOICE_H
#define WIREUP_CHOICE_H

#include "wireup/fd_import.h"

/*
 * Try the `map` wire as far as this side is concerned, with what the peer's
 * HELLO offers; channel->peer.we_map and we_reason tell how it went. False: it
 * takes time, and `fetched` is called with what has come of it.
 */
bool wireup_choice_try(ucxpool_channel_t *channel, const proto_hello_t *hello,
                       const ipc_file_t *files, wireup_fd_import_cb_t fetched);

/* The same with descriptors that the peer has given, or NULL: it has not. */
void wireup_choice_try_given(ucxpool_channel_t   *channel,
                             const proto_hello_t *hello,
                             const ipc_file_t *files, const int *fds);

/* Both sides have said what they can. False: the channel has failed, since
 * UCXPOOL_WIRE wants another wire. */
bool wireup_choice_make(ucxpool_channel_t *channel);

#endif
