#include "wireup/wireup.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/math.h"
#include "core/inbox.h"
#include "ipc/socket.h"
#include "window/remote.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the number of descriptors, from 1 to `max`, that this process may
 * open for a short time. If the result is more than 1, at least as many
 * descriptors remain available to other threads. */
static uint32_t num_spare(uint32_t max)
{
    uint32_t num = base_min(max, IPC_FDS_MAX / 2);

    while ((num > 1) && !base_limits_has(2 * num)) {
        num /= 2;
    }
    return num;
}

/* --- export --------------------------------------------------------------- */

/* If this process has no free descriptor for a caller's connection, it accepts
 * no connections for this time. */
#define PAUSE_NS UINT64_C(100000000)

/* The delay before a retry if the processes of this user have more descriptors
 * in flight over Unix sockets than the system allows. */
#define EXPORT_RETRY_NS UINT64_C(5000000)

static_assert(IPC_ID_SIZE == CORE_ID_SIZE,
              "a socket's name must be a pool's id");

typedef struct caller {
    base_list_t    link;
    core_source_t  source;
    uint64_t       deadline;
    uint64_t       next_try; /* time of the next answer; 0: every round */
    ipc_caller_t   peer;
    bool           has_request;
    proto_import_t request;
    uint32_t       num_given; /* descriptors sent so far */
} caller_t;

/* The pool's sockets: with an abstract name, and in UCXPOOL_SOCKET_DIR. */
enum { ABSTRACT, IN_FOLDER, NUM_SOCKETS };

struct wireup_fd_export {
    core_source_t sockets[NUM_SOCKETS]; /* fd is -1: none */
    bool          is_watched;
    uint64_t      pause_end;
    base_list_t   callers;
    unsigned      num_callers;
};

