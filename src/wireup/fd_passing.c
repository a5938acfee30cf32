#include <config.h>

#include "wireup/fd_passing.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "core/inbox.h"
#include "core/local.h"
#include "ipc/socket.h"
#include "window/window.h"
#include "wireup/mapping.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- export --------------------------------------------------------------- */

/* If this process has no descriptor left for a caller, it ignores the socket
 * for this time. */
#define PAUSE_NS UINT64_C(100000000)

/* The delay before a retry if more descriptors are in flight between the
 * processes of this user than the system allows. */
#define EXPORT_RETRY_NS UINT64_C(5000000)

static_assert(IPC_ID_SIZE == CORE_ID_SIZE,
              "a socket's name must be a pool's id");

typedef struct caller {
    base_list_t    link;
    core_source_t  source;
    uint64_t       deadline;
    uint64_t       next_try; /* next try to answer; 0: in every round */
    ipc_caller_t   peer;
    bool           has_request;
    proto_import_t request;
    uint32_t       num_given; /* descriptors sent so far */
} caller_t;

struct wireup_fd_export {
    core_source_t source;
    bool          is_watched;
    uint64_t      pause_end;
    base_list_t   callers;
    unsigned      num_callers;
};

static bool watch(wireup_fd_export_t *fd_export, bool is_watched)
{
    if ((is_watched != fd_export->is_watched) &&
        core_source_set_watched(&fd_export->source, is_watched)) {
        fd_export->is_watched = is_watched;
    }
    return is_watched == fd_export->is_watched;
}

bool wireup_fd_export_is_open(const ucxpool_t *pool)
{
    return pool->wireup.fd_export != NULL;
}

/* Remove the caller, but keep its connection open. Returns the connection's
 * descriptor. */
static int export_detach(ucxpool_t *pool, caller_t *caller)
{
    int fd = caller->source.fd;

    core_source_remove(&caller->source);
    base_list_del(&caller->link);
    pool->wireup.fd_export->num_callers--;
    free(caller);
    return fd;
}

/* Disconnect the caller. Always returns true: there was progress. */
static bool export_disconnect(ucxpool_t *pool, caller_t *caller)
{
    ipc_socket_close(export_detach(pool, caller));
    return true;
}

static void warn(ucxpool_t *pool, const ipc_caller_t *peer, const char *reason)
{
    if (core_pool_count_refused(pool)) {
        base_warn("%s: process %" PRIu32 " of user %" PRIu32
                  " receives no descriptors: %s",
                  pool->name, peer->pid, peer->uid, reason);
    }
}

static bool refuse(ucxpool_t *pool, caller_t *caller, const char *reason)
{
    warn(pool, &caller->peer, reason);
    return export_disconnect(pool, caller);
}

static void enter(ucxpool_t *pool, int fd)
{
    ipc_caller_t peer   = {0, 0};
    caller_t    *caller = NULL;
    const char  *reason;

    if ((ipc_socket_caller(fd, &peer) != 0) ||
        (peer.uid != (uint32_t)geteuid())) {
        reason = "it belongs to another user";
        goto err_close;
    }
    reason = "no memory";
    caller = calloc(1, sizeof(*caller));
    if (caller == NULL) {
        goto err_close;
    }
    reason = "it cannot be watched";
    if (core_source_add(&caller->source, pool, fd, NULL) != UCXPOOL_OK) {
        goto err_close;
    }
    caller->peer     = peer;
    caller->deadline = base_clock_deadline(pool->config.handshake_timeout_ns);
    base_list_add_tail(&pool->wireup.fd_export->callers, &caller->link);
    pool->wireup.fd_export->num_callers++;
    return;

err_close:
    warn(pool, &peer, reason);
    free(caller);
    ipc_socket_close(fd);
}

/* Warn that a caller, which is not known yet, must wait. */
static void warn_of_wait(ucxpool_t *pool, int error)
{
    if (core_pool_may_warn(pool)) {
        base_warn("%s: a peer that requests descriptors must wait: %s",
                  pool->name, strerror(error));
    }
}

