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
bool xfer_choice_try(ucxpool_channel_t *channel, const proto_hello_t *hello,
                     const mem_share_file_t *files, xfer_fetch_cb_t fetched);

/* The same with descriptors that the peer has given, or NULL: it has not. */
void xfer_choice_try_given(ucxpool_channel_t      *channel,
                           const proto_hello_t    *hello,
                           const mem_share_file_t *files, const int *fds);

/* Both sides have said what they can. False: the channel has failed, since
 * UCXPOOL_WIRE wants another wire. */
bool xfer_choice_make(ucxpool_channel_t *channel);

#endif
