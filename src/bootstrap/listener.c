#include <config.h>

#include "bootstrap/listener.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/math.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- the socket ----------------------------------------------------------- */

/* Maximum number of broken connections that one call skips. */
#define ACCEPT_TRIES 16

/* Size of the receive buffer for a client. The system doubles the size, so the
 * largest message fits. Accepted sockets inherit the size. */
#define RECV_BUFFER_SIZE 8192

static void set_option(int fd, int level, int name, int value)
{
    /* A failure only costs speed or a little memory. */
    (void)setsockopt(fd, level, name, &value, sizeof(value));
}

/* Open a socket that listens on an address. Returns -1 and sets errno on
 * failure. */
static int open_address(const bootstrap_address_t *address)
{
    int family = address->any.sa_family;
    int fd     = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int saved_errno;

    if (fd < 0) {
        return -1;
    }
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    set_option(fd, SOL_SOCKET, SO_RCVBUF, RECV_BUFFER_SIZE);
    if (family == AF_INET6) {
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    }
    /* Use the system's longest queue of connections, because hundreds of peers
     * may connect at once. A peer that finds the queue full retries only after
     * a second. */
    if ((bind(fd, &address->any, address->length) == 0) &&
        (listen(fd, SOMAXCONN) == 0)) {
        return fd;
    }
    saved_errno = errno;
    close(fd);
    errno = saved_errno;
    return -1;
}

static ucxpool_status_t cannot_listen(const bootstrap_where_t *where, int error)
{
    switch (error) {
    case EADDRINUSE:
        return base_error_errno(error,
                                "cannot listen on %s; choose another port, or "
                                "port 0 for a free one",
                                where->text);
    case EACCES:
        return base_error_errno(
            error, "cannot listen on %s; choose a port over 1023", where->text);
    case EADDRNOTAVAIL:
        return base_error_errno(error,
                                "cannot listen on %s; use an address of this "
                                "machine",
                                where->text);
    default:
        return base_error_errno(error, "cannot listen on %s", where->text);
    }
}

/* Refuse to listen without a secret. The error also names the resolved address
 * if it differs from the text. */
static ucxpool_status_t refuse_open(const bootstrap_where_t   *where,
                                    const bootstrap_address_t *address)
{
    char name[BOOTSTRAP_ADDRESS_NAME_SIZE];
    bool is_name;

    bootstrap_address_format(address, name);
    is_name = strcmp(where->text, name) != 0;
    return base_error(
        UCXPOOL_ERR_PERMISSION,
        "cannot listen on %s%s%s%s without a secret, because other machines "
        "can reach this address; set UCXPOOL_SECRET_FILE, listen on 127.0.0.1, "
        "or set UCXPOOL_LISTEN_WITHOUT_SECRET=y to accept any client",
        where->text, is_name ? " (" : "", is_name ? name : "",
        is_name ? ")" : "");
}

static ucxpool_status_t check_loopback(const bootstrap_where_t *where)
{
    for (size_t i = 0; i < where->num_addresses; i++) {
        if (!bootstrap_address_is_loopback(&where->addresses[i])) {
            return refuse_open(where, &where->addresses[i]);
        }
    }
    return UCXPOOL_OK;
}

/*
 * Listen on the first address of `where` that works, without blocking.
 *
 * only_loopback  Refuse addresses that other machines can reach.
 * fd_p           To be closed by the caller.
 * address_p      The address of the socket, with the actual port.
 */
static ucxpool_status_t socket_listen(const bootstrap_where_t *where,
                                      bool only_loopback, int *fd_p,
                                      bootstrap_address_t *address_p)
{
    ucxpool_status_t    status;
    bootstrap_address_t address;
    int                 error = 0;
    int                 fd    = -1;

    if (only_loopback) {
        status = check_loopback(where);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    for (size_t i = 0; (i < where->num_addresses) && (fd < 0); i++) {
        fd = open_address(&where->addresses[i]);
        /* Report the error of the first address, because the user requested
         * this address. */
        if ((fd < 0) && (error == 0)) {
            error = errno;
        }
    }
    if (fd < 0) {
        return cannot_listen(where, error);
    }
    address.length = sizeof(address.ipv6);
    if (getsockname(fd, &address.any, &address.length) != 0) {
        status = cannot_listen(where, errno);
        close(fd);
        return status;
    }
    *fd_p      = fd;
    *address_p = address;
    return UCXPOOL_OK;
}

/* Returns true if an error of accept() concerns only one connection. Linux also
 * returns network errors of the new connection from accept(). Accepting the
 * next connection may succeed. */
static bool is_passing(int error)
{
    switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPERM: /* refused by a firewall */
    case EPROTO:
    case ENOPROTOOPT:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENONET:
        return true;
    default:
        return false;
    }
}