/* Accept the callers that have connected. */
static unsigned accept_callers(core_source_t *source)
{
    ucxpool_t          *pool      = source->pool;
    wireup_fd_export_t *fd_export = pool->wireup.fd_export;
    unsigned            count     = 0;
    int                 fd        = -1;
    int                 error;

    while (fd_export->num_callers < WIREUP_FD_EXPORT_MAX) {
        error = ipc_socket_accept(source->fd, &fd);
        if (error == EAGAIN) {
            return count;
        }
        count++;
        if ((error == ECONNABORTED) || (error == EINTR)) {
            continue;
        }
        if (error != 0) {
            warn_of_wait(pool, error);
            fd_export->pause_end = base_clock_deadline(PAUSE_NS);
            break;
        }
        enter(pool, fd);
    }
    watch(fd_export, false);
    return count;
}

/* Returns the number of descriptors in the set that the caller requests. */
static uint32_t num_asked(const caller_t          *caller,
                          const ucxpool_channel_t *channel)
{
    if (caller->request.grant != 0) {
        return window_grant_num_files(channel, caller->request.grant);
    }
    return (wireup_mapping_num_files(channel) == 0)
               ? 0
               : wireup_mapping_num_fds(channel);
}

static int fd_asked(const caller_t *caller, const ucxpool_channel_t *channel,
                    uint32_t index)
{
    return (caller->request.grant != 0)
               ? window_grant_file(channel, caller->request.grant, index)
               : wireup_mapping_fd(channel, index);
}

/* Check that the caller is the process that sent the HELLO and may map the
 * memory. Returns the reason if the check fails, else NULL. */
static const char *check_caller(const caller_t          *caller,
                                const ucxpool_channel_t *channel)
{
    char reason[PROTO_TEXT_MAX + 1];

    if ((caller->peer.pid != channel->peer.host.pid) ||
        !ipc_host_fits(&channel->peer.host, reason, sizeof(reason))) {
        return "it is not the process that sent the HELLO";
    }
    if (caller->request.first >= num_asked(caller, channel)) {
        return "it requests descriptors that do not exist";
    }
    return NULL;
}

/* Send the next descriptors. */
static bool give(ucxpool_t *pool, caller_t *caller,
                 const ucxpool_channel_t *channel)
{
    int           fds[IPC_FDS_MAX];
    uint32_t      total = num_asked(caller, channel);
    uint32_t      first = caller->request.first;
    uint32_t      count = base_min(total - first, IPC_FDS_MAX);
    proto_given_t given = {
        .magic   = PROTO_IMPORT_MAGIC,
        .version = PROTO_VERSION,
        .count   = (uint16_t)count,
        .first   = first,
        .total   = total,
    };
    int error;

    for (uint32_t i = 0; i < count; i++) {
        fds[i] = fd_asked(caller, channel, first + i);
    }
    error =
        ipc_socket_send(caller->source.fd, &given, sizeof(given), fds, count);
    if (error == ETOOMANYREFS) {
        caller->next_try = base_clock_deadline(EXPORT_RETRY_NS);
        return false;
    }
    if (error != 0) {
        return refuse(pool, caller, strerror(error));
    }
    caller->has_request = false;
    caller->num_given   = first + count;
    caller->next_try    = 0;
    caller->deadline = base_clock_deadline(pool->config.handshake_timeout_ns);
    if (first + count == total) {
        base_debug("%s: sent %" PRIu32 " descriptors", channel->name, total);
        export_disconnect(pool, caller);
    }
    return true;
}

static bool answer(ucxpool_t *pool, caller_t *caller)
{
    proto_head_t head = {
        .channel = caller->request.channel,
        .key     = caller->request.key,
    };
    const ucxpool_channel_t *channel = core_channel_find(pool, &head);
    const char              *reason;

    if (channel == NULL) {
        return refuse(pool, caller, "it names no channel");
    }
    if (!core_channel_is_live(channel)) {
        return export_disconnect(pool, caller); /* the channel has ended */
    }
    if (!(channel->wireup.handshake & CORE_HELLO_RECEIVED)) {
        return false;
    }
    reason = check_caller(caller, channel);
    if (reason != NULL) {
        return refuse(pool, caller, reason);
    }
    return give(pool, caller, channel);
}

/* Handle a HELLO: the connection becomes the connection of the HELLO's
 * channel. */
