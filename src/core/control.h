/*
 * Control messages out: through the ring where the channel has one, otherwise
 * over its connection within the host, or as active messages.
 *
 *     fixed = core_control_begin(channel, PROTO_TAKEN, 0, CORE_MUST, NULL);
 *     fixed->taken.message = ...;
 *     core_control_end(channel);
 */
#ifndef CORE_CONTROL_H
#define CORE_CONTROL_H

#include "core/channel.h"

typedef enum core_control_way {
    CORE_MAY,    /* NULL when there is no room now */
    CORE_MUST,   /* waits in the backlog when there is none */
    CORE_OUTSIDE /* not through the ring; waits likewise */
} core_control_way_t;

/*
 * Begin a message of a type with data_size bytes of variable part (at most
 * PROTO_DATA_MAX; more for HELLO). The head is filled. NULL: see the ways; with
 * CORE_MUST only when memory is out, and then the channel has failed.
 */
proto_fixed_t *core_control_begin(ucxpool_channel_t *channel, proto_type_t type,
                                  size_t data_size, core_control_way_t way,
                                  void **data_p);
void           core_control_end(ucxpool_channel_t *channel);

/* A message that is a head alone. */
void core_control_post(ucxpool_channel_t *channel, proto_type_t type,
                       core_control_way_t way);

/* Likewise, with CORE_MUST, where the variable part is a reason, which is cut
 * if it is long, or nothing (NULL). */
proto_fixed_t *core_control_begin_words(ucxpool_channel_t *channel,
                                        proto_type_t type, const char *reason);

/* DONE or CANCEL, with a reason or NULL. */
void core_control_done(ucxpool_channel_t *channel, uint64_t message,
                       ucxpool_status_t status, const char *reason);
void core_control_cancel(ucxpool_channel_t *channel, uint64_t message,
                         uint64_t receive, ucxpool_status_t status,
                         const char *reason);

/* Is there something to be sent by core_control_flush(), if there is room? */
bool core_control_is_due(const ucxpool_channel_t *channel);

/* Give back the credits that are owed, if they are worth a message. */
unsigned core_control_give_credits(ucxpool_channel_t *channel);

/* Send what is in the backlog, and credits that are owed. */
unsigned core_control_flush(ucxpool_channel_t *channel);

/* Wake the peer, if it sleeps and was not woken since. */
void core_control_doorbell(ucxpool_channel_t *channel);

/* Drop the backlog of a channel that is gone. */
void core_control_drop(ucxpool_channel_t *channel);

void core_control_destroy_all(ucxpool_t *pool);

#endif
