/*
 * The answer to a message, by an active message: only a header, or all of the
 * message back.
 */
#include "perf/lane.h"

#include <string.h>

int lane_reply(lane_t *lane, end_t *end, unsigned index)
{
    end_slot_t         *slot   = &end->slots[index];
    lane_header_t      *header = &lane->reply_headers[index];
    ucp_request_param_t param;
    void               *data   = NULL;
    size_t              length = 0;

    /* The last reply of this slot has arrived, else there were no new message;
     * UCX may still have to notice. */
    while ((slot->pending != 0) && !end->failed) {
        lane_progress(lane, end);
    }
    if (end->work.echo) {
        data   = buffers_segments(&end->buffers, index)[0].address;
        length = end->buffers.size;
    }
    header->slot       = index;
    header->index      = 0;
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                         UCP_OP_ATTR_FIELD_USER_DATA |
                         UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.cb.send   = lane_send_done;
    param.user_data = slot;
    param.memory_type =
        end->work.echo ? lane->memory_type : UCS_MEMORY_TYPE_HOST;
    return lane_post(lane, slot,
                     ucp_am_send_nbx(lane->ep, LANE_AM_REPLY, header,
                                     sizeof(*header), data, length, &param));
}

static void fetched(void *request, ucs_status_t status, size_t length,
                    void *user_data)
{
    end_slot_t *slot = user_data;

    slot->pending--;
    ucp_request_free(request);
    if (status != UCS_OK) {
        lane_fail(slot->end, status, "an answer ended early");
    }
    slot->replied = true;
}

/* The bytes are still at the receiver. */
static ucs_status_t fetch(lane_t *lane, unsigned index, void *data,
                          size_t length)
{
    end_t              *end  = lane->sender;
    end_slot_t         *slot = &end->slots[index];
    ucp_request_param_t param;
    ucs_status_ptr_t    request;

    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                         UCP_OP_ATTR_FIELD_USER_DATA |
                         UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.cb.recv_am  = fetched;
    param.user_data   = slot;
    param.memory_type = lane->memory_type;

    request = ucp_am_recv_data_nbx(lane->worker, data,
                                   buffers_reply(&end->buffers, index), length,
                                   &param);
    if ((lane_post(lane, slot, request) == 0) && (request == NULL)) {
        slot->replied = true;
    }
    return UCS_INPROGRESS;
}

ucs_status_t lane_reply_arrived(lane_t *lane, unsigned slot, void *data,
                                size_t length, const ucp_am_recv_param_t *param)
{
    end_t *end = lane->sender;

    if ((slot >= end->work.outstanding) ||
        (length != (end->work.echo ? end->buffers.size : 0))) {
        lane_fail(end, UCS_ERR_INVALID_PARAM, "an unexpected reply");
        return UCS_OK;
    }
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        return fetch(lane, slot, data, length);
    }
    if ((length != 0) &&
        (memory_put(end->buffers.memory, buffers_reply(&end->buffers, slot),
                    data, length) != 0)) {
        end->failed = true;
    }
    end->slots[slot].replied = true;
    return UCS_OK;
}
