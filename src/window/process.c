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

bool window_process_fits(const ucxpool_channel_t     *channel,
                         const proto_window_opened_t *opened, char *reason,
                         size_t reason_size)
{
    uint8_t byte;
    step_t  step;

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
    step.ours[0]   = (struct iovec){&byte, 1};
    step.theirs[0] = (struct iovec){(void *)(uintptr_t)opened->address, 1};
    step.num       = 1;
    if (copy(channel, &step, false) != 1) {
        snprintf(reason, reason_size,
                 "the system does not let us read the owner's memory: %s",
                 strerror(errno));
        return false;
    }
    snprintf(reason, reason_size, "same host and user");
    return true;
}

/* --- copying -------------------------------------------------------------- */

static ucxpool_place_t place(const ucxpool_places_t *places, size_t i)
{
    return (places->places != NULL)
               ? places->places[i]
               : (ucxpool_place_t){places->offsets[i], places->length};
}

/* The next piece that lies whole in one place and in one piece of ours; false:
 * there is none. */
static bool add_piece(window_operation_t *operation, step_t *step)
{
    const copy_memory_t *memory = &operation->request->data.memory;
    ucxpool_place_t      at;
    uint64_t             length;
    uint64_t             room;

    if ((operation->next_place == operation->places.count) ||
        (operation->next_memory == memory->num)) {
        return false;
    }
    at     = place(&operation->places, operation->next_place);
    room   = copy_memory_length(memory, operation->next_memory);
    length = base_min(base_min(at.length - operation->place_offset,
                               room - operation->memory_offset),
                      STEP_SIZE - step->size);
    if (length != 0) {
        step->ours[step->num] = (struct iovec){
            (char *)copy_memory_address(memory, operation->next_memory) +
                operation->memory_offset,
            length,
        };
        step->theirs[step->num] = (struct iovec){
            (void *)(uintptr_t)(operation->remote->address + at.offset +
                                operation->place_offset),
            length,
        };
        step->num++;
        step->size += length;
    }
    operation->place_offset += length;
    operation->memory_offset += length;
    if (operation->place_offset == at.length) {
        operation->next_place++;
        operation->place_offset = 0;
    }
    if (operation->memory_offset == room) {
        operation->next_memory++;
        operation->memory_offset = 0;
    }
    return true;
}

static bool has_ended(const ucxpool_channel_t *channel)
{
    struct pollfd end = {.fd = channel->peer.watch.fd, .events = POLLIN};

    return channel->peer.has_ended || (poll(&end, 1, 0) != 0);
}

ucxpool_status_t window_process_copy(window_operation_t *operation)
{
    const ucxpool_channel_t *channel = operation->remote->channel;
    step_t                   step    = {.num = 0, .size = 0};
    ssize_t                  copied;

    while ((step.num < STEP_PIECES) && (step.size < STEP_SIZE) &&
           add_piece(operation, &step)) {
    }
    if (has_ended(channel)) {
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

unsigned window_process_progress(ucxpool_t *pool)
{
    base_list_t        *copying = &pool->windows.copying;
    window_operation_t *operation;
    ucxpool_request_t  *request;
    ucxpool_status_t    status;

    if (base_list_is_empty(copying)) {
        return 0;
    }
    operation = base_list_head(copying, window_operation_t, link);
    request   = operation->request;
    status    = window_process_copy(operation);
    if (status == UCXPOOL_INPROGRESS) {
        base_list_del(&operation->link);
        base_list_add_tail(copying, &operation->link);
    } else {
        core_request_end(request, status,
                         (status == UCXPOOL_OK) ? NULL
                                                : ucxpool_error_detail());
        core_request_reuse(request);
    }
    return 1;
}
