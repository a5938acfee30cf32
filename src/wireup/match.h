/*
 * Which channel a HELLO is for; and the HELLOs that came before theirs was made
 * here. Anybody who reaches UCX's ports can send such, so few are kept, and
 * none for long. Nothing is lost with one, because a real peer says it again.
 */
#ifndef WIREUP_MATCH_H
#define WIREUP_MATCH_H

#include "core/local.h"

/* A HELLO that came early. */
typedef struct wireup_early {
    base_list_t   link;
    uint64_t      deadline; /* by then it has been said again */
    core_way_t    way;
    proto_hello_t hello;
    ipc_file_t    files[];
} wireup_early_t;

/* The channel that a HELLO is for, or that it has met before; NULL: none. */
ucxpool_channel_t *wireup_match_find(ucxpool_t           *pool,
                                     const proto_hello_t *hello,
                                     ucp_ep_h             reply_ep);

/* A HELLO for which there is no channel is kept, with its connection, until
 * there is one: one that says the same again takes the place of the first, and
 * the oldest goes when there are too many. Where it is known that the channel
 * was closed here, BYE is said. */
void wireup_match_put_aside(ucxpool_t *pool, const proto_hello_t *hello,
                            const void *files, const core_way_t *way);

/* The one for this channel, which the caller frees; NULL: none has come. */
wireup_early_t *wireup_match_take(ucxpool_channel_t *channel);

/* Let those go that were not said again. Returns when the next one's time is
 * over, or BASE_CLOCK_FOREVER. */
uint64_t wireup_match_expire(ucxpool_t *pool, uint64_t now);

void wireup_match_destroy_all(ucxpool_t *pool);

#endif
