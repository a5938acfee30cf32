/*
 * Where a message goes that has arrived. Whoever reads it off a ring, a socket
 * or an active message (inbox.h, local.h, fd_export.h) knows its way, and the
 * pool's table of what to call; what is called stands above them.
 */
#ifndef CORE_DISPATCH_H
#define CORE_DISPATCH_H

#include "core/local.h"

typedef struct core_dispatch {
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

    /* The channel's connection within the host has broken while it opens. */
    void (*unheard)(ucxpool_channel_t *channel);
} core_dispatch_t;

extern const core_dispatch_t core_dispatch;

#endif