static bool receive_hello(ucxpool_t *pool, caller_t *caller,
                          const uint8_t *bytes, size_t length)
{
    proto_hello_t hello;

    if (!core_local_parse_hello(bytes, length, &hello)) {
        return refuse(pool, caller, "it sent neither IMPORT nor HELLO");
    }
    if (hello.host.pid != caller->peer.pid) {
        return refuse(pool, caller, "its HELLO names another process");
    }
    if (hello.flags & PROTO_HELLO_BY_EP) {
        return refuse(pool, caller, "its HELLO is for an endpoint");
    }
    pool->dispatch->hello(pool, &hello, bytes + sizeof(hello),
                          &(core_way_t){.fd = export_detach(pool, caller)});
    return true;
}

/* Returns true if the request continues after the last descriptors. Otherwise a
 * caller could stay connected forever by repeating a request. */
static bool is_in_turn(const caller_t *caller, const proto_import_t *asked)
{
    const proto_import_t *before = &caller->request;

    return (asked->first == caller->num_given) &&
           ((caller->num_given == 0) ||
            ((asked->channel == before->channel) &&
             (asked->key == before->key) && (asked->grant == before->grant)));
}

static bool export_receive(ucxpool_t *pool, caller_t *caller)
{
    _Alignas(proto_hello_t) uint8_t bytes[CORE_LOCAL_MAX];
    proto_import_t                  asked;
    size_t                          length;
    int                             error;

    error =
        ipc_socket_recv_any(caller->source.fd, bytes, sizeof(bytes), &length);
    if (error == EAGAIN) {
        return false;
    }
    if (error == ECONNRESET) {
        return export_disconnect(pool, caller);
    }
    if (error != 0) {
        return refuse(pool, caller, strerror(error));
    }
    if (caller->has_request) {
        return refuse(pool, caller,
                      "it sent a request before the last one was answered");
    }
    if (!proto_parse_import(bytes, length, &asked)) {
        return receive_hello(pool, caller, bytes, length);
    }
    if (!is_in_turn(caller, &asked)) {
        return refuse(pool, caller,
                      "it requested descriptors in the wrong order");
    }
    caller->request     = asked;
    caller->has_request = true;
    return answer(pool, caller);
}

static bool progress_caller(ucxpool_t *pool, caller_t *caller, uint64_t now)
{
    bool is_due = caller->has_request && (caller->next_try <= now);

    if (export_receive(pool, caller) || (is_due && answer(pool, caller))) {
        return true;
    }
    return (caller->deadline <= now) &&
           refuse(pool, caller, "it exceeded UCXPOOL_HANDSHAKE_TIMEOUT");
}

unsigned wireup_fd_export_progress(ucxpool_t *pool)
{
    wireup_fd_export_t *fd_export = pool->wireup.fd_export;
    unsigned            count     = 0;
    uint64_t            now;
    caller_t           *caller;
    caller_t           *next;

    if (!wireup_fd_export_is_open(pool) ||
        (fd_export->is_watched && (fd_export->num_callers == 0))) {
        return 0;
    }
    now = base_clock_now();
    base_list_for_each_safe(caller, next, &fd_export->callers, caller_t, link) {
        count += progress_caller(pool, caller, now) ? 1 : 0;
    }
    if ((fd_export->num_callers < WIREUP_FD_EXPORT_MAX) &&
        (fd_export->pause_end <= now) && !watch(fd_export, true)) {
        fd_export->pause_end = now + PAUSE_NS;
    }
    return count;
}

bool wireup_fd_export_is_busy(const ucxpool_t *pool)
{
    return (pool->wireup.fd_export != NULL) &&
           (pool->wireup.fd_export->num_callers != 0);
}

uint64_t wireup_fd_export_deadline(const ucxpool_t *pool)
{
    uint64_t  deadline = BASE_CLOCK_FOREVER;
    caller_t *caller;

    if (!wireup_fd_export_is_open(pool)) {
        return deadline;
    }
    if (!pool->wireup.fd_export->is_watched &&
        (pool->wireup.fd_export->num_callers < WIREUP_FD_EXPORT_MAX)) {
        deadline = pool->wireup.fd_export->pause_end;
    }
    base_list_for_each(caller, &pool->wireup.fd_export->callers, caller_t,
                       link) {
        deadline =
            base_min(deadline, (caller->next_try != 0) ? caller->next_try
                                                       : caller->deadline);
    }
    return deadline;
}

