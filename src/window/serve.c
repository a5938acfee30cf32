/*
 * Window reads and writes whose data is sent in messages: the owner's side. The
 * owner's pool copies to or from its window for a peer.
 *
 * A CALL lists places: ranges of the window (ucxpool_place_t). The owner checks
 * them, and replaces them by addresses in its copy of the CALL. An ordinary
 * send or receive then transfers the data at these addresses.
 */
#include "window/service.h"

#include "base/error.h"
#include "xfer/recv.h"
#include "xfer/post.h"
#include "xfer/send.h"
#include "window/way.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static window_served_t *find(const ucxpool_channel_t *channel, uint64_t number)
{
    window_served_t *served;

    base_list_find(served, &channel->windows->served, window_served_t, link,
                   served->number == number);
    return served;
}

/* --- begin and end -------------------------------------------------------- */

static void wake(window_served_t *served)
{
    base_list_move(&served->channel->pool->windows->runnable,
                   &served->run_link);
}

static void request_ended(ucxpool_request_t *request, ucxpool_status_t status,
                          void *arg)
{
    window_served_t *served = arg;

    served->request = NULL;
    if (status != UCXPOOL_OK) {
        served->is_over = true;
        window_messages_end(served->channel, served->number, status, true,
                            core_request_detail(request));
    }
    wake(served);
}

static void own(window_served_t *served, ucxpool_request_t *request)
{
    request->notify.hook     = request_ended;
    request->notify.hook_arg = served;
    served->request          = request;
}

static window_served_t *create(ucxpool_message_t *message)
{
    ucxpool_channel_t *channel = message->channel;
    uint64_t           size    = message->totals.payload_size;
    window_served_t   *served  = core_alloc(channel->pool, sizeof(*served));
    void              *bytes   = core_alloc(channel->pool, size);

    if ((served == NULL) || (bytes == NULL)) {
        free(served);
        free(bytes);
        return NULL;
    }
    *served = (window_served_t){
        .channel = channel,
        .number  = message->desc.tag,
        .call    = {bytes, size},
    };
    base_list_init(&served->run_link);
    base_list_add_tail(&channel->windows->served, &served->link);
    channel->windows->num_served++;
    channel->windows->served_size += size;
    core_channel_get(channel);
    return served;
}

static void destroy(window_served_t *served)
{
    ucxpool_channel_t *channel = served->channel;

    if (served->message != NULL) {
        xfer_message_drop(served->message, UCXPOOL_ERR_REFUSED,
                          "the write was refused");
    }
    if (served->grant != NULL) {
        window_grant_put(served->grant);
    }
    base_list_del(&served->link);
    base_list_del(&served->run_link);
    channel->windows->num_served--;
    channel->windows->served_size -= served->call.length;
    free(served->call.address);
    free(served);
    core_channel_put(channel);
}

/* --- the CALL ------------------------------------------------------------- */

static bool is_call(const ucxpool_message_t *message)
{
    uint64_t size = message->totals.payload_size;

    return (size >= sizeof(proto_call_t)) &&
           (size <=
            sizeof(proto_call_t) + PROTO_PLACES_MAX * sizeof(ucxpool_place_t));
}

/* Returns true if the only remaining step is to destroy the operation. */
static bool is_at_end(const window_served_t *served)
{
    return (served->request == NULL) &&
           (served->is_over || (served->step == WINDOW_STEP_MOVE));
}

/* Destroy ended operations without waiting for progress. The importer has
 * received the answers, and may already have sent new CALLs. Ended operations
 * and new CALLs count toward the same limits. */
static void destroy_ended(ucxpool_channel_t *channel)
{
    window_served_t *served, *next;

    base_list_for_each_safe(served, next, &channel->windows->served,
                            window_served_t, link) {
        if (is_at_end(served)) {
            destroy(served);
        }
    }
}

