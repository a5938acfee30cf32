/*
 * The peer pools that this pool knows, each with its data and the idle
 * endpoints to it.
 *
 * An endpoint is kept after its channel has ended normally, and is used by the
 * next channel to the same pool. Connecting is slow, and most UCX failures
 * occur when it closes a connection (docs/internals/connecting.md,
 * "Endpoints").
 */
#ifndef CORE_REMOTE_H
#define CORE_REMOTE_H

#include "core/channel.h"
#include "core/pool.h"
#include "ipc/host.h"

/* A field of a listener's answer: which side begins the handshakes of the
 * channels between the two pools. See core_remote_set_turn(). */
typedef enum core_blob_turn {
    CORE_BLOB_NO_TURN   = 0, /* not decided */
    CORE_BLOB_CALLERS   = 1, /* the client, which receives the answer */
    CORE_BLOB_LISTENERS = 2  /* the listener, which sends it */
} core_blob_turn_t;

/*
 * The address of a pool, as returned by ucxpool_address_get(). Little-endian.
 *
 *     magic | version | AM_ID | checksum | ... | UCX's worker address
 *
 * Magic, version and checksum have the same offsets in every version.
 */
typedef struct core_blob {
    uint32_t magic;
    uint16_t version;
    uint16_t am_id;    /* the first of the pool's two active message ids */
    uint32_t checksum; /* CRC32C of all bytes, with this field as 0 */
    uint32_t worker_length;
    uint8_t  id[CORE_ID_SIZE];
    uint8_t  key[CORE_ID_SIZE];
    uint64_t pair;     /* through a listener: the number of the pair; else 0 */
    uint32_t turn;     /* core_blob_turn_t */
    uint32_t reserved; /* 0 */
    uint64_t net_namespace; /* network namespace of the pool's socket; 0: no
                               socket */
    ipc_host_t host;
    uint8_t    worker[];
} core_blob_t;

/* Allocate this pool's blob. */
ucxpool_status_t core_blob_create(ucxpool_t *pool, uint64_t pair,
                                  core_blob_t **address_p, size_t *length_p);

/* Set the turn in a listener's answer to one client. */
void core_blob_set_turn(core_blob_t *address, core_blob_turn_t turn);

/*
 * Check a blob of unknown origin, and copy its head to *head_p.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the blob is damaged, or is not an address
 * UCXPOOL_ERR_PROTOCOL       the blob has another version
 */
ucxpool_status_t core_blob_check(const void *data, size_t length,
                                 core_blob_t *head_p);

/* The side that begins a channel's handshake: it creates its endpoint and sends
 * HELLO first. */
typedef enum core_turn {
    CORE_TURN_UNKNOWN,
    CORE_TURN_OURS,
    CORE_TURN_THEIRS
} core_turn_t;

typedef struct core_remote {
    base_list_t link;
    ucxpool_t  *pool;
    unsigned    refs;      /* channels to the peer */
    uint64_t    num_pairs; /* pairs of channels by address, including ended
                              pairs, because both sides number the pairs */
    core_turn_t turn;
    uint64_t    decided_at;
    uint64_t    kept_until;  /* until then, the record is kept even if unused */
    uint64_t    full_until;  /* when to retry the peer's full socket: local.c */
    unsigned    num_awaited; /* number of endpoints that the peer has yet to
                                create; at most AWAITED_MAX */
    base_list_t idle;        /* idle endpoints, most recently used first */
    base_list_t mappings;    /* mappings of the peer pool's memory
                                (core_mapping_t) */
    core_blob_t blob;        /* ends with UCX's worker address */
} core_remote_t;

/* Find or create the record of the pool that a checked blob describes, and take
 * a reference. A blob with the same id but other data describes another pool.
 * Returns NULL if out of memory. */
core_remote_t *core_remote_get(ucxpool_t *pool, const void *blob);
void           core_remote_put(core_remote_t *remote);

/* Returns true if the record describes this pool itself. */
bool core_remote_is_self(const core_remote_t *remote);

/*
 * Decide which side begins the handshakes between two pools. The decision is
 * made once for all their channels. If one pool connects to a listener of the
 * other, the side that connects first begins. The listener's answer contains
 * this decision. If they connect by address, the side with the smaller id
 * begins.
 *
 * answer  The side that begins, according to the listener's answer.
 */
void core_remote_set_turn(core_remote_t *remote, ucxpool_channel_t *channel,
                          core_blob_turn_t answer);

/* The maximum number of pools that have connected and have no channel. They are
 * remembered for ten seconds. */
#define CORE_CALLED_MAX 1024u

/* Record that the pool of a checked blob has connected to a listener of this
 * pool. Returns the `turn` field for the answer: which side begins the
 * handshake. by_endpoint: the client's HELLO will arrive over an endpoint. */
core_blob_turn_t core_remote_called(ucxpool_t *pool, const void *blob,
                                    bool by_endpoint);

/* Returns true if this side begins the handshake. */
bool core_remote_is_our_turn(const ucxpool_channel_t *channel);

/*
 * Assign an endpoint to the channel, if possible the endpoint that UCX has
 * paired with the peer's endpoint. reply_ep is UCX's handle of the paired
 * endpoint, or NULL if this side creates its endpoint first. The channel's
 * current endpoint becomes idle.
 *
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO, UCXPOOL_ERR_PEER_LOST
 * UCXPOOL_ERR_UNSUPPORTED  an attempt to restart UCX has failed
 *                          (wireup/network.c), or UCX has no device for the
 *                          channel
 */
ucxpool_status_t core_remote_take_endpoint(ucxpool_channel_t *channel,
                                           ucp_ep_h           reply_ep);

/*
 * The peer will create an endpoint to this pool. Create this pool's endpoint to
 * the peer first, if the peer's death could otherwise abort this process.
 *
 * UCX before 1.14 answers a connection request over an endpoint that it creates
 * at that moment. Over TCP, the answer is queued until the peer confirms the
 * connection, and an assertion in UCX fails if the peer dies before it
 * confirms. An endpoint that is created here is already connected when the
 * request arrives, and UCX pairs it with the peer's endpoint. The channel then
 * finds this endpoint by its handle, like endpoints that UCX created. This is
 * done only for peers in this network namespace: UCX blocks while it connects,
 * for minutes if the peer's address cannot be reached from here.
 */
void core_remote_prepare_endpoint(core_remote_t *remote);

/* Keep the endpoint, which the channel no longer needs. It must have no
 * operation in flight, and the peer must have sent BYE. */
void core_remote_keep_endpoint(ucxpool_channel_t *channel);

/* Close and free idle endpoints that have failed. When the pool is destroyed,
 * core_remote_close_all() closes all idle endpoints. */
unsigned core_remote_progress(ucxpool_t *pool);
void     core_remote_close_all(ucxpool_t *pool, uint64_t deadline);
bool     core_remote_has_endpoints(const ucxpool_t *pool);

void core_remote_destroy_all(ucxpool_t *pool);

#endif
