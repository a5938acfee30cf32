/*
 * Operations: reads and writes of a peer's window.
 *
 * An operation waits for the owner's answer to the import, then goes its
 * remote's way. By messages, its request is an ordinary receive or send, which
 * the owner's pool answers, and a message goes before it that says what is
 * wanted: the CALL.
 */
#include "window/window.h"

#include "base/error.h"
#include "core/control.h"
#include "xfer/message.h"
#include "xfer/post.h"
#include "xfer/recv.h"
#include "xfer/request.h"
#include "xfer/send.h"

#include <stdlib.h>
#include <string.h>

/* So much is copied in the call that posts it; more takes its turn. */
#define AT_ONCE ((uint64_t)256 << 10)

/* --- the request of an operation ------------------------------------------ */

/* What a GPU has under way touches the caller's memory: its end is waited for.
 */
static void stop(ucxpool_request_t *request, ucxpool_status_t status,
                 const char *detail)
{
    window_operation_t *operation = request->told.hook_arg;

    if (operation->num_jobs == 0) {
        core_request_end(request, status, detail);
    } else if (operation->end == UCXPOOL_OK) {
        operation->end = status;
        core_request_set_detail(request, detail);
    }
}

/* Until it goes by messages. */
static const core_request_kind_t operation_kind = {.stop = stop};

static void free_if_over(window_operation_t *operation)
{
    if ((operation->request == NULL) && (operation->call_request == NULL)) {
        struct window_pool *windows = operation->remote->channel->pool->windows;

        window_remote_put(operation->remote);
        free(operation->call.address);
        base_list_add_head(&windows->free_operations, &operation->link);
    }
}

void window_operations_destroy_all(ucxpool_t *pool)
{
    base_list_t        *free_operations = &pool->windows->free_operations;
    window_operation_t *operation;

    while (!base_list_is_empty(free_operations)) {
        operation = base_list_head(free_operations, window_operation_t, link);
        base_list_del(&operation->link);
        free(operation);
    }
}

static window_operation_t *operation_get(ucxpool_t *pool)
{
    base_list_t        *free_operations = &pool->windows->free_operations;
    window_operation_t *operation;

    if (base_list_is_empty(free_operations)) {
        return core_alloc(pool, sizeof(*operation));
    }
    operation = base_list_head(free_operations, window_operation_t, link);
    base_list_del(&operation->link);
    return operation;
}

static void say_given_up(const window_operation_t *operation)
{
    ucxpool_channel_t *channel = operation->remote->channel;
    proto_fixed_t     *fixed;

    if (!core_channel_is_live(channel)) {
        return;
    }
    fixed = core_control_begin(channel, PROTO_WINDOW_END, 0, CORE_MUST, NULL);
    if (fixed != NULL) {
        fixed->window_end.operation = operation->number;
        fixed->window_end.status    = UCXPOOL_ERR_CANCELED;
        core_control_end(channel);
    }
}

static void notify(ucxpool_request_t *notification, ucxpool_status_t status)
{
    if ((status == UCXPOOL_OK) && core_channel_is_live(notification->channel)) {
        xfer_send_queue(notification);
        core_request_hand_out(notification, NULL);
    } else {
        core_request_discard(notification);
    }
}

static void ended(ucxpool_request_t *request, ucxpool_status_t status,
                  void *arg)
{
    window_operation_t *operation = arg;
    ucxpool_channel_t  *channel   = operation->remote->channel;

    base_range_end(&operation->range);
    /* The number of the message that it went by is the library's own. */
    request->tag       = 0;
    request->told.hook = NULL;
    operation->request = NULL;
    base_list_del(&operation->link);
    core_link_leave(&operation->work);
    if (operation->was_called) {
        channel->windows->num_calls--;
        channel->windows->calls_size -= operation->call.length;
        if (status != UCXPOOL_OK) {
            say_given_up(operation);
        }
    }
    if (operation->notification != NULL) {
        notify(operation->notification, status);
    }
    if ((status != UCXPOOL_OK) && (operation->call_request != NULL)) {
        /* The owner does not know of it, or has been told. Frees the operation.
         */
        core_request_cancel(operation->call_request);
        return;
    }
    free_if_over(operation);
}

