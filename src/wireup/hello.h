/*
 * The handshake of a channel, in any order of arrival:
 *
 *   HELLO   who I am, what I offer, which channel of ours I mean
 *   READY   your HELLO has come; I can, or cannot, read your memory
 *   GO      your READY has come: you may send
 *
 * One side begins (remote.h), and the other says HELLO when one has come. A
 * side is open when it has the other's HELLO, READY and GO. HELLO is said again
 * until READY answers it, because a peer that gets one for a channel that it
 * has not made yet may have no room to keep it.
 */
#ifndef WIREUP_HELLO_H
#define WIREUP_HELLO_H

#include "core/channel.h"
#include "core/local.h"
#include "wireup/fd_passing.h"

/* --- HELLOs that came early --------------------------------------------------
 * Which channel a HELLO is for; and the HELLOs that came before theirs was made
 * here. Anybody who reaches UCX's ports can send such, so few are kept, and
 * none for long. Nothing is lost with one, because a real peer says it again.
 */

/* A HELLO that came early. */
typedef struct wireup_early {
    base_list_t   link;
    uint64_t      deadline; /* by then it has been said again */
    core_way_t    way;
    proto_hello_t hello;
    ipc_file_t    files[];
} wireup_early_t;

void wireup_match_destroy_all(ucxpool_t *pool);

/* --- the handshake -------------------------------------------------------- */

/* The peer is known: begin, or wait until it does. A HELLO that came before is
 * taken up. */
ucxpool_status_t wireup_hello_start(ucxpool_channel_t *channel);

/* Say HELLO again where nobody has answered, and forget those that came too
 * early and were not said again. */
unsigned wireup_hello_progress(ucxpool_t *pool);

/* From whoever; a connection within the host is taken over. */
void wireup_hello_received(ucxpool_t *pool, const proto_hello_t *hello,
                           const void *files, const core_way_t *way);

/* The peer's HELLO has come over the channel's connection within the host. */
void wireup_hello_answered(ucxpool_channel_t   *channel,
                           const proto_hello_t *hello, const void *files);

/* The connection has broken within the handshake, or the peer had no room for
 * our HELLO: all is said again. */
void wireup_hello_unheard(ucxpool_channel_t *channel);

void wireup_hello_ready(ucxpool_channel_t *channel, const proto_ready_t *ready,
                        const void *text, size_t text_size);
void wireup_hello_go(ucxpool_channel_t *channel, ucp_ep_h reply_ep);

#endif
