/*
 * Messages out of a window, at their receiver: each is pulled when it has met a
 * receive and all its places are there; where that cannot be, the sender is
 * told to go by blocks.
 */
#include "window/window.h"

#include "base/error.h"
#include "copy/engine.h"
#include "core/control.h"
#include "xfer/recv.h"

#include <stdlib.h>
#include <string.h>

static void drop_places(window_placed_t *placed)
{
    placed->channel->windows.placed_size -= placed->room;
    free(placed->places);
    placed->places = NULL;
    placed->room   = 0;
}

static void discard(window_placed_t *placed)
{
    drop_places(placed);
    base_list_del(&placed->link);
    free(placed);
}

static void drop_operation(window_placed_t *placed)
{
    window_operation_t *operation = placed->operation;

    if (operation != NULL) {
        placed->operation = NULL;
        base_list_del(&operation->link);
        core_link_leave(&operation->work);
        window_remote_put(operation->remote);
        free(operation);
    }
}

/* --- the receive ---------------------------------------------------------- */

/* Nothing reads the sender's window any more. */
static void recv_ended(ucxpool_request_t *request, ucxpool_status_t status,
                       void *arg)
{
    window_placed_t *placed = arg;

    request->told.hook = NULL;
    core_control_done(placed->channel, placed->message, status,
                      (status == UCXPOOL_OK) ? NULL : request->detail);
    drop_operation(placed);
    discard(placed);
}

/* The receive is an ordinary one again. */
static ucxpool_request_t *part(window_placed_t *placed)
{
    ucxpool_request_t *request = placed->request;

    if (request != NULL) {
        request->told.hook = NULL;
    }
    drop_operation(placed);
    discard(placed);
    return request;
}

static void go_by_blocks(window_placed_t *placed)
{
    xfer_recv_accept(part(placed));
}

/* --- pulling -------------------------------------------------------------- */

static void over(window_operation_t *operation, ucxpool_status_t status)
{
    ucxpool_request_t *request = operation->request;
    window_placed_t   *placed  = request->told.hook_arg;

    if (operation->num_jobs != 0) {
        operation->end = status;
    } else if (request->recv.failing != UCXPOOL_OK) {
        xfer_recv_let_go(request);
    } else if (status != UCXPOOL_OK) {
        go_by_blocks(placed);
    } else if (core_ring_is_revoked(&placed->channel->ring, placed->word,
                                    placed->message)) {
        /* The CANCEL that ends the receive comes, or the channel's end. */
        drop_operation(placed);
    } else {
        xfer_recv_pulled(request);
    }
}

static bool can_pull(const ucxpool_remote_t  *remote,
                     const ucxpool_request_t *request)
{
    if ((remote == NULL) || (remote->status != UCXPOOL_OK)) {
        return false;
    }
    switch (remote->way) {
    case UCXPOOL_WAY_PROCESS:
    case UCXPOOL_WAY_MAPPED:
        return true;
    case UCXPOOL_WAY_CUDA:
        return !request->stream.has_host_segments;
    default:
        return false;
    }
}

static window_operation_t *make_operation(window_placed_t  *placed,
                                          ucxpool_remote_t *remote)
{
    window_operation_t *operation =
        core_alloc(placed->channel->pool, sizeof(*operation));

    if (operation == NULL) {
        return NULL;
    }
    *operation = (window_operation_t){
        .remote  = remote,
        .request = placed->request,
        .over    = over,
        .size    = placed->size,
        .places  = (placed->length == 0)
                       ? ucxpool_places(placed->places, placed->num_places)
                       : ucxpool_places_even(placed->places, placed->num_places,
                                             placed->length),
    };
    base_list_init(&operation->link);
    if ((placed->num_places == 1) && (placed->length != 0)) {
        operation->place.offset = *(const uint64_t *)placed->places;
        operation->place.length = placed->length;
        operation->places       = ucxpool_places(&operation->place, 1);
    }
    remote->refs++;
    return operation;
}

/* All is there. False: it cannot be pulled. */
static bool start(window_placed_t *placed)
{
    ucxpool_request_t *request = placed->request;
    ucxpool_remote_t  *remote =
        window_remote_find(placed->channel, placed->remote);
    ucxpool_status_t status;

    if (placed->size != request->data.totals.payload_size) {
        core_channel_fail(placed->channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer placed a message of %llu bytes in %llu",
                          (unsigned long long)request->data.totals.payload_size,
                          (unsigned long long)placed->size);
        return true; /* the channel's end is the receive's */
    }
    if (!can_pull(remote, request)) {
        return false;
    }
    status = core_request_check_even(request);
    if (status != UCXPOOL_OK) {
        xfer_recv_stop(request, status, ucxpool_error_detail());
        return true;
    }
    placed->operation = make_operation(placed, remote);
    if (placed->operation == NULL) {
        return false;
    }
    window_operation_copy(placed->operation);
    return true;
}