static bool has_room(const ucxpool_message_t *message)
{
    const struct window_channel *windows = message->channel->windows;

    return (windows->num_served < PROTO_CALLS_MAX) &&
           (message->totals.payload_size <=
            PROTO_CALLS_SIZE_MAX - windows->served_size);
}

void window_served_start(ucxpool_message_t *message)
{
    ucxpool_channel_t *channel = message->channel;
    ucxpool_t         *pool    = channel->pool;
    uint64_t           number  = message->desc.tag;
    ucxpool_status_t   status  = UCXPOOL_ERR_LIMIT;
    window_served_t   *served  = NULL;
    const char        *reason;
    ucxpool_request_t *request;
    copy_memory_t      memory;

    if (!is_call(message) || (find(channel, number) != NULL)) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent an operation on a window twice, or "
                          "with an invalid length (%llu bytes)",
                          (unsigned long long)message->totals.payload_size);
        xfer_message_release(message);
        return;
    }
    if (!has_room(message)) {
        destroy_ended(channel);
    }
    if (has_room(message)) {
        served = create(message);
        status = UCXPOOL_ERR_NO_MEMORY;
    }
    if (served != NULL) {
        memory = copy_memory_of_segments(&served->call, 1);
        if (xfer_recv_create(pool, &memory, &window_own_params, &request) ==
            UCXPOOL_OK) {
            own(served, request);
            xfer_recv_start(request, message);
            core_request_hand_out(request, NULL);
            return;
        }
        destroy(served);
    }
    reason = (status == UCXPOOL_ERR_LIMIT)
                 ? "the owner already serves as many reads and writes of this "
                   "channel as it can; wait for some of them to complete"
                 : "the owner has no memory to serve the operation";
    xfer_message_drop(message, UCXPOOL_ERR_REFUSED, reason);
    window_messages_end(channel, number, status, true, reason);
}

/* Replace the places by addresses. */
static copy_memory_t resolve(const proto_call_t *call, window_served_t *served)
{
    uint8_t *window = served->grant->window->address;
    uint8_t *places = (uint8_t *)served->call.address + sizeof(*call);

    if (call->length != 0) {
        uint64_t *offsets = (uint64_t *)places;

        for (uint64_t i = 0; i < call->num_places; i++) {
            offsets[i] += (uintptr_t)window;
        }
        return copy_memory_of_pieces((void *const *)places, call->num_places,
                                     call->length);
    }
    for (uint64_t i = 0; i < call->num_places; i++) {
        ((ucxpool_place_t *)places)[i].offset += (uintptr_t)window;
    }
    return copy_memory_of_segments((const ucxpool_segment_t *)places,
                                   call->num_places);
}

static_assert((sizeof(ucxpool_place_t) == sizeof(ucxpool_segment_t)) &&
                  (sizeof(uint64_t) == sizeof(void *)),
              "a list of places is replaced in place by segments");

static ucxpool_status_t check(window_served_t *served, const proto_call_t *call)
{
    window_grant_t *grant    = window_grant_find(served->channel, call->grant);
    bool            is_write = (call->kind == PROTO_CALL_WRITE);
    unsigned needed = is_write ? UCXPOOL_WINDOW_WRITE : UCXPOOL_WINDOW_READ;

    if ((grant == NULL) || grant->is_released || grant->window->is_revoked) {
        return base_error(UCXPOOL_ERR_CANCELED, "the window has been revoked");
    }
    if (call->operation != served->number) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the peer sent operation number %" PRIu64
                          " in a descriptor with number %" PRIu64,
                          call->operation, served->number);
    }
    if ((grant->access & needed) == 0) {
        return base_error(UCXPOOL_ERR_PERMISSION,
                          "the window was not exported for %s: its owner "
                          "must pass %s to ucxpool_window_export()",
                          is_write ? "writing" : "reading",
                          is_write ? "UCXPOOL_WINDOW_WRITE"
                                   : "UCXPOOL_WINDOW_READ");
    }
    served->grant = grant;
    grant->num_served++;
    return proto_check_call(
        call, (const uint8_t *)served->call.address + sizeof(*call),
        served->call.length - sizeof(*call), grant->window->length);
}

