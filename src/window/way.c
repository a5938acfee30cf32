/*
 * Functions that several ways use: they set the reason for a way, find the
 * pieces of an operation, and copy in turns.
 */
#include "window/way.h"

#include "base/error.h"
#include "window/service.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void window_remote_set_reason(ucxpool_remote_window_t *remote,
                              const char              *format, ...)
{
    char    before[WINDOW_REASON_SIZE];
    size_t  length;
    va_list arguments;

    memcpy(before, remote->way_reason, sizeof(before));
    va_start(arguments, format);
    vsnprintf(remote->way_reason, sizeof(remote->way_reason), format,
              arguments);
    va_end(arguments);
    length = strlen(remote->way_reason);
    if (before[0] != '\0') {
        snprintf(remote->way_reason + length,
                 sizeof(remote->way_reason) - length, "; %s", before);
    }
}

const ucxpool_request_params_t window_own_params = {
    .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT |
                  UCXPOOL_REQUEST_PARAM_FIELD_STREAM,
    .timeout_ns = UCXPOOL_FOREVER,
    .stream     = UCXPOOL_STREAM_READY,
};

/* --- pieces --------------------------------------------------------------- */

/* Advance to the next place that is not empty. window_operation_next() returns
 * no piece after the end of the local memory, so empty places at the end must
 * be skipped here. */
static void leave_place(window_operation_t *operation)
{
    do {
        operation->next_place++;
    } while (
        (operation->next_place != operation->places.count) &&
        (window_place(&operation->places, operation->next_place).length == 0));
    operation->place_offset = 0;
}

bool window_operation_next(window_operation_t *operation, uint64_t max_length,
                           window_piece_t *piece_p)
{
    const copy_memory_t *memory = &operation->request->data.memory;
    ucxpool_place_t      at;
    uint64_t             room;
    uint64_t             length;

    if ((operation->next_place == operation->places.count) ||
        (operation->next_memory == memory->num)) {
        return false;
    }
    at     = window_place(&operation->places, operation->next_place);
    room   = copy_memory_length(memory, operation->next_memory);
    length = base_min(at.length - operation->place_offset,
                      room - operation->memory_offset);
    length = base_min(length, max_length);

    piece_p->offset = at.offset + operation->place_offset;
    piece_p->ours =
        (char *)copy_memory_address(memory, operation->next_memory) +
        operation->memory_offset;
    piece_p->length = length;

    operation->place_offset += length;
    operation->memory_offset += length;
    if (operation->place_offset == at.length) {
        leave_place(operation);
    }
    if (operation->memory_offset == room) {
        operation->next_memory++;
        operation->memory_offset = 0;
    }
    return true;
}

/* --- copying in turns ----------------------------------------------------- */

/* Operations of at most this many bytes are copied by the call that posts them.
 * Longer operations take turns. */
#define AT_ONCE ((uint64_t)256 << 10)

void window_turns_wait(window_operation_t *operation, ucxpool_status_t status)
{
    if ((status == UCXPOOL_INPROGRESS) || (status == UCXPOOL_ERR_BUSY)) {
        base_list_add_tail(&operation->remote->channel->pool->windows->copying,
                           &operation->link);
    } else {
        window_operation_end(operation, status, ucxpool_error_detail());
    }
}

/* Do one step of a copy. While the CPU copies, the channel's ring (core/ring.h)
 * shows the owner that a copy is in progress. Returns UCXPOOL_ERR_BUSY if the
 * channel has ended. The channel's operations then end later in the same round
 * of progress. */
static ucxpool_status_t copy(window_operation_t *operation)
{
    const window_way_t *way     = window_operation_way(operation);
    ucxpool_channel_t  *channel = operation->remote->channel;
    ucxpool_status_t    status;

    if (!way->is_on_cpu) {
        return way->copy(operation);
    }
    if (!core_channel_is_live(channel) ||
        !core_ring_begin_copy(&channel->ring, channel->windows->num_revokes)) {
        return UCXPOOL_ERR_BUSY;
    }
    status = way->copy(operation);
    core_ring_end_copy(&channel->ring);
    return status;
}

void window_turns_start(window_operation_t *operation)
{
    ucxpool_status_t status = UCXPOOL_INPROGRESS;

    if (operation->size <= AT_ONCE) {
        while (status == UCXPOOL_INPROGRESS) {
            status = copy(operation);
        }
    }
    window_turns_wait(operation, status);
}

bool window_grant_may_copy(const window_grant_t *grant)
{
    const ucxpool_channel_t *channel = grant->channel;

    return !channel->peer.is_detached &&
           (!grant->window->is_revoked ||
            core_ring_peer_copies(&channel->ring));
}

unsigned window_turns_progress(ucxpool_t *pool)
{
    base_list_t        *copying = &pool->windows->copying;
    window_operation_t *operation;
    ucxpool_status_t    status;

    if (base_list_is_empty(copying)) {
        return 0;
    }
    operation = base_list_head(copying, window_operation_t, link);
    base_list_move(copying, &operation->link);
    status = copy(operation);
    if (status == UCXPOOL_ERR_BUSY) {
        return 0;
    }
    if (status != UCXPOOL_INPROGRESS) {
        window_operation_end(operation, status, ucxpool_error_detail());
    }
    return 1;
}
