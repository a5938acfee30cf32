/*
 * The public functions of receives.
 */
#include "base/error.h"
#include "copy/plan.h"
#include "xfer/memtype.h"
#include "xfer/message.h"
#include "xfer/recv.h"

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
        status = xfer_memtype_look(request, params);
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

static ucxpool_status_t recv_memory(ucxpool_t *pool, ucxpool_channel_t *channel,
                                    copy_memory_t memory, uint64_t tag,
                                    uint64_t                        mask,
                                    const ucxpool_request_params_t *params,
                                    ucxpool_request_t             **request_p)
{
    ucxpool_status_t status;

    core_lock(pool);
    status = post_recv(pool, channel, &memory, tag, mask, params, request_p);
    core_unlock_posted(pool);
    return status;
}

ucxpool_status_t ucxpool_recv_buffers(ucxpool_t               *pool,
                                      ucxpool_channel_t       *channel,
                                      const ucxpool_segment_t *segments,
                                      size_t num_segments, uint64_t tag,
                                      uint64_t                        mask,
                                      const ucxpool_request_params_t *params,
                                      ucxpool_request_t             **request_p)
{
    if (base_missing(pool)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return recv_memory(pool, channel,
                       copy_memory_of_segments(segments, num_segments), tag,
                       mask, params, request_p);
}

ucxpool_status_t ucxpool_recv_pieces(ucxpool_t         *pool,
                                     ucxpool_channel_t *channel,
                                     void *const *addresses, size_t num_pieces,
                                     size_t length, uint64_t tag, uint64_t mask,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p)
{
    if (base_missing(pool)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return recv_memory(pool, channel,
                       copy_memory_of_pieces(addresses, num_pieces, length),
                       tag, mask, params, request_p);
}

ucxpool_status_t ucxpool_recv_buffer(ucxpool_t         *pool,
                                     ucxpool_channel_t *channel, void *address,
                                     size_t length, uint64_t tag, uint64_t mask,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p)
{
    ucxpool_segment_t segment = {address, length};

    if (base_missing(pool)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return ucxpool_recv_buffers(pool, channel, &segment, 1, tag, mask, params,
                                request_p);
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

static ucxpool_status_t message_memory(ucxpool_message_t              *message,
                                       copy_memory_t                   memory,
                                       const ucxpool_request_params_t *params,
                                       ucxpool_request_t **request_p)
{
    ucxpool_t       *pool = message->pool;
    ucxpool_status_t status;

    core_lock(pool);
    status = message_recv(message, &memory, params, request_p);
    core_unlock_posted(pool);
    return status;
}

ucxpool_status_t ucxpool_message_recv(ucxpool_message_t       *message,
                                      const ucxpool_segment_t *segments,
                                      size_t                   num_segments,
                                      const ucxpool_request_params_t *params,
                                      ucxpool_request_t             **request_p)
{
    if (base_missing(message)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return message_memory(message,
                          copy_memory_of_segments(segments, num_segments),
                          params, request_p);
}

ucxpool_status_t
ucxpool_message_recv_pieces(ucxpool_message_t *message, void *const *addresses,
                            size_t num_pieces, size_t length,
                            const ucxpool_request_params_t *params,
                            ucxpool_request_t             **request_p)
{
    if (base_missing(message)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return message_memory(message,
                          copy_memory_of_pieces(addresses, num_pieces, length),
                          params, request_p);
}
