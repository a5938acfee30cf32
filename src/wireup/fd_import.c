#include <config.h>

#include "wireup/fd_import.h"

#include "base/clock.h"
#include "ipc/socket.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* When the peer's socket has more callers waiting than the system keeps. */
#define RETRY_NS UINT64_C(10000000)

typedef struct wireup_fd_import {
    base_list_t           link;
    ucxpool_channel_t    *channel;
    core_source_t         source;   /* its fd is -1: not connected yet */
    uint64_t              next_try; /* while it is not */
    uint32_t              total;
    uint32_t              num_fds; /* that have come */
    int                  *fds;
    wireup_fd_import_cb_t done;
    proto_hello_t         hello;
    ipc_file_t            files[];
} wireup_fd_import_t;

bool wireup_fd_import_start(ucxpool_channel_t   *channel,
                            const proto_hello_t *hello, const ipc_file_t *files,
                            uint32_t num_fds, wireup_fd_import_cb_t done)
{
    size_t              size  = hello->num_files * sizeof(files[0]);
    wireup_fd_import_t *fetch = calloc(1, sizeof(*fetch) + size);

    if (fetch == NULL) {
        goto err_none;
    }
    fetch->fds = calloc(num_fds, sizeof(fetch->fds[0]));
    if (fetch->fds == NULL) {
        goto err_free;
    }
    fetch->channel = channel;
    fetch->total   = num_fds;
    fetch->done    = done;
    fetch->hello   = *hello;
    core_source_init(&fetch->source);
    memcpy(fetch->files, files, size);
    base_list_add_tail(&channel->pool->wireup.fd_imports, &fetch->link);
    channel->fd_import = fetch;
    return true;

err_free:
    free(fetch);
err_none:
    snprintf(channel->peer.we_reason, sizeof(channel->peer.we_reason),
             "no memory");
    return false;
}

static void hang_up(wireup_fd_import_t *fetch)
{
    int fd = fetch->source.fd;

    if (fd >= 0) {
        core_source_remove(&fetch->source);
        ipc_socket_close(fd);
    }
}

/* Take it out; what it has is not freed yet. */
static void detach(wireup_fd_import_t *fetch)
{
    hang_up(fetch);
    base_list_del(&fetch->link);
    fetch->channel->fd_import = NULL;
}

static void release(wireup_fd_import_t *fetch)
{
    for (uint32_t i = 0; i < fetch->num_fds; i++) {
        close(fetch->fds[i]);
    }
    free(fetch->fds);
    free(fetch);
}

void wireup_fd_import_stop(ucxpool_channel_t *channel)
{
    wireup_fd_import_t *fetch = channel->fd_import;

    if (fetch != NULL) {
        detach(fetch);
        release(fetch);
    }
}

