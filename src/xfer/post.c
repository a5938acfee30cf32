#include "xfer/post.h"

#include "base/error.h"
#include "copy/file.h"
#include "core/control.h"
#include "core/wire.h"
#include "xfer/send.h"
#include "xfer/state.h"

#include <string.h>

/* --- sends ---------------------------------------------------------------- */

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

/*
 * The minimum length of a segment that is sent in place. A copy on a GPU takes
 * longer than a separate fragment, so a single GPU segment is always sent in
 * place. If there are several segments, short segments are packed together.
 */
static uint64_t inplace_min(const ucxpool_request_t *request)
{
    if (request->has_gpu_segments && (request->data.memory.num == 1)) {
        return 1;
    }
    return request->pool->config.inplace_min;
}

/* Returns true if any segment is in comm memory, and long enough to be sent in
 * place. Returns false if the CPU has not read the list of segments. The
 * segments are then packed. */
static bool has_comm_memory(const ucxpool_request_t *request)
{
    const copy_memory_t *memory = &request->data.memory;
    mem_piece_t          where;
    block_comm_buffer_t *buffer;

    if ((request->send->longest < request->send->inplace_min) ||
        memory->is_unseen) {
        return false;
    }
    for (size_t i = 0; i < memory->num; i++) {
        uint64_t length = copy_memory_length(memory, i);

        if ((length >= request->send->inplace_min) &&
            block_comm_find(request->pool->memory.comm,
                            copy_memory_address(memory, i), length, &where,
                            &buffer)) {
            return true;
        }
    }
    return false;
}

/* Count the runs, and write as many as fit in request->data.runs. */
static ucxpool_status_t count_runs(ucxpool_request_t *request)
{
    return copy_lengths_count(&request->data.memory, request->data.runs,
                              request->data.runs_size, &request->data.num_runs,
                              &request->data.totals);
}

