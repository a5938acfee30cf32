/*
 * A channel is a connection to one peer's pool.
 *
 * There are three ways to create a channel:
 *
 *   1. host:port    one side listens, the other connects. Before any other
 *                   exchange, each side proves that it knows the shared secret
 *                   (SECRET_FILE).
 *   2. address      the two sides exchange the results of ucxpool_address_get()
 *                   themselves (MPI, PMIx, a file, ...), and each creates a
 *                   channel.
 *   3. endpoint     each side has a ucp_ep_h to the other and creates a channel
 *                   over it.
 *
 * Sends and receives can be posted to a new channel at once; they start after
 * the handshake. A client and its listener must authenticate each other within
 * HANDSHAKE_TIMEOUT, or the channel fails. After that there is no time limit: a
 * channel stays CONNECTING until the peer accepts or creates its channel, or
 * the library detects that the peer's process has ended. To limit the time,
 * call ucxpool_channel_wait() with a timeout. If the timeout expires, call
 * ucxpool_channel_abort().
 *
 * The wire is the transport of a channel: `map` (same host, same user: the
 * receiver reads the sender's blocks directly) or `ucx` (any peer). The library
 * uses `map` if it works, and otherwise `ucx`. ucxpool_channel_query() returns
 * the choice and its reason. The setting WIRE overrides the choice.
 */
#ifndef UCXPOOL_CHANNEL_H
#define UCXPOOL_CHANNEL_H

#include <ucxpool/pool.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Sizes of the strings that queries return, including the terminating NUL: a
 * name, a reason or other text, and "host:port". */
#define UCXPOOL_NAME_SIZE      32
#define UCXPOOL_REASON_SIZE    352
#define UCXPOOL_HOST_PORT_SIZE 80

typedef struct ucxpool_channel  ucxpool_channel_t;
typedef struct ucxpool_listener ucxpool_listener_t;

/*
 * Get the pool's address. A peer passes it to ucxpool_channel_create().
 *
 * address_p [out]  Owned by the caller; release with ucxpool_address_release().
 * length_p  [out]  Length in bytes; a few hundred.
 *
 * The address identifies the pool and contains a random number that the peer
 * must send. Any process that has the address can connect, so keep it secret.
 *
 * Peers may be on any network. Therefore, from this call on, UCX listens on all
 * devices, or on the devices in UCX_NET_DEVICES. A warning lists the added
 * devices. If UCX is already in use, no device is added, and the address covers
 * only the devices that UCX uses now.
 */
ucxpool_status_t ucxpool_address_get(ucxpool_t *pool, void **address_p,
                                     size_t *length_p);
void             ucxpool_address_release(void *address);

typedef enum ucxpool_channel_params_field {
    UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS  = 1u << 0,
    UCXPOOL_CHANNEL_PARAM_FIELD_EP       = 1u << 1,
    UCXPOOL_CHANNEL_PARAM_FIELD_NAME     = 1u << 2,
    UCXPOOL_CHANNEL_PARAM_FIELD_USER_PTR = 1u << 3,
    UCXPOOL_CHANNEL_PARAM_FIELD_REQUIRE  = 1u << 4
} ucxpool_channel_params_field_t;

/* Fast paths between two pools. */
typedef enum ucxpool_path {
    UCXPOOL_PATH_MAP = 1u << 0,   /* the map wire */
    UCXPOOL_PATH_RMA = 1u << 1,   /* the ucx wire, over transports with their
                                     own get and put, such as RDMA */
    UCXPOOL_PATH_DIRECT = 1u << 2 /* the map wire, except where it copies
                                     through pinned host memory, as between GPUs
                                     that cannot access each other, or between a
                                     GPU and host memory */
} ucxpool_path_t;

/* Only the fields named in field_mask are read. address and ep are for
 * ucxpool_channel_create(), which needs exactly one of them. */
typedef struct ucxpool_channel_params {
    uint64_t    field_mask;
    const void *address;        /* from the peer's ucxpool_address_get() */
    size_t      address_length; /* length of address, in bytes; used only if
                                   the mask contains ADDRESS */
    /*
     * An endpoint of the pool's worker to the peer. The pool uses the endpoint
     * until ucxpool_destroy(), even after ucxpool_channel_close(). The endpoint
     * must be created with UCP_ERR_HANDLING_MODE_PEER, and its error callback
     * must call ucxpool_channel_fail().
     */
    struct ucp_ep *ep;
    const char    *name;     /* see ucxpool_channel_set_name() */
    void          *user_ptr; /* see ucxpool_channel_set_user_ptr() */
    /*
     * The paths that the channel may use: bits of ucxpool_path_t, or 0 for any.
     * If the channel would use any other path, it fails before its first
     * message, with UCXPOOL_ERR_UNSUPPORTED and a reason. The peer's channel
     * fails with the same status, and its reason contains this one. Default:
     * the setting REQUIRE. The paths do not limit how windows are accessed:
     * WINDOW_WAY does (window.h).
     */
    uint64_t require;
} ucxpool_channel_params_t;

