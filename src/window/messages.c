/* Window reads and writes whose data is sent in messages: the importer's side.
 * The importer first sends a CALL, which describes the operation. For a write,
 * it then sends the data as an ordinary message. For a read, it receives the
 * message in which the owner sends the data. */
#include "window/service.h"
#include "window/way.h"

#include "base/error.h"
#include "core/control.h"
#include "xfer/recv.h"
#include "xfer/post.h"
#include "xfer/send.h"

#include <string.h>

static proto_call_t describe(const window_operation_t *operation)
{
    return (proto_call_t){
        .operation  = operation->number,
        .grant      = operation->remote->grant,
        .kind       = operation->is_write ? PROTO_CALL_WRITE : PROTO_CALL_READ,
        .num_places = operation->places.count,
        .length =
            (operation->places.places == NULL) ? operation->places.length : 0,
        .size = operation->size,
    };
}

static uint64_t places_size(const window_operation_t *operation)
{
    return operation->places.count * ((operation->places.places != NULL)
                                          ? sizeof(ucxpool_place_t)
                                          : sizeof(uint64_t));
}

ucxpool_status_t window_messages_check(const window_operation_t *operation)
{
    const proto_call_t call = describe(operation);

    return proto_check_call(&call, window_places_list(&operation->places),
                            places_size(operation), operation->remote->length);
}

static ucxpool_status_t fill_call(window_operation_t *operation)
{
    const proto_call_t call = describe(operation);
    uint64_t           size = places_size(operation);

    operation->call.address =
        core_alloc(operation->remote->channel->pool, sizeof(call) + size);
    if (operation->call.address == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for a list of %zu places",
                          operation->places.count);
    }
    operation->call.length = sizeof(call) + size;
    memcpy(operation->call.address, &call, sizeof(call));
    memcpy((uint8_t *)operation->call.address + sizeof(call),
           window_places_list(&operation->places), size);
    return UCXPOOL_OK;
}

/* Send the CALL first, then the data of a write. */
static void send_call(window_operation_t *operation, ucxpool_request_t *call)
{
    ucxpool_channel_t *channel  = operation->remote->channel;
    ucxpool_request_t *request  = operation->request;
    bool               is_write = operation->is_write;

    channel->windows->num_calls++;
    channel->windows->calls_size += operation->call.length;
    operation->was_called   = true;
    operation->call_request = call;
    base_list_move(&channel->windows->called, &operation->link);
    request->kind = is_write ? &xfer_send_kind : &xfer_recv_kind;

    call->send->desc_flags = PROTO_DESC_CALL;
    call->tag              = operation->number;
    call->notify.hook      = operation->call_ended;
    call->notify.hook_arg  = operation;
    if (is_write) {
        request->send->desc_flags = PROTO_DESC_WRITE;
        request->tag              = operation->number;
    }
    xfer_send_queue(call);
    if (is_write && !core_request_has_ended(request)) {
        xfer_send_queue(request);
    }
    core_request_hand_out(call, NULL);
}

static void call_owner(window_operation_t *operation)
{
    copy_memory_t      memory;
    ucxpool_request_t *call;
    ucxpool_status_t   status = fill_call(operation);

    if (status == UCXPOOL_OK) {
        memory = copy_memory_of_segments(&operation->call, 1);
        status = xfer_send_create(operation->remote->channel, &memory,
                                  &window_own_params, &call);
    }
    if (status != UCXPOOL_OK) {
        window_operation_end(operation, status, ucxpool_error_detail());
        return;
    }
    send_call(operation, call);
}

static bool may_call(const struct window_channel *windows,
                     const window_operation_t    *operation)
{
    uint64_t size = sizeof(proto_call_t) + places_size(operation);

    return (windows->num_calls < PROTO_CALLS_MAX) &&
           (size <= PROTO_CALLS_SIZE_MAX - windows->calls_size);
}

unsigned window_messages_progress(ucxpool_channel_t *channel)
{
    struct window_channel *windows = channel->windows;
    unsigned               count   = 0;
    window_operation_t    *operation;

    while (!base_list_is_empty(&windows->queued)) {
        operation = base_list_head(&windows->queued, window_operation_t, link);
        if (!may_call(windows, operation)) {
            break;
        }
        call_owner(operation);
        count++;
    }
    return count;
}

void window_messages_end(ucxpool_channel_t *channel, uint64_t operation,
                         ucxpool_status_t status, bool is_refused,
                         const char *reason)
{
    const proto_fixed_t end = {.window_end = {.operation = operation,
                                              .status    = status,
                                              .refused   = is_refused}};

    if (core_channel_is_live(channel)) {
        core_control_send(channel, PROTO_WINDOW_END, &end, reason);
    }
}

void window_messages_ended(window_operation_t *operation,
                           ucxpool_status_t    status)
{
    ucxpool_channel_t     *channel = operation->remote->channel;
    struct window_channel *windows = channel->windows;

    if (!operation->was_called) {
        return;
    }
    windows->num_calls--;
    windows->calls_size -= operation->call.length;
    if (status != UCXPOOL_OK) {
        window_messages_end(channel, operation->number, UCXPOOL_ERR_CANCELED,
                            false, NULL);
    }
}

static window_operation_t *find(const ucxpool_channel_t *channel,
                                uint64_t                 number)
{
    window_operation_t *operation;

    base_list_find(operation, &channel->windows->called, window_operation_t,
                   link, operation->number == number);
    return operation;
}

void window_messages_answered(ucxpool_message_t *message)
{
    ucxpool_channel_t  *channel   = message->channel;
    window_operation_t *operation = find(channel, message->desc.tag);

    if ((operation == NULL) || operation->is_write || operation->is_answered) {
        xfer_message_drop(message, UCXPOOL_ERR_CANCELED,
                          "the read was canceled");
        return;
    }
    if (message->totals.payload_size != operation->size) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent %llu bytes in answer to a read of "
                          "%llu",
                          (unsigned long long)message->totals.payload_size,
                          (unsigned long long)operation->size);
        xfer_message_release(message);
        return;
    }
    operation->is_answered = true;
    xfer_recv_start(operation->request, message);
}

void window_messages_refused(ucxpool_channel_t        *channel,
                             const proto_window_end_t *end, const char *reason)
{
    window_operation_t *operation = find(channel, end->operation);
    ucxpool_status_t    status    = (ucxpool_status_t)end->status;

    if (operation != NULL) {
        window_operation_end(operation,
                             (status == UCXPOOL_ERR_CANCELED)
                                 ? UCXPOOL_ERR_CANCELED
                                 : UCXPOOL_ERR_REFUSED,
                             reason);
    }
}

static unsigned messages_open(ucxpool_remote_window_t *remote,
                              const window_answer_t   *answer)
{
    return UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE;
}

static void messages_start(window_operation_t *operation)
{
    base_list_add_tail(&operation->remote->channel->windows->queued,
                       &operation->link);
}

const window_way_t window_messages = {
    .id    = UCXPOOL_WAY_MESSAGES,
    .reach = WINDOW_REACH_ANY,
    .open  = messages_open,
    .start = messages_start,
};
