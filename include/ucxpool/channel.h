/*
 * Channels: the connection to one peer's pool.
 *
 * Three ways to make one:
 *
 *   1. host:port    one side listens, the other connects. Both prove that they
 *                   know the shared secret (SECRET_FILE) before anything else.
 *   2. address      both sides exchange ucxpool_address_get() by themselves
 *                   (MPI, PMIx, a file, ...), and each creates a channel.
 *   3. endpoint     both sides have a ucp_ep_h to each other and each creates a
 *                   channel over it.
 *
 * A channel can be used for posting at once; requests wait for the handshake.
 * Between a listener and its client the proof of the secret takes at most
 * HANDSHAKE_TIMEOUT; then the channel fails. After that there is no time limit:
 * a channel is CONNECTING until the other program accepts or creates its
 * channel, or its process is seen to have ended. ucxpool_channel_wait() waits
 * for a limited time, ucxpool_channel_abort() gives up.
 *
 * What carries the bytes is called the wire: `map` (same host, same user: the
 * receiver reads the sender's blocks directly) or `ucx` (any peer). The channel
 * takes the first that works, tells which and why in ucxpool_channel_query(),
 * and can be told by the setting WIRE.
 */
#ifndef UCXPOOL_CHANNEL_H
#define UCXPOOL_CHANNEL_H

#include <ucxpool/pool.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Bytes of the strings that queries copy, their final 0 included: a name, a
 * reason or another sentence, and "host:port". */
#define UCXPOOL_NAME_SIZE      32
#define UCXPOOL_REASON_SIZE    352
#define UCXPOOL_HOST_PORT_SIZE 80

typedef struct ucxpool_channel  ucxpool_channel_t;
typedef struct ucxpool_listener ucxpool_listener_t;

/*
 * The pool's address, for a peer's ucxpool_channel_create().
 *
 * address_p [out]  Owned by the caller; release with ucxpool_address_release().
 * length_p  [out]  Bytes; some hundreds.
 *
 * It names the pool and holds a random number that the peer must show: any
 * process that has the address may connect. Keep it from strangers.
 *
 * The peers may be on any network: from now on UCX listens on all devices, or
 * on those of UCX_NET_DEVICES. A warning names the devices that are added. If
 * UCX is in use already, the address has only the devices that it uses now.
 */
ucxpool_status_t ucxpool_address_get(ucxpool_t *pool, void **address_p,
                                     size_t *length_p);
void             ucxpool_address_release(void *address);

typedef enum ucxpool_channel_params_field {
    UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS  = 1u << 0,
    UCXPOOL_CHANNEL_PARAM_FIELD_EP       = 1u << 1,
    UCXPOOL_CHANNEL_PARAM_FIELD_NAME     = 1u << 2,
    UCXPOOL_CHANNEL_PARAM_FIELD_USER_PTR = 1u << 3
} ucxpool_channel_params_field_t;

/* Only the fields named in field_mask are read. Address and ep are for
 * ucxpool_channel_create(), where exactly one of them must be given. */
typedef struct ucxpool_channel_params {
    uint64_t    field_mask;
    const void *address;        /* from the peer's ucxpool_address_get() */
    size_t      address_length; /* given with address */
    /*
     * An endpoint of the pool's worker to the peer, borrowed until the channel
     * is released. Made with UCP_ERR_HANDLING_MODE_PEER; from its error
     * callback the caller calls ucxpool_channel_fail().
     */
    struct ucp_ep *ep;
    const char    *name;     /* see ucxpool_channel_set_name() */
    void          *user_ptr; /* see ucxpool_channel_set_user_ptr() */
} ucxpool_channel_params_t;

/*
 * Create a channel over an address or an endpoint. Both sides must do so; two
 * pools may have several channels, which pair up in the order of creation.
 *
 * channel_p [out]  Released by ucxpool_channel_close() or ucxpool_destroy().
 *
 * UCXPOOL_ERR_INVALID_PARAM  not exactly one of address and ep, or the address
 *                            is damaged
 * UCXPOOL_ERR_PROTOCOL       the address is of another protocol version
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ucxpool_channel_create(ucxpool_t                      *pool,
                                        const ucxpool_channel_params_t *params,
                                        ucxpool_channel_t **channel_p);

/*
 * Connect to a listener. Returns before the connection stands; errors that show
 * later end the channel (see ucxpool_channel_query()) and its requests. A
 * listener that is full is called again, with growing random pauses, until
 * HANDSHAKE_TIMEOUT; then the error is UCXPOOL_ERR_LIMIT, or
 * UCXPOOL_ERR_TIMED_OUT if the last call was not answered.
 *
 * where   "host:port", "1.2.3.4:port" or "[::1]:port".
 * params  The channel's name (default: where) and its user_ptr; NULL for
 *         neither.
 *
 * UCXPOOL_ERR_INVALID_PARAM  not of that form, or the host has no address; or
 *                            params has an address or an endpoint
 * UCXPOOL_ERR_PERMISSION     SECRET_FILE cannot be read, or is readable by
 *                            others
 *
 * If UCX does not use the network device that leads to the listener and cannot
 * add it, because UCX is in use, the log has a warning. The channel can then
 * take the `map` wire alone, and otherwise fails with UCXPOOL_ERR_UNSUPPORTED:
 * connect there before other channels are opened, or set UCX_NET_DEVICES.
 */
ucxpool_status_t ucxpool_channel_connect(ucxpool_t *pool, const char *where,
                                         const ucxpool_channel_params_t *params,
                                         ucxpool_channel_t **channel_p);