ucxpool_status_t wireup_fd_export_create(ucxpool_t *pool)
{
    ucxpool_status_t    status = UCXPOOL_OK;
    wireup_fd_export_t *fd_export;
    int                 fd;
    int                 error;

    if (pool->config.wire == BASE_WIRE_UCX) {
        return UCXPOOL_OK;
    }
    error = ipc_socket_listen(pool->id, &fd);
    if (error != 0) {
        base_info("%s: no socket for peers on this host: %s; they connect over "
                  "UCX, and map memory only if the system lets them take "
                  "descriptors",
                  pool->name, strerror(error));
        return UCXPOOL_OK;
    }
    fd_export = calloc(1, sizeof(*fd_export));
    if (fd_export == NULL) {
        status = base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a socket");
        goto err_close;
    }
    base_list_init(&fd_export->callers);
    fd_export->is_watched = true;
    status = core_source_add(&fd_export->source, pool, fd, accept_callers);
    if (status != UCXPOOL_OK) {
        goto err_free;
    }
    pool->wireup.fd_export = fd_export;
    return UCXPOOL_OK;

err_free:
    free(fd_export);
err_close:
    ipc_socket_close(fd);
    return status;
}

void wireup_fd_export_destroy(ucxpool_t *pool)
{
    wireup_fd_export_t *fd_export = pool->wireup.fd_export;
    int                 fd;

    if (fd_export == NULL) {
        return;
    }
    while (!base_list_is_empty(&fd_export->callers)) {
        export_disconnect(pool,
                          base_list_head(&fd_export->callers, caller_t, link));
    }
    fd = fd_export->source.fd;
    core_source_remove(&fd_export->source);
    ipc_socket_close(fd);
    free(fd_export);
    pool->wireup.fd_export = NULL;
}

/* --- import --------------------------------------------------------------- */

/* The delay before a retry if more callers wait at the peer's socket than the
 * system allows. */
#define IMPORT_RETRY_NS UINT64_C(10000000)

typedef struct wireup_fd_import {
    base_list_t        link;
    ucxpool_channel_t *channel;
    core_source_t      source;   /* fd is -1 until the socket is connected */
    uint64_t           next_try; /* next try to connect */
    uint32_t           total;
    uint32_t           num_fds; /* received */
    int               *fds;
    uint64_t           remote; /* remote window of the files; 0: the files of
                                  the HELLO */
    uint64_t              grant;
    char                  reason[PROTO_TEXT_MAX + 1]; /* reason of a failure */
    wireup_fd_import_cb_t done;
    proto_hello_t         hello;
    ipc_file_t            files[];
} wireup_fd_import_t;

/* Returns NULL if out of memory. */
static wireup_fd_import_t *import_create(ucxpool_channel_t *channel,
                                         uint32_t num_fds, size_t files_size)
{
    wireup_fd_import_t *fd_import = calloc(1, sizeof(*fd_import) + files_size);

    if (fd_import == NULL) {
        return NULL;
    }
    fd_import->fds = calloc(num_fds, sizeof(fd_import->fds[0]));
    if (fd_import->fds == NULL) {
        free(fd_import);
        return NULL;
    }
    fd_import->channel = channel;
    fd_import->total   = num_fds;
    core_source_init(&fd_import->source);
    base_list_add_tail(&channel->pool->wireup.fd_imports, &fd_import->link);
    return fd_import;
}

bool wireup_fd_import_start(ucxpool_channel_t   *channel,
                            const proto_hello_t *hello, const ipc_file_t *files,
                            uint32_t num_fds, wireup_fd_import_cb_t done)
{
    size_t              size      = hello->num_files * sizeof(files[0]);
    wireup_fd_import_t *fd_import = import_create(channel, num_fds, size);

    if (fd_import == NULL) {
        snprintf(channel->peer.local_reason, sizeof(channel->peer.local_reason),
                 "no memory");
        return false;
    }
    fd_import->done  = done;
    fd_import->hello = *hello;
    memcpy(fd_import->files, files, size);
    return true;
}