static bool watch(wireup_fd_export_t *fd_export, bool is_watched)
{
    if (is_watched == fd_export->is_watched) {
        return true;
    }
    for (unsigned i = 0; i < NUM_SOCKETS; i++) {
        if ((fd_export->sockets[i].fd >= 0) &&
            !core_source_set_watched(&fd_export->sockets[i], is_watched)) {
            return false;
        }
    }
    fd_export->is_watched = is_watched;
    return true;
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

static void warn_rarely(ucxpool_t *pool, const ipc_caller_t *peer,
                        const char *reason)
{
    if (core_pool_count_refused(pool)) {
        base_warn("%s: process %" PRIu32 " of user %" PRIu32
                  " receives no descriptors: %s",
                  pool->name, peer->pid, peer->uid, reason);
    }
}

static bool refuse(ucxpool_t *pool, caller_t *caller, const char *reason)
{
    warn_rarely(pool, &caller->peer, reason);
    return export_disconnect(pool, caller);
}

static void enter(ucxpool_t *pool, int fd)
{
    ipc_caller_t peer   = {0, 0};
    caller_t    *caller = NULL;
    const char  *reason;

    if ((ipc_socket_caller(fd, &peer) != 0) || !ipc_user_is_ours(peer.uid)) {
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
    warn_rarely(pool, &peer, reason);
    free(caller);
    ipc_socket_close(fd);
}

/* Warn that a caller must wait. The identity of the caller is not known yet. */
static void warn_of_wait(ucxpool_t *pool, int error)
{
    if (core_pool_may_warn(pool)) {
        base_warn("%s: a peer that requests descriptors must wait: %s",
                  pool->name, strerror(error));
    }
}

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

/* Returns the total number of descriptors of the memory that the caller
 * requests. */
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

/* Check that the caller is the process that sent the HELLO and may map the
 * memory. Returns the reason if the check fails, else NULL. text: a buffer for
 * the reason. */
static const char *check_caller(const caller_t          *caller,
                                const ucxpool_channel_t *channel,
                                char text[PROTO_TEXT_MAX + 1])
{
    if (!ipc_caller_is(&caller->peer, &channel->peer.host)) {
        return "it is not the process that sent the HELLO";
    }
    if (!ipc_host_fits(&channel->peer.host, text, PROTO_TEXT_MAX + 1)) {
        return text;
    }
    if (caller->request.first >= num_asked(caller, channel)) {
        return "it requests descriptors that do not exist";
    }
    return NULL;
}

/* Send the reason to a caller that has passed check_caller(), and disconnect
 * it. */
static bool refuse_known(ucxpool_t *pool, caller_t *caller,
                         proto_given_t *given, const char *reason)
{
    given->count = 0;
    snprintf(given->reason, sizeof(given->reason), "%s", reason);
    (void)ipc_socket_send(caller->source.fd, given, sizeof(*given), NULL, 0);
    return refuse(pool, caller, reason);
}

/* Send a connected process the next descriptors that it requested. */
static bool give(ucxpool_t *pool, caller_t *caller,
                 const ucxpool_channel_t *channel)
{
    int           fds[IPC_FDS_MAX];
    uint32_t      total   = num_asked(caller, channel);
    uint32_t      first   = caller->request.first;
    uint32_t      count   = base_min(total - first, caller->request.max);
    bool          are_new = false;
    proto_given_t given   = {
          .magic   = PROTO_IMPORT_MAGIC,
          .version = PROTO_VERSION,
          .first   = first,
          .total   = total,
    };
    int error;

    if (caller->request.grant != 0) {
        count = num_spare(count);
        if (window_grant_files(channel, caller->request.grant, first, count,
                               fds, &are_new) != UCXPOOL_OK) {
            return refuse_known(pool, caller, &given, ucxpool_error_detail());
        }
    } else {
        count = base_min(count, IPC_FDS_MAX);
        for (uint32_t i = 0; i < count; i++) {
            fds[i] = wireup_mapping_fd(channel, first + i);
        }
    }
    given.count = (uint16_t)count;
    error =
        ipc_socket_send(caller->source.fd, &given, sizeof(given), fds, count);
    if (are_new) {
        ipc_close_all(fds, count);
    }
    if (error == ETOOMANYREFS) {
        caller->next_try = base_clock_deadline(EXPORT_RETRY_NS);
        return false;
    }
    if (error != 0) {
        return refuse_known(pool, caller, &given, strerror(error));
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
    char                     text[PROTO_TEXT_MAX + 1];

    if (channel == NULL) {
        return refuse(pool, caller, "it names an unknown channel");
    }
    if (!core_channel_is_live(channel) ||
        ((caller->request.grant != 0) && (num_asked(caller, channel) == 0))) {
        /* The channel or the grant has ended. */
        return export_disconnect(pool, caller);
    }
    if (!(channel->wireup.handshake & CORE_HELLO_RECEIVED)) {
        return false;
    }
    reason = check_caller(caller, channel, text);
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
    proto_fixed_t        message;
    const proto_hello_t *hello = &message.hello;

    if ((length < sizeof(*hello)) ||
        (proto_parse(bytes, sizeof(*hello), length - sizeof(*hello),
                     &message) != UCXPOOL_OK) ||
        (message.head.type != PROTO_HELLO)) {
        return refuse(pool, caller, "it sent neither IMPORT nor HELLO");
    }
    if (!ipc_caller_is(&caller->peer, &hello->host)) {
        return refuse(pool, caller, "its HELLO names another process");
    }
    if (hello->flags & PROTO_HELLO_BY_EP) {
        return refuse(pool, caller, "its HELLO is for an endpoint");
    }
    pool->dispatch->hello(pool, hello, bytes + sizeof(*hello),
                          &(core_way_t){.fd = export_detach(pool, caller)});
    return true;
}

/* Returns true if the request starts with the first descriptor that has not
 * been sent yet. Without this check, a caller could stay connected forever by
 * repeating a request. */
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
    uint8_t       *bytes = (uint8_t *)&pool->local_message;
    proto_import_t asked;
    size_t         length;
    int            error;

    error = ipc_socket_recv_any(caller->source.fd, bytes,
                                sizeof(pool->local_message), &length);
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
    caller_t           *caller, *next;

    if ((fd_export == NULL) ||
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

    if (pool->wireup.fd_export == NULL) {
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

static ucxpool_status_t export_listen(ucxpool_t *pool, unsigned index, int fd)
{
    ucxpool_status_t status;

    status = core_source_add(&pool->wireup.fd_export->sockets[index], pool, fd,
                             accept_callers);
    if (status != UCXPOOL_OK) {
        ipc_socket_close(fd);
    }
    return status;
}

static ucxpool_status_t listen_in_network(ucxpool_t *pool)
{
    int fd;
    int error = ipc_socket_listen("", pool->id, &fd);

    if (error != 0) {
        base_info("%s: no socket for peers of this network namespace: %s; they "
                  "connect over UCX, and map memory only if the system lets "
                  "them take descriptors",
                  pool->name, strerror(error));
        return UCXPOOL_OK;
    }
    return export_listen(pool, ABSTRACT, fd);
}

static ucxpool_status_t listen_in_folder(ucxpool_t *pool)
{
    const char      *folder = pool->config.socket_dir;
    ucxpool_status_t status;
    int              fd;
    int              error;

    if (folder[0] == '\0') {
        return UCXPOOL_OK;
    }
    status = ipc_folder_prepare(folder);
    if (status != UCXPOOL_OK) {
        return status;
    }
    error = ipc_socket_listen(folder, pool->id, &fd);
    if (error == 0) {
        status = export_listen(pool, IN_FOLDER, fd);
    } else {
        status = base_error_errno(error,
                                  "cannot create a socket in the directory %s "
                                  "(setting UCXPOOL_SOCKET_DIR)",
                                  folder);
    }
    if (status != UCXPOOL_OK) {
        ipc_folder_remove(folder, pool->id);
    }
    return status;
}

static bool has_socket(const wireup_fd_export_t *fd_export)
{
    return (fd_export->sockets[ABSTRACT].fd >= 0) ||
           (fd_export->sockets[IN_FOLDER].fd >= 0);
}

ucxpool_status_t wireup_fd_export_create(ucxpool_t *pool)
{
    ucxpool_status_t    status;
    wireup_fd_export_t *fd_export;

    if (pool->config.wire == BASE_WIRE_UCX) {
        return UCXPOOL_OK;
    }
    fd_export = calloc(1, sizeof(*fd_export));
    if (fd_export == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a socket");
    }
    base_list_init(&fd_export->callers);
    core_source_init(&fd_export->sockets[ABSTRACT]);
    core_source_init(&fd_export->sockets[IN_FOLDER]);
    fd_export->is_watched  = true;
    pool->wireup.fd_export = fd_export;
    status                 = listen_in_network(pool);
    if (status == UCXPOOL_OK) {
        status = listen_in_folder(pool);
    }
    if ((status != UCXPOOL_OK) || !has_socket(fd_export)) {
        wireup_fd_export_destroy(pool);
    }
    return status;
}

static void export_close(ucxpool_t *pool, unsigned index)
{
    core_source_t *source = &pool->wireup.fd_export->sockets[index];
    int            fd     = source->fd;

    if (fd >= 0) {
        core_source_remove(source);
        ipc_socket_close(fd);
    }
}

void wireup_fd_export_destroy(ucxpool_t *pool)
{
    wireup_fd_export_t *fd_export = pool->wireup.fd_export;

    if (fd_export == NULL) {
        return;
    }
    while (!base_list_is_empty(&fd_export->callers)) {
        export_disconnect(pool,
                          base_list_head(&fd_export->callers, caller_t, link));
    }
    if (fd_export->sockets[IN_FOLDER].fd >= 0) {
        ipc_folder_remove(pool->config.socket_dir, pool->id);
    }
    export_close(pool, ABSTRACT);
    export_close(pool, IN_FOLDER);
    free(fd_export);
    pool->wireup.fd_export = NULL;
}

/* --- import --------------------------------------------------------------- */

/* The delay before a retry if more callers wait at the peer's socket than the
 * system allows. */
#define IMPORT_RETRY_NS UINT64_C(10000000)

/* The maximum number of imports of a channel that are connected at a time.
 * Without this limit, the imports of thousands of windows would use up the
 * descriptors of both processes and the connections that the owner accepts. */
#define IMPORTS_MAX 4u

typedef struct wireup_fd_import {
    base_list_t        link;
    ucxpool_channel_t *channel;
    core_source_t      source;   /* fd is -1 until the socket is connected */
    uint64_t           next_try; /* time of the next try to connect */
    uint32_t           total;
    uint32_t           num_received;
    uint32_t           num_fds; /* descriptors received and still open */
    int               *fds;
    bool maps_early; /* window_remote_map_files() maps each batch of files,
                      * which is then closed */
    uint64_t remote; /* remote window of the files; 0: the files of the
                        HELLO */
    uint64_t              grant;
    char                  reason[PROTO_TEXT_MAX + 1]; /* reason of a failure */
    wireup_fd_import_cb_t done;
    proto_hello_t         hello;
    ipc_file_t            files[];
} wireup_fd_import_t;

/* Returns NULL if out of memory. maps_early: see wireup_fd_import_window(). */
static wireup_fd_import_t *import_create(ucxpool_channel_t *channel,
                                         uint32_t num_fds, bool maps_early,
                                         size_t files_size)
{
    uint32_t            num_open  = maps_early ? IPC_FDS_MAX : num_fds;
    wireup_fd_import_t *fd_import = calloc(1, sizeof(*fd_import) + files_size);

    if (fd_import == NULL) {
        return NULL;
    }
    fd_import->fds = calloc(num_open, sizeof(fd_import->fds[0]));
    if (fd_import->fds == NULL) {
        free(fd_import);
        return NULL;
    }
    fd_import->channel    = channel;
    fd_import->total      = num_fds;
    fd_import->maps_early = maps_early;
    core_source_init(&fd_import->source);
    base_list_add_tail(&channel->pool->wireup.fd_imports, &fd_import->link);
    return fd_import;
}

bool wireup_fd_import_start(ucxpool_channel_t   *channel,
                            const proto_hello_t *hello, const ipc_file_t *files,
                            uint32_t num_fds, wireup_fd_import_cb_t done)
{
    size_t              size = hello->num_files * sizeof(files[0]);
    wireup_fd_import_t *fd_import =
        import_create(channel, num_fds, false, size);

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
                             uint64_t grant, uint32_t num_fds, bool maps_early)
{
    const core_peer_t  *peer = &channel->peer;
    wireup_fd_import_t *fd_import =
        import_create(channel, num_fds, maps_early, 0);

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

/* Remove the import, but do not free its memory yet. */
static void import_detach(wireup_fd_import_t *fd_import)
{
    int fd = fd_import->source.fd;

    base_list_del(&fd_import->link);
    if (fd >= 0) {
        core_source_remove(&fd_import->source);
        ipc_socket_close(fd);
        fd_import->channel->wireup.num_connected_imports--;
    }
}

static void close_fds(wireup_fd_import_t *fd_import)
{
    ipc_close_all(fd_import->fds, fd_import->num_fds);
    fd_import->num_fds = 0;
}

static void release(wireup_fd_import_t *fd_import)
{
    close_fds(fd_import);
    free(fd_import->fds);
    free(fd_import);
}

void wireup_fd_import_stop(ucxpool_channel_t *channel, uint64_t remote)
{
    wireup_fd_import_t *fd_import, *next;

    base_list_for_each_safe(fd_import, next, &channel->pool->wireup.fd_imports,
                            wireup_fd_import_t, link) {
        if ((fd_import->channel == channel) &&
            ((remote == 0) || (fd_import->remote == remote))) {
            import_detach(fd_import);
            release(fd_import);
        }
    }
}

/* Set the reason why the import failed. For a HELLO, the reason is logged and
 * sent in READY. For a window, it becomes the reason of the remote window.
 * Returns UCXPOOL_ERR_PERMISSION. */
static ucxpool_status_t __attribute__((format(printf, 2, 3)))
no(wireup_fd_import_t *fd_import, const char *format, ...)
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
    if (!ipc_caller_is(&peer, host)) {
        return no(fd_import,
                  "its socket belongs to process %" PRIu32 " of user %" PRIu32,
                  peer.pid, peer.uid);
    }
    return UCXPOOL_OK;
}

/* Watch the process that owns the socket, if it is not watched yet because it
 * is in another PID namespace. */
static ucxpool_status_t watch_owner(wireup_fd_import_t *fd_import)
{
    return ((fd_import->channel->peer.watch.fd >= 0) ||
            ipc_host_is_visible(&fd_import->hello.host) ||
            wireup_process_watch_socket(fd_import->channel,
                                        fd_import->source.fd))
               ? UCXPOOL_OK
               : no(fd_import,
                    "other PID namespace, and its process cannot be watched "
                    "(needs Linux 6.5)");
}

static ucxpool_status_t ask(wireup_fd_import_t *fd_import)
{
    proto_import_t request = {
        .magic   = PROTO_IMPORT_MAGIC,
        .version = PROTO_VERSION,
        .max     = IPC_FDS_MAX,
        .channel = fd_import->hello.channel,
        .first   = fd_import->num_received,
        .key     = fd_import->hello.channel_key,
        .grant   = fd_import->grant,
    };
    int error;

    if (fd_import->maps_early) {
        request.max =
            (uint16_t)num_spare(fd_import->total - fd_import->num_received);
    }
    error = ipc_socket_send(fd_import->source.fd, &request, sizeof(request),
                            NULL, 0);
    return (error == 0)
               ? UCXPOOL_OK
               : no(fd_import, "cannot send a request to its socket: %s",
                    strerror(error));
}

static bool may_connect(const wireup_fd_import_t *fd_import)
{
    return fd_import->channel->wireup.num_connected_imports < IMPORTS_MAX;
}

/* Returns the directory of the owner's socket, like core_local_folder(). The
 * address of a peer is unknown if the application supplied the endpoint. */
static const char *owner_folder(const wireup_fd_import_t *fd_import)
{
    const ucxpool_t     *pool   = fd_import->channel->pool;
    const core_remote_t *remote = fd_import->channel->conn.remote;

    if (remote != NULL) {
        return core_local_folder(pool, &remote->blob);
    }
    return ipc_folder_has(pool->config.socket_dir, fd_import->hello.from_id)
               ? pool->config.socket_dir
               : "";
}

static ucxpool_status_t connect_owner(wireup_fd_import_t *fd_import)
{
    const char      *folder;
    ucxpool_status_t status;
    int              error, fd;

    if (!may_connect(fd_import) || (base_clock_now() < fd_import->next_try)) {
        return UCXPOOL_INPROGRESS;
    }
    folder = owner_folder(fd_import);
    error  = (folder == NULL)
                 ? ENOENT
                 : ipc_socket_connect(folder, fd_import->hello.from_id, &fd);
    if (error == EAGAIN) {
        fd_import->next_try = base_clock_deadline(IMPORT_RETRY_NS);
        return UCXPOOL_INPROGRESS;
    }
    if ((error == ECONNREFUSED) || (error == ENOENT)) {
        return no(fd_import, "no socket in common: share the network "
                             "namespace, or a directory in UCXPOOL_SOCKET_DIR");
    }
    if (error != 0) {
        return no(fd_import, "cannot connect to its socket: %s",
                  strerror(error));
    }
    if (core_source_add(&fd_import->source, fd_import->channel->pool, fd,
                        NULL) != UCXPOOL_OK) {
        ipc_socket_close(fd);
        return no(fd_import, "cannot watch its socket: %s",
                  ucxpool_error_detail());
    }
    fd_import->channel->wireup.num_connected_imports++;
    status = check_owner(fd_import);
    if (status == UCXPOOL_OK) {
        status = watch_owner(fd_import);
    }
    return (status == UCXPOOL_OK) ? ask(fd_import) : status;
}

static ucxpool_status_t import_receive(wireup_fd_import_t *fd_import)
{
    char          reason[PROTO_TEXT_MAX + 1];
    proto_given_t given;
    int           fds[IPC_FDS_MAX];
    unsigned      num_fds;
    int           error;

    error = ipc_socket_recv(fd_import->source.fd, &given, sizeof(given), fds,
                            &num_fds);
    if (error == EAGAIN) {
        return UCXPOOL_INPROGRESS;
    }
    if (error != 0) {
        return no(fd_import, "cannot receive its descriptors: %s%s",
                  (error == ECONNRESET)
                      ? "it closed the connection; its log may have the reason"
                      : strerror(error),
                  base_errno_remedy(error));
    }
    if ((given.magic != PROTO_IMPORT_MAGIC) ||
        (given.version != PROTO_VERSION) || (given.count != num_fds) ||
        (given.first != fd_import->num_received) ||
        (given.total != fd_import->total) ||
        (num_fds > fd_import->total - fd_import->num_received)) {
        ipc_close_all(fds, num_fds);
        return no(fd_import, "the descriptors that it sent are not those that "
                             "it announced");
    }
    if (num_fds == 0) {
        proto_copy_text(reason, sizeof(reason), given.reason,
                        strnlen(given.reason, sizeof(given.reason)));
        return no(fd_import, "it sends no descriptors: %s", reason);
    }
    memcpy(fd_import->fds + fd_import->num_fds, fds, num_fds * sizeof(fds[0]));
    fd_import->num_fds += num_fds;
    fd_import->num_received += num_fds;
    return UCXPOOL_OK;
}

/* Map the descriptors of a message, and close them. */
static ucxpool_status_t map_received(wireup_fd_import_t *fd_import)
{
    ucxpool_status_t status;

    status = window_remote_map_files(fd_import->channel, fd_import->remote,
                                     fd_import->fds, fd_import->num_fds);
    close_fds(fd_import);
    return (status == UCXPOOL_OK) ? UCXPOOL_OK
                                  : no(fd_import, "%s", ucxpool_error_detail());
}

/* Continue the import as far as possible now. Mapping is slow, so each round of
 * progress maps the descriptors of at most one message. */
static ucxpool_status_t advance(wireup_fd_import_t *fd_import)
{
    ucxpool_status_t status = UCXPOOL_OK;

    if (fd_import->source.fd < 0) {
        status = connect_owner(fd_import);
    }
    while (status == UCXPOOL_OK) {
        status = import_receive(fd_import);
        if ((status == UCXPOOL_OK) && fd_import->maps_early) {
            status = map_received(fd_import);
        }
        if ((status == UCXPOOL_OK) &&
            (fd_import->num_received == fd_import->total)) {
            return UCXPOOL_OK;
        }
        if (status == UCXPOOL_OK) {
            status = ask(fd_import);
        }
        if ((status == UCXPOOL_OK) && fd_import->maps_early) {
            return UCXPOOL_INPROGRESS;
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
    wireup_fd_import_t *fd_import, *next;
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
        if ((fd_import->source.fd < 0) && may_connect(fd_import)) {
            deadline = base_min(deadline, fd_import->next_try);
        }
    }
    return deadline;
}
