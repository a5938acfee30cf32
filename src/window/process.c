/*
 * The kernel copies from and to the memory of the owner's process.
 *
 * The system calls take the owner's PID, which the kernel may give to another
 * process after the owner has exited. So this way is used only on the `map`
 * wire, and only if the kernel can report that the owner has exited. Before
 * each call, the importer checks that the kernel has not reported this.
 */
#include <config.h>

#include "window/way.h"

#include "base/error.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/uio.h>

/* The limits of one system call: short enough that other operations soon get a
 * turn, and long enough that the cost of the call is negligible. */
#define STEP_SIZE   ((uint64_t)1 << 20)
#define STEP_PIECES 512u

/* The pieces of one system call. Both sides have the same number of pieces,
 * with the same lengths. */
typedef struct step {
    struct iovec ours[STEP_PIECES];
    struct iovec theirs[STEP_PIECES];
    unsigned     num;
    uint64_t     size;
} step_t;

static ssize_t copy(const ucxpool_channel_t *channel, const struct iovec *ours,
                    const struct iovec *theirs, unsigned num, bool is_write)
{
    pid_t pid = (pid_t)channel->peer.host.pid;

    return is_write ? process_vm_writev(pid, ours, num, theirs, num, 0)
                    : process_vm_readv(pid, ours, num, theirs, num, 0);
}

/* --- testing access ------------------------------------------------------- */

/* Copy `size` bytes at the start of the window. Returns false, with errno set,
 * if the system does not allow the copy. */
static bool try_copy(const ucxpool_remote_window_t *remote, uint8_t *bytes,
                     size_t size, bool is_write)
{
    struct iovec ours   = {bytes, size};
    struct iovec theirs = {(void *)(uintptr_t)remote->address, size};

    return copy(remote->channel, &ours, &theirs, 1, is_write) == (ssize_t)size;
}

/* Test reads with one byte, and writes with zero bytes, so that the owner's
 * memory is not changed. The kernel requires the same permission for both, but
 * a system call filter (seccomp) may allow only one of the calls. */
static unsigned process_open(ucxpool_remote_window_t *remote,
                             const window_answer_t   *answer)
{
    uint8_t byte = 0;

    if (!(answer->opened.flags & PROTO_OPENED_PROCESS)) {
        window_remote_set_reason(remote, "the owner's pool is on a GPU");
        return 0;
    }
    if (remote->channel->peer.watch.fd < 0) {
        window_remote_set_reason(
            remote, "the kernel does not report when a process exits");
        return 0;
    }
    if (!ipc_host_is_visible(&remote->channel->peer.host)) {
        window_remote_set_reason(remote, "other PID namespace");
        return 0;
    }
    if (!try_copy(remote, &byte, 1, false)) {
        window_remote_set_reason(
            remote, "the system does not let us read the owner's memory: %s",
            strerror(errno));
        return 0;
    }
    if ((remote->access & UCXPOOL_WINDOW_WRITE) &&
        !try_copy(remote, &byte, 0, true)) {
        window_remote_set_reason(
            remote,
            "the system does not let us write to the owner's "
            "memory, so writes use messages: %s",
            strerror(errno));
        return UCXPOOL_WINDOW_READ;
    }
    window_remote_set_reason(remote, "same host and user");
    return UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE;
}

static void process_offer(window_grant_t *grant, window_offer_t *offer)
{
    offer->flags |= PROTO_OPENED_PROCESS;
}

/* --- copying -------------------------------------------------------------- */

/* Returns true if the kernel has reported that the peer's process has
 * exited. */
static bool has_ended(const ucxpool_channel_t *channel)
{
    struct pollfd end = {.fd = channel->peer.watch.fd, .events = POLLIN};

    return channel->peer.has_ended || (poll(&end, 1, 0) != 0);
}

static ucxpool_status_t process_copy(window_operation_t *operation)
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
    if (has_ended(channel)) {
        return base_error(UCXPOOL_ERR_PEER_LOST,
                          "the peer's process has ended");
    }
    copied =
        copy(channel, step.ours, step.theirs, step.num, operation->is_write);
    if ((copied < 0) || ((uint64_t)copied != step.size)) {
        return base_error(
            (copied < 0) && (errno == ESRCH) ? UCXPOOL_ERR_PEER_LOST
                                             : UCXPOOL_ERR_IO,
            "cannot copy: the window or the local buffer may "
            "have been unmapped: %s",
            (copied < 0) ? strerror(errno) : "only a part was copied");
    }
    return (operation->next_place == operation->places.count)
               ? UCXPOOL_OK
               : UCXPOOL_INPROGRESS;
}

const window_way_t window_process = {
    .id        = UCXPOOL_WAY_PROCESS,
    .reach     = CORE_REACH_HOST,
    .offer     = process_offer,
    .is_on_cpu = true,
    .may_touch = window_grant_may_copy,
    .open      = process_open,
    .start     = window_turns_start,
    .copy      = process_copy,
};
