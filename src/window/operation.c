/*
 * Operations: reads and writes of a peer's window.
 *
 * An operation waits for the owner's answer to the import, and then uses the
 * way that was chosen for the remote window.
 */
#include "window/operation.h"

#include "base/error.h"
#include "xfer/post.h"
#include "xfer/recv.h"
#include "xfer/send.h"
#include "window/service.h"
#include "window/way.h"

#include <stdlib.h>

/* --- the request of an operation ------------------------------------------ */

/* GPU jobs access the caller's memory, so the request must not end before these
 * jobs. */
static void stop(ucxpool_request_t *request, ucxpool_status_t status,
                 const char *detail)
{
    window_operation_t *operation = request->notify.hook_arg;

    if (operation->num_jobs == 0) {
        core_request_end(request, status, detail);
    } else {
        window_operation_fail(operation, status, detail);
    }
}

/* The initial kind of an operation's request. If the operation uses messages or
 * RMA, that way's code replaces the kind with its own. */
static const core_request_kind_t operation_kind = {.stop = stop};

/* Free the operation if both of its requests have ended. */
static void operation_put(window_operation_t *operation)
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
    window_operation_t *operation;

    while ((operation = base_list_pop(&pool->windows->free_operations,
                                      window_operation_t, link)) != NULL) {
        free(operation);
    }
}

