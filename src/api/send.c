/*
 * The public functions of sends.
 */
#include "base/error.h"
#include "xfer/memtype.h"
#include "xfer/send.h"

static uint64_t longest_segment(const ucxpool_request_t *request)
{
    uint64_t longest = 0;

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
    ucxpool_t       *pool = request->pool;
    ucxpool_status_t status;

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

static ucxpool_status_t post_send(ucxpool_channel_t   *channel,
                                  const copy_memory_t *memory, uint64_t tag,
                                  const ucxpool_request_params_t *params,
                                  ucxpool_request_t             **request_p)
{
    ucxpool_t         *pool = channel->pool;
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    if (!core_channel_is_live(channel)) {
        return core_channel_say_ended(channel);
    }
    status =
        core_request_create(pool, &xfer_send_kind, memory, params, &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    request->tag = tag;
    core_request_set_channel(request, channel);
    status = plan_send(request);
    if (status == UCXPOOL_OK) {
        status = xfer_send_check_limits(request);
    }
    if (status == UCXPOOL_OK) {
        status = xfer_memtype_look(request, params);
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

static ucxpool_status_t send_memory(ucxpool_channel_t *channel,
                                    copy_memory_t memory, uint64_t tag,
                                    const ucxpool_request_params_t *params,
                                    ucxpool_request_t             **request_p)
{
    ucxpool_t       *pool = channel->pool;
    ucxpool_status_t status;

    core_lock(pool);
    status = post_send(channel, &memory, tag, params, request_p);
    core_unlock_posted(pool);
    return status;
}

ucxpool_status_t ucxpool_send_buffers(ucxpool_channel_t       *channel,
                                      const ucxpool_segment_t *segments,
                                      size_t num_segments, uint64_t tag,
                                      const ucxpool_request_params_t *params,
                                      ucxpool_request_t             **request_p)
{
    if (base_missing(channel)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return send_memory(channel, copy_memory_of_segments(segments, num_segments),
                       tag, params, request_p);
}

ucxpool_status_t ucxpool_send_pieces(ucxpool_channel_t *channel,
                                     void *const *addresses, size_t num_pieces,
                                     size_t length, uint64_t tag,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p)
{
    if (base_missing(channel)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return send_memory(channel,
                       copy_memory_of_pieces(addresses, num_pieces, length),
                       tag, params, request_p);
}

ucxpool_status_t ucxpool_send_buffer(ucxpool_channel_t *channel,
                                     const void *address, size_t length,
                                     uint64_t                        tag,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p)
{
    ucxpool_segment_t segment = {(void *)address, length};

    if (base_missing(channel)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return ucxpool_send_buffers(channel, &segment, 1, tag, params, request_p);
}
