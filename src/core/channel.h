/*
 * A channel is the connection of a pool to one peer.
 *
 * References to a channel are held by the caller, by the pool until the channel
 * is closed, and by each request and message that uses the channel.
 *
 * Code that detects that a channel has failed, or that the peer has closed it,
 * only records this with the functions below. From then on, the channel is not
 * live. Later in the same round of progress, wireup/close.c ends the channel's
 * requests.
 */
#ifndef CORE_CHANNEL_H
#define CORE_CHANNEL_H

#include "bootstrap/address.h"
#include "bootstrap/auth.h"
#include "core/endpoint.h"
#include "core/ring.h"
#include "core/stats.h"
#include "core/wakeup.h"
#include "ipc/cuda.h"
#include "ipc/file.h"

#include <ucxpool/transfer.h>

#include <stdbool.h>

/* --- numbers of requests -------------------------------------------------- */

/*
 * A table of a channel's requests. The channel's messages identify a send or a
 * receive by its number. The low bits of the number are the index.
 *
 *     slots[number % size]     size: a power of two; at most half is used
 *
 * No number is used twice, and 0 is not used.
 */

typedef struct core_numbers {
    struct core_number_slot {
        uint64_t           number;
        ucxpool_request_t *request; /* NULL: the slot is free */
    } * slots;
    uint32_t size; /* 0 until the first number is needed */
    uint32_t num;  /* slots in use */
    uint64_t last; /* the last number taken */
} core_numbers_t;

/* Make room for one more number. Returns false if out of memory. */
bool core_numbers_reserve(core_numbers_t *numbers);

/* Take a number for a request. core_numbers_reserve() must be called first. */
uint64_t core_numbers_take(core_numbers_t *numbers, ucxpool_request_t *request);
void     core_numbers_put(core_numbers_t *numbers, uint64_t number);

/* Returns the request with this number, or NULL. */
ucxpool_request_t *core_numbers_find(const core_numbers_t *numbers,
                                     uint64_t              number);

void core_numbers_cleanup(core_numbers_t *numbers);

/* --- channels ------------------------------------------------------------- */

#define CORE_REASON_SIZE 164u
/* Size of a reason that contains another one. */
#define CORE_LONG_REASON_SIZE 320u

#define CORE_CLOSED_HERE "the channel was closed here"

/* HELLO is repeated at this interval until the peer answers. */
#define CORE_HELLO_NS UINT64_C(1000000000)

struct core_latency_wire;
struct core_wire;
struct bootstrap_client;
struct window_channel;
struct xfer_channel;

/* The state of the handshake; see wireup/hello.c. */
typedef enum core_handshake {
    CORE_HELLO_SENT     = 1u << 0,
    CORE_HELLO_RECEIVED = 1u << 1,
    CORE_READY_RECEIVED = 1u << 2,
    CORE_GO_SENT        = 1u << 3,
    CORE_GO_RECEIVED    = 1u << 4,
    CORE_READY_SENT     = 1u << 5
} core_handshake_t;

/* The state of closing; see wireup/close.c. */
typedef enum core_close {
    CORE_CLOSE_NONE,
    CORE_CLOSE_GOODBYE,  /* BYE must be sent and received */
    CORE_CLOSE_ENDPOINT, /* UCX's endpoint must be closed */
    CORE_CLOSE_DONE
} core_close_t;

/* Memory of a peer that is mapped here. All channels to one peer pool share a
 * mapping: see wireup/mapping.c. */
typedef struct core_mapping {
    base_list_t link;     /* in the list `mappings` of the peer's
                             core_remote_t */
    unsigned        refs; /* channels that use the mapping */
    const uint8_t **regions;
    uint64_t       *region_sizes;
    uint32_t        num_regions;
    ipc_cuda_t      gpu; /* GPU memory: how the regions are shared. The
                            regions are contiguous */
    bool is_written;     /* GPU memory: also mapped for writing */
    bool is_pinned;      /* host memory that we have pinned, so our GPU can read
                            it */
    char       unpinned[CORE_LONG_REASON_SIZE]; /* why it is not pinned */
    ipc_host_t host;                            /* the peer's process */
    uint32_t   num_files; /* files in HELLO, without the ring's file */
    ipc_file_t files[];
} core_mapping_t;