/* --- posting -------------------------------------------------------------- */

static uint64_t add_places(const ucxpool_places_t *places)
{
    uint64_t size = 0;

    if (places->places == NULL) {
        return base_mul(places->count, places->length, &size) ? size
                                                              : UINT64_MAX;
    }
    for (size_t i = 0; i < places->count; i++) {
        if (!base_add(size, places->places[i].length, &size)) {
            return UINT64_MAX;
        }
    }
    return size;
}

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

static const void *places_of(const window_operation_t *operation)
{
    return (operation->places.places != NULL)
               ? (const void *)operation->places.places
               : (const void *)operation->places.offsets;
}

static uint64_t places_size(const window_operation_t *operation)
{
    return operation->places.count * ((operation->places.places != NULL)
                                          ? sizeof(ucxpool_place_t)
                                          : sizeof(uint64_t));
}

static ucxpool_status_t check_allowed(const ucxpool_remote_t *remote,
                                      const ucxpool_places_t *places,
                                      bool                    is_write)
{
    unsigned needed = is_write ? UCXPOOL_WINDOW_WRITE : UCXPOOL_WINDOW_READ;

    if (remote->status < UCXPOOL_OK) {
        return base_error(remote->status, "%s", remote->reason);
    }
    if ((remote->access & needed) == 0) {
        return base_error(UCXPOOL_ERR_PERMISSION,
                          "the window was not exported for %s: give "
                          "%s to ucxpool_window_export()",
                          is_write ? "writing" : "reading",
                          is_write ? "UCXPOOL_WINDOW_WRITE"
                                   : "UCXPOOL_WINDOW_READ");
    }
    if ((places->reserved[0] != 0) || (places->reserved[1] != 0)) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "this library does not know these places: they were "
                          "not made by ucxpool_places() or "
                          "ucxpool_places_even()");
    }
    return UCXPOOL_OK;
}

static ucxpool_way_t way_of(const window_operation_t *operation)
{
    return operation->is_write ? operation->remote->write_way
                               : operation->remote->way;
}

static ucxpool_status_t check_list(const window_operation_t *operation)
{
    const ucxpool_places_t *places = &operation->places;

    if ((places->count != 0) && (places_of(operation) == NULL)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the list is NULL, but the number of its places is "
                          "%zu",
                          places->count);
    }
    if (places->count > PROTO_PLACES_MAX) {
        return base_error(UCXPOOL_ERR_LIMIT,
                          "%zu places are more than one operation may have "
                          "(%llu): make several of it",
                          places->count, (unsigned long long)PROTO_PLACES_MAX);
    }
    return UCXPOOL_OK;
}

/* Will the GPU look whether all of them are in the window? */
static bool are_checked_later(const window_operation_t *operation)
{
    const ucxpool_remote_t *remote = operation->remote;

    return (remote->status == UCXPOOL_OK) &&
           (way_of(operation) == UCXPOOL_WAY_CUDA) &&
           (operation->places.length <= remote->length) &&
           window_device_reads_lists(operation);
}

static ucxpool_status_t check_places(window_operation_t *operation)
{
    const proto_call_t call = describe(operation);

    operation->lists_are_read = are_checked_later(operation);
    if (operation->lists_are_read || (operation->size == 0)) {
        return UCXPOOL_OK;
    }
    return proto_check_call(&call, places_of(operation), places_size(operation),
                            operation->remote->length);
}

static ucxpool_status_t check_data(const window_operation_t *operation,
                                   const ucxpool_request_t  *request)
{
    uint64_t length = operation->is_write ? request->data.totals.payload_size
                                          : request->data.capacity;

    if (operation->is_write ? (length == operation->size)
                            : (length >= operation->size)) {
        return UCXPOOL_OK;
    }
    return base_error(
        UCXPOOL_ERR_INVALID_PARAM, "the data have %llu bytes, the places %llu",
        (unsigned long long)length, (unsigned long long)operation->size);
}

