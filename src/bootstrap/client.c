#include "bootstrap/client.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/math.h"
#include "base/random.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct bootstrap_client {
    bootstrap_where_t where;
    bootstrap_self_t  self;
    int               epoll_fd;
    int               fd; /* -1 between two addresses and after the end */
    size_t            address_index;
    bool              is_connected;
    bootstrap_ends_t  ends;
    int               error; /* errno of the last failed address */
    uint64_t          deadline;
    /* Time at which the next address is tried. Without a connection (fd -1),
     * the time at which the same address is tried again. */
    uint64_t         turn_end;
    unsigned         num_refused; /* times that a full listener refused */
    ucxpool_status_t refusal;     /* status of the last refusal */
    char             refusal_text[BOOTSTRAP_REASON_SIZE];
    ucxpool_status_t status;
    bootstrap_auth_t auth;
    uint8_t          blob[BOOTSTRAP_BLOB_MAX];
};

int bootstrap_client_detach_fd(bootstrap_client_t *client)
{
    int fd = client->fd;

    if (fd >= 0) {
        /* Without this call, a copy of the descriptor in a forked child would
         * keep the socket in the epoll. */
        (void)epoll_ctl(client->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        client->fd = -1;
    }
    return fd;
}

static void close_socket(bootstrap_client_t *client)
{
    int fd = bootstrap_client_detach_fd(client);

    if (fd >= 0) {
        close(fd);
    }
}

/* Finish with a status. An error has been recorded. */
static ucxpool_status_t finish(bootstrap_client_t *client,
                               ucxpool_status_t    status)
{
    client->status = status;
    if (status != UCXPOOL_OK) {
        close_socket(client);
    }
    return status;
}

/* --- connecting ----------------------------------------------------------- */

static bool watch(bootstrap_client_t *client, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events};

    return epoll_ctl(client->epoll_fd, operation, client->fd, &event) == 0;
}

