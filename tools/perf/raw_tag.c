/*
 * Tag messages: one for a contiguous message, or one for all scattered buffers
 * (UCP_DATATYPE_IOV on both sides). The slot is the tag.
 */
#include "perf/raw.h"

static void fill_param(const raw_t *raw, end_slot_t *slot,
                       ucp_request_param_t *param)
{
    param->op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                          UCP_OP_ATTR_FIELD_USER_DATA |
                          UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                          UCP_OP_ATTR_FIELD_DATATYPE;
    param->user_data    = slot;
    param->memory_type  = UCS_MEMORY_TYPE_HOST;
    param->datatype     = ucp_dt_make_contig(1);
    if (raw->iov != NULL) {
        param->datatype = UCP_DATATYPE_IOV;
    }
    if (raw->memh != NULL) {
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param->memh          = raw->memh;
    }
}

/* What a slot sends or receives, as UCX wants it for the datatype. */
static void *slot_memory(const raw_t *raw, unsigned index, size_t *count_p)
{
    const buffers_t *buffers = &raw->end.buffers;

    if (raw->iov != NULL) {
        *count_p = buffers->num_segments;
        return raw->iov + index * buffers->num_segments;
    }
    *count_p = buffers_segments(buffers, index)->length;
    return buffers_segments(buffers, index)->address;
}

static int tag_send(end_t *end, unsigned index)
{
    raw_t              *raw  = (raw_t *)end;
    end_slot_t         *slot = &end->slots[index];
    ucp_request_param_t param;
    size_t              count;
    void               *memory = slot_memory(raw, index, &count);

    fill_param(raw, slot, &param);
    param.cb.send = lane_send_done;
    return lane_post(raw->lane, slot,
                     ucp_tag_send_nbx(raw->lane->ep, memory, count, index,
                                      &param));
}

static void received(void *request, ucs_status_t status,
                     const ucp_tag_recv_info_t *info, void *user_data)
{
    end_slot_t *slot = user_data;

    slot->pending--;
    ucp_request_free(request);
    if (status != UCS_OK) {
        lane_fail(slot->end, status, "a receive ended early");
    } else if (info->length != work_bytes(&slot->end->work)) {
        lane_fail(slot->end, UCS_ERR_MESSAGE_TRUNCATED,
                  "a message of a wrong size");
    } else {
        slot->arrived = true;
    }
}

static int tag_expect(end_t *end, unsigned index)
{
    raw_t              *raw  = (raw_t *)end;
    end_slot_t         *slot = &end->slots[index];
    ucp_request_param_t param;
    ucs_status_ptr_t    request;
    size_t              count;
    void               *memory = slot_memory(raw, index, &count);

    raw->lane->active = end;
    fill_param(raw, slot, &param);
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.recv       = received;
    request = ucp_tag_recv_nbx(raw->lane->worker, memory, count, index,
                               UINT64_MAX, &param);
    return lane_post(raw->lane, slot, request);
}

const end_ops_t raw_tag_ops = {
    .send     = tag_send,
    .expect   = tag_expect,
    .reply    = raw_reply,
    .progress = raw_progress,
    .destroy  = raw_destroy,
};