static window_operation_t *operation_get(ucxpool_t *pool)
{
    window_operation_t *operation = base_list_pop(
        &pool->windows->free_operations, window_operation_t, link);

    return (operation != NULL) ? operation
                               : core_alloc(pool, sizeof(*operation));
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

static void count(const window_operation_t *operation)
{
    core_counters_t *counts = &operation->remote->channel->counts;

    core_traffic_add(operation->is_write ? &counts->written[operation->way]
                                         : &counts->read[operation->way],
                     operation->size);
    operation->request->path = (uint8_t)operation->way;
}

static void ended(ucxpool_request_t *request, ucxpool_status_t status,
                  void *arg)
{
    window_operation_t *operation = arg;

    base_range_end(&operation->range);
    if (status == UCXPOOL_OK) {
        count(operation);
    }
    /* The tag of an operation that uses messages is internal. */
    request->tag         = 0;
    request->notify.hook = NULL;
    operation->request   = NULL;
    base_list_del(&operation->link);
    core_link_leave(&operation->work);
    window_messages_ended(operation, status);
    if (operation->notification != NULL) {
        notify(operation->notification, status);
    }
    if ((status != UCXPOOL_OK) && (operation->call_request != NULL)) {
        /* The owner has not received the CALL, or will receive the END that was
         * just sent. call_ended() frees the operation. */
        core_request_cancel(operation->call_request);
        return;
    }
    operation_put(operation);
}

static void call_ended(ucxpool_request_t *request, ucxpool_status_t status,
                       void *arg)
{
    window_operation_t *operation = arg;

    operation->call_request = NULL;
    if ((status != UCXPOOL_OK) && (operation->request != NULL)) {
        window_operation_end(operation, status, core_request_detail(request));
        return;
    }
    operation_put(operation);
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

static ucxpool_status_t check_allowed(const ucxpool_remote_window_t *remote,
                                      const ucxpool_places_t        *places,
                                      bool                           is_write)
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

static ucxpool_status_t check_list(const ucxpool_places_t *places)
{
    if ((places->count != 0) && (window_places_list(places) == NULL)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the list of places is NULL, but its length is %zu",
                          places->count);
    }
    if (places->count > PROTO_PLACES_MAX) {
        return base_error(UCXPOOL_ERR_LIMIT,
                          "%zu places exceed the limit of %llu for one "
                          "operation; split the operation",
                          places->count, (unsigned long long)PROTO_PLACES_MAX);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t check_places(window_operation_t *operation)
{
    const window_way_t *way = window_operation_way(operation);

    operation->lists_are_read = (operation->remote->status == UCXPOOL_OK) &&
                                (way->checks_places != NULL) &&
                                way->checks_places(operation);
    if (operation->lists_are_read || (operation->size == 0)) {
        return UCXPOOL_OK;
    }
    return window_messages_check(operation);
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
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "the data has %llu bytes, but the places have %llu",
                      (unsigned long long)length,
                      (unsigned long long)operation->size);
}

/* Create the notification for the owner. The notification is sent when the
 * operation succeeds. It is created when the operation is posted, because an
 * error can then still be returned to the caller. */
static ucxpool_status_t
make_notification(window_operation_t             *operation,
                  const ucxpool_request_params_t *params)
{
    const copy_memory_t      nothing = copy_memory_of_segments(NULL, 0);
    ucxpool_request_params_t own     = window_own_params;
    ucxpool_status_t         status;

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
    request->metadata.length          = 0; /* sent with the notification */
    request->data.totals.payload_size = operation->size;
    request->kind                     = &operation_kind;
    request->notify.hook              = ended;
    request->notify.hook_arg          = operation;
    request->operation =
        operation->is_write ? CORE_OPERATION_WRITE : CORE_OPERATION_READ;
    return UCXPOOL_OK;
}

static window_operation_t *create(ucxpool_remote_window_t *remote,
                                  bool is_write, const ucxpool_places_t *places)
{
    window_operation_t *operation = operation_get(remote->channel->pool);

    if (operation == NULL) {
        base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for an operation");
        return NULL;
    }
    *operation = (window_operation_t){
        .remote     = remote,
        .call_ended = call_ended,
        .number     = ++remote->channel->windows->next_number,
        .is_write   = is_write,
        .places     = *places,
        .size       = add_places(places),
    };
    base_list_init(&operation->link);
    if ((places->count == 1) && (window_places_list(places) != NULL)) {
        operation->place = window_place(places, 0);
        operation->places =
            (ucxpool_places_t){.places = &operation->place, .count = 1};
    }
    remote->refs++;
    return operation;
}

/* --- starting and aborting ------------------------------------------------ */

static void begin(window_operation_t *operation)
{
    const window_way_t *way = window_operation_way(operation);

    if ((way->fits != NULL) && (operation->size != 0) &&
        !way->fits(operation)) {
        way = &window_messages;
    }
    operation->way = way->id;
    if (operation->size == 0) {
        window_operation_end(operation, UCXPOOL_OK, NULL);
    } else {
        way->start(operation);
    }
}

ucxpool_status_t window_operate(ucxpool_remote_window_t *remote, bool is_write,
                                const ucxpool_places_t         *places,
                                const copy_memory_t            *memory,
                                const ucxpool_request_params_t *params,
                                ucxpool_request_t             **request_p)
{
    ucxpool_status_t    status = check_allowed(remote, places, is_write);
    window_operation_t *operation;
    ucxpool_request_t  *request;
    uint64_t            started;

    if (status == UCXPOOL_OK) {
        status = check_list(places);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    operation = create(remote, is_write, places);
    if (operation == NULL) {
        return UCXPOOL_ERR_NO_MEMORY;
    }
    started = core_latency_begin(
        &remote->channel->pool->latency,
        is_write ? CORE_OPERATION_WRITE : CORE_OPERATION_READ, operation->size);
    status = make_request(operation, memory, params);
    if (status != UCXPOOL_OK) {
        operation_put(operation);
        return status;
    }
    base_range_begin(&operation->range,
                     is_write ? BASE_RANGE_WRITE : BASE_RANGE_READ,
                     operation->size);
    request          = operation->request;
    request->started = started;
    core_request_arm(request);
    if (remote->status == UCXPOOL_INPROGRESS) {
        base_list_add_tail(&remote->waiting, &operation->link);
    } else {
        begin(operation);
        window_messages_progress(remote->channel);
    }
    core_request_hand_out(request, request_p);
    return UCXPOOL_OK;
}

void window_operations_begin(ucxpool_remote_window_t *remote)
{
    window_operation_t *operation;

    remote->refs++; /* keeps the remote window until the loop has ended */
    while ((operation = base_list_pop(&remote->waiting, window_operation_t,
                                      link)) != NULL) {
        begin(operation);
    }
    window_remote_put(remote);
}

static void abort_list(base_list_t *list, const ucxpool_remote_window_t *remote,
                       ucxpool_status_t status, const char *reason)
{
    window_operation_t *operation, *next;

    base_list_for_each_safe(operation, next, list, window_operation_t, link) {
        if ((operation->remote == remote) && (operation->request != NULL)) {
            window_operation_end(operation, status, reason);
        }
    }
}

void window_operations_abort(ucxpool_remote_window_t *remote,
                             ucxpool_status_t status, const char *reason)
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