/* The data of the peer's HELLO, and values derived from it. */
typedef struct core_peer {
    uint8_t  id[CORE_ID_SIZE];
    uint8_t  key[CORE_ID_SIZE];
    uint32_t channel;
    uint64_t channel_key;
    uint64_t max_runs;
    uint64_t block_size;
    uint32_t max_metadata;
    uint32_t max_unexpected;
    uint32_t gpu;           /* see proto_hello_t */
    unsigned am_id;         /* first active message id of the peer */
    bool     offers_map;    /* the peer offers its memory for mapping */
    bool     local_maps;    /* mapping the peer's memory has succeeded */
    bool     peer_maps;     /* the peer maps and reads our memory */
    bool     offers_pinned; /* the peer's HELLO offers pinned memory */
    bool     pushes; /* messages are pushed: each side's GPU writes to blocks
                        that the other side grants */
    char peer_reason[PROTO_TEXT_MAX + 1]; /* why peer_maps is false */
    char local_reason[PROTO_TEXT_MAX + 1];
    core_mapping_t *mapping;    /* NULL: none */
    core_source_t   watch;      /* ready when the peer's process has ended */
    bool            has_ended;  /* the peer's process has ended */
    ipc_host_t      host;       /* the peer's process */
    uint64_t        next_check; /* when to check `host`, if there is no pidfd to
                                   watch; BASE_CLOCK_FOREVER: never */
    bool is_detached;           /* the peer never accesses our memory again */
} core_peer_t;

/* See core/lifeline.c. */
typedef struct core_lifeline {
    core_source_t     source;
    bootstrap_close_t last_word;
    uint64_t          deadline; /* when a closed lifeline ends the channel;
                                   BASE_CLOCK_FOREVER: never */
} core_lifeline_t;

/* The connections to the peer. */
typedef struct core_connection {
    struct core_remote *remote;   /* NULL: not known yet, or by_ep */
    core_endpoint_t    *endpoint; /* NULL: none yet, or released */
    core_source_t       local;    /* connection within the host: local.h */
    core_lifeline_t     lifeline; /* lifeline of a channel through a listener */
    unsigned num_unanswered;      /* times `local` closed before an answer */
    uint64_t lost_at;      /* when the closing of `local` counts as a failure */
    bool     by_ep;        /* the channel uses the caller's endpoint */
    bool     lacks_device; /* UCX has no device for the listener's host */
    bool     broken;       /* the caller reported a failure; atomic */
} core_connection_t;

typedef struct core_closing {
    core_close_t step;
    bool         drains; /* closed by the caller, with requests in flight */
    uint64_t     drain_deadline;
    bool         bye_sent;
    bool         bye_received;
    bool         has_begun; /* this side sent HELLO first; if both have
                               begun, true only on one side */
    bool     kept;          /* KEPT was sent or received */
    uint64_t waiting_since; /* start of a wait for a message from the peer */
    uint64_t deadline;
} core_closing_t;

typedef struct core_flow {
    uint32_t credits;      /* eager messages that may be sent */
    uint32_t credits_owed; /* credits to return to the peer */
    uint32_t num_eager;    /* received eager messages that are still in use */
    uint32_t announced;    /* units of the peer's max_unexpected we use */
    uint64_t announce_at;  /* when short sends that still wait for a credit are
                              sent as descriptors without data; 0: no send
                              waits */
    uint64_t credit_since; /* when the first send began to wait for a credit;
                              0: no send waits */
    uint64_t next_sequence;
    uint64_t expected_sequence;
    uint64_t arrived_sequence; /* sequence number of the next message in the
                                  ring: a DESC, or a message of a SHORT */
    uint64_t num_posted;       /* sends that were posted */
} core_flow_t;

/* Requests by number. */
typedef struct core_channel_requests {
    core_numbers_t sends;    /* sends that wait for the peer's DONE */
    core_numbers_t receives; /* receives that have a message */
} core_channel_requests_t;

/* Outgoing control messages. */
typedef struct core_controls {
    struct core_control *writing; /* message being written; NULL: none, or it is
                                     in the ring */
    base_list_t backlog;          /* messages for which there was no room */
    unsigned    num_backlog;
    unsigned    num_long;   /* long messages in the backlog */
    unsigned    num_in_ucx; /* active messages that UCX has not sent yet */
    base_list_t held_link;  /* in pool->channels.held */
} core_controls_t;

