/*
 * Channels: the connection to one peer.
 *
 * A channel is referenced by its caller, by the pool while it lives, and by
 * every request and message that names it.
 *
 * Whoever sees that a channel has failed, or that the peer has left, records it
 * here and returns. The channel is not live from that moment on; its requests
 * end in the same round of progress, in close.c and nowhere else.
 */
#ifndef CORE_CHANNEL_H
#define CORE_CHANNEL_H

#include "bootstrap/address.h"
#include "core/endpoint.h"
#include "core/lifeline.h"
#include "core/numbers.h"
#include "core/ring.h"
#include "core/wakeup.h"
#include "ipc/share.h"

#define CORE_REASON_SIZE 160u

#define CORE_CLOSED_HERE "the channel was closed here"

/* Between two HELLOs of a channel whose peer has not answered. */
#define CORE_HELLO_NS UINT64_C(1000000000)

struct core_wire;
struct bootstrap_client;
struct window_channel;
struct xfer_channel;

/* Where the handshake stands; see hello.c. */
typedef enum core_handshake {
    CORE_HELLO_SENT     = 1u << 0,
    CORE_HELLO_RECEIVED = 1u << 1,
    CORE_READY_RECEIVED = 1u << 2,
    CORE_GO_SENT        = 1u << 3,
    CORE_GO_RECEIVED    = 1u << 4,
    CORE_READY_SENT     = 1u << 5
} core_handshake_t;

/* Where the end of a channel stands; see close.c. */
typedef enum core_close {
    CORE_CLOSE_NONE,
    CORE_CLOSE_GOODBYE,  /* BYE is to be said and heard */
    CORE_CLOSE_ENDPOINT, /* UCX's endpoint is to be closed */
    CORE_CLOSE_DONE
} core_close_t;

/* What the peer's HELLO said, and what we made of it. */
typedef struct core_peer {
    uint8_t  id[CORE_ID_SIZE];
    uint8_t  key[CORE_ID_SIZE];
    uint32_t channel;
    uint64_t channel_key;
    uint64_t max_runs;
    uint64_t block_size;
    uint32_t max_metadata;
    uint32_t max_unexpected;
    unsigned am_id;   /* of its active messages */
    bool     we_map;  /* its memory is mapped here */
    bool     it_maps; /* our memory is mapped there, and read */
    bool     pushes;  /* likewise, and messages go by push: each side's
                         GPU writes to blocks that the other lends */
    char            it_reason[PROTO_TEXT_MAX + 1]; /* ... or why not */
    char            we_reason[PROTO_TEXT_MAX + 1];
    const uint8_t **regions; /* mapped; on a GPU also for writing, if we push */
    uint64_t       *region_sizes;
    uint32_t        num_regions;
    ipc_cuda_t      gpu;     /* of a GPU: how they were shared; then they lie
                                      side by side */
    core_source_t watch;     /* ready when its process has ended */
    bool          has_ended; /* its process has */
    ipc_host_t    host;      /* its process */
    uint64_t      next_look; /* without pidfd; BASE_CLOCK_FOREVER: not */
    bool          gone;      /* it will never touch our memory again */
} core_peer_t;

/* What leads to the peer. */
typedef struct core_connection {
    struct core_remote *remote;      /* NULL: not known yet, or by endpoint */
    core_endpoint_t    *endpoint;    /* NULL: none yet, or no more */
    core_source_t       local;       /* within the host: local.h */
    core_lifeline_t     lifeline;    /* of a peer that called a listener */
    unsigned            num_unheard; /* times that it was broken too early */
    uint64_t            lost_at; /* it counts as broken since it has ended */
    bool                by_ep;   /* it is the caller's, and tells the pair */
    bool lacks_device;           /* UCX has none for the way to the listener */
    bool broken;                 /* the caller says that it failed; atomic */
} core_connection_t;

typedef struct core_closing {
    core_close_t step;
    bool         drains; /* released, with requests under way */
    uint64_t     drain_deadline;
    bool         bye_sent;
    bool         bye_received;
    bool         has_begun; /* HELLO was said before one had come */
    bool         kept;      /* KEPT was said, or heard by the side that began */
    uint64_t     waiting_since; /* for a word of the peer */
    uint64_t     deadline;
} core_closing_t;

typedef struct core_flow {
    uint32_t credits;      /* eager messages we may send */
    uint32_t credits_owed; /* eager messages received, not told yet */
    uint32_t num_eager;    /* eager messages received, in use */
    uint32_t announced;    /* of the peer's max_unexpected, by our sends */
    uint64_t announce_at;  /* when eager messages that have no credit are
                              announced; 0: none waits for a credit */
    uint64_t next_sequence;
    uint64_t expected_sequence;
    uint64_t arrived_sequence; /* after that of the last descriptor; ring */
    uint64_t num_posted;       /* sends */
} core_flow_t;

/* By their numbers. */
typedef struct core_channel_requests {
    core_numbers_t sends;    /* that the peer has not said DONE to */
    core_numbers_t receives; /* that have their message */
} core_channel_requests_t;

/* Control messages on their way out. */
typedef struct core_controls {
    struct core_control *writing; /* begun; NULL: it lies in the ring */
    base_list_t          backlog; /* that found no room */
    unsigned             num_backlog;
    unsigned             num_long;   /* of these, longer than a few words */
    unsigned             num_in_ucx; /* active messages not sent yet */
} core_controls_t;

