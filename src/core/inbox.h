/*
 * Messages in: from the rings, and from UCX's active messages. Whoever reads a
 * message off one of these, or off a socket (local.h, fd_passing.h), knows its
 * way, and the pool's table of what to call; what is called stands above them.
 */
#ifndef CORE_INBOX_H
#define CORE_INBOX_H

#include "core/channel.h"
#include "core/local.h"

typedef struct core_dispatch {
    /* A channel is made: give it what the layers above keep of it.
     * UCXPOOL_ERR_NO_MEMORY */
    ucxpool_status_t (*channel_created)(ucxpool_channel_t *channel);

    /* A HELLO, from whoever. A connection within the host is taken over. */
    void (*hello)(ucxpool_t *pool, const proto_hello_t *hello,
                  const void *files, const core_way_t *way);

    /* From the channel's ring. */
    void (*from_ring)(ucxpool_channel_t *channel, const proto_fixed_t *message,
                      const void *data, size_t data_size);

    /* From the channel's connection within the host. */
    void (*from_local)(ucxpool_channel_t *channel, const proto_fixed_t *message,
                       const void *data, size_t data_size);

    /* An active message. reply_ep: NULL, or UCX's name of its endpoint. */
    void (*from_ucx)(ucxpool_channel_t *channel, const proto_fixed_t *message,
                     const void *data, size_t data_size, ucp_ep_h reply_ep);

    /* A message with a flag of PROTO_DESC_WINDOW, in its turn. */
    void (*window_message)(struct ucxpool_message *message);

    /* The files of a window's grant are wanted, which may not be taken:
     * window_remote_given() will bring them. False: there is no memory. */
    bool (*window_files)(ucxpool_channel_t *channel, uint64_t remote,
                         uint64_t grant, uint32_t num_files);

    /* The channel's connection within the host has broken while it opens. */
    void (*unheard)(ucxpool_channel_t *channel);
} core_dispatch_t;

/* Install the handlers of active messages; take them away, because a borrowed
 * worker lives on. */
ucxpool_status_t core_inbox_init(ucxpool_t *pool);
void             core_inbox_cleanup(ucxpool_t *pool);

/* Read the rings of all channels; a bounded number of messages from each. */
unsigned core_inbox_progress(ucxpool_t *pool);

/* Read everything that stands in the ring of a channel that is about to end. */
void core_inbox_drain(ucxpool_channel_t *channel);

#endif