bool wireup_fd_import_window(ucxpool_channel_t *channel, uint64_t remote,
                             uint64_t grant, uint32_t num_fds)
{
    const core_peer_t  *peer      = &channel->peer;
    wireup_fd_import_t *fd_import = import_create(channel, num_fds, 0);

    if (fd_import == NULL) {
        return false;
    }
    fd_import->remote = remote;
    fd_import->grant  = grant;
    fd_import->hello  = (proto_hello_t){
         .channel     = peer->channel,
         .channel_key = peer->channel_key,
         .host        = peer->host,
    };
    memcpy(fd_import->hello.from_id, peer->id, sizeof(peer->id));
    return true;
}

static void import_disconnect(wireup_fd_import_t *fd_import)
{
    int fd = fd_import->source.fd;

    if (fd >= 0) {
        core_source_remove(&fd_import->source);
        ipc_socket_close(fd);
    }
}

/* Remove the import, but do not free its memory yet. */
static void import_detach(wireup_fd_import_t *fd_import)
{
    import_disconnect(fd_import);
    base_list_del(&fd_import->link);
}

static void release(wireup_fd_import_t *fd_import)
{
    for (uint32_t i = 0; i < fd_import->num_fds; i++) {
        close(fd_import->fds[i]);
    }
    free(fd_import->fds);
    free(fd_import);
}

void wireup_fd_import_stop(ucxpool_channel_t *channel)
{
    wireup_fd_import_t *fd_import;
    wireup_fd_import_t *next;

    base_list_for_each_safe(fd_import, next, &channel->pool->wireup.fd_imports,
                            wireup_fd_import_t, link) {
        if (fd_import->channel == channel) {
            import_detach(fd_import);
            release(fd_import);
        }
    }
}

/* Set the reason of a failure, which is used in READY and the log, or for the
 * window. Returns UCXPOOL_ERR_PERMISSION. */
static ucxpool_status_t no(wireup_fd_import_t *fd_import, const char *format,
                           ...) __attribute__((format(printf, 2, 3)));

static ucxpool_status_t no(wireup_fd_import_t *fd_import, const char *format,
                           ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(fd_import->reason, sizeof(fd_import->reason), format, arguments);
    va_end(arguments);
    return UCXPOOL_ERR_PERMISSION;
}

/* Check that the socket belongs to the peer. Another process can have the name
 * of the peer's socket only if the peer has ended. */
