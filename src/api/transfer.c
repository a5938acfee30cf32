/*
 * The public functions that send and receive: data, requests, messages.
 */
#include <ucxpool/transfer.h>

#include "base/clock.h"
#include "base/error.h"
#include "copy/file.h"
#include "core/control.h"
#include "core/request.h"
#include "pool/pool.h"
#include "xfer/message.h"
#include "xfer/recv.h"
#include "xfer/send.h"

/* --- data -------------------------------------------------------------------
 */

/* What the caller described, and room for the list of one buffer. */
typedef struct caller_data {
    copy_memory_t     memory;
    ucxpool_segment_t buffer;
} caller_data_t;

static ucxpool_status_t refuse_unknown(const ucxpool_data_t *data)
{
    return base_error(UCXPOOL_ERR_UNSUPPORTED,
                      "this library does not know data of kind %d: it is older "
                      "than the header, or the ucxpool_data_t was not made by "
                      "ucxpool_data_...() or ucxpool_source_...()",
                      (int)data->kind);
}

/* Sources are read only, and looked at by the same code as targets. */
static ucxpool_status_t read_data(const ucxpool_data_t *data,
                                  caller_data_t        *caller)
{
    for (size_t i = 0; i < sizeof(data->reserved) / sizeof(data->reserved[0]);
         i++) {
        if (data->reserved[i] != 0) {
            return refuse_unknown(data);
        }
    }
    switch (data->kind) {
    case UCXPOOL_DATA_BUFFER:
        caller->buffer.address = (void *)data->at.buffer;
        caller->buffer.length  = data->length;
        caller->memory         = copy_memory_of_segments(&caller->buffer, 1);
        return UCXPOOL_OK;
    case UCXPOOL_DATA_SEGMENTS:
        caller->memory = copy_memory_of_segments(
            (const ucxpool_segment_t *)data->at.segments, data->count);
        return UCXPOOL_OK;
    case UCXPOOL_DATA_PIECES:
        caller->memory = copy_memory_of_pieces((void *const *)data->at.pieces,
                                               data->count, data->length);
        return UCXPOOL_OK;
    case UCXPOOL_DATA_RANGES:
        caller->memory = copy_memory_of_ranges(data->at.ranges, data->count);
        return UCXPOOL_OK;
    }
    return refuse_unknown(data);
}

static ucxpool_status_t read_target(const ucxpool_data_t *data,
                                    caller_data_t        *caller)
{
    if (data->is_source || (data->kind == UCXPOOL_DATA_RANGES)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the data to receive into was made by "
                          "ucxpool_source_...(), which is for what is only "
                          "sent: use ucxpool_data_...()");
    }
    return read_data(data, caller);
}

/* --- send -------------------------------------------------------------------
 */

/* Of the memory. */
static uint64_t longest_segment(const ucxpool_request_t *request)
{
    const copy_memory_t *memory  = &request->data.memory;
    uint64_t             longest = 0;

    if (copy_memory_is_ranges(memory)) {
        for (size_t i = 0; i < memory->num; i++) {
            if (memory->ranges[i].kind == UCXPOOL_RANGE_MEMORY) {
                longest = base_max(longest, (uint64_t)memory->ranges[i].length);
            }
        }
        return longest;
    }
    for (size_t i = 0; i < request->data.num_runs; i++) {
        longest = base_max(longest, request->data.runs[i].length);
    }
    return longest;
}

/* A copy on a GPU takes longer than a fragment of its own; but where there are
 * others to be packed, short ones go with them. */
static uint64_t inplace_min(const ucxpool_request_t *request)
{
    if (copy_engine_is_launched(request->pool->engine) &&
        (request->data.memory.num == 1)) {
        return 1;
    }
    return request->pool->config.inplace_min;
}

/* Does any segment lie in comm memory, and is worth a fragment? */
static bool has_comm_memory(const ucxpool_request_t *request)
{
    const copy_memory_t *memory = &request->data.memory;
    mem_piece_t          where;
    block_comm_buffer_t *buffer;

    if (request->send.longest < request->send.inplace_min) {
        return false;
    }
    for (size_t i = 0; i < memory->num; i++) {
        uint64_t length = copy_memory_length(memory, i);

        if ((length >= request->send.inplace_min) &&
            block_comm_find(request->pool->memory.comm,
                            copy_memory_address(memory, i), length, &where,
                            &buffer)) {
            return true;
        }
    }
    return false;
}

