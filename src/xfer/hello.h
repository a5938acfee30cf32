/*
 * The handshake of a channel, both sides alike, in any order of arrival:
 *
 *   HELLO   who I am, what I offer, which channel of ours I mean
 *   READY   your HELLO has come; I can, or cannot, read your memory
 *   GO      your READY has come: you may send
 *
 * A side is open when it has the other's HELLO, READY and GO. The wire is `map`
 * when both can read the other's memory, otherwise `ucx`. HELLO is said again
 * until READY answers it, because who gets one for a channel that he has not
 * made yet may have no room to keep it.
 */
#ifndef XFER_HELLO_H
#define XFER_HELLO_H

#include "xfer/channel.h"

/* The endpoint stands: begin. A HELLO that came before is taken up. */
void xfer_hello_start(ucxpool_channel_t *channel);

/* Say HELLO again where nobody has answered, and forget those that came too
 * early and were not said again. */
unsigned xfer_hello_progress(ucxpool_t *pool);

void xfer_hello_received(ucxpool_t *pool, const proto_hello_t *hello,
                         const void *files, ucp_ep_h reply_ep);
void xfer_hello_ready(ucxpool_channel_t *channel, const proto_ready_t *ready,
                      const void *text, size_t text_size);
void xfer_hello_go(ucxpool_channel_t *channel);

/* The descriptors of the peer's memory have come, which stay the caller's; or
 * NULL: they have not, and the reason is in channel->peer.we_reason. */
void xfer_hello_fetched(ucxpool_channel_t *channel, const proto_hello_t *hello,
                        const mem_share_file_t *files, const int *fds);

#endif
