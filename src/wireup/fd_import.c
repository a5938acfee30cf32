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
    size_t              size      = hello->num_files * sizeof(files[0]);
    wireup_fd_import_t *fd_import = calloc(1, sizeof(*fd_import) + size);

    if (fd_import == NULL) {
        goto err_none;
    }
    fd_import->fds = calloc(num_fds, sizeof(fd_import->fds[0]));
    if (fd_import->fds == NULL) {
        goto err_free;
    }
    fd_import->channel = channel;
    fd_import->total   = num_fds;
    fd_import->done    = done;
    fd_import->hello   = *hello;
    core_source_init(&fd_import->source);
    memcpy(fd_import->files, files, size);
    base_list_add_tail(&channel->pool->wireup.fd_imports, &fd_import->link);
    channel->fd_import = fd_import;
    return true;

err_free:
    free(fd_import);
err_none:
    snprintf(channel->peer.we_reason, sizeof(channel->peer.we_reason),
             "no memory");
    return false;
}

static void hang_up(wireup_fd_import_t *fd_import)
{
    int fd = fd_import->source.fd;

    if (fd >= 0) {
        core_source_remove(&fd_import->source);
        ipc_socket_close(fd);
    }
}

/* Take it out; what it has is not freed yet. */
static void detach(wireup_fd_import_t *fd_import)
{
    hang_up(fd_import);
    base_list_del(&fd_import->link);
    fd_import->channel->fd_import = NULL;
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
    wireup_fd_import_t *fd_import = channel->fd_import;

    if (fd_import != NULL) {
        detach(fd_import);
        release(fd_import);
    }
}

/* Said in READY and in the log. */
static ucxpool_status_t no(wireup_fd_import_t *fd_import, const char *format,
                           ...) __attribute__((format(printf, 2, 3)));

static ucxpool_status_t no(wireup_fd_import_t *fd_import, const char *format,
                           ...)
{
    core_peer_t *peer = &fd_import->channel->peer;
    va_list      arguments;

    va_start(arguments, format);
    vsnprintf(peer->we_reason, sizeof(peer->we_reason), format, arguments);
    va_end(arguments);
    return UCXPOOL_ERR_PERMISSION;
}

/* Nobody else can have our peer's name, unless the peer has ended. */
static ucxpool_status_t check_owner(wireup_fd_import_t *fd_import)
{
    const ipc_host_t *host = &fd_import->hello.host;
    ipc_caller_t      who;
    int               error = ipc_socket_caller(fd_import->source.fd, &who);

    if (error != 0) {
        return no(fd_import, "its socket does not say whose it is: %s",
                  strerror(error));
    }
    if ((who.pid != host->pid) || (who.uid != (uint32_t)geteuid())) {
        return no(fd_import,
                  "its socket is process %" PRIu32 "'s of user %" PRIu32,
                  who.pid, who.uid);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t ask(wireup_fd_import_t *fd_import)
{
    proto_import_t asked = {
        .magic   = PROTO_IMPORT_MAGIC,
        .version = PROTO_VERSION,
        .channel = fd_import->hello.channel,
        .first   = fd_import->num_fds,
        .key     = fd_import->hello.channel_key,
    };
    int error =
        ipc_socket_send(fd_import->source.fd, &asked, sizeof(asked), NULL, 0);

    return (error == 0) ? UCXPOOL_OK
                        : no(fd_import, "its socket cannot be asked: %s",
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
        fd_import->next_try = base_clock_deadline(RETRY_NS);
        return UCXPOOL_INPROGRESS;
    }
    if (error != 0) {
        return no(fd_import,
                  "we may not take its descriptors, and asking for them: %s "
                  "(its socket is seen in its network name space)",
                  strerror(error));
    }
    if (core_source_add(&fd_import->source, fd_import->channel->pool, fd,
                        NULL) != UCXPOOL_OK) {
        ipc_socket_close(fd);
        return no(fd_import, "its socket cannot be watched: %s",
                  ucxpool_error_detail());
    }
    status = check_owner(fd_import);
    return (status == UCXPOOL_OK) ? ask(fd_import) : status;
}

static ucxpool_status_t hear(wireup_fd_import_t *fd_import)
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
        return no(fd_import, "it does not give us its descriptors: %s",
                  (error == EMFILE) ? "we have too many (ulimit -n)"
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
        return no(fd_import, "what it gives us is not what it announced");
    }
    memcpy(fd_import->fds + fd_import->num_fds, fds, num_fds * sizeof(fds[0]));
    fd_import->num_fds += num_fds;
    return UCXPOOL_OK;
}

/* As far as it goes now. */
static ucxpool_status_t advance(wireup_fd_import_t *fd_import)
{
    ucxpool_status_t status = UCXPOOL_OK;

    if (fd_import->source.fd < 0) {
        status = connect_owner(fd_import);
    }
    while (status == UCXPOOL_OK) {
        status = hear(fd_import);
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
        detach(fd_import);
        fd_import->done(fd_import->channel, &fd_import->hello, fd_import->files,
                        (status == UCXPOOL_OK) ? fd_import->fds : NULL);
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