/* How the channel comes about. */
typedef struct core_channel_wireup {
    uint64_t pair;
    bool     via_listener; /* its pair is a random number */
    bool     begins; /* it called there, or is the first of a pair of our own
                        channels: see remote.h */
    uint64_t                 called_at; /* a listener */
    struct bootstrap_client *client;    /* connecting to a listener; or NULL */
    struct base_secret      *secret;    /* for as long */
    base_list_t              client_link;
    core_source_t            client_source;
    unsigned                 handshake;  /* core_handshake_t */
    uint64_t                 next_hello; /* when it is said, or said again */
} core_channel_wireup_t;

struct ucxpool_channel {
    base_list_t      link;
    ucxpool_t       *pool;
    unsigned         refs;
    bool             user_ref;
    uint32_t         number; /* in the pool's table */
    uint64_t         key;    /* messages to us must carry it */
    char             name[CORE_NAME_SIZE];
    void            *user_ptr;
    core_event_t     event;
    bootstrap_ends_t ends; /* of the listener's connection; "": none */

    ucxpool_channel_state_t state;
    ucxpool_status_t        status;
    char                    reason[CORE_REASON_SIZE];
    const struct core_wire *wire;
    char                    wire_reason[CORE_REASON_SIZE];

    core_channel_wireup_t   wireup;
    core_connection_t       conn;
    core_peer_t             peer;
    core_ring_t             ring;
    core_flow_t             flow;
    core_channel_requests_t requests;
    struct xfer_channel    *xfer; /* xfer/state.h */
    unsigned num_lent; /* loans, mailboxes and windows that the peer may touch
                        */
    struct window_channel *windows;            /* window/window.h */
    uint64_t        link_ends[CORE_NUM_LINKS]; /* of its works, in bytes */
    core_controls_t control;
    core_closing_t  closing;
};

/* Ways to a peer that are the caller's own. */
#define CORE_CHANNEL_WAYS \
    (UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS | UCXPOOL_CHANNEL_PARAM_FIELD_EP)

/* Refuse params (or NULL) that have one of them. */
ucxpool_status_t
core_channel_params_check(const ucxpool_channel_params_t *params);

/* A channel that knows no peer yet; see connect.h. Of params (or NULL) the name
 * is read, in place of the given one, and the user_ptr. */
ucxpool_status_t core_channel_create(ucxpool_t                      *pool,
                                     const ucxpool_channel_params_t *params,
                                     const char                     *name,
                                     ucxpool_channel_t             **channel_p);

/* "": made of its number. A name that is too long is cut. */
void core_channel_set_name(ucxpool_channel_t *channel, const char *name);

/* The caller has it from now on. */
void core_channel_hand_out(ucxpool_channel_t  *channel,
                           ucxpool_channel_t **channel_p);

/* Without a reference it is gone, and destroyed in progress. */
static inline void core_channel_get(ucxpool_channel_t *channel)
{
    channel->refs++;
}

void core_channel_put(ucxpool_channel_t *channel);

/* By the numbers in a message's head; NULL when they name none. */
ucxpool_channel_t *core_channel_find(ucxpool_t *pool, const proto_head_t *head);

/* The blocks that serve its wire. */
block_pool_t *core_channel_blocks(const ucxpool_channel_t *channel);

static inline bool core_channel_is_live(const ucxpool_channel_t *channel)
{
    return channel->state <= UCXPOOL_CHANNEL_OPEN;
}

/* The error of a request on a channel that has ended: why that was. */
ucxpool_status_t core_channel_say_ended(const ucxpool_channel_t *channel);

/* Is there memory here that the peer may read or write, until it says that it
 * does no more, or its end is seen? */
bool core_channel_lends_memory(const ucxpool_channel_t *channel);

/*
 * Is there something to be read from its ring? A channel that has ended is read
 * on while the peer may still read what was sent: it says when it has stopped.
 */
bool core_channel_is_readable(const ucxpool_channel_t *channel);

/* When progress is to say HELLO, if nothing has come by then. */
void core_channel_say_hello_at(ucxpool_channel_t *channel, uint64_t moment);

/* It is our turn now to begin a channel that was started before. */
void core_channel_hasten_hello(ucxpool_channel_t *channel);

/* Can UCX be given something to send? */
bool core_channel_can_send(const ucxpool_channel_t *channel);

/* Has UCX something of it that it will call back for? */
bool core_channel_has_operations(const ucxpool_channel_t *channel);

/* The last thing in a callback of UCX for an operation of its endpoint: the
 * operation is over, and so is its reference to the channel. The pool may be
 * gone after it. */
void core_channel_end_operation(ucxpool_channel_t *channel);

/* Its connection has failed: told by UCX, or by the caller from any thread. */
bool core_channel_is_broken(const ucxpool_channel_t *channel);
void core_channel_set_broken(ucxpool_channel_t *channel);

/* Record that it has failed; the reason in words. The first one counts. */
void core_channel_fail(ucxpool_channel_t *channel, ucxpool_status_t status,
                       const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Record that the peer has said good-bye: it reads nothing of ours any more. */
void core_channel_peer_left(ucxpool_channel_t *channel);

/* Record that it is closed here. */
void core_channel_set_closed(ucxpool_channel_t *channel);

/* It has ended, and its requests have not yet. */
static inline bool core_channel_must_settle(const ucxpool_channel_t *channel)
{
    return !core_channel_is_live(channel) &&
           (channel->closing.step == CORE_CLOSE_NONE);
}

/* Close by force what does not close by itself. */
void core_channel_end_drain(ucxpool_channel_t *channel);

#endif