/* The setup of the channel. */
typedef struct core_channel_wireup {
    uint64_t pair;
    bool     via_listener; /* the channel connects through a listener; `pair`
                              is a random number */
    bool begins; /* the channel connected to a listener, or is the first of
                    a pair within this pool: see remote.h */
    uint64_t called_at;              /* when the channel connected to a
                                        listener */
    struct bootstrap_client *client; /* connecting to a listener; or NULL */
    struct base_secret      *secret; /* used by the client */
    base_list_t              client_link;
    core_source_t            client_source;
    unsigned                 handshake;  /* core_handshake_t */
    uint64_t                 next_hello; /* when HELLO is sent, or repeated */
    bool offers_pinned; /* our HELLO offers our pinned memory instead of our
                           GPU's memory */
    unsigned num_connected_imports; /* with an open socket; see fd_passing.c */
} core_channel_wireup_t;

struct ucxpool_channel {
    base_list_t      link;
    ucxpool_t       *pool;
    unsigned         refs;
    bool             user_ref;
    uint32_t         number; /* index in the pool's table */
    uint64_t         key;    /* received messages must contain it */
    char             name[CORE_NAME_SIZE];
    void            *user_ptr;
    core_event_t     event;
    bootstrap_ends_t ends; /* addresses of the connection to the listener; "":
                              none */

    ucxpool_channel_state_t state;
    ucxpool_status_t        status;
    char                    reason[CORE_LONG_REASON_SIZE];
    unsigned                require; /* ucxpool_path_t; 0: any path */
    const struct core_wire *wire;
    /* Latency histograms of the channel's wire: `ucx` if that wire is in use,
     * otherwise `map`. */
    struct core_latency_wire *latency;
    char                      wire_reason[CORE_LONG_REASON_SIZE];

    core_channel_wireup_t   wireup;
    core_connection_t       conn;
    core_peer_t             peer;
    core_ring_t             ring;
    core_flow_t             flow;
    core_channel_requests_t requests;
    struct xfer_channel    *xfer; /* xfer/state.h */
    /* Lent buffers and mailboxes, and granted windows, that the peer may
     * access. */
    unsigned               num_lent;
    struct window_channel *windows;     /* window/service.h */
    uint64_t link_ends[CORE_NUM_LINKS]; /* end tag of the channel's last
                                           transfer on each link: link.h */
    core_controls_t control;
    core_closing_t  closing;
    core_counters_t counts;
};

/* Parameters that choose the peer. They are invalid for a channel through a
 * listener. */
#define CORE_CHANNEL_WAYS \
    (UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS | UCXPOOL_CHANNEL_PARAM_FIELD_EP)

/* Reject params that require an unknown path. params may be NULL. */
ucxpool_status_t
core_channel_check_paths(const ucxpool_channel_params_t *params);

/* Like core_channel_check_paths(), and also reject params that choose the
 * peer. */
ucxpool_status_t
core_channel_params_check(const ucxpool_channel_params_t *params);

/* Create a channel without a peer; see wireup/wireup.h. Uses the optional
 * fields of params. If params has a name, it replaces `name`. params may be
 * NULL. */
ucxpool_status_t core_channel_create(ucxpool_t                      *pool,
                                     const ucxpool_channel_params_t *params,
                                     const char                     *name,
                                     ucxpool_channel_t             **channel_p);

/* Set the name. If `name` is "", the name is derived from the channel's number.
 * A name that is too long is truncated. */
void core_channel_set_name(ucxpool_channel_t *channel, const char *name);

/* Return the channel's handle to the caller. */
void core_channel_hand_out(ucxpool_channel_t  *channel,
                           ucxpool_channel_t **channel_p);

/* Take or drop a reference. Progress destroys a channel without references. */
static inline void core_channel_get(ucxpool_channel_t *channel)
{
    channel->refs++;
}

void core_channel_put(ucxpool_channel_t *channel);

/* Find a channel by the number and key in a message's head; NULL: none. */
ucxpool_channel_t *core_channel_find(ucxpool_t *pool, const proto_head_t *head);