static bool is_whole(const window_placed_t *placed)
{
    return (placed->num_come != 0) && (placed->num_come == placed->num_places);
}

/* --- what comes of it ----------------------------------------------------- */

window_placed_t *window_placed_came(ucxpool_channel_t  *channel,
                                    const proto_desc_t *desc)
{
    window_placed_t *placed = core_alloc(channel->pool, sizeof(*placed));

    if (placed != NULL) {
        *placed = (window_placed_t){
            .channel = channel, .message = desc->message, .word = desc->slot};
        base_list_add_tail(&channel->windows.placed, &placed->link);
    }
    return placed;
}

void window_placed_dropped(window_placed_t *placed)
{
    discard(placed);
}

bool window_placed_met(window_placed_t *placed, ucxpool_request_t *request)
{
    if (placed->is_refused) {
        discard(placed);
        return false;
    }
    placed->request        = request;
    request->told.hook     = recv_ended;
    request->told.hook_arg = placed;
    if (is_whole(placed) && !start(placed)) {
        part(placed);
        return false;
    }
    return true;
}

/* Its places are not wanted: it goes by blocks when it has met a receive. */
static void refuse(window_placed_t *placed)
{
    if (placed->request != NULL) {
        go_by_blocks(placed);
    } else {
        placed->is_refused = true;
        drop_places(placed);
    }
}

static window_placed_t *find(const ucxpool_channel_t *channel, uint64_t message)
{
    window_placed_t *placed;

    base_list_for_each(placed, &channel->windows.placed, window_placed_t,
                       link) {
        if (placed->message == message) {
            return placed;
        }
    }
    return NULL;
}

static bool is_next(const window_placed_t *placed, const proto_places_t *places)
{
    if (places->first != placed->num_come) {
        return false;
    }
    return (placed->num_come == 0) ||
           ((places->remote == placed->remote) &&
            (places->num_places == placed->num_places) &&
            (places->length == placed->length));
}

/* For the whole list, with its first part. */
static bool take_room(window_placed_t *placed, const proto_places_t *places)
{
    core_channel_windows_t *windows = &placed->channel->windows;
    size_t size = places->num_places * proto_place_size(places->length);

    if (placed->num_come != 0) {
        return true;
    }
    if (size > PROTO_PLACED_SIZE_MAX - windows->placed_size) {
        return false;
    }
    placed->places = core_alloc(placed->channel->pool, size);
    if (placed->places == NULL) {
        return false;
    }
    windows->placed_size += size;
    placed->room       = size;
    placed->remote     = places->remote;
    placed->num_places = places->num_places;
    placed->length     = places->length;
    return true;
}

/* Copied first: the peer may change them while they are looked at. */
static bool take(window_placed_t *placed, const ucxpool_remote_t *remote,
                 const void *data, size_t data_size)
{
    size_t   entry = proto_place_size(placed->length);
    size_t   num   = data_size / entry;
    uint8_t *at    = (uint8_t *)placed->places + placed->num_come * entry;

    memcpy(at, data, data_size);
    placed->num_come += num;
    return proto_add_places(at, num, placed->length, remote->length,
                            &placed->size);
}

void window_places(ucxpool_channel_t *channel, const proto_places_t *places,
                   const void *data, size_t data_size)
{
    window_placed_t        *placed = find(channel, places->message);
    const ucxpool_remote_t *remote =
        window_remote_find(channel, places->remote);

    if ((placed == NULL) || placed->is_refused) {
        return; /* it was accepted, or has ended */
    }
    if (!is_next(placed, places)) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent places that do not follow");
        return;
    }
    if ((remote == NULL) || (remote->status != UCXPOOL_OK) ||
        !take_room(placed, places)) {
        refuse(placed);
        return;
    }
    if (!take(placed, remote, data, data_size)) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer placed a message beyond its window");
        return;
    }
    if (is_whole(placed) && (placed->request != NULL) && !start(placed)) {
        go_by_blocks(placed);
    }
}
