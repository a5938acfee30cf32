/*
 * Incoming messages: entries of rings, and UCX active messages. The code
 * that reads them, or reads sockets (local.h, wireup/wireup.h), passes each
 * message to a handler in the pool's table, core_dispatch_t. The handlers are
 * in the layers above.
 */
#ifndef CORE_INBOX_H
#define CORE_INBOX_H

#include "core/channel.h"
#include "core/local.h"

typedef struct core_dispatch {
    /* Allocate the state of the layers above for a new channel.
     * UCXPOOL_ERR_NO_MEMORY */
    ucxpool_status_t (*channel_created)(ucxpool_channel_t *channel);

    /* A HELLO has arrived from any sender. The handler takes over the
     * connection within the host, if there is one. */
    void (*hello)(ucxpool_t *pool, const proto_hello_t *hello,
                  const void *files, const core_way_t *way);

    /* A message has arrived through the channel's ring. */
    void (*from_ring)(ucxpool_channel_t *channel, const proto_fixed_t *message,
                      const void *data, size_t data_size);

    /* A message has arrived over the channel's Unix socket. */
    void (*from_local)(ucxpool_channel_t *channel, const proto_fixed_t *message,
                       const void *data, size_t data_size);

    /* An active message has arrived. reply_ep: UCX's handle of the endpoint
     * over which the message arrived, or NULL. */
    void (*from_ucx)(ucxpool_channel_t *channel, const proto_fixed_t *message,
                     const void *data, size_t data_size, ucp_ep_h reply_ep);

    /* A message with a flag of PROTO_DESC_WINDOW is next in order. */
    void (*window_message)(struct ucxpool_message *message);

    /* Request the files of a window's grant from the peer.
     * window_remote_files_received() delivers them. If `maps_early` is true,
     * window_remote_map_files() first maps the files of each message that
     * arrives, and the files are then closed. Returns false if out of
     * memory. */
    bool (*window_files)(ucxpool_channel_t *channel, uint64_t remote,
                         uint64_t grant, uint32_t num_files, bool maps_early);

    /* Stop a request for files. */
    void (*window_files_stop)(ucxpool_channel_t *channel, uint64_t remote);

    /* The channel's connection within the host has failed during the
     * handshake. */
    void (*unanswered)(ucxpool_channel_t *channel);
} core_dispatch_t;

/* Install the handlers of active messages. core_inbox_cleanup() removes them,
 * because a borrowed worker continues to exist. */
ucxpool_status_t core_inbox_init(ucxpool_t *pool);
void             core_inbox_cleanup(ucxpool_t *pool);

/* Read the rings of all channels, a bounded number of entries from each. */
unsigned core_inbox_progress(ucxpool_t *pool);

/* Read all messages in the ring of a channel that is about to end. */
void core_inbox_drain(ucxpool_channel_t *channel);

#endif