/* Returns the blocks of the channel's wire. */
block_pool_t *core_channel_blocks(const ucxpool_channel_t *channel);

/* Returns true if both sides copy with the same GPU, or both with the CPU. The
 * kernels of two processes on one GPU take turns, so a kernel must not wait for
 * the other process. */
bool core_channel_shares_gpu(const ucxpool_channel_t *channel);

static inline bool core_channel_is_live(const ucxpool_channel_t *channel)
{
    return channel->state <= UCXPOOL_CHANNEL_OPEN;
}

/* Return the error for a request on a channel that has ended. The detail is the
 * reason why the channel ended. */
ucxpool_status_t core_channel_ended_error(const ucxpool_channel_t *channel);

/* Returns true if the peer may still access local memory. The peer sends a
 * message when it no longer accesses the memory. Its access also ends when its
 * process exits. */
bool core_channel_lends_memory(const ucxpool_channel_t *channel);

/*
 * Returns true if the ring should be read. While the peer may access local
 * memory, the ring is read even after the channel has ended. The peer reports
 * in the ring that it no longer accesses the memory.
 */
bool core_channel_is_readable(const ucxpool_channel_t *channel);

/* Set the time at which progress sends HELLO, unless the peer's HELLO arrives
 * earlier. */
void core_channel_schedule_hello(ucxpool_channel_t *channel, uint64_t moment);

/* Make the next progress call send HELLO, because this side begins the
 * handshake. */
void core_channel_hasten_hello(ucxpool_channel_t *channel);

/* Returns true if UCX can send over the channel. */
bool core_channel_can_send(const ucxpool_channel_t *channel);

/* Returns true if UCX still has operations of the channel that will call
 * back. */
bool core_channel_has_operations(const ucxpool_channel_t *channel);

/* Count the end of an operation of the channel's endpoint, and drop the
 * operation's reference to the channel. Must be the last call in the UCX
 * callback, because the pool may no longer exist afterwards. */
void core_channel_end_operation(ucxpool_channel_t *channel);

/* Query or record that the connection has failed. UCX detects the failure, or
 * the caller reports it from any thread. */
bool core_channel_is_broken(const ucxpool_channel_t *channel);
void core_channel_set_broken(ucxpool_channel_t *channel);

/* Record a failure with its reason. Later failures of the same channel are
 * ignored. */
void core_channel_fail(ucxpool_channel_t *channel, ucxpool_status_t status,
                       const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns true if the peer's process has ended or is exiting. Returns false if
 * this is not known. */
bool core_channel_peer_has_ended(const ucxpool_channel_t *channel);

/* Record that the peer has sent BYE, and no longer accesses local memory. */
void core_channel_peer_left(ucxpool_channel_t *channel);

/* Record that the channel was closed here. */
void core_channel_set_closed(ucxpool_channel_t *channel);

/* Returns true if the channel has ended, but its requests have not been ended
 * yet. */
static inline bool core_channel_must_settle(const ucxpool_channel_t *channel)
{
    return !core_channel_is_live(channel) &&
           (channel->closing.step == CORE_CLOSE_NONE);
}

/* Make the deadlines of a channel that is still draining expire now. */
void core_channel_end_drain(ucxpool_channel_t *channel);

/* --- the lifeline --------------------------------------------------------- */

/*
 * Start the lifeline with a connected socket. The lifeline owns the socket,
 * even after an error. If fd is -1, there is no lifeline. On `ucx`, only
 * UCX then detects that the peer has exited.
 *
 * UCXPOOL_ERR_IO, UCXPOOL_ERR_NO_MEMORY  the socket cannot be polled. A channel
 *                                        that is being opened could then wait
 *                                        forever
 */
ucxpool_status_t core_lifeline_start(ucxpool_channel_t *channel, int fd);

bool core_lifeline_is_up(const ucxpool_channel_t *channel);

/* Send the byte `word` if the connection is up, and close the connection. */
void core_lifeline_end(ucxpool_channel_t *channel, bootstrap_close_t word);

/* End a channel whose peer has closed the lifeline. First wait some time for
 * messages that the peer sent before the close. Returns the number of channels
 * that have ended. */
unsigned core_lifeline_progress(ucxpool_channel_t *channel);

#endif
