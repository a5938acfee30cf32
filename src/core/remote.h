/*
 * Other pools: what is known of one, and the endpoints to it that no channel
 * uses.
 *
 * An endpoint of UCX is kept when its channel has ended in peace, and serves
 * the next channel to the same pool: connecting is slow, and ending a
 * connection is where UCX fails (docs/internals/connecting.md, "Endpoints").
 */
#ifndef CORE_REMOTE_H
#define CORE_REMOTE_H

#include "core/channel.h"
#include "core/pool.h"
#include "ipc/share.h"

/* In a listener's answer: who begins the channels of the two (remote.h). */
typedef enum core_blob_turn {
    CORE_BLOB_NO_TURN   = 0, /* not told */
    CORE_BLOB_CALLERS   = 1, /* the caller, to whom it goes */
    CORE_BLOB_LISTENERS = 2  /* the listener, who says it */
} core_blob_turn_t;

/*
 * What ucxpool_address_get() gives: how a pool can be reached. Little-endian.
 *
 *     magic | version | AM_ID | checksum | ... | UCX's worker address
 *
 * Magic, version and checksum stay where they are in every version.
 */
typedef struct core_blob {
    uint32_t   magic;
    uint16_t   version;
    uint16_t   am_id;    /* of its active messages; the next is used too */
    uint32_t   checksum; /* CRC32C of all bytes, where this field counts as 0 */
    uint32_t   worker_length;
    uint8_t    id[CORE_ID_SIZE];
    uint8_t    key[CORE_ID_SIZE];
    uint64_t   pair; /* through a listener: the number of the pair; else 0 */
    uint32_t   turn; /* core_blob_turn_t */
    uint32_t   reserved;      /* 0 */
    uint64_t   net_namespace; /* where its socket is seen; 0: it has none */
    ipc_host_t host;
    uint8_t    worker[];
} core_blob_t;

/* This pool's blob, allocated. */
ucxpool_status_t core_blob_create(ucxpool_t *pool, uint64_t pair,
                                  core_blob_t **address_p, size_t *length_p);

/* What a listener tells one caller, in its own blob. */
void core_blob_set_turn(core_blob_t *address, core_blob_turn_t turn);

/*
 * Check a blob that came from somewhere; its head.
 *
 * UCXPOOL_ERR_INVALID_PARAM  it is damaged, or not an address
 * UCXPOOL_ERR_PROTOCOL       it is of another version
 */
ucxpool_status_t core_blob_check(const void *data, size_t length,
                                 core_blob_t *head_p);

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
    uint64_t    kept_until;  /* though there is no channel */
    uint64_t    full_until;  /* its socket had no room; local.c */
    unsigned    num_awaited; /* endpoints of the peer that are yet to come */
    base_list_t idle;        /* endpoints, the one that was used last first */
    core_blob_t blob;        /* ends in UCX's worker address */
} core_remote_t;

/* The pool of a checked blob; with a reference. One that says anything else of
 * itself is another one, be its id the same. NULL: no memory. */
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

/* Pools that have called, and have no channel, that are remembered: the last
 * ones, for ten seconds. */
#define CORE_CALLED_MAX 1024u

/* The pool of a checked blob has called a listener here: what to answer.
 * by_endpoint: its HELLO will come over an endpoint. */
core_blob_turn_t core_remote_called(ucxpool_t *pool, const void *blob,
                                    bool by_endpoint);

/* Do we begin this channel? */
bool core_remote_is_our_turn(const ucxpool_channel_t *channel);

/*
 * Give the channel an endpoint. The one that UCX has paired with the peer's if
 * that can be had: reply_ep is how UCX names it, NULL says that we are first.
 *
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO, UCXPOOL_ERR_PEER_LOST
 * UCXPOOL_ERR_UNSUPPORTED  UCX is lost, or has no device for the channel
 */
ucxpool_status_t core_remote_take_endpoint(ucxpool_channel_t *channel,
                                           ucp_ep_h           reply_ep);

/*
 * The peer is about to make an endpoint to this pool: make the other end first,
 * where the peer's death could otherwise abort this process.
 *
 * UCX before 1.14 answers a request to connect over an endpoint that it makes
 * at that moment. Over TCP the answer is queued until the peer confirms the
 * connection, and UCX fails an assertion if the peer dies before it does. The
 * endpoint made here is connected by the time the request comes, and UCX pairs
 * the two. A channel takes it by name, as it takes those of UCX. Only for a
 * peer in this network namespace: UCX blocks while it connects, which takes
 * minutes where the peer's address cannot be reached from here.
 */
void core_remote_prepare_endpoint(core_remote_t *remote);

/* The channel does not need its endpoint any more, on which nothing is in
 * flight and to which the peer has said good-bye. */
void core_remote_keep_endpoint(ucxpool_channel_t *channel);

/* Idle endpoints that have failed are closed; all, when the pool goes. */
unsigned core_remote_progress(ucxpool_t *pool);
void     core_remote_close_all(ucxpool_t *pool, uint64_t deadline);
bool     core_remote_has_endpoints(const ucxpool_t *pool);

void core_remote_destroy_all(ucxpool_t *pool);

#endif