/* --- the bytes ------------------------------------------------------------ */

static ucxpool_status_t start_read(window_served_t     *served,
                                   const copy_memory_t *memory)
{
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    status =
        xfer_send_create(served->channel, memory, &window_own_params, &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    request->send->desc_flags = PROTO_DESC_READ;
    request->tag              = served->number;
    own(served, request);
    xfer_send_queue(request);
    core_request_hand_out(request, NULL);
    return UCXPOOL_OK;
}

static ucxpool_status_t start_write(window_served_t *served)
{
    ucxpool_message_t *message = served->message;
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    status = xfer_recv_create(served->channel->pool, &served->memory,
                              &window_own_params, &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    served->step    = WINDOW_STEP_MOVE;
    served->message = NULL;
    own(served, request);
    base_list_del(&message->link);
    xfer_recv_start(request, message);
    core_request_hand_out(request, NULL);
    return UCXPOOL_OK;
}

/* Check the CALL that was received, and start the operation. */
static ucxpool_status_t start(window_served_t *served)
{
    proto_call_t     call;
    ucxpool_status_t status;

    memcpy(&call, served->call.address, sizeof(call));
    status = check(served, &call);
    if (status != UCXPOOL_OK) {
        return status;
    }
    served->memory = resolve(&call, served);
    if (call.kind == PROTO_CALL_READ) {
        served->step = WINDOW_STEP_MOVE;
        return start_read(served, &served->memory);
    }
    served->step = WINDOW_STEP_WRITE;
    return (served->message != NULL) ? start_write(served) : UCXPOOL_OK;
}

static void advance(window_served_t *served)
{
    ucxpool_status_t status = UCXPOOL_OK;

    if (served->request != NULL) {
        return; /* the end of the request makes the operation runnable again */
    }
    if (is_at_end(served)) {
        destroy(served);
        return;
    }
    if (served->step == WINDOW_STEP_CALL) {
        status = start(served);
    } else if (served->message != NULL) {
        status = start_write(served);
    }
    if (status != UCXPOOL_OK) {
        window_messages_end(served->channel, served->number, status, true,
                            ucxpool_error_detail());
        destroy(served);
    }
}

unsigned window_served_progress(ucxpool_t *pool)
{
    unsigned         count = 0;
    base_list_t      round;
    window_served_t *served;

    if (base_list_is_empty(&pool->windows->runnable)) {
        return 0;
    }
    base_list_init(&round);
    base_list_splice_tail(&round, &pool->windows->runnable);
    while ((served = base_list_pop(&round, window_served_t, run_link)) !=
           NULL) {
        advance(served);
        count++;
    }
    return count;
}

void window_served_data_received(ucxpool_message_t *message)
{
    window_served_t *served = find(message->channel, message->desc.tag);

    if ((served == NULL) || (served->message != NULL) || served->is_over ||
        (served->step == WINDOW_STEP_MOVE)) {
        xfer_message_drop(message, UCXPOOL_ERR_REFUSED,
                          "no write to a window waits for this message");
        return;
    }
    served->message = message;
    xfer_message_keep(message);
    wake(served);
}

/* --- canceling ------------------------------------------------------------ */

static void cancel(window_served_t *served)
{
    served->is_over = true;
    if (served->request != NULL) {
        core_request_cancel(served->request);
    }
    wake(served);
}

void window_served_abandon(ucxpool_channel_t *channel, uint64_t number)
{
    window_served_t *served = find(channel, number);

    if (served != NULL) {
        cancel(served);
    }
}

void window_served_cancel(ucxpool_channel_t    *channel,
                          const window_grant_t *grant)
{
    window_served_t *served, *next;

    base_list_for_each_safe(served, next, &channel->windows->served,
                            window_served_t, link) {
        if ((grant == NULL) || (served->grant == grant)) {
            cancel(served);
        }
    }
}