/*
 * Listen for channels. Without SECRET_FILE only loopback addresses are taken,
 * unless LISTEN_WITHOUT_SECRET=y.
 *
 * where  As for connect; port 0 takes a free one; an empty host means all
 *        addresses of the machine.
 *
 * UCXPOOL_ERR_ADDRESS_IN_USE  the port is taken
 * UCXPOOL_ERR_PERMISSION      a secret is needed and none is set, or its file
 *                             is readable by others
 * UCXPOOL_ERR_INVALID_PARAM   not of that form
 * UCXPOOL_ERR_UNSUPPORTED     UCX does not use the address's network device,
 *                             and is in use: listen there first, or set
 *                             UCX_NET_DEVICES
 */
ucxpool_status_t ucxpool_listener_create(ucxpool_t *pool, const char *where,
                                         ucxpool_listener_t **listener_p);

/* The port that the listener has. */
uint16_t ucxpool_listener_port(const ucxpool_listener_t *listener);

/*
 * Take the next proven peer, if there is one. Does not wait. As many as the
 * setting ACCEPT_QUEUE says may wait to be taken. More are refused, and their
 * channels try again until HANDSHAKE_TIMEOUT.
 *
 * params  The channel's name (default: the peer's address) and its user_ptr;
 *         NULL for neither.
 *
 * UCXPOOL_OK                 *channel_p is a new channel
 * UCXPOOL_INPROGRESS         nobody is waiting
 * UCXPOOL_ERR_INVALID_PARAM  params has an address or an endpoint; the peer
 *                            keeps its place in the queue
 */
ucxpool_status_t ucxpool_listener_accept(ucxpool_listener_t *listener,
                                         const ucxpool_channel_params_t *params,
                                         ucxpool_channel_t **channel_p);

/* Stop listening. Channels that were accepted stay; those of peers that wait to
 * be accepted are closed. NULL is allowed. */
void ucxpool_listener_destroy(ucxpool_listener_t *listener);

/*
 * Name a channel, for the log and for queries. One that was connected or
 * accepted has the peer's address as its name until then.
 *
 * name  Copied; at most 31 bytes are kept. "": a name made of a number.
 */
void ucxpool_channel_set_name(ucxpool_channel_t *channel, const char *name);

/*
 * What the channel is to the program: given back by ucxpool_channel_query() and
 * in its events. The library does not look at it. NULL until it is set: events
 * that come first have it where it was in the params that made the channel.
 */
void ucxpool_channel_set_user_ptr(ucxpool_channel_t *channel, void *user_ptr);

typedef enum ucxpool_channel_state {
    UCXPOOL_CHANNEL_CONNECTING = 0,
    UCXPOOL_CHANNEL_OPEN       = 1,
    UCXPOOL_CHANNEL_CLOSED     = 2, /* the peer said good-bye, or we did */
    UCXPOOL_CHANNEL_FAILED     = 3  /* see status and reason */
} ucxpool_channel_state_t;

typedef enum ucxpool_wire {
    UCXPOOL_WIRE_NONE = 0, /* not chosen yet */
    UCXPOOL_WIRE_MAP  = 1,
    UCXPOOL_WIRE_UCX  = 2
} ucxpool_wire_t;

typedef struct ucxpool_channel_attr {
    ucxpool_channel_state_t state;
    ucxpool_status_t        status; /* why it failed; OK otherwise */
    char           reason[UCXPOOL_REASON_SIZE]; /* the same in words, or "" */
    ucxpool_wire_t wire;
    char wire_reason[UCXPOOL_REASON_SIZE]; /* why this wire and not the other */
    char name[UCXPOOL_NAME_SIZE];
    void      *user_ptr;
    ucxpool_t *pool;
    /*
     * Both ends of the connection between listener and caller, in numbers, as
     * this machine sees them: "10.0.0.1:7000", "[::1]:7000". The bytes may go
     * another way, see wire. "" before the caller is connected, and always for
     * channels over an address or an endpoint.
     */
    char local_address[UCXPOOL_HOST_PORT_SIZE];
    char remote_address[UCXPOOL_HOST_PORT_SIZE];
} ucxpool_channel_attr_t;

/* The state of a channel, its wire, the reasons of both, and its pool. All
 * strings are copies. attr_size is sizeof(*attr_p), see ucxpool.h. */
void ucxpool_channel_query(const ucxpool_channel_t *channel,
                           ucxpool_channel_attr_t *attr_p, size_t attr_size);

/*
 * Progress until the channel is open or has ended, or the time is over.
 *
 * UCXPOOL_OK          open
 * UCXPOOL_INPROGRESS  not yet
 * others              why it ended
 */
ucxpool_status_t ucxpool_channel_wait(ucxpool_channel_t *channel,
                                      uint64_t           timeout_ns);

/*
 * Tell the pool that a borrowed endpoint has failed: all requests of the
 * channel end with UCXPOOL_ERR_PEER_LOST. To be called from the error callback
 * of an endpoint given to ucxpool_channel_create(). Only records the failure;
 * the work is done by the next ucxpool_progress().
 */
void ucxpool_channel_fail(ucxpool_channel_t *channel);

/*
 * Close a channel and release it, when what was posted has come to its end:
 * sends, and receives that have their message, go on for CLOSE_TIMEOUT at most.
 * What is left then, and receives from this channel that have no message, end
 * with UCXPOOL_ERR_CANCELED. Then the peer is told. Does not wait: it is done
 * by ucxpool_progress(), and by ucxpool_destroy(). The handle is invalid at
 * once. NULL is allowed.
 */
void ucxpool_channel_close(ucxpool_channel_t *channel);

/*
 * The same at once: requests that have not completed end with
 * UCXPOOL_ERR_CANCELED, as they do with ucxpool_destroy() on channels that were
 * not closed before.
 */
void ucxpool_channel_abort(ucxpool_channel_t *channel);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
