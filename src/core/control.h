/*
 * Outgoing control messages. If the channel has a ring, they are sent through
 * it. Otherwise they are sent over its connection within the host, or as active
 * messages.
 *
 *     fixed = core_control_begin(channel, PROTO_TAKEN, 0, CORE_MUST, NULL);
 *     fixed->taken.message = ...;
 *     core_control_end(channel);
 */
#ifndef CORE_CONTROL_H
#define CORE_CONTROL_H

#include "core/channel.h"

typedef enum core_control_way {
    CORE_MAY,    /* returns NULL if there is no room now */
    CORE_MUST,   /* queued in the backlog if there is no room */
    CORE_OUTSIDE /* not through the ring; UCX may queue it */
} core_control_way_t;

/*
 * Begin a message with a variable part of data_size bytes (at most
 * PROTO_DATA_MAX; HELLO may have more). Fills the head. With CORE_MAY, returns
 * NULL if there is no room now. Otherwise, returns NULL only if out of memory
 * or if the backlog is full; the channel has then failed.
 */
proto_fixed_t *core_control_begin(ucxpool_channel_t *channel, proto_type_t type,
                                  size_t data_size, core_control_way_t way,
                                  void **data_p);
void           core_control_end(ucxpool_channel_t *channel);

/* Begin a SHORT of `num` messages of `length` bytes in the channel's ring.
 * Returns its variable part, which the caller fills before it calls
 * core_control_end(). Returns NULL if there is no room now. */
void *core_control_begin_short(ucxpool_channel_t *channel, uint32_t num,
                               uint32_t length);

/* Send a message without a body. */
void core_control_post(ucxpool_channel_t *channel, proto_type_t type,
                       core_control_way_t way);

/* Send a message as if with CORE_MUST. Its head is filled here. The variable
 * part is the reason, truncated if it is too long, or empty if the reason is
 * NULL. */
void core_control_send(ucxpool_channel_t *channel, proto_type_t type,
                       const proto_fixed_t *message, const char *reason);

/* Send DONE or CANCEL. */
void core_control_done(ucxpool_channel_t *channel, uint64_t message,
                       ucxpool_status_t status, const char *reason);
void core_control_cancel(ucxpool_channel_t *channel, uint64_t message,
                         uint64_t receive, ucxpool_status_t status,
                         const char *reason);

/* Returns true if core_control_flush() has messages or credits to send. There
 * may be no room for them now. */
bool core_control_is_due(const ucxpool_channel_t *channel);

/* Send the owed credits to the peer, if they are enough to justify it. */
void core_control_give_credits(ucxpool_channel_t *channel);

/* Send the messages of the backlog, and the owed credits. */
unsigned core_control_flush(ucxpool_channel_t *channel);

/* Wake the peer if it sleeps and has not been woken from this sleep. */
void core_control_doorbell(ucxpool_channel_t *channel);

/* Between these calls, messages in rings are published, but peers are not
 * woken. core_control_release() wakes each sleeping peer once. A message then
 * needs no fence, which would wait until the peer's CPU has released the cache
 * lines. The pool's lock must be held throughout. */
void core_control_hold(ucxpool_t *pool);
void core_control_release(ucxpool_t *pool);

/* Drop the backlog of a channel that has ended. */
void core_control_drop(ucxpool_channel_t *channel);

void core_control_destroy_all(ucxpool_t *pool);

#endif