/*
 * Accept a connection, make the socket non-blocking and set TCP_NODELAY.
 * Returns its fd, or -1 and sets errno; EAGAIN: no connection is waiting. Skips
 * connections that failed before they were accepted.
 */
static int socket_accept(int fd, bootstrap_address_t *peer_p)
{
    unsigned num_tries = 0;
    int      peer_fd;

    do {
        peer_p->length = sizeof(peer_p->ipv6);
        peer_fd        = accept4(fd, &peer_p->any, &peer_p->length,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while ((peer_fd < 0) && is_passing(errno) &&
             (++num_tries < ACCEPT_TRIES));
    if (peer_fd >= 0) {
        set_option(peer_fd, IPPROTO_TCP, TCP_NODELAY, 1);
    }
    return peer_fd;
}

/* --- pending connections -------------------------------------------------- */

/* Connections of unauthenticated clients, each in a slot, and the queue of
 * authenticated peers. Epoll events carry the index of a slot. */

/* At most one warning per interval is logged, so that clients cannot fill the
 * disk. */
#define LOG_INTERVAL_NS 1000000000u

/* A half-open connection, in listener->half_open; or a free slot, in
 * listener->free. */
typedef struct pending_slot {
    base_list_t      link;
    int              fd;
    bool             wants_send; /* waits for EPOLLOUT in the epoll */
    uint64_t         deadline;
    char             name[BOOTSTRAP_ADDRESS_NAME_SIZE];
    bootstrap_auth_t auth;
} pending_slot_t;

struct bootstrap_listener {
    int                        listen_fd;
    int                        epoll_fd;
    uint16_t                   port;
    bool                       is_paused;
    uint64_t                   pause_end;
    bootstrap_self_t           self;
    char                       name[BOOTSTRAP_WHERE_SIZE];
    uint64_t                   timeout_ns;
    uint64_t                   next_log;
    uint64_t                   num_unlogged;
    bootstrap_listener_stats_t stats;
    size_t                     num_slots;
    size_t                     num_used;  /* slots used at least once */
    base_list_t                free;      /* the used slots that are free */
    base_list_t                half_open; /* oldest first */
    unsigned          num_answers; /* slots that reserve a place in the queue */
    size_t            queue_size;
    size_t            queue_head;
    size_t            queue_length;
    bootstrap_peer_t *queue;
    uint8_t           blob[BOOTSTRAP_BLOB_MAX];
    pending_slot_t    slots[];
};

/* Log a warning, unless one was logged within the last LOG_INTERVAL_NS. */
static void warn_rarely(bootstrap_listener_t *listener, const char *who,
                        const char *what)
{
    uint64_t now = base_clock_now();

    if (now < listener->next_log) {
        listener->num_unlogged++;
        return;
    }
    if (listener->num_unlogged == 0) {
        base_warn("%s: %s: %s", listener->name, who, what);
    } else {
        base_warn("%s: %s: %s (and %llu more warnings before it)",
                  listener->name, who, what,
                  (unsigned long long)listener->num_unlogged);
    }
    listener->next_log     = now + LOG_INTERVAL_NS;
    listener->num_unlogged = 0;
}

/* --- slots ---------------------------------------------------------------- */

static bool holds_place(const pending_slot_t *slot)
{
    return slot->auth.state == BOOTSTRAP_AUTH_ANSWER;
}

static bool slot_unwatch(bootstrap_listener_t *listener, pending_slot_t *slot)
{
    return epoll_ctl(listener->epoll_fd, EPOLL_CTL_DEL, slot->fd, NULL) == 0;
}

/* Free the slot. Its connection must be closed or owned by another object. */
static void slot_free(bootstrap_listener_t *listener, pending_slot_t *slot)
{
    slot->fd = -1;
    bootstrap_auth_cleanup(&slot->auth);
    base_list_move(&listener->free, &slot->link);
    listener->stats.num_half_open--;
}

/* Close the connection and free the slot. Closing the socket is not sufficient:
 * it would stay in the epoll as long as a forked child has a copy. */
static void slot_close(bootstrap_listener_t *listener, pending_slot_t *slot)
{
    (void)slot_unwatch(listener, slot);
    close(slot->fd);
    slot_free(listener, slot);
}

static void slot_refuse(bootstrap_listener_t *listener, pending_slot_t *slot,
                        const char *reason)
{
    listener->stats.num_refused++;
    warn_rarely(listener, slot->name, reason);
    slot_close(listener, slot);
}

static void slot_finish(bootstrap_listener_t *listener, pending_slot_t *slot)
{
    bootstrap_peer_t *peer;
    const void       *blob;

    assert(listener->queue_length < listener->queue_size);
    if (!slot_unwatch(listener, slot)) {
        slot_refuse(listener, slot,
                    "the system cannot remove the connection from its epoll");
        return;
    }
    peer = &listener->queue[(listener->queue_head + listener->queue_length) %
                            listener->queue_size];
    blob = bootstrap_auth_blob(&slot->auth, &peer->length);
    memcpy(peer->blob, blob, peer->length);
    bootstrap_address_format_own(slot->fd, peer->ends.local);
    memcpy(peer->ends.remote, slot->name, sizeof(peer->ends.remote));
    peer->fd = slot->fd;
    listener->queue_length++;
    base_debug("%s: %s is proven", listener->name, slot->name);
    slot_free(listener, slot);
}

/* Set the epoll events that the handshake waits for. */
static bool slot_watch(bootstrap_listener_t *listener, pending_slot_t *slot,
                       int operation)
{
    bool               wants_send = bootstrap_auth_wants_send(&slot->auth);
    struct epoll_event event      = {
             .events   = wants_send ? EPOLLOUT : EPOLLIN,
             .data.u32 = (uint32_t)(slot - listener->slots),
    };

    if ((operation == EPOLL_CTL_MOD) && (wants_send == slot->wants_send)) {
        return true;
    }
    slot->wants_send = wants_send;
    return epoll_ctl(listener->epoll_fd, operation, slot->fd, &event) == 0;
}

static void slot_progress(bootstrap_listener_t *listener, pending_slot_t *slot)
{
    bool             held_place = holds_place(slot);
    ucxpool_status_t status;

    slot->auth.is_full = (listener->queue_length + listener->num_answers) >=
                         listener->queue_size;
    status = bootstrap_auth_progress(&slot->auth);
    listener->num_answers += (unsigned)holds_place(slot);
    listener->num_answers -= (unsigned)held_place;

    if (status == UCXPOOL_OK) {
        slot_finish(listener, slot);
    } else if (status != UCXPOOL_INPROGRESS) {
        slot_refuse(listener, slot, slot->auth.reason);
    } else if (!slot_watch(listener, slot, EPOLL_CTL_MOD)) {
        listener->num_answers -= (unsigned)holds_place(slot);
        slot_refuse(listener, slot, "cannot add the connection to epoll");
    }
}

static void slot_abort(bootstrap_listener_t *listener, pending_slot_t *slot,
                       const char *reason)
{
    listener->num_answers -= (unsigned)holds_place(slot);
    /* If a refusal is being sent, use its reason. */
    if (slot->auth.state == BOOTSTRAP_AUTH_DRAIN) {
        reason = slot->auth.reason;
    }
    slot_refuse(listener, slot, reason);
}

/* Abort the oldest slot; its client may retry. */
static void drop_oldest(bootstrap_listener_t *listener, const char *reason)
{
    pending_slot_t *slot =
        base_list_head(&listener->half_open, pending_slot_t, link);

    /* Send the refusal only if no other message has been partly sent. */
    if (!bootstrap_auth_wants_send(&slot->auth) &&
        (slot->auth.state != BOOTSTRAP_AUTH_DRAIN)) {
        bootstrap_refuse_full(slot->fd, reason);
    }
    listener->stats.num_dropped++;
    slot_abort(listener, slot, reason);
}

/* Take a free slot. The memory of a slot is not touched before its first use:
 * if there are thousands of slots, most are never used. */
static pending_slot_t *slot_take(bootstrap_listener_t *listener)
{
    if (base_list_is_empty(&listener->free)) {
        if (listener->num_used < listener->num_slots) {
            return &listener->slots[listener->num_used++];
        }
        drop_oldest(listener,
                    "all UCXPOOL_MAX_HALF_OPEN connections are in use, and "
                    "this was the oldest");
    }
    return base_list_pop(&listener->free, pending_slot_t, link);
}

/* Drop the oldest connections until the descriptors that UCX needs for
 * authenticated peers are free. Returns false if there are still too few. */
static bool make_spare(bootstrap_listener_t *listener)
{
    while (!base_limits_has(BASE_LIMITS_DESCRIPTORS)) {
        if (base_list_is_empty(&listener->half_open)) {
            return false;
        }
        drop_oldest(listener,
                    "few descriptors are left (raise the limit of "
                    "open files), and this was the oldest connection");
    }
    return true;
}

/* Add a new connection and take ownership of its fd. If no slot is free, the
 * oldest connection is dropped. */
static void add_connection(bootstrap_listener_t *listener, int fd,
                           const bootstrap_address_t *peer)
{
    pending_slot_t   *slot;
    ucxpool_status_t  status;
    char              name[BOOTSTRAP_ADDRESS_NAME_SIZE];
    static const char no_descriptors[] =
        "no descriptors are left for a connection; raise the limit of open "
        "files";

    if (!make_spare(listener)) {
        bootstrap_address_format(peer, name);
        listener->stats.num_refused++;
        warn_rarely(listener, name, no_descriptors);
        bootstrap_refuse_full(fd, no_descriptors);
        close(fd);
        return;
    }
    slot           = slot_take(listener);
    slot->fd       = fd;
    slot->deadline = base_clock_deadline(listener->timeout_ns);
    bootstrap_address_format(peer, slot->name);
    base_list_add_tail(&listener->half_open, &slot->link);
    listener->stats.num_half_open++;

    status = bootstrap_auth_init(&slot->auth, fd, false, &listener->self);
    if (status != UCXPOOL_OK) {
        slot_refuse(listener, slot, slot->auth.reason);
    } else if (!slot_watch(listener, slot, EPOLL_CTL_ADD)) {
        slot_refuse(listener, slot, "cannot add the connection to epoll");
    } else {
        slot_progress(listener, slot);
    }
}

static uint64_t next_deadline(const bootstrap_listener_t *listener)
{
    if (base_list_is_empty(&listener->half_open)) {
        return BASE_CLOCK_FOREVER;
    }
    return base_list_head(&listener->half_open, pending_slot_t, link)->deadline;
}

/* Abort the handshakes that have timed out. Returns how many. */
static unsigned end_late(bootstrap_listener_t *listener)
{
    unsigned        num_late = 0;
    uint64_t        now;
    pending_slot_t *slot;

    if (base_list_is_empty(&listener->half_open)) {
        return 0;
    }
    now = base_clock_now();
    while (next_deadline(listener) <= now) {
        slot = base_list_head(&listener->half_open, pending_slot_t, link);
        listener->stats.num_timed_out++;
        slot_abort(listener, slot, "it exceeded UCXPOOL_HANDSHAKE_TIMEOUT");
        num_late++;
    }
    return num_late;
}

/* Returns the number of slots: at most a quarter of the files that the process
 * may open. */
static size_t num_slots_for(unsigned max_half_open)
{
    struct rlimit files;

    if ((getrlimit(RLIMIT_NOFILE, &files) != 0) ||
        (files.rlim_cur / 4 >= max_half_open)) {
        return max_half_open;
    }
    return base_max((size_t)files.rlim_cur / 4, (size_t)1);
}

/* Create a listener without its sockets. Returns NULL if out of memory. */
static bootstrap_listener_t *
listener_alloc(const bootstrap_listener_params_t *params)
{
    size_t                num_slots = num_slots_for(params->max_half_open);
    bootstrap_listener_t *listener;
    size_t                size;

    if (!base_mul(num_slots, sizeof(listener->slots[0]), &size) ||
        !base_add(size, sizeof(*listener), &size)) {
        return NULL;
    }
    listener = calloc(1, size);
    if (listener == NULL) {
        return NULL;
    }
    listener->queue_size = params->accept_queue;
    listener->queue = calloc(listener->queue_size, sizeof(listener->queue[0]));
    if (listener->queue == NULL) {
        free(listener);
        return NULL;
    }
    base_list_init(&listener->free);
    base_list_init(&listener->half_open);
    listener->num_slots = num_slots;
    if (params->blob_length > 0) {
        memcpy(listener->blob, params->blob, params->blob_length);
    }
    memcpy(listener->name, params->where->text, sizeof(listener->name));
    listener->timeout_ns       = params->handshake_timeout_ns;
    listener->self.secret      = params->secret;
    listener->self.blob        = listener->blob;
    listener->self.blob_length = params->blob_length;
    listener->self.fit_blob    = params->fit_blob;
    listener->self.arg         = params->arg;
    return listener;
}

ucxpool_status_t bootstrap_listener_accept(bootstrap_listener_t *listener,
                                           bootstrap_peer_t     *peer_p)
{
    const bootstrap_peer_t *peer = &listener->queue[listener->queue_head];

    if (listener->queue_length == 0) {
        return UCXPOOL_INPROGRESS;
    }
    peer_p->ends = peer->ends;
    memcpy(peer_p->blob, peer->blob, peer->length);
    peer_p->length = peer->length;
    peer_p->fd     = peer->fd;
    listener->queue_length--;
    /* An empty queue restarts at its first entry, so that the memory of the
     * other entries is not touched while few peers wait. */
    listener->queue_head =
        (listener->queue_length == 0)
            ? 0
            : (listener->queue_head + 1) % listener->queue_size;
    return UCXPOOL_OK;
}

/* --- the listener --------------------------------------------------------- */

/* Maximum numbers of events and new connections that one call handles. */
#define EVENTS_PER_CALL  32
#define ACCEPTS_PER_CALL 16

/* If a connection cannot be accepted, for example because no descriptor is
 * free, the listening socket stays readable. The listener then ignores the
 * socket for this long. */
#define ACCEPT_PAUSE_NS 100000000u

/* Represents the listening socket in an epoll event, instead of the index of a
 * slot. */
#define LISTENER_INDEX UINT32_MAX

static bool watch_listener(bootstrap_listener_t *listener, int operation,
                           uint32_t events)
{
    struct epoll_event event = {
        .events   = events,
        .data.u32 = LISTENER_INDEX,
    };

    return epoll_ctl(listener->epoll_fd, operation, listener->listen_fd,
                     &event) == 0;
}

static void pause_accept(bootstrap_listener_t *listener, int error)
{
    char text[64];
    char what[128];

    snprintf(what, sizeof(what), "%s%s", strerror_r(error, text, sizeof(text)),
             base_errno_remedy(error));
    warn_rarely(listener, "cannot accept a connection", what);
    listener->is_paused = true;
    listener->pause_end = base_clock_deadline(ACCEPT_PAUSE_NS);
    watch_listener(listener, EPOLL_CTL_MOD, 0);
}

static unsigned end_pause(bootstrap_listener_t *listener)
{
    uint64_t now;

    if (!listener->is_paused) {
        return 0;
    }
    now = base_clock_now();
    if (now < listener->pause_end) {
        return 0;
    }
    if (watch_listener(listener, EPOLL_CTL_MOD, EPOLLIN)) {
        listener->is_paused = false;
    } else {
        listener->pause_end = now + ACCEPT_PAUSE_NS;
    }
    return 1;
}

static unsigned accept_connections(bootstrap_listener_t *listener)
{
    bootstrap_address_t peer;
    unsigned            num_events = 0;
    int                 fd;

    while (num_events < ACCEPTS_PER_CALL) {
        fd = socket_accept(listener->listen_fd, &peer);
        if (fd < 0) {
            if ((errno != EAGAIN) && (errno != EWOULDBLOCK)) {
                pause_accept(listener, errno);
            }
            break;
        }
        add_connection(listener, fd, &peer);
        num_events++;
    }
    return num_events;
}

unsigned bootstrap_listener_progress(bootstrap_listener_t *listener)
{
    struct epoll_event events[EVENTS_PER_CALL];
    unsigned           num_events = end_pause(listener);
    bool               can_accept = false;
    pending_slot_t    *slot;
    int                num_ready;

    num_ready = epoll_wait(listener->epoll_fd, events, EVENTS_PER_CALL, 0);
    /* New connections are accepted last, because they take slots. An event of a
     * slot must not be applied to a new connection in the same slot. Timeouts
     * are handled after the last event, so that a client whose messages have
     * arrived does not time out because this process was delayed. */
    for (int i = 0; i < num_ready; i++) {
        if (events[i].data.u32 == LISTENER_INDEX) {
            can_accept = true;
        } else {
            slot = &listener->slots[events[i].data.u32];
            if (slot->fd >= 0) {
                slot_progress(listener, slot);
            }
            num_events++;
        }
    }
    if (num_ready < EVENTS_PER_CALL) {
        num_events += end_late(listener);
    }
    if (can_accept) {
        num_events += accept_connections(listener);
    }
    return num_events;
}

uint64_t bootstrap_listener_deadline(const bootstrap_listener_t *listener)
{
    uint64_t deadline = next_deadline(listener);

    return listener->is_paused ? base_min(deadline, listener->pause_end)
                               : deadline;
}

static ucxpool_status_t open_listener(bootstrap_listener_t *listener,
                                      const bootstrap_listener_params_t *params)
{
    bool only_loopback =
        (params->secret == NULL) && !params->listen_without_secret;
    bootstrap_address_t address;
    ucxpool_status_t    status;

    status = socket_listen(params->where, only_loopback, &listener->listen_fd,
                           &address);
    if (status != UCXPOOL_OK) {
        return status;
    }
    listener->port = bootstrap_address_port(&address);
    if (watch_listener(listener, EPOLL_CTL_ADD, EPOLLIN)) {
        return UCXPOOL_OK;
    }
    status = base_error_errno(errno, "cannot watch the socket of %s",
                              params->where->text);
    close(listener->listen_fd);
    return status;
}

ucxpool_status_t
bootstrap_listener_create(const bootstrap_listener_params_t *params,
                          bootstrap_listener_t             **listener_p)
{
    bootstrap_listener_t *listener;
    ucxpool_status_t      status;

    if ((params->blob_length > BOOTSTRAP_BLOB_MAX) ||
        (params->max_half_open == 0) || (params->accept_queue == 0)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "invalid listener: UCXPOOL_MAX_HALF_OPEN and "
                          "UCXPOOL_ACCEPT_QUEUE must be at least 1, and the "
                          "data for peers at most %d bytes",
                          BOOTSTRAP_BLOB_MAX);
    }
    listener = listener_alloc(params);
    if (listener == NULL) {
        return base_error(
            UCXPOOL_ERR_NO_MEMORY,
            "no memory to listen on %s with UCXPOOL_MAX_HALF_OPEN=%u "
            "and UCXPOOL_ACCEPT_QUEUE=%u",
            params->where->text, params->max_half_open, params->accept_queue);
    }
    listener->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (listener->epoll_fd < 0) {
        status =
            base_error_errno(errno, "cannot listen on %s", params->where->text);
        goto err_free_listener;
    }
    status = open_listener(listener, params);
    if (status != UCXPOOL_OK) {
        goto err_close_epoll;
    }
    *listener_p = listener;
    return UCXPOOL_OK;

err_close_epoll:
    close(listener->epoll_fd);
err_free_listener:
    free(listener->queue);
    free(listener);
    return status;
}

void bootstrap_listener_destroy(bootstrap_listener_t *listener)
{
    bootstrap_peer_t peer;

    if (listener == NULL) {
        return;
    }
    while (!base_list_is_empty(&listener->half_open)) {
        slot_close(listener,
                   base_list_head(&listener->half_open, pending_slot_t, link));
    }
    /* Notify the peers in the queue that the listener is closed, because they
     * will not be accepted. */
    while (bootstrap_listener_accept(listener, &peer) == UCXPOOL_OK) {
        bootstrap_close_notify(peer.fd, BOOTSTRAP_CLOSE_CLOSED);
        close(peer.fd);
    }
    close(listener->listen_fd);
    close(listener->epoll_fd);
    free(listener->queue);
    free(listener);
}

size_t bootstrap_listener_num_waiting(const bootstrap_listener_t *listener)
{
    return listener->queue_length;
}

bool bootstrap_listener_has_callers(const bootstrap_listener_t *listener)
{
    return (listener->queue_length != 0) || (listener->num_answers != 0);
}

int bootstrap_listener_fd(const bootstrap_listener_t *listener)
{
    return listener->epoll_fd;
}

void bootstrap_listener_set_blob(bootstrap_listener_t *listener,
                                 const void *blob, size_t length)
{
    memcpy(listener->blob, blob, length);
    listener->self.blob_length = length;
}

uint16_t bootstrap_listener_port(const bootstrap_listener_t *listener)
{
    return listener->port;
}

const bootstrap_listener_stats_t *
bootstrap_listener_stats(const bootstrap_listener_t *listener)
{
    return &listener->stats;
}
