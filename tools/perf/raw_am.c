/*
 * Active messages: one per buffer, or one for a contiguous message.
 */
#include "perf/raw.h"

/* Messages of one slot that UCX may hold before we let it progress: more only
 * makes its queues long. */
#define WINDOW 64u

static int send_buffer(raw_t *raw, end_slot_t *slot, size_t at)
{
    const ucxpool_segment_t *segment = &raw->end.buffers.segments[at];
    ucp_request_param_t      param;

    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                         UCP_OP_ATTR_FIELD_USER_DATA |
                         UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.cb.send     = lane_send_done;
    param.user_data   = slot;
    param.memory_type = raw->lane->memory_type;
    if (raw->memh != NULL) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = raw->memh;
    }
    return lane_post(raw->lane, slot,
                     ucp_am_send_nbx(raw->lane->ep, LANE_AM_DATA,
                                     &raw->headers[at], sizeof(lane_header_t),
                                     segment->address, segment->length,
                                     &param));
}

static int am_send(end_t *end, unsigned index)
{
    raw_t      *raw   = (raw_t *)end;
    end_slot_t *slot  = &end->slots[index];
    size_t      first = index * end->buffers.num_segments;

    lane_enter(raw->lane, end);
    for (size_t i = 0; i < end->buffers.num_segments; i++) {
        while (slot->pending >= WINDOW) {
            lane_progress(raw->lane, end);
            if (end->failed) {
                return -1;
            }
        }
        if (send_buffer(raw, slot, first + i) != 0) {
            return -1;
        }
    }
    return 0;
}

static int am_expect(end_t *end, unsigned slot)
{
    lane_enter(((raw_t *)end)->lane, end);
    end->slots[slot].num_arrived = 0;
    return 0;
}

static void count_arrived(end_slot_t *slot)
{
    if (++slot->num_arrived == slot->end->buffers.num_segments) {
        slot->arrived = true;
    }
}

static void fetched(void *request, ucs_status_t status, size_t length,
                    void *user_data)
{
    end_slot_t *slot = user_data;

    slot->pending--;
    ucp_request_free(request);
    if (status != UCS_OK) {
        lane_fail(slot->end, status, "a receive ended early");
    } else {
        count_arrived(slot);
    }
}

/* The bytes are still at the sender: get them to where they belong. */
static ucs_status_t fetch(raw_t *raw, end_slot_t *slot, void *data,
                          const ucxpool_segment_t *segment)
{
    ucp_request_param_t param;
    ucs_status_ptr_t    request;

    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                         UCP_OP_ATTR_FIELD_USER_DATA |
                         UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.cb.recv_am  = fetched;
    param.user_data   = slot;
    param.memory_type = raw->lane->memory_type;
    if (raw->memh != NULL) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = raw->memh;
    }
    request = ucp_am_recv_data_nbx(raw->lane->worker, data, segment->address,
                                   segment->length, &param);
    if ((lane_post(raw->lane, slot, request) == 0) && (request == NULL)) {
        count_arrived(slot);
    }
    return UCS_INPROGRESS;
}

static ucs_status_t arrived(lane_t *lane, const lane_header_t *header,
                            void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    end_t             *end = lane->receiver;
    ucxpool_segment_t *segment;

    if ((header->slot >= end->work.outstanding) ||
        (header->index >= end->buffers.num_segments)) {
        lane_fail(end, UCS_ERR_INVALID_PARAM, "an unexpected message");
        return UCS_OK;
    }
    segment = buffers_segments(&end->buffers, header->slot) + header->index;
    if (length != segment->length) {
        lane_fail(end, UCS_ERR_MESSAGE_TRUNCATED, "a message of a wrong size");
        return UCS_OK;
    }
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        return fetch((raw_t *)end, &end->slots[header->slot], data, segment);
    }
    if (memory_put(end->buffers.memory, segment->address, data, length) != 0) {
        end->failed = true;
        return UCS_OK;
    }
    count_arrived(&end->slots[header->slot]);
    return UCS_OK;
}

const end_ops_t raw_am_ops = {
    .send     = am_send,
    .expect   = am_expect,
    .reply    = raw_reply,
    .progress = raw_progress,
    .destroy  = raw_destroy,
};

const lane_handlers_t raw_handlers = {
    .data  = arrived,
    .reply = lane_reply_arrived,
};
