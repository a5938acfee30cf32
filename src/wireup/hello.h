/*
 * The handshake of a channel. The messages may arrive in any order:
 *
 *   HELLO   identity of the sender, its memory, and the channel to connect
 *   READY   answer to HELLO: whether the sender can read the peer's memory
 *   GO      answer to READY: the peer may send
 *
 * One side begins (core/remote.h). The other side sends HELLO after it has
 * received the first HELLO. A side is open when it has received HELLO, READY
 * and GO. HELLO is repeated until READY arrives, because a peer may have no
 * room to keep a HELLO for a channel that it has not created yet.
 */
#ifndef WIREUP_HELLO_H
#define WIREUP_HELLO_H

#include "core/channel.h"
#include "core/local.h"
#include "wireup/fd_passing.h"

/* --- early HELLOs ------------------------------------------------------------
 * Match HELLOs to channels, and keep HELLOs that arrive before their channel is
 * created. Any process that can reach UCX's ports can send them, so only a few
 * are kept, for a short time. This loses nothing, because a peer repeats its
 * HELLO.
 */

/* A HELLO that arrived early. */
typedef struct wireup_early {
    base_list_t   link;
    uint64_t      deadline; /* by then the peer has repeated the HELLO */
    core_way_t    way;
    proto_hello_t hello;
    ipc_file_t    files[];
} wireup_early_t;

void wireup_match_destroy_all(ucxpool_t *pool);

/* --- the handshake -------------------------------------------------------- */

/* Start the handshake with a known peer: send HELLO, or wait for the peer's
 * HELLO. Handles a HELLO that has arrived early. */
ucxpool_status_t wireup_hello_start(ucxpool_channel_t *channel);

/* Repeat HELLOs that have not been answered, and drop early HELLOs that were
 * not repeated. */
unsigned wireup_hello_progress(ucxpool_t *pool);

/* Handle a HELLO from any sender. Takes over its connection if it arrived
 * within the host. */
void wireup_hello_received(ucxpool_t *pool, const proto_hello_t *hello,
                           const void *files, const core_way_t *way);

/* Handle the peer's HELLO that has arrived over the channel's connection within
 * the host. */
void wireup_hello_answered(ucxpool_channel_t   *channel,
                           const proto_hello_t *hello, const void *files);

/* Send all messages of the handshake again later. Called when the connection
 * failed during the handshake, or the peer had no room for the HELLO. */
void wireup_hello_unanswered(ucxpool_channel_t *channel);

void wireup_hello_ready(ucxpool_channel_t *channel, const proto_ready_t *ready,
                        const void *text, size_t text_size);
void wireup_hello_go(ucxpool_channel_t *channel, ucp_ep_h reply_ep);

#endif