/* What tells the owner in the end, made now, when it can be refused. */
static ucxpool_status_t
make_notification(window_operation_t             *operation,
                  const ucxpool_request_params_t *params)
{
    const copy_memory_t      nothing = copy_memory_of_segments(NULL, 0);
    ucxpool_request_params_t own     = {
            .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT,
            .timeout_ns = UCXPOOL_FOREVER,
    };
    ucxpool_status_t status;

    if ((params == NULL) ||
        !(params->field_mask & UCXPOOL_REQUEST_PARAM_FIELD_NOTIFY)) {
        return UCXPOOL_OK;
    }
    if (params->field_mask & UCXPOOL_REQUEST_PARAM_FIELD_METADATA) {
        own.field_mask |= UCXPOOL_REQUEST_PARAM_FIELD_METADATA;
        own.metadata        = params->metadata;
        own.metadata_length = params->metadata_length;
    }
    status = xfer_send_create(operation->remote->channel, &nothing, &own,
                              &operation->notification);
    if (status == UCXPOOL_OK) {
        operation->notification->tag = params->notify_tag;
    }
    return status;
}

static ucxpool_status_t make_request(window_operation_t             *operation,
                                     const copy_memory_t            *memory,
                                     const ucxpool_request_params_t *params)
{
    ucxpool_channel_t *channel = operation->remote->channel;
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    if (operation->is_write) {
        status = xfer_send_create(channel, memory, params, &request);
    } else {
        status = xfer_recv_create(channel->pool, memory, params, &request);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (!operation->is_write) {
        core_request_set_channel(request, channel);
    }
    operation->request = request;
    status             = check_places(operation);
    if (status == UCXPOOL_OK) {
        status = core_request_check_even(request);
    }
    if (status == UCXPOOL_OK) {
        status = check_data(operation, request);
    }
    if (status == UCXPOOL_OK) {
        status = make_notification(operation, params);
    }
    if (status != UCXPOOL_OK) {
        operation->request = NULL;
        core_request_discard(request);
        return status;
    }
    request->metadata.length          = 0; /* the notification has it */
    request->data.totals.payload_size = operation->size;
    request->kind                     = &operation_kind;
    request->told.hook                = ended;
    request->told.hook_arg            = operation;
    return UCXPOOL_OK;
}

static window_operation_t *create(ucxpool_remote_t *remote, bool is_write,
                                  const ucxpool_places_t *places)
{
    window_operation_t *operation = operation_get(remote->channel->pool);

    if (operation == NULL) {
        base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for an operation");
        return NULL;
    }
    *operation = (window_operation_t){
        .remote   = remote,
        .number   = ++remote->channel->windows->next_number,
        .is_write = is_write,
        .places   = *places,
        .size     = add_places(places),
    };
    base_list_init(&operation->link);
    if ((places->count == 1) && (places_of(operation) != NULL)) {
        operation->place =
            (places->places != NULL)
                ? places->places[0]
                : (ucxpool_place_t){places->offsets[0], places->length};
        operation->places = ucxpool_places(&operation->place, 1);
    }
    remote->refs++;
    return operation;
}

/* --- on its way ----------------------------------------------------------- */

/* The processor's copy is a step that the owner can see (core/ring.h). A
 * channel that has ended ends its operations later in the same round. */
static ucxpool_status_t copy_on_host(window_operation_t *operation)
{
    ucxpool_channel_t *channel = operation->remote->channel;
    ucxpool_status_t   status;

    if (!core_channel_is_live(channel) ||
        !core_ring_begin_copy(&channel->ring, channel->windows->num_revokes)) {
        return UCXPOOL_ERR_BUSY;
    }
    status = (way_of(operation) == UCXPOOL_WAY_MAPPED)
                 ? window_mapped_copy(operation)
                 : window_process_copy(operation);
    core_ring_end_copy(&channel->ring);
    return status;
}

/*
 * UCXPOOL_OK          that was all
 * UCXPOOL_INPROGRESS  some, and there is more
 * UCXPOOL_ERR_BUSY    nothing now
 */
static ucxpool_status_t copy_some(window_operation_t *operation)
{
    return (way_of(operation) == UCXPOOL_WAY_CUDA)
               ? window_device_copy(operation)
               : copy_on_host(operation);
}

unsigned window_copy_progress(ucxpool_t *pool)
{
    base_list_t        *copying = &pool->windows->copying;
    window_operation_t *operation;
    ucxpool_status_t    status;

    if (base_list_is_empty(copying)) {
        return 0;
    }
    operation = base_list_head(copying, window_operation_t, link);
    base_list_del(&operation->link);
    base_list_add_tail(copying, &operation->link);
    status = copy_some(operation);
    if (status == UCXPOOL_ERR_BUSY) {
        return 0;
    }
    if (status != UCXPOOL_INPROGRESS) {
        window_operation_end(operation, status,
                             (status == UCXPOOL_OK) ? NULL
                                                    : ucxpool_error_detail());
    }
    return 1;
}

static bool goes_directly(const window_operation_t *operation)
{
    switch (way_of(operation)) {
    case UCXPOOL_WAY_PROCESS:
    case UCXPOOL_WAY_MAPPED:
        return true;
    case UCXPOOL_WAY_CUDA:
        return window_device_fits(operation);
    case UCXPOOL_WAY_RMA:
        return window_rma_fits(operation);
    default:
        return false;
    }
}

/* Copy without the owner's pool, now or later. */
static void copy(window_operation_t *operation)
{
    ucxpool_channel_t *channel = operation->remote->channel;
    ucxpool_status_t   status  = UCXPOOL_INPROGRESS;

    if (operation->size == 0) {
        status = UCXPOOL_OK;
    } else if (way_of(operation) == UCXPOOL_WAY_RMA) {
        window_rma_start(operation);
        return;
    } else if (way_of(operation) == UCXPOOL_WAY_CUDA) {
        status = window_device_start(operation);
    } else if (operation->size <= AT_ONCE) {
        while (status == UCXPOOL_INPROGRESS) {
            status = copy_some(operation);
        }
    }
    if ((status == UCXPOOL_INPROGRESS) || (status == UCXPOOL_ERR_BUSY)) {
        base_list_add_tail(&channel->pool->windows->copying, &operation->link);
    } else {
        window_operation_end(operation, status,
                             (status == UCXPOOL_OK) ? NULL
                                                    : ucxpool_error_detail());
    }
}

static void begin(window_operation_t *operation)
{
    if ((operation->size == 0) || goes_directly(operation)) {
        copy(operation);
    } else {
        base_list_add_tail(&operation->remote->channel->windows->queued,
                           &operation->link);
    }
}

ucxpool_status_t window_operate(ucxpool_remote_t *remote, bool is_write,
                                const ucxpool_places_t         *places,
                                const copy_memory_t            *memory,
                                const ucxpool_request_params_t *params,
                                ucxpool_request_t             **request_p)
{
    ucxpool_status_t    status = check_allowed(remote, places, is_write);
    window_operation_t *operation;
    ucxpool_request_t  *request;

    if (status != UCXPOOL_OK) {
        return status;
    }
    operation = create(remote, is_write, places);
    if (operation == NULL) {
        return UCXPOOL_ERR_NO_MEMORY;
    }
    status = check_list(operation);
    if (status == UCXPOOL_OK) {
        status = make_request(operation, memory, params);
    }
    if (status != UCXPOOL_OK) {
        free_if_over(operation);
        return status;
    }
    base_range_begin(&operation->range,
                     is_write ? BASE_RANGE_WRITE : BASE_RANGE_READ,
                     operation->size);
    request = operation->request;
    core_request_arm(request);
    if (remote->status == UCXPOOL_INPROGRESS) {
        base_list_add_tail(&remote->waiting, &operation->link);
    } else {
        begin(operation);
        window_operations_progress(remote->channel);
    }
    core_request_hand_out(request, request_p);
    return UCXPOOL_OK;
}

void window_operations_begin(ucxpool_remote_t *remote)
{
    window_operation_t *operation;

    remote->refs++; /* until we are through here */
    while (!base_list_is_empty(&remote->waiting)) {
        operation = base_list_head(&remote->waiting, window_operation_t, link);
        base_list_del(&operation->link);
        begin(operation);
    }
    window_remote_put(remote);
}

static void abort_list(base_list_t *list, const ucxpool_remote_t *remote,
                       ucxpool_status_t status, const char *reason)
{
    window_operation_t *operation;
    window_operation_t *next;

    base_list_for_each_safe(operation, next, list, window_operation_t, link) {
        if ((operation->remote == remote) && (operation->request != NULL)) {
            window_operation_end(operation, status, reason);
        }
    }
}

void window_operations_abort(ucxpool_remote_t *remote, ucxpool_status_t status,
                             const char *reason)
{
    struct window_channel *windows = remote->channel->windows;

    abort_list(&remote->waiting, remote, status, reason);
    abort_list(&windows->queued, remote, status, reason);
    abort_list(&windows->called, remote, status, reason);
    abort_list(&windows->moving, remote, status, reason);
    abort_list(&windows->moved, remote, status, reason);
    abort_list(&remote->channel->pool->windows->copying, remote, status,
               reason);
}

/* --- by messages ---------------------------------------------------------- */

static void call_sent(ucxpool_request_t *request, ucxpool_status_t status,
                      void *arg)
{
    window_operation_t *operation = arg;

    operation->call_request = NULL;
    if ((status != UCXPOOL_OK) && (operation->request != NULL)) {
        window_operation_end(operation, status, core_request_detail(request));
        return;
    }
    free_if_over(operation);
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
           places_of(operation), size);
    return UCXPOOL_OK;
}

