/*
 * Copies from and to the memory of another process, by the kernel.
 *
 * It goes by the owner's PID, which may be another process's when the owner has
 * ended: so the way is taken only where its end is watched (the `map` wire),
 * and that is looked at before each call.
 */
#include <config.h>

#include "window/window.h"

#include "base/error.h"
#include "core/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

/* In one call of the system: so that others have their turn soon, and that a
 * list is long enough for the call not to count. */
#define STEP_SIZE   ((uint64_t)1 << 20)
#define STEP_PIECES 512u

/* Pieces of the same lengths on both sides. */
typedef struct step {
    struct iovec ours[STEP_PIECES];
    struct iovec theirs[STEP_PIECES];
    unsigned     num;
    uint64_t     size;
} step_t;

static ssize_t copy(const ucxpool_channel_t *channel, const step_t *step,
                    bool is_write)
{
    pid_t pid = (pid_t)channel->peer.host.pid;

    return is_write ? process_vm_writev(pid, step->ours, step->num,
                                        step->theirs, step->num, 0)
                    : process_vm_readv(pid, step->ours, step->num, step->theirs,
                                       step->num, 0);
}

/* --- whether it goes ------------------------------------------------------ */

static bool no(char *reason, size_t reason_size, const char *text)
{
    snprintf(reason, reason_size, "%s", text);
    return false;
}

/* So many bytes at the window's start; false: the system does not allow it. */
static bool try_copy(const ucxpool_channel_t     *channel,
                     const proto_window_opened_t *opened, uint8_t *bytes,
                     size_t size, bool is_write)
{
    step_t step;

    step.ours[0]   = (struct iovec){bytes, size};
    step.theirs[0] = (struct iovec){(void *)(uintptr_t)opened->address, size};
    step.num       = 1;
    return copy(channel, &step, is_write) == (ssize_t)size;
}

bool window_process_reads(const ucxpool_channel_t     *channel,
                          const proto_window_opened_t *opened, char *reason,
                          size_t reason_size)
{
    uint8_t byte;

    if (channel->wire->id != UCXPOOL_WIRE_MAP) {
        return no(reason, reason_size, channel->wire_reason);
    }
    if (copy_engine_is_launched(channel->pool->engine) ||
        !(opened->flags & PROTO_OPENED_PROCESS)) {
        return no(reason, reason_size,
                  "the pool of one side or of both is on a GPU");
    }
    if (channel->peer.watch.fd < 0) {
        return no(reason, reason_size,
                  "the kernel does not tell of a process's end");
    }
    if (!try_copy(channel, opened, &byte, 1, false)) {
        snprintf(reason, reason_size,
                 "the system does not let us read the owner's memory: %s",
                 strerror(errno));
        return false;
    }
    snprintf(reason, reason_size, "same host and user");
    return true;
}

bool window_process_writes(const ucxpool_channel_t     *channel,
                           const proto_window_opened_t *opened, char *reason,
                           size_t reason_size)
{
    uint8_t nothing = 0;

    if (try_copy(channel, opened, &nothing, 0, true)) {
        return true;
    }
    snprintf(reason, reason_size,
             "the system does not let us write to the owner's memory, so "
             "writes go by messages: %s",
             strerror(errno));
    return false;
}

/* --- copying -------------------------------------------------------------- */

bool window_process_has_ended(const ucxpool_channel_t *channel)
{
    struct pollfd end = {.fd = channel->peer.watch.fd, .events = POLLIN};

    return channel->peer.has_ended || (poll(&end, 1, 0) != 0);
}

ucxpool_status_t window_process_copy(window_operation_t *operation)
{
    const ucxpool_channel_t *channel = operation->remote->channel;
    uint64_t                 address = operation->remote->address;
    step_t                   step    = {.num = 0, .size = 0};
    window_piece_t           piece;
    ssize_t                  copied;

    while ((step.num < STEP_PIECES) && (step.size < STEP_SIZE) &&
           window_operation_next(operation, STEP_SIZE - step.size, &piece)) {
        step.ours[step.num]   = (struct iovec){piece.ours, piece.length};
        step.theirs[step.num] = (struct iovec){
            (void *)(uintptr_t)(address + piece.offset), piece.length};
        step.num += (piece.length != 0) ? 1 : 0;
        step.size += piece.length;
    }
    if (window_process_has_ended(channel)) {
        return base_error(UCXPOOL_ERR_PEER_LOST,
                          "the peer's process has ended");
    }
    copied = copy(channel, &step, operation->is_write);
    if ((copied < 0) || ((uint64_t)copied != step.size)) {
        return base_error((copied < 0) && (errno == ESRCH)
                              ? UCXPOOL_ERR_PEER_LOST
                              : UCXPOOL_ERR_IO,
                          "memory of the window, or of ours, is not there "
                          "(any more): %s",
                          (copied < 0) ? strerror(errno) : "a part was copied");
    }
    return (operation->next_place == operation->places.count)
               ? UCXPOOL_OK
               : UCXPOOL_INPROGRESS;
}