/* As many runs as there is room for are written, too. */
static ucxpool_status_t count_runs(ucxpool_request_t *request)
{
    if (copy_memory_is_ranges(&request->data.memory)) {
        return copy_lengths_of_ranges(
            request->data.memory.ranges, request->data.memory.num,
            request->data.runs, request->data.runs_size,
            &request->data.num_runs, &request->data.totals);
    }
    return copy_lengths_count(request->data.memory.segments,
                              request->data.memory.num, request->data.runs,
                              request->data.runs_size, &request->data.num_runs,
                              &request->data.totals);
}

/* The run of pieces is known without a look at them. */
static ucxpool_status_t count_pieces(ucxpool_request_t *request)
{
    ucxpool_status_t status = core_request_reserve_runs(request, 1);

    if (status != UCXPOOL_OK) {
        return status;
    }
    return copy_lengths_of_pieces(
        request->data.memory.length, request->data.memory.num,
        request->data.runs, &request->data.num_runs, &request->data.totals);
}

/* Lengths as runs, and what there is to be sent in place. */
static ucxpool_status_t plan_send(ucxpool_request_t *request)
{
    ucxpool_t       *pool   = request->pool;
    ucxpool_status_t status = UCXPOOL_OK;

    if (copy_memory_is_ranges(&request->data.memory)) {
        status = copy_file_check(request->data.memory.ranges,
                                 request->data.memory.num);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = copy_memory_is_pieces(&request->data.memory)
                 ? count_pieces(request)
                 : count_runs(request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (request->data.num_runs > pool->config.max_segments) {
        return base_error(UCXPOOL_ERR_LIMIT,
                          "%zu differing segment lengths are more than "
                          "UCXPOOL_MAX_SEGMENTS=%zu",
                          request->data.num_runs, pool->config.max_segments);
    }
    if (request->data.num_runs > request->data.runs_size) {
        status = core_request_reserve_runs(request, request->data.num_runs);
        if (status == UCXPOOL_OK) {
            status = count_runs(request);
        }
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    request->send.longest     = longest_segment(request);
    request->send.inplace_min = inplace_min(request);
    request->send.in_place    = has_comm_memory(request);
    return UCXPOOL_OK;
}

/* Is it one short piece of host memory, with nothing but a tag? */
static bool is_short(const ucxpool_t *pool, const copy_memory_t *memory,
                     const ucxpool_request_params_t *params)
{
    const ucxpool_segment_t *segment = memory->segments;

    return (segment != NULL) && (memory->num == 1) && (segment->length != 0) &&
           (segment->address != NULL) &&
           (segment->length <= pool->config.eager_size) &&
           !copy_engine_is_launched(pool->engine) &&
           ((params == NULL) ||
            !(params->field_mask & UCXPOOL_REQUEST_PARAM_FIELD_METADATA));
}

/* Nobody has a request, or is told of its end. */
static bool is_untold(const ucxpool_request_params_t *params,
                      ucxpool_request_t             **request_p)
{
    return (request_p == NULL) &&
           ((params == NULL) ||
            !(params->field_mask & (UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK |
                                    UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION)));
}

/* Without a request. */
static bool send_untold(ucxpool_channel_t       *channel,
                        const ucxpool_segment_t *segment, uint64_t tag)
{
    if (!xfer_send_short(channel, tag, segment)) {
        return false;
    }
    channel->flow.num_posted++;
    channel->pool->stats.messages_sent++;
    return true;
}

/* With a request, which has ended then. */
static bool send_short(ucxpool_request_t *request)
{
    const ucxpool_segment_t *segment = &request->data.segment;

    if (!xfer_send_short(request->channel, request->tag, segment)) {
        return false;
    }
    request->data.totals = (copy_totals_t){.num_segments = 1,
                                           .payload_size = segment->length,
                                           .stream_size  = segment->length};
    request->order       = request->channel->flow.num_posted++;
    core_request_end(request, UCXPOOL_OK, NULL);
    return true;
}

static ucxpool_status_t post_send(ucxpool_channel_t   *channel,
                                  const copy_memory_t *memory, uint64_t tag,
                                  const ucxpool_request_params_t *params,
                                  ucxpool_request_t             **request_p)
{
    ucxpool_t         *pool     = channel->pool;
    bool               as_short = is_short(pool, memory, params);
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    if (!core_channel_is_live(channel)) {
        return core_channel_say_ended(channel);
    }
    if (as_short && is_untold(params, request_p) &&
        send_untold(channel, memory->segments, tag)) {
        return UCXPOOL_OK;
    }
    status =
        core_request_create(pool, &xfer_send_kind, memory, params, &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    request->tag = tag;
    core_request_set_channel(request, channel);
    if (as_short && send_short(request)) {
        core_request_hand_out(request, request_p);
        return UCXPOOL_OK;
    }
    status = plan_send(request);
    if (status == UCXPOOL_OK) {
        status = xfer_send_check_limits(request);
    }
    if (status == UCXPOOL_OK) {
        status = core_request_find_memtypes(request, params);
    }
    if (status != UCXPOOL_OK) {
        core_request_discard(request);
        return status;
    }
    copy_plan_init(&request->data.plan, request->data.runs,
                   request->data.num_runs, &request->data.totals,
                   &request->data.memory);
    core_request_arm(request);
    request->order = channel->flow.num_posted++;
    base_list_add_tail(&channel->requests.queue, &request->link);
    xfer_send_advance(request);
    core_request_hand_out(request, request_p);
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_send(ucxpool_channel_t    *channel,
                              const ucxpool_data_t *data, uint64_t tag,
                              const ucxpool_request_params_t *params,
                              ucxpool_request_t             **request_p)
{
    caller_data_t    caller;
    ucxpool_status_t status;

    if (base_missing(channel) || base_missing(data)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = read_data(data, &caller);
    if (status != UCXPOOL_OK) {
        return status;
    }
    core_lock(channel->pool);
    status = post_send(channel, &caller.memory, tag, params, request_p);
    core_unlock_posted(channel->pool);
    return status;
}

ucxpool_status_t ucxpool_send_buffer(ucxpool_channel_t *channel,
                                     const void *address, size_t length,
                                     uint64_t                        tag,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p)
{
    ucxpool_data_t data = ucxpool_source_buffer(address, length);

    if (base_missing(channel)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return ucxpool_send(channel, &data, tag, params, request_p);
}

/* --- receive ----------------------------------------------------------------
 */

static ucxpool_status_t multiply_capacity(ucxpool_request_t *request)
{
    const copy_memory_t *memory = &request->data.memory;

    if (!base_mul(memory->num, memory->length, &request->data.capacity) ||
        (request->data.capacity > PROTO_SIZE_MAX)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%zu pieces of %llu bytes overflow", memory->num,
                          (unsigned long long)memory->length);
    }
    return UCXPOOL_OK;
}

/* How much the segments hold together. */
static ucxpool_status_t add_capacity(ucxpool_request_t *request)
{
    const copy_memory_t *memory = &request->data.memory;

    if (copy_memory_is_pieces(memory)) {
        return multiply_capacity(request);
    }
    if (copy_pairs_sum(memory->segments, memory->num,
                       &request->data.capacity)) {
        return UCXPOOL_OK;
    }
    request->data.capacity = 0;
    for (size_t i = 0; i < memory->num; i++) {
        const ucxpool_segment_t *segment = &memory->segments[i];

        if ((segment->address == NULL) && (segment->length != 0)) {
            return base_error(UCXPOOL_ERR_INVALID_PARAM,
                              "segment %zu is NULL with a length of %zu", i,
                              segment->length);
        }
        if (!base_add(request->data.capacity, segment->length,
                      &request->data.capacity) ||
            (request->data.capacity > PROTO_SIZE_MAX)) {
            return base_error(UCXPOOL_ERR_INVALID_PARAM,
                              "the lengths of the segments overflow at %zu", i);
        }
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t create_recv(ucxpool_t                      *pool,
                                    const copy_memory_t            *memory,
                                    const ucxpool_request_params_t *params,
                                    ucxpool_request_t             **request_p)
{
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    status =
        core_request_create(pool, &xfer_recv_kind, memory, params, &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = add_capacity(request);
    if (status == UCXPOOL_OK) {
        status = core_request_find_memtypes(request, params);
    }
    if (status != UCXPOOL_OK) {
        core_request_discard(request);
        return status;
    }
    *request_p = request;
    return UCXPOOL_OK;
}

static ucxpool_status_t post_recv(ucxpool_t *pool, ucxpool_channel_t *channel,
                                  const copy_memory_t *memory, uint64_t tag,
                                  uint64_t                        mask,
                                  const ucxpool_request_params_t *params,
                                  ucxpool_request_t             **request_p)
{
    ucxpool_request_t *request;
    ucxpool_message_t *message;
    ucxpool_status_t   status;

    if (pool->closing) {
        return base_error(UCXPOOL_ERR_CLOSED, "the pool is being destroyed");
    }
    status = create_recv(pool, memory, params, &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    request->tag         = tag;
    request->mask        = mask;
    request->any_channel = (channel == NULL);
    message              = xfer_message_match(pool, channel, tag, mask);
    if ((message == NULL) && (channel != NULL) &&
        !core_channel_is_live(channel)) {
        core_request_discard(request);
        return core_channel_say_ended(channel);
    }
    if (channel != NULL) {
        core_request_set_channel(request, channel);
    }
    core_request_arm(request);
    if (message != NULL) {
        xfer_recv_start(request, message);
    } else {
        base_list_add_tail(&pool->requests.posted, &request->link);
    }
    core_request_hand_out(request, request_p);
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_recv(ucxpool_t *pool, ucxpool_channel_t *channel,
                              const ucxpool_data_t *data, uint64_t tag,
                              uint64_t                        mask,
                              const ucxpool_request_params_t *params,
                              ucxpool_request_t             **request_p)
{
    caller_data_t    caller;
    ucxpool_status_t status;

    if (base_missing(pool) || base_missing(data)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = read_target(data, &caller);
    if (status != UCXPOOL_OK) {
        return status;
    }
    core_lock(pool);
    status =
        post_recv(pool, channel, &caller.memory, tag, mask, params, request_p);
    core_unlock_posted(pool);
    return status;
}

ucxpool_status_t ucxpool_recv_buffer(ucxpool_t         *pool,
                                     ucxpool_channel_t *channel, void *address,
                                     size_t length, uint64_t tag, uint64_t mask,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p)
{
    ucxpool_data_t data = ucxpool_data_buffer(address, length);

    if (base_missing(pool)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return ucxpool_recv(pool, channel, &data, tag, mask, params, request_p);
}

static ucxpool_status_t message_recv(ucxpool_message_t              *message,
                                     const copy_memory_t            *memory,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p)
{
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    status = create_recv(message->pool, memory, params, &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (request->data.capacity < message->totals.payload_size) {
        status =
            base_error(UCXPOOL_ERR_TRUNCATED,
                       "the message has %llu bytes, the %s hold %llu",
                       (unsigned long long)message->totals.payload_size,
                       copy_memory_is_pieces(memory) ? "pieces" : "segments",
                       (unsigned long long)request->data.capacity);
        core_request_discard(request);
        return status;
    }
    base_list_del(&message->link);
    core_request_arm(request);
    xfer_recv_start(request, message);
    core_request_hand_out(request, request_p);
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_message_recv(ucxpool_message_t              *message,
                                      const ucxpool_data_t           *data,
                                      const ucxpool_request_params_t *params,
                                      ucxpool_request_t             **request_p)
{
    caller_data_t    caller;
    ucxpool_t       *pool;
    ucxpool_status_t status;

    if (base_missing(message) || base_missing(data)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = read_target(data, &caller);
    if (status != UCXPOOL_OK) {
        return status;
    }
    pool = message->pool;
    core_lock(pool);
    status = message_recv(message, &caller.memory, params, request_p);
    core_unlock_posted(pool);
    return status;
}

/* --- requests and messages ------------------------------------------------ */

ucxpool_status_t ucxpool_request_test(const ucxpool_request_t *request)
{
    if (base_missing(request)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return core_request_status(request);
}

static ucxpool_request_attr_t describe_request(const ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;
    size_t             length  = request->metadata.length;

    return (ucxpool_request_attr_t){
        .status          = core_request_status(request),
        .detail          = request->detail,
        .tag             = request->tag,
        .length          = request->data.totals.payload_size,
        .metadata        = (length != 0) ? request->metadata.bytes : NULL,
        .metadata_length = length,
        .channel = ((channel != NULL) && channel->user_ref) ? channel : NULL,
    };
}

void ucxpool_request_query(const ucxpool_request_t *request,
                           ucxpool_request_attr_t *attr_p, size_t attr_size)
{
    ucxpool_request_attr_t attr = {
        .status = UCXPOOL_ERR_INVALID_PARAM,
        .detail = "the request is NULL",
    };

    if (base_missing(attr_p)) {
        return;
    }
    if (!base_missing(request)) {
        core_lock(request->pool);
        attr = describe_request(request);
        core_unlock(request->pool);
    }
    base_output(attr_p, attr_size, &attr, sizeof(attr));
}

void ucxpool_request_cancel(ucxpool_request_t *request)
{
    if (base_missing(request)) {
        return;
    }
    core_lock(request->pool);
    core_request_cancel(request);
    core_unlock_posted(request->pool);
}

void ucxpool_request_release(ucxpool_request_t *request)
{
    ucxpool_t *pool;

    if (request == NULL) {
        return;
    }
    pool = request->pool;
    core_lock(pool);
    core_request_release(request);
    core_unlock(pool);
}

ucxpool_status_t ucxpool_completion_get(ucxpool_t            *pool,
                                        ucxpool_completion_t *completions,
                                        size_t max, size_t *num_p)
{
    if (base_missing(pool) || base_missing(completions) ||
        base_missing(num_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    core_lock(pool);
    *num_p = core_request_tell(pool, completions, max);
    core_unlock(pool);
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_probe(ucxpool_t *pool, ucxpool_channel_t *channel,
                               uint64_t tag, uint64_t mask,
                               ucxpool_message_t **message_p)
{
    ucxpool_message_t *message;

    if (base_missing(pool) || base_missing(message_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    core_lock(pool);
    message = xfer_message_match(pool, channel, tag, mask);
    if (message != NULL) {
        message->probed = true;
        base_list_add_tail(&pool->requests.probed, &message->link);
        *message_p = message;
    }
    core_unlock(pool);
    return (message == NULL) ? UCXPOOL_ERR_NO_MESSAGE : UCXPOOL_OK;
}

static ucxpool_message_attr_t describe_message(const ucxpool_message_t *message)
{
    ucxpool_channel_t *channel = message->channel;
    size_t             length  = message->desc.metadata_size;

    return (ucxpool_message_attr_t){
        .tag             = message->desc.tag,
        .length          = message->totals.payload_size,
        .num_segments    = message->totals.num_segments,
        .metadata        = (length != 0) ? message->metadata : NULL,
        .metadata_length = length,
        .channel         = channel->user_ref ? channel : NULL,
    };
}

void ucxpool_message_query(const ucxpool_message_t *message,
                           ucxpool_message_attr_t *attr_p, size_t attr_size)
{
    ucxpool_message_attr_t attr = {.tag = 0};

    if (base_missing(attr_p)) {
        return;
    }
    if (!base_missing(message)) {
        core_lock(message->pool);
        attr = describe_message(message);
        core_unlock(message->pool);
    }
    base_output(attr_p, attr_size, &attr, sizeof(attr));
}

size_t ucxpool_message_lengths(const ucxpool_message_t *message, size_t first,
                               size_t num_lengths, size_t *lengths)
{
    if (base_missing(message) ||
        ((num_lengths != 0) && base_missing(lengths))) {
        return 0;
    }
    return copy_lengths_expand(message->runs, message->desc.num_runs, first,
                               num_lengths, lengths);
}

void ucxpool_message_refuse(ucxpool_message_t *message, const char *reason)
{
    ucxpool_t *pool;

    if (base_missing(message)) {
        return;
    }
    pool = message->pool;
    core_lock(pool);
    if ((message->desc.message != 0) && !message->canceled) {
        core_control_done(message->channel, message->desc.message,
                          UCXPOOL_ERR_REFUSED,
                          (reason == NULL) ? "no reason given" : reason);
    }
    pool->stats.messages_refused++;
    xfer_message_release(message);
    core_unlock_posted(pool);
}

static bool has_ended(const void *request)
{
    return ucxpool_request_test(request) != UCXPOOL_INPROGRESS;
}

ucxpool_status_t ucxpool_request_wait(ucxpool_request_t *request,
                                      uint64_t           timeout_ns)
{
    pool_goal_t goal = {.is_reached = has_ended, .object = request};

    if (!has_ended(request)) {
        pool_wait(request->pool, &goal, base_clock_deadline(timeout_ns));
    }
    return ucxpool_request_test(request);
}

ucxpool_status_t ucxpool_channel_flush(ucxpool_channel_t              *channel,
                                       const ucxpool_request_params_t *params,
                                       ucxpool_request_t **request_p)
{
    ucxpool_t       *pool;
    ucxpool_status_t status;

    if (base_missing(channel)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    pool = channel->pool;
    core_lock(pool);
    status = xfer_flush_post(channel, params, request_p);
    core_unlock_posted(pool);
    return status;
}