/* The CALL goes first, and then what a write brings. */
static void send_call(window_operation_t *operation, ucxpool_request_t *call)
{
    ucxpool_channel_t *channel  = operation->remote->channel;
    ucxpool_request_t *request  = operation->request;
    bool               is_write = operation->is_write;

    channel->windows->num_calls++;
    channel->windows->calls_size += operation->call.length;
    operation->was_called   = true;
    operation->call_request = call;
    base_list_del(&operation->link);
    base_list_add_tail(&channel->windows->called, &operation->link);
    request->kind = is_write ? &xfer_send_kind : &xfer_recv_kind;

    call->send->desc_flags = PROTO_DESC_CALL;
    call->tag              = operation->number;
    call->told.hook        = call_sent;
    call->told.hook_arg    = operation;
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
    const ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT |
                      UCXPOOL_REQUEST_PARAM_FIELD_STREAM,
        .timeout_ns = UCXPOOL_FOREVER,
        .stream     = UCXPOOL_STREAM_READY,
    };
    copy_memory_t      memory;
    ucxpool_request_t *call;
    ucxpool_status_t   status = fill_call(operation);

    if (status == UCXPOOL_OK) {
        memory = copy_memory_of_segments(&operation->call, 1);
        status = xfer_send_create(operation->remote->channel, &memory, &params,
                                  &call);
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

unsigned window_operations_progress(ucxpool_channel_t *channel)
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

static window_operation_t *find(const ucxpool_channel_t *channel,
                                uint64_t                 number)
{
    window_operation_t *operation;

    base_list_for_each(operation, &channel->windows->called, window_operation_t,
                       link) {
        if (operation->number == number) {
            return operation;
        }
    }
    return NULL;
}

void window_operation_answered(ucxpool_message_t *message)
{
    ucxpool_channel_t  *channel   = message->channel;
    window_operation_t *operation = find(channel, message->desc.tag);

    if ((operation == NULL) || operation->is_write || operation->is_answered) {
        xfer_message_drop(message, UCXPOOL_ERR_CANCELED,
                          "nobody waits for what was read");
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

void window_operation_refused(ucxpool_channel_t        *channel,
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