static ucxpool_status_t check_owner(wireup_fd_import_t *fd_import)
{
    const ipc_host_t *host = &fd_import->hello.host;
    ipc_caller_t      peer;
    int               error = ipc_socket_caller(fd_import->source.fd, &peer);

    if (error != 0) {
        return no(fd_import, "the owner of its socket is unknown: %s",
                  strerror(error));
    }
    if ((peer.pid != host->pid) || (peer.uid != (uint32_t)geteuid())) {
        return no(fd_import,
                  "its socket belongs to process %" PRIu32 " of user %" PRIu32,
                  peer.pid, peer.uid);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t ask(wireup_fd_import_t *fd_import)
{
    proto_import_t request = {
        .magic   = PROTO_IMPORT_MAGIC,
        .version = PROTO_VERSION,
        .channel = fd_import->hello.channel,
        .first   = fd_import->num_fds,
        .key     = fd_import->hello.channel_key,
        .grant   = fd_import->grant,
    };
    int error = ipc_socket_send(fd_import->source.fd, &request, sizeof(request),
                                NULL, 0);

    return (error == 0)
               ? UCXPOOL_OK
               : no(fd_import, "cannot send a request to its socket: %s",
                    strerror(error));
}

static ucxpool_status_t connect_owner(wireup_fd_import_t *fd_import)
{
    ucxpool_status_t status;
    int              error, fd;

    if (base_clock_now() < fd_import->next_try) {
        return UCXPOOL_INPROGRESS;
    }
    error = ipc_socket_connect(fd_import->hello.from_id, &fd);
    if (error == EAGAIN) {
        fd_import->next_try = base_clock_deadline(IMPORT_RETRY_NS);
        return UCXPOOL_INPROGRESS;
    }
    if (error != 0) {
        return no(fd_import,
                  "its descriptors may not be taken, and its socket cannot be "
                  "reached: %s (needs the same network namespace)",
                  strerror(error));
    }
    if (core_source_add(&fd_import->source, fd_import->channel->pool, fd,
                        NULL) != UCXPOOL_OK) {
        ipc_socket_close(fd);
        return no(fd_import, "cannot watch its socket: %s",
                  ucxpool_error_detail());
    }
    status = check_owner(fd_import);
    return (status == UCXPOOL_OK) ? ask(fd_import) : status;
}

static ucxpool_status_t import_receive(wireup_fd_import_t *fd_import)
{
    proto_given_t given;
    int           fds[IPC_FDS_MAX];
    unsigned      num_fds;
    int           error;

    error = ipc_socket_recv(fd_import->source.fd, &given, sizeof(given), fds,
                            IPC_FDS_MAX, &num_fds);
    if (error == EAGAIN) {
        return UCXPOOL_INPROGRESS;
    }
    if (error != 0) {
        return no(fd_import, "cannot receive its descriptors: %s",
                  (error == EMFILE) ? "this process has too many (ulimit -n)"
                                    : strerror(error));
    }
    if ((given.magic != PROTO_IMPORT_MAGIC) ||
        (given.version != PROTO_VERSION) || (given.count != num_fds) ||
        (given.first != fd_import->num_fds) ||
        (given.total != fd_import->total) || (num_fds == 0) ||
        (num_fds > fd_import->total - fd_import->num_fds)) {
        for (unsigned i = 0; i < num_fds; i++) {
            close(fds[i]);
        }
        return no(fd_import, "the descriptors that it sent are not those that "
                             "it announced");
    }
    memcpy(fd_import->fds + fd_import->num_fds, fds, num_fds * sizeof(fds[0]));
    fd_import->num_fds += num_fds;
    return UCXPOOL_OK;
}

/* Continue the import as far as possible now. */
static ucxpool_status_t advance(wireup_fd_import_t *fd_import)
{
    ucxpool_status_t status = UCXPOOL_OK;

    if (fd_import->source.fd < 0) {
        status = connect_owner(fd_import);
    }
    while (status == UCXPOOL_OK) {
        status = import_receive(fd_import);
        if ((status == UCXPOOL_OK) &&
            (fd_import->num_fds == fd_import->total)) {
            return UCXPOOL_OK;
        }
        if (status == UCXPOOL_OK) {
            status = ask(fd_import);
        }
    }
    return status;
}

/* Report the result of the import: the descriptors have arrived, or the import
 * has failed. */
static void import_done(wireup_fd_import_t *fd_import, bool has_arrived)
{
    ucxpool_channel_t *channel = fd_import->channel;
    core_peer_t       *peer    = &channel->peer;
    const int         *fds     = has_arrived ? fd_import->fds : NULL;

    if (fd_import->remote != 0) {
        window_remote_files_received(channel, fd_import->remote, fds,
                                     fd_import->reason);
        return;
    }
    if (!has_arrived) {
        snprintf(peer->local_reason, sizeof(peer->local_reason), "%s",
                 fd_import->reason);
    }
    fd_import->done(channel, &fd_import->hello, fd_import->files, fds);
}

unsigned wireup_fd_import_progress(ucxpool_t *pool)
{
    unsigned            count = 0;
    wireup_fd_import_t *fd_import;
    wireup_fd_import_t *next;
    ucxpool_status_t    status;

    base_list_for_each_safe(fd_import, next, &pool->wireup.fd_imports,
                            wireup_fd_import_t, link) {
        status = advance(fd_import);
        if (status == UCXPOOL_INPROGRESS) {
            continue;
        }
        import_detach(fd_import);
        import_done(fd_import, status == UCXPOOL_OK);
        release(fd_import);
        count++;
    }
    return count;
}

uint64_t wireup_fd_import_deadline(const ucxpool_t *pool)
{
    uint64_t            deadline = BASE_CLOCK_FOREVER;
    wireup_fd_import_t *fd_import;

    base_list_for_each(fd_import, &pool->wireup.fd_imports, wireup_fd_import_t,
                       link) {
        if (fd_import->source.fd < 0) {
            deadline = base_min(deadline, fd_import->next_try);
        }
    }
    return deadline;
}