/* Start to connect to an address. Returns false and sets errno on failure. */
static bool start_connect(bootstrap_client_t        *client,
                          const bootstrap_address_t *address)
{
    int one = 1;

    client->fd = socket(address->any.sa_family,
                        SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (client->fd < 0) {
        return false;
    }
    /* If this fails, authentication is only slower. */
    (void)setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if ((connect(client->fd, &address->any, address->length) != 0) &&
        (errno != EINPROGRESS)) {
        return false;
    }
    return watch(client, EPOLL_CTL_ADD, EPOLLOUT);
}

/* Returns the time at which the next address is tried. Each address gets a
 * share of the remaining time, so that an address that does not answer cannot
 * use all of it. The last address gets all the remaining time. */
static uint64_t next_turn_end(const bootstrap_client_t *client)
{
    uint64_t now      = base_clock_now();
    size_t   num_left = client->where.num_addresses - client->address_index + 1;

    if ((client->deadline == BASE_CLOCK_FOREVER) || (num_left == 1)) {
        return BASE_CLOCK_FOREVER;
    }
    return (client->deadline > now) ? now + (client->deadline - now) / num_left
                                    : now;
}

/* Start to connect to the next address that does not fail at once. */
static ucxpool_status_t connect_next(bootstrap_client_t *client)
{
    while (client->address_index < client->where.num_addresses) {
        if (start_connect(client,
                          &client->where.addresses[client->address_index++])) {
            client->turn_end = next_turn_end(client);
            return UCXPOOL_OK;
        }
        client->error = errno;
        close_socket(client);
    }
    return base_error_errno(
        client->error, "cannot connect to %s%s", client->where.text,
        client->error == ECONNREFUSED ? "; check that a pool listens there"
                                      : "");
}

/* Stop trying the current address, and try the next one. */
static ucxpool_status_t try_next_address(bootstrap_client_t *client, int error)
{
    client->error = error;
    close_socket(client);
    return connect_next(client) == UCXPOOL_OK
               ? UCXPOOL_INPROGRESS
               : finish(client, UCXPOOL_ERR_PEER_LOST);
}

/* Try the next address, or the same address again, if that is due. */
static ucxpool_status_t check_turn(bootstrap_client_t *client)
{
    uint64_t now = base_clock_now();

    if ((now < client->turn_end) || (now >= client->deadline)) {
        return UCXPOOL_INPROGRESS;
    }
    return try_next_address(client,
                            (client->fd < 0) ? client->error : ETIMEDOUT);
}

/*
 * Before the next try, a client waits a random time between 0.5 and 1.5 times
 * the delay. The delay begins at RETRY_FIRST_NS and doubles with each try, up
 * to RETRY_LAST_NS. This spreads the retries of a thousand clients over time,
 * and limits the load on a listener that remains full.
 */
#define RETRY_FIRST_NS UINT64_C(10000000)
#define RETRY_LAST_NS  UINT64_C(500000000)

/* Retry the same address after a random time. */
static ucxpool_status_t schedule_retry(bootstrap_client_t *client,
                                       ucxpool_status_t    status,
                                       const char         *reason)
{
    unsigned num_doubled = base_min(client->num_refused, 16u);
    uint64_t wait_ns = base_min(RETRY_FIRST_NS << num_doubled, RETRY_LAST_NS);
    uint32_t number  = 0;

    /* A failure is ignored, because the next try also needs random numbers and
     * reports the failure. */
    (void)base_random(&number, sizeof(number));
    snprintf(client->refusal_text, sizeof(client->refusal_text), "%s", reason);
    close_socket(client);
    client->refusal = status;
    client->num_refused++;
    client->address_index--;
    client->is_connected = false;
    client->turn_end     = base_clock_now() + wait_ns / 2 + number % wait_ns;
    return UCXPOOL_INPROGRESS;
}

/* Check whether the connection is established. Returns OK, INPROGRESS, or an
 * error. */
static ucxpool_status_t check_connected(bootstrap_client_t *client)
{
    struct epoll_event event;
    socklen_t          length = sizeof(int);
    int                error  = 0;

    if ((client->fd < 0) || (epoll_wait(client->epoll_fd, &event, 1, 0) <= 0)) {
        return check_turn(client);
    }
    if (getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
        error = errno;
    }
    if (error == ECONNRESET) {
        return schedule_retry(client, UCXPOOL_ERR_PEER_LOST,
                              "the connection was reset");
    }
    return (error == 0) ? UCXPOOL_OK : try_next_address(client, error);
}

/* --- authentication ------------------------------------------------------- */

static ucxpool_status_t begin_handshake(bootstrap_client_t *client)
{
    ucxpool_status_t status;

    status =
        bootstrap_auth_init(&client->auth, client->fd, true, &client->self);
    if (status != UCXPOOL_OK) {
        return finish(client,
                      base_error(status, "cannot authenticate to %s: %s",
                                 client->where.text, client->auth.reason));
    }
    client->is_connected = true;
    bootstrap_address_format_own(client->fd, client->ends.local);
    bootstrap_address_format(
        &client->where.addresses[client->address_index - 1],
        client->ends.remote);
    return UCXPOOL_OK;
}

/*
 * Returns true if the client should retry. A full listener sends
 * BOOTSTRAP_REFUSAL_FULL. If the listen backlog is full, the system resets the
 * connection before the listener sees it.
 */
static bool is_full(const bootstrap_auth_t *auth, ucxpool_status_t status)
{
    return (status == UCXPOOL_ERR_LIMIT) ||
           ((status == UCXPOOL_ERR_PEER_LOST) && (auth->io.error != 0) &&
            !auth->has_first_message);
}

static ucxpool_status_t continue_handshake(bootstrap_client_t *client)
{
    ucxpool_status_t status     = bootstrap_auth_progress(&client->auth);
    bool             wants_send = bootstrap_auth_wants_send(&client->auth);

    if (status == UCXPOOL_OK) {
        return finish(client, UCXPOOL_OK);
    }
    if (is_full(&client->auth, status)) {
        return schedule_retry(client, status, client->auth.reason);
    }
    if (status != UCXPOOL_INPROGRESS) {
        return finish(client, base_error(status, "%s: %s", client->where.text,
                                         client->auth.reason));
    }
    if (!watch(client, EPOLL_CTL_MOD, wants_send ? EPOLLOUT : EPOLLIN)) {
        return finish(client, base_error_errno(errno,
                                               "cannot watch the connection to "
                                               "%s",
                                               client->where.text));
    }
    return UCXPOOL_INPROGRESS;
}

static ucxpool_status_t advance(bootstrap_client_t *client)
{
    ucxpool_status_t status;

    if (!client->is_connected) {
        status = check_connected(client);
        if (status != UCXPOOL_OK) {
            return status;
        }
        status = begin_handshake(client);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    return continue_handshake(client);
}

/* Report that the timeout expired while the client waited for the next try. */
static ucxpool_status_t fail_refused(const bootstrap_client_t *client)
{
    return base_error(
        client->refusal,
        "%s: %s (tried %u times within UCXPOOL_HANDSHAKE_TIMEOUT; raise it, or "
        "raise the listener's UCXPOOL_ACCEPT_QUEUE or UCXPOOL_MAX_HALF_OPEN)",
        client->where.text, client->refusal_text, client->num_refused);
}

/* Report that the timeout expired while the client waited for an answer.
 * Earlier tries may have been refused. */
static ucxpool_status_t fail_unanswered(const bootstrap_client_t *client)
{
    char before[256] = "";

    if (client->num_refused != 0) {
        snprintf(before, sizeof(before), "; refused %u times before: %.200s",
                 client->num_refused, client->refusal_text);
    }
    return base_error(UCXPOOL_ERR_TIMED_OUT,
                      "%s: no answer in time (%s%s); check that a pool listens "
                      "there, or raise UCXPOOL_HANDSHAKE_TIMEOUT",
                      client->where.text,
                      client->is_connected ? "it accepted the connection"
                                           : "not connected",
                      before);
}

static ucxpool_status_t give_up(const bootstrap_client_t *client)
{
    return ((client->num_refused != 0) && (client->fd < 0))
               ? fail_refused(client)
               : fail_unanswered(client);
}

ucxpool_status_t bootstrap_client_progress(bootstrap_client_t *client)
{
    ucxpool_status_t status = client->status;

    if (status == UCXPOOL_INPROGRESS) {
        status = advance(client);
    }
    if ((status == UCXPOOL_INPROGRESS) &&
        (client->deadline != BASE_CLOCK_FOREVER) &&
        (base_clock_now() >= client->deadline)) {
        status = finish(client, give_up(client));
    }
    return status;
}

/* --- creation and destruction --------------------------------------------- */

static void init(bootstrap_client_t *client, const bootstrap_where_t *where,
                 const base_secret_t *secret, const void *blob, size_t length)
{
    client->where            = *where;
    client->fd               = -1;
    client->status           = UCXPOOL_INPROGRESS;
    client->self.secret      = secret;
    client->self.blob        = client->blob;
    client->self.blob_length = length;
    if (length > 0) {
        memcpy(client->blob, blob, length);
    }
}

ucxpool_status_t bootstrap_client_connect(const bootstrap_where_t *where,
                                          const base_secret_t     *secret,
                                          const void *blob, size_t blob_length,
                                          uint64_t             timeout_ns,
                                          bootstrap_client_t **client_p)
{
    ucxpool_status_t    status;
    bootstrap_client_t *client;

    if (blob_length > BOOTSTRAP_BLOB_MAX) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%zu bytes of data for %s exceed the limit of %d",
                          blob_length, where->text, BOOTSTRAP_BLOB_MAX);
    }
    client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory to connect to %s",
                          where->text);
    }
    init(client, where, secret, blob, blob_length);
    client->deadline = base_clock_deadline(timeout_ns);
    client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (client->epoll_fd < 0) {
        status = base_error_errno(errno, "cannot watch a connection to %s",
                                  where->text);
        goto err_free_client;
    }
    status = connect_next(client);
    if (status != UCXPOOL_OK) {
        goto err_close_epoll;
    }
    *client_p = client;
    return UCXPOOL_OK;