/*
 * Create a channel over an address or an endpoint. Both sides must call this
 * function. Two pools may have several channels with each other. These channels
 * are paired in the order of creation.
 *
 * channel_p [out]  Close it with ucxpool_channel_close() or
 *                  ucxpool_channel_abort(); otherwise ucxpool_destroy() closes
 *                  it.
 *
 * UCXPOOL_ERR_INVALID_PARAM  not exactly one of address and ep is set, the
 *                            address is damaged, or require has an unknown bit
 * UCXPOOL_ERR_PROTOCOL       the address has a different protocol version
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ucxpool_channel_create(ucxpool_t                      *pool,
                                        const ucxpool_channel_params_t *params,
                                        ucxpool_channel_t **channel_p);

/*
 * Connect to a listener. Returns before the connection is established. If
 * connecting fails later, the channel and its requests fail (see
 * ucxpool_channel_query()). If the listener is full, the library retries with
 * random, increasing delays until HANDSHAKE_TIMEOUT. The channel then fails
 * with UCXPOOL_ERR_LIMIT, or with UCXPOOL_ERR_TIMED_OUT if the last attempt got
 * no answer.
 *
 * where   "host:port", "1.2.3.4:port" or "[::1]:port".
 * params  The channel's name (default: where), user_ptr and require; NULL for
 *         the defaults.
 *
 * UCXPOOL_ERR_INVALID_PARAM  where is malformed, or the host has no address; or
 *                            params has an address, an endpoint or an unknown
 *                            bit in require
 * UCXPOOL_ERR_PERMISSION     SECRET_FILE cannot be read, or is readable by
 *                            other users
 *
 * If UCX is already in use without the network device that leads to the
 * listener, the library cannot add the device and logs a warning. The channel
 * can then use only the `map` wire, and otherwise fails with
 * UCXPOOL_ERR_UNSUPPORTED. To avoid this, connect to this listener before other
 * channels are opened, or set UCX_NET_DEVICES.
 */
ucxpool_status_t ucxpool_channel_connect(ucxpool_t *pool, const char *where,
                                         const ucxpool_channel_params_t *params,
                                         ucxpool_channel_t **channel_p);

/*
 * Listen for channels. Without a secret, only loopback addresses are allowed,
 * unless LISTEN_WITHOUT_SECRET=y.
 *
 * where  As for ucxpool_channel_connect(). Port 0 selects a free port; an empty
 *        host means all addresses of the machine.
 *
 * UCXPOOL_ERR_ADDRESS_IN_USE  the port is in use
 * UCXPOOL_ERR_PERMISSION      a secret is needed and none is set, or its file
 *                             is readable by other users
 * UCXPOOL_ERR_INVALID_PARAM   where is malformed
 * UCXPOOL_ERR_UNSUPPORTED     UCX is already in use without the network device
 *                             of this address: create this listener before any
 *                             channel, or set UCX_NET_DEVICES
 */
ucxpool_status_t ucxpool_listener_create(ucxpool_t *pool, const char *where,
                                         ucxpool_listener_t **listener_p);

/* Returns the listener's port, as a number in host byte order. */
uint16_t ucxpool_listener_port(const ucxpool_listener_t *listener);

/*
 * Accept the next queued peer that has proved that it knows the secret. Does
 * not wait. The setting ACCEPT_QUEUE limits the length of the queue. If the
 * queue is full, the listener refuses further peers, which retry until
 * HANDSHAKE_TIMEOUT.
 *
 * params  The channel's name (default: the peer's address), user_ptr and
 *         require; NULL for the defaults.
 *
 * UCXPOOL_OK                 *channel_p is a new channel
 * UCXPOOL_INPROGRESS         the queue is empty
 * UCXPOOL_ERR_INVALID_PARAM  params has an address, an endpoint or an unknown
 *                            bit in require; the peer stays in the queue
 */
ucxpool_status_t ucxpool_listener_accept(ucxpool_listener_t *listener,
                                         const ucxpool_channel_params_t *params,
                                         ucxpool_channel_t **channel_p);

/* Stop listening. Accepted channels are not affected. Peers that have not been
 * accepted are disconnected. NULL is allowed. */
void ucxpool_listener_destroy(ucxpool_listener_t *listener);