/* Compute the runs of the segments' lengths. */
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
    status = count_runs(request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (request->data.num_runs > pool->config.max_segments) {
        return base_error(UCXPOOL_ERR_LIMIT,
                          "the segments have %zu runs of equal lengths, more "
                          "than UCXPOOL_MAX_SEGMENTS=%zu: raise it on both "
                          "sides, or send several messages",
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
    return UCXPOOL_OK;
}

static void find_in_place(ucxpool_request_t *request)
{
    request->send->longest     = longest_segment(request);
    request->send->inplace_min = inplace_min(request);
    request->send->in_place    = has_comm_memory(request);
}

ucxpool_status_t xfer_send_create(ucxpool_channel_t              *channel,
                                  const copy_memory_t            *memory,
                                  const ucxpool_request_params_t *params,
                                  ucxpool_request_t             **request_p)
{
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    if (!core_channel_is_live(channel)) {
        return core_channel_ended_error(channel);
    }
    status = core_request_create(channel->pool, &channel->pool->xfer->sends,
                                 &xfer_send_kind, memory, params, &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    core_request_set_channel(request, channel);
    core_request_find_length(request, params);
    status = plan_send(request);
    if (status == UCXPOOL_OK) {
        status = xfer_send_check_limits(request);
    }
    if (status == UCXPOOL_OK) {
        status = core_request_find_memtypes(request, params);
    }
    if (status == UCXPOOL_OK) {
        status = core_request_make_plan(request);
    }
    if (status != UCXPOOL_OK) {
        core_request_discard(request);
        return status;
    }
    find_in_place(request);
    *request_p = request;
    return UCXPOOL_OK;
}

/* Change the kind of a short send to xfer_send_kind. The send is the first in
 * its queue, and no credit has arrived in time. Returns false if it has ended
 * with UCXPOOL_ERR_NO_MEMORY. */
static bool change_short(ucxpool_request_t *request)
{
    core_request_set_kind(request, &xfer_send_kind);
    if ((plan_send(request) != UCXPOOL_OK) ||
        (core_request_make_plan(request) != UCXPOOL_OK)) {
        xfer_queue_end(request, UCXPOOL_ERR_NO_MEMORY, ucxpool_error_detail());
        return false;
    }
    find_in_place(request);
    return true;
}

void xfer_send_queue(ucxpool_request_t *request)
{
    xfer_send_want_link(request);
    if (xfer_queue_add(request)) {
        xfer_send_advance(request);
    }
}

/* --- receives ------------------------------------------------------------- */

static ucxpool_status_t multiply_capacity(ucxpool_request_t *request)
{
    const copy_memory_t *memory = &request->data.memory;

    if (!base_mul(memory->num, memory->length, &request->data.capacity) ||
        (request->data.capacity > PROTO_SIZE_MAX)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%zu pieces of %llu bytes exceed the limit of %llu "
                          "bytes: check the length",
                          memory->num, (unsigned long long)memory->length,
                          (unsigned long long)PROTO_SIZE_MAX);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t add_capacity(ucxpool_request_t *request)
{
    const copy_memory_t *memory = &request->data.memory;

    if (copy_memory_is_even(memory)) {
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
            return base_error(
                UCXPOOL_ERR_INVALID_PARAM,
                "segment %zu has %zu bytes and no address; set its "
                "address, or set its length to 0",
                i, segment->length);
        }
        if (!base_add(request->data.capacity, segment->length,
                      &request->data.capacity) ||
            (request->data.capacity > PROTO_SIZE_MAX)) {
            return base_error(
                UCXPOOL_ERR_INVALID_PARAM,
                "segment %zu (%zu bytes) makes the receive longer than "
                "the limit of %llu bytes; check its length",
                i, segment->length, (unsigned long long)PROTO_SIZE_MAX);
        }
    }
    return UCXPOOL_OK;
}

/* Create a receive, compute its capacity, and check its memory. */
static ucxpool_status_t create(ucxpool_t *pool, const core_request_kind_t *kind,
                               const copy_memory_t            *memory,
                               const ucxpool_request_params_t *params,
                               ucxpool_request_t             **request_p)
{
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    status = core_request_create(pool, &pool->xfer->recvs, kind, memory, params,
                                 &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    core_request_find_length(request, params);
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

ucxpool_status_t xfer_recv_create(ucxpool_t *pool, const copy_memory_t *memory,
                                  const ucxpool_request_params_t *params,
                                  ucxpool_request_t             **request_p)
{
    return create(pool, &xfer_recv_kind, memory, params, request_p);
}

/* Include the caller's receive in the latency histograms. */
static void start_latency(ucxpool_request_t *request)
{
    core_latency_t *latency = &request->pool->latency;

    request->operation = CORE_OPERATION_RECV;
    /* The length of the message is not known yet. */
    if (!latency->skips[CORE_OPERATION_RECV]) {
        request->started = core_latency_sample(latency, CORE_OPERATION_RECV);
    }
}

static void start(ucxpool_request_t *request, ucxpool_message_t *message)
{
    core_request_set_kind(request, &xfer_recv_kind);
    xfer_recv_start(request, message);
}

static void match(ucxpool_request_t *request, ucxpool_message_t *message)
{
    base_list_del(&request->link);
    base_list_del(&request->run_link);
    xfer_posted_removed(request);
    start(request, message);
}

/*
 * Copy a short message directly from the ring, without a message record or a
 * plan, if the target is one segment that the CPU can write to.
 */
static bool match_short(ucxpool_request_t *request, ucxpool_channel_t *channel,
                        uint64_t tag, const void *bytes, size_t size)
{
    if (request->has_gpu_segments || (request->data.memory.num != 1) ||
        (request->data.capacity < size)) {
        return false;
    }
    if (request->channel == NULL) {
        core_request_set_channel(request, channel);
    }
    memcpy(request->data.segment.address, bytes, size);
    request->tag         = tag;
    request->data.totals = copy_totals_of_piece(size);
    core_traffic_add(&channel->counts.received[CORE_MODE_EAGER], size);
    core_request_finish(request, UCXPOOL_OK, NULL);
    return true;
}

static void ended(ucxpool_request_t *request, ucxpool_status_t status)
{
    xfer_posted_removed(request);
    xfer_recv_count(request, status);
}

/* The kind of a receive that waits for a message. A short message ends the
 * receive directly; any other message changes its kind to xfer_recv_kind. */
static const core_request_kind_t posted_kind = {
    .match       = match,
    .match_short = match_short,
    .stop        = core_request_finish,
    .ended       = ended,
};

/* Start a receive, or let it wait for a message. */
static inline ucxpool_status_t post(ucxpool_request_t *request,
                                    ucxpool_channel_t *channel, uint64_t tag,
                                    uint64_t            mask,
                                    ucxpool_request_t **request_p)
{
    ucxpool_t         *pool    = request->pool;
    ucxpool_message_t *message = NULL;

    request->tag         = tag;
    request->mask        = mask;
    request->any_channel = (channel == NULL);
    if (!base_list_is_empty(&pool->xfer->unexpected)) { /* avoids the call */
        message = xfer_message_match(pool, channel, tag, mask);
    }
    if ((message == NULL) && (channel != NULL) &&
        !core_channel_is_live(channel)) {
        core_request_discard(request);
        return core_channel_ended_error(channel);
    }
    if (channel != NULL) {
        core_request_set_channel(request, channel);
    }
    start_latency(request);
    core_request_arm(request);
    if (message != NULL) {
        start(request, message);
    } else {
        xfer_posted_add(request);
    }
    core_request_hand_out(request, request_p);
    return UCXPOOL_OK;
}

ucxpool_status_t xfer_post_recv(ucxpool_t *pool, ucxpool_channel_t *channel,
                                const copy_memory_t *memory, uint64_t tag,
                                uint64_t                        mask,
                                const ucxpool_request_params_t *params,
                                ucxpool_request_t             **request_p)
{
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    if (pool->closing) {
        return base_error(UCXPOOL_ERR_CLOSED, "the pool is being destroyed");
    }
    status = create(pool, &posted_kind, memory, params, &request);
    return (status == UCXPOOL_OK) ? post(request, channel, tag, mask, request_p)
                                  : status;
}

/* Returns true if the CPU can access the buffer, which then needs no other
 * checks. */
static bool is_host_buffer(const ucxpool_t *pool, const void *address,
                           size_t length)
{
    return (address != NULL) && (length <= PROTO_SIZE_MAX) &&
           (copy_engine_memory_kind(pool->engine) == UCXPOOL_MEMORY_HOST);
}

ucxpool_status_t xfer_post_recv_buffer(ucxpool_t         *pool,
                                       ucxpool_channel_t *channel,
                                       void *address, size_t length,
                                       uint64_t tag, uint64_t mask,
                                       const ucxpool_request_params_t *params,
                                       ucxpool_request_t **request_p)
{
    ucxpool_segment_t  segment = {address, length};
    copy_memory_t      memory  = copy_memory_of_segments(&segment, 1);
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    if (pool->closing || !is_host_buffer(pool, address, length)) {
        return xfer_post_recv(pool, channel, &memory, tag, mask, params,
                              request_p);
    }
    request = core_request_get(pool, &pool->xfer->recvs, &posted_kind);
    if (request == NULL) {
        return UCXPOOL_ERR_NO_MEMORY;
    }
    core_request_set_buffer(request, address, length);
    request->data.capacity = length;
    status                 = core_request_set_params(request, params);
    if (status != UCXPOOL_OK) {
        core_request_discard(request);
        return status;
    }
    return post(request, channel, tag, mask, request_p);
}

ucxpool_status_t xfer_post_message_recv(ucxpool_message_t              *message,
                                        const copy_memory_t            *memory,
                                        const ucxpool_request_params_t *params,
                                        ucxpool_request_t **request_p)
{
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    status = xfer_recv_create(message->pool, memory, params, &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (request->data.capacity < message->totals.payload_size) {
        status =
            base_error(UCXPOOL_ERR_TRUNCATED,
                       "the message has %llu bytes, but the %s of the receive "
                       "have room for %llu",
                       (unsigned long long)message->totals.payload_size,
                       copy_memory_is_pieces(memory) ? "pieces" : "segments",
                       (unsigned long long)request->data.capacity);
        core_request_discard(request);
        return status;
    }
    base_list_del(&message->link);
    start_latency(request);
    core_request_arm(request);
    xfer_recv_start(request, message);
    core_request_hand_out(request, request_p);
    return UCXPOOL_OK;
}

/* --- short messages ------------------------------------------------------- */

/*
 * A short message is one segment of host memory. It is sent through a ring, in
 * an entry that it may share with other messages (SHORT), and needs only a
 * credit. If the message can be sent at once and the caller requests neither a
 * handle nor a notification, no request is created. Otherwise a request is
 * queued. It has no plan, number or fragments, and its struct xfer_send is not
 * used.
 */

static xfer_short_t short_of(const ucxpool_segment_t *segment, uint64_t tag)
{
    return (xfer_short_t){.tag = tag, .data = segment->address};
}

static bool is_taken(const ucxpool_channel_t *channel)
{
    return (channel->state == UCXPOOL_CHANNEL_OPEN) &&
           (channel->peer.max_runs != 0);
}

static bool length_fits(const ucxpool_channel_t *channel, size_t length)
{
    return (length != 0) && (length <= channel->pool->config.eager_size) &&
           (length <= channel->wire->max_inline) && is_taken(channel);
}

/* Returns true if this message can be sent as a short message on this channel,
 * now or later. */
static bool short_fits(const ucxpool_channel_t        *channel,
                       const copy_memory_t            *memory,
                       const ucxpool_request_params_t *params)
{
    return (memory->segments != NULL) && (memory->num == 1) &&
           ((params == NULL) ||
            !(params->field_mask & UCXPOOL_REQUEST_PARAM_FIELD_METADATA)) &&
           (memory->segments->address != NULL) &&
           length_fits(channel, memory->segments->length);
}

/* Send messages that are next in order. Returns false if there are too few
 * credits, or the ring is full. */
static inline bool put(ucxpool_channel_t *channel, const xfer_short_t *messages,
                       uint32_t num, size_t length)
{
    core_traffic_t *sent = &channel->counts.sent[CORE_MODE_EAGER];
    uint8_t        *at   = NULL;

    if (channel->flow.credits >= num) {
        at = core_control_begin_short(channel, num, (uint32_t)length);
    }
    if (at == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < num; i++) {
        memcpy(at, &messages[i].tag, sizeof(messages[i].tag));
        memcpy(at + sizeof(messages[i].tag), messages[i].data, length);
        at += proto_short_size(length);
    }
    core_control_end(channel);
    channel->flow.credits -= num;
    channel->flow.next_sequence += num;
    sent->bytes += num * length;
    sent->fragments += num;
    return true;
}

/* Returns true if the caller wants neither a handle nor a notification. */
static bool needs_no_handle(const ucxpool_request_params_t *params,
                            ucxpool_request_t             **request_p)
{
    return (request_p == NULL) &&
           ((params == NULL) ||
            !(params->field_mask & (UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK |
                                    UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION)));
}

uint32_t xfer_short_max(const ucxpool_channel_t *channel, size_t length)
{
    size_t num;

    if (!length_fits(channel, length) ||
        !base_list_is_empty(&channel->xfer->queue)) {
        return 0;
    }
    num = XFER_SHORTS_SIZE / proto_short_size(length);
    return (uint32_t)base_min(base_max(num, 1), channel->flow.credits);
}

bool xfer_short_send(ucxpool_channel_t *channel, const xfer_short_t *messages,
                     uint32_t num, size_t length)
{
    core_latency_t *latency = &channel->pool->latency;
    uint64_t started = core_latency_begin(latency, CORE_OPERATION_SEND, length);

    if (!put(channel, messages, num, length)) {
        core_latency_cancel(latency, CORE_OPERATION_SEND, started);
        return false;
    }
    channel->flow.num_posted += num;
    channel->counts.messages_sent += num;
    core_latency_end(latency, channel->latency, CORE_OPERATION_SEND,
                     CORE_MODE_EAGER, started, num);
    return true;
}

/* --- short messages as requests ------------------------------------------- */

static bool is_quick(const ucxpool_request_t *request)
{
    return true;
}

static bool advance(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;
    xfer_short_t       message;

    if (core_request_has_ended(request)) {
        return true;
    }
    if ((channel->state != UCXPOOL_CHANNEL_OPEN) ||
        !xfer_queue_is_first(request)) {
        return false;
    }
    message = short_of(&request->data.segment, request->tag);
    if (!put(channel, &message, 1, request->data.segment.length)) {
        if (channel->flow.credits != 0) {
            core_request_stall(request);
            return false;
        }
        return xfer_queue_may_announce(channel) &&
               (!change_short(request) || xfer_send_advance(request));
    }
    xfer_queue_leave(request);
    core_request_end(request, UCXPOOL_OK, NULL);
    return true;
}

static const core_request_kind_t short_kind = {
    .advance  = advance,
    .is_quick = is_quick,
    .stop     = xfer_queue_end,
    .abort    = core_request_end,
    .ended    = xfer_queue_count,
};

static ucxpool_status_t post_short(ucxpool_channel_t   *channel,
                                   const copy_memory_t *memory, uint64_t tag,
                                   const ucxpool_request_params_t *params,
                                   ucxpool_request_t             **request_p)
{
    const xfer_short_t message = short_of(memory->segments, tag);
    ucxpool_t         *pool    = channel->pool;
    uint64_t           started;
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    if (needs_no_handle(params, request_p) &&
        base_list_is_empty(&channel->xfer->queue) &&
        xfer_short_send(channel, &message, 1, memory->segments->length)) {
        return UCXPOOL_OK;
    }
    started = core_latency_begin(&pool->latency, CORE_OPERATION_SEND,
                                 memory->segments->length);
    status  = core_request_create(pool, &pool->xfer->sends, &short_kind, memory,
                                  params, &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    core_request_set_channel(request, channel);
    request->operation   = CORE_OPERATION_SEND;
    request->started     = started;
    request->tag         = tag;
    request->data.totals = copy_totals_of_piece(request->data.segment.length);
    if (xfer_queue_add(request)) {
        (void)advance(request);
    }
    if (!core_request_has_ended(request)) {
        core_request_arm(request);
    }
    core_request_hand_out(request, request_p);
    return UCXPOOL_OK;
}

ucxpool_status_t xfer_post_send(ucxpool_channel_t   *channel,
                                const copy_memory_t *memory, uint64_t tag,
                                const ucxpool_request_params_t *params,
                                ucxpool_request_t             **request_p)
{
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    if (short_fits(channel, memory, params)) {
        return post_short(channel, memory, tag, params, request_p);
    }
    status = xfer_send_create(channel, memory, params, &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    request->tag       = tag;
    request->operation = CORE_OPERATION_SEND;
    request->started =
        core_latency_begin(&channel->pool->latency, CORE_OPERATION_SEND,
                           request->data.totals.payload_size);
    core_request_arm(request);
    xfer_send_queue(request);
    core_request_hand_out(request, request_p);
    return UCXPOOL_OK;
}