/* Said in READY and in the log. */
static ucxpool_status_t no(wireup_fd_import_t *fetch, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static ucxpool_status_t no(wireup_fd_import_t *fetch, const char *format, ...)
{
    core_peer_t *peer = &fetch->channel->peer;
    va_list      arguments;

    va_start(arguments, format);
    vsnprintf(peer->we_reason, sizeof(peer->we_reason), format, arguments);
    va_end(arguments);
    return UCXPOOL_ERR_PERMISSION;
}

/* Nobody else can have our peer's name, unless the peer has ended. */
static ucxpool_status_t check_owner(wireup_fd_import_t *fetch)
{
    const ipc_host_t *host = &fetch->hello.host;
    ipc_caller_t      who;
    int               error = ipc_socket_caller(fetch->source.fd, &who);

    if (error != 0) {
        return no(fetch, "its socket does not say whose it is: %s",
                  strerror(error));
    }
    if ((who.pid != host->pid) || (who.uid != (uint32_t)geteuid())) {
        return no(fetch, "its socket is process %" PRIu32 "'s of user %" PRIu32,
                  who.pid, who.uid);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t ask(wireup_fd_import_t *fetch)
{
    proto_fetch_t asked = {
        .magic   = PROTO_FETCH_MAGIC,
        .version = PROTO_VERSION,
        .channel = fetch->hello.channel,
        .first   = fetch->num_fds,
        .key     = fetch->hello.channel_key,
    };
    int error =
        ipc_socket_send(fetch->source.fd, &asked, sizeof(asked), NULL, 0);

    return (error == 0)
               ? UCXPOOL_OK
               : no(fetch, "its socket cannot be asked: %s", strerror(error));
}

static ucxpool_status_t connect_owner(wireup_fd_import_t *fetch)
{
    ucxpool_status_t status;
    int              error, fd;

    if (base_clock_now() < fetch->next_try) {
        return UCXPOOL_INPROGRESS;
    }
    error = ipc_socket_connect(fetch->hello.from_id, &fd);
    if (error == EAGAIN) {
        fetch->next_try = base_clock_deadline(RETRY_NS);
        return UCXPOOL_INPROGRESS;
    }
    if (error != 0) {
        return no(fetch,
                  "we may not take its descriptors, and asking for them: %s "
                  "(its socket is seen in its network name space)",
                  strerror(error));
    }
    if (core_source_add(&fetch->source, fetch->channel->pool, fd, NULL) !=
        UCXPOOL_OK) {
        ipc_socket_close(fd);
        return no(fetch, "its socket cannot be watched: %s",
                  ucxpool_error_detail());
    }
    status = check_owner(fetch);
    return (status == UCXPOOL_OK) ? ask(fetch) : status;
}

static ucxpool_status_t hear(wireup_fd_import_t *fetch)
{
    proto_given_t given;
    int           fds[IPC_FDS_MAX];
    unsigned      num_fds;
    int           error;

    error = ipc_socket_recv(fetch->source.fd, &given, sizeof(given), fds,
                            IPC_FDS_MAX, &num_fds);
    if (error == EAGAIN) {
        return UCXPOOL_INPROGRESS;
    }
    if (error != 0) {
        return no(fetch, "it does not give us its descriptors: %s",
                  (error == EMFILE) ? "we have too many (ulimit -n)"
                                    : strerror(error));
    }
    if ((given.magic != PROTO_FETCH_MAGIC) ||
        (given.version != PROTO_VERSION) || (given.count != num_fds) ||
        (given.first != fetch->num_fds) || (given.total != fetch->total) ||
        (num_fds == 0) || (num_fds > fetch->total - fetch->num_fds)) {
        for (unsigned i = 0; i < num_fds; i++) {
            close(fds[i]);
        }
        return no(fetch, "what it gives us is not what it announced");
    }
    memcpy(fetch->fds + fetch->num_fds, fds, num_fds * sizeof(fds[0]));
    fetch->num_fds += num_fds;
    return UCXPOOL_OK;
}

/* As far as it goes now. */
static ucxpool_status_t advance(wireup_fd_import_t *fetch)
{
    ucxpool_status_t status = UCXPOOL_OK;

    if (fetch->source.fd < 0) {
        status = connect_owner(fetch);
    }
    while (status == UCXPOOL_OK) {
        status = hear(fetch);
        if ((status == UCXPOOL_OK) && (fetch->num_fds == fetch->total)) {
            return UCXPOOL_OK;
        }
        if (status == UCXPOOL_OK) {
            status = ask(fetch);
        }
    }
    return status;
}

unsigned wireup_fd_import_progress(ucxpool_t *pool)
{
    unsigned            count = 0;
    wireup_fd_import_t *fetch;
    wireup_fd_import_t *next;
    ucxpool_status_t    status;

    base_list_for_each_safe(fetch, next, &pool->wireup.fd_imports,
                            wireup_fd_import_t, link) {
        status = advance(fetch);
        if (status == UCXPOOL_INPROGRESS) {
            continue;
        }
        detach(fetch);
        fetch->done(fetch->channel, &fetch->hello, fetch->files,
                    (status == UCXPOOL_OK) ? fetch->fds : NULL);
        release(fetch);
        count++;
    }
    return count;
}

uint64_t wireup_fd_import_deadline(const ucxpool_t *pool)
{
    uint64_t            deadline = BASE_CLOCK_FOREVER;
    wireup_fd_import_t *fetch;

    base_list_for_each(fetch, &pool->wireup.fd_imports, wireup_fd_import_t,
                       link) {
        if (fetch->source.fd < 0) {
            deadline = base_min(deadline, fetch->next_try);
        }
    }
    return deadline;
}