/*
 * Set the name of a channel in the log and in queries. The default name of a
 * channel that was connected or accepted is the peer's address.
 *
 * name  Copied; at most 31 bytes are kept. "" sets a numbered name, such as
 *       "channel-3".
 */
void ucxpool_channel_set_name(ucxpool_channel_t *channel, const char *name);

/*
 * Set an opaque pointer of the caller, which ucxpool_channel_query() and the
 * channel's events return. Default: NULL. An event may be reported before this
 * function is called. If every event must contain the pointer, pass the pointer
 * in the params of the call that creates the channel.
 */
void ucxpool_channel_set_user_ptr(ucxpool_channel_t *channel, void *user_ptr);

typedef enum ucxpool_channel_state {
    UCXPOOL_CHANNEL_CONNECTING = 0,
    UCXPOOL_CHANNEL_OPEN       = 1,
    UCXPOOL_CHANNEL_CLOSED     = 2, /* closed here or by the peer */
    UCXPOOL_CHANNEL_FAILED     = 3  /* see status and reason */
} ucxpool_channel_state_t;

typedef enum ucxpool_wire {
    UCXPOOL_WIRE_NONE = 0, /* not chosen yet */
    UCXPOOL_WIRE_MAP  = 1,
    UCXPOOL_WIRE_UCX  = 2
} ucxpool_wire_t;

typedef struct ucxpool_channel_attr {
    ucxpool_channel_state_t state;
    ucxpool_status_t        status; /* why it ended; OK until then */
    char           reason[UCXPOOL_REASON_SIZE]; /* status in words, or "" */
    ucxpool_wire_t wire;
    char       wire_reason[UCXPOOL_REASON_SIZE]; /* why this wire was chosen */
    char       name[UCXPOOL_NAME_SIZE];
    void      *user_ptr;
    ucxpool_t *pool;
    /*
     * The addresses of both ends of the connection between listener and client,
     * in numeric form, as this machine sees them: "10.0.0.1:7000",
     * "[::1]:7000". The data may use a different path, see `wire`. Both strings
     * are "" until the client is connected. For channels over an address or an
     * endpoint they are always "".
     */
    char local_address[UCXPOOL_HOST_PORT_SIZE];
    char remote_address[UCXPOOL_HOST_PORT_SIZE];
} ucxpool_channel_attr_t;

/* Query a channel: its state and wire, the reasons for both, and its pool. All
 * strings are copies. attr_size is sizeof(*attr_p), see ucxpool.h. */
void ucxpool_channel_query(const ucxpool_channel_t *channel,
                           ucxpool_channel_attr_t *attr_p, size_t attr_size);

/*
 * Make progress until the channel is open, the channel has ended, or the
 * timeout expires.
 *
 * UCXPOOL_OK          open
 * UCXPOOL_INPROGRESS  still connecting
 * others              why the channel ended. UCXPOOL_ERR_PEER_LOST: the peer
 *                     has exited or cannot be reached, or the channel has
 *                     failed at the peer; the detail then contains the peer's
 *                     reason, if it was received. UCXPOOL_ERR_UNSUPPORTED: a
 *                     required path is not available, here or at the peer
 */
ucxpool_status_t ucxpool_channel_wait(ucxpool_channel_t *channel,
                                      uint64_t           timeout_ns);

/*
 * Report that a borrowed endpoint has failed. All requests of the channel then
 * end with UCXPOOL_ERR_PEER_LOST. Call this function from the error callback of
 * an endpoint that was passed to ucxpool_channel_create(). The function only
 * records the failure; the next ucxpool_progress() ends the requests.
 */
void ucxpool_channel_fail(ucxpool_channel_t *channel);

/*
 * Close a channel. The handle becomes invalid at once. Sends continue for at
 * most CLOSE_TIMEOUT, and so do receives that have matched a message. After
 * that, all requests of this channel that have not ended end with
 * UCXPOOL_ERR_CANCELED, including receives that have not matched a message. The
 * library then notifies the peer.
 *
 * The library keeps the eager messages (see ucxpool_send()) that have already
 * arrived, except those that were sent after a message that has not arrived.
 * ucxpool_recv() and ucxpool_probe() still find these messages if their channel
 * argument is NULL. The library also keeps them if the channel has been
 * aborted, has been closed by the peer, or has failed.
 *
 * Does not wait: ucxpool_progress() or ucxpool_destroy() completes the close.
 * NULL is allowed.
 */
void ucxpool_channel_close(ucxpool_channel_t *channel);

/*
 * Close a channel immediately: requests that have not completed end with
 * UCXPOOL_ERR_CANCELED. ucxpool_destroy() does the same for channels that are
 * still open. NULL is allowed.
 */
void ucxpool_channel_abort(ucxpool_channel_t *channel);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
