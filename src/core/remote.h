/*
 * Other pools: what is known of one, and the endpoints to it that no channel
 * uses.
 *
 * An endpoint of UCX is kept when its channel has ended in peace, and serves
 * the next channel to the same pool: connecting is slow, and ending a
 * connection is where UCX loses its way (docs/design.md, section 6).
 */
#ifndef CORE_REMOTE_H
#define CORE_REMOTE_H

#include "core/blob.h"
#include "core/channel.h"

/* Who begins a channel: makes its endpoint first and says HELLO first. */
typedef enum core_turn {
    CORE_TURN_UNKNOWN,
    CORE_TURN_OURS,
    CORE_TURN_THEIRS
} core_turn_t;

typedef struct core_remote {
    base_list_t link;
    ucxpool_t  *pool;
    unsigned    refs;      /* channels */
    uint64_t    num_pairs; /* made by address: both sides number them alike,
                              so it is remembered when they are gone */
    core_turn_t turn;
    uint64_t    decided_at;
    uint64_t    kept_until; /* though there is no channel */
    base_list_t idle;       /* endpoints, the one that was used last first */
    core_blob_t blob;       /* ends in UCX's worker address */
} core_remote_t;

/* The pool of a checked blob; with a reference. NULL: no memory. */
core_remote_t *core_remote_get(ucxpool_t *pool, const void *blob);
void           core_remote_put(core_remote_t *remote);

/* Is it this very pool? */
bool core_remote_is_self(const core_remote_t *remote);

/*
 * Who begins is decided once for two pools: the one that calls the other's
 * listener first, and is told so by its answer; by address, the one with the
 * smaller id. `told` is what the answer says.
 */
void core_remote_set_turn(core_remote_t *remote, ucxpool_channel_t *channel,
                          core_blob_turn_t told);

/* The pool of a checked blob has called a listener here: what to answer. */
core_blob_turn_t core_remote_called(ucxpool_t *pool, const void *blob);

/* Do we begin this channel? */
bool core_remote_is_our_turn(const ucxpool_channel_t *channel);

/*
 * Give the channel an endpoint. The one that UCX has paired with the peer's if
 * that can be had: reply_ep is how UCX names it, NULL says that we are first.
 *
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO, UCXPOOL_ERR_PEER_LOST
 */
ucxpool_status_t core_remote_take_endpoint(ucxpool_channel_t *channel,
                                           ucp_ep_h           reply_ep);

/* The channel does not need its endpoint any more, on which nothing is in
 * flight and to which the peer has said good-bye. */
void core_remote_keep_endpoint(ucxpool_channel_t *channel);

/* Idle endpoints that have failed are closed; all, when the pool goes. */
unsigned core_remote_progress(ucxpool_t *pool);
void     core_remote_close_all(ucxpool_t *pool, uint64_t deadline);
bool     core_remote_has_endpoints(const ucxpool_t *pool);

void core_remote_destroy_all(ucxpool_t *pool);

#endif
