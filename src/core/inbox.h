/*
 * Incoming messages, from rings and from UCX's active messages. The code that
 * reads them, or sockets (local.h, wireup/fd_passing.h), passes each message to
 * the handlers in the pool's table. The handlers are in the layers above.
 */
#ifndef CORE_INBOX_H
#define CORE_INBOX_H

#include "core/channel.h"
#include "core/local.h"

typedef struct core_dispatch {
    /* Allocate the state of the layers above for a new channel.
     * UCXPOOL_ERR_NO_MEMORY */
    ucxpool_status_t (*channel_created)(ucxpool_channel_t *channel);

    /* A HELLO, from any sender. Takes over a connection within the host. */
    void (*hello)(ucxpool_t *pool, const proto_hello_t *hello,
                  const void *files, const core_way_t *way);

    /* A message from the channel's ring. */
    void (*from_ring)(ucxpool_channel_t *channel, const proto_fixed_t *message,
                      const void *data, size_t data_size);

    /* A message from the channel's connection within the host. */
    void (*from_local)(ucxpool_channel_t *channel, const proto_fixed_t *message,
                       const void *data, size_t data_size);

    /* An active message. reply_ep: NULL, or UCX's handle of its endpoint. */
    void (*from_ucx)(ucxpool_channel_t *channel, const proto_fixed_t *message,
                     const void *data, size_t data_size, ucp_ep_h reply_ep);

    /* A message with a flag of PROTO_DESC_WINDOW, in order. */
    void (*window_message)(struct ucxpool_message *message);

    /* Request the files of a window's grant, which the system does not let this
     * process take; window_remote_given() delivers them. Returns false if out
     * of memory. */
    bool (*window_files)(ucxpool_channel_t *channel, uint64_t remote,
                         uint64_t grant, uint32_t num_files);

    /* The channel's connection within the host has failed during the
     * handshake. */
    void (*unheard)(ucxpool_channel_t *channel);
} core_dispatch_t;

/* Install the handlers of active messages; cleanup removes them, because a
 * borrowed worker continues to exist. */
ucxpool_status_t core_inbox_init(ucxpool_t *pool);
void             core_inbox_cleanup(ucxpool_t *pool);

/* Read the rings of all channels, a bounded number of messages from each. */
unsigned core_inbox_progress(ucxpool_t *pool);

/* Read all messages in the ring of a channel that is about to end. */
void core_inbox_drain(ucxpool_channel_t *channel);

#endif