err_close_epoll:
    close(client->epoll_fd);
err_free_client:
    free(client);
    return status;
}

/* Returns true if the listener may already have authenticated this client and
 * made a channel. */
static bool may_be_proven(const bootstrap_client_t *client)
{
    return (client->fd >= 0) && client->is_connected &&
           (client->auth.state >= BOOTSTRAP_AUTH_PROOF) &&
           !bootstrap_auth_wants_send(&client->auth);
}

void bootstrap_client_destroy(bootstrap_client_t *client)
{
    if (client == NULL) {
        return;
    }
    if (may_be_proven(client)) {
        bootstrap_close_notify(client->fd, BOOTSTRAP_CLOSE_CLOSED);
    }
    close_socket(client);
    close(client->epoll_fd);
    free(client);
}

int bootstrap_client_fd(const bootstrap_client_t *client)
{
    return client->epoll_fd;
}

uint64_t bootstrap_client_deadline(const bootstrap_client_t *client)
{
    if (client->status != UCXPOOL_INPROGRESS) {
        return BASE_CLOCK_FOREVER;
    }
    return client->is_connected ? client->deadline
                                : base_min(client->deadline, client->turn_end);
}

const bootstrap_ends_t *bootstrap_client_ends(const bootstrap_client_t *client)
{
    return &client->ends;
}

void bootstrap_client_peer(const bootstrap_client_t *client,
                           const void **blob_p, size_t *length_p)
{
    *blob_p = bootstrap_auth_blob(&client->auth, length_p);
}
