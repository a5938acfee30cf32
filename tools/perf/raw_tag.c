/*
 * Tag messages: one for a contiguous message, one for all scattered buffers
 * (UCP_DATATYPE_IOV on both sides), or one for each of them.
 */
#include "perf/raw.h"

/* Messages of one slot that UCX may hold before we let it progress. */
#define WINDOW 64u

/* What a tag says: an answer or not, the slot, the number of the buffer. */
#define TAG_REPLY UINT64_C(0x8000000000000000)

static uint64_t tag_of(unsigned slot, size_t part)
{
    return (uint64_t)slot << 32 | part;
}

/* Tag messages that a message is made of. */
static size_t num_parts(const raw_t *raw)
{
    return raw->iov != NULL ? 1 : raw->end.buffers.num_segments;
}

static void fill_param(const raw_t *raw, end_slot_t *slot,
                       ucp_request_param_t *param)
{
    param->op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
        UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_DATATYPE;
    param->user_data   = slot;
    param->memory_type = raw->lane->memory_type;
    param->datatype    = ucp_dt_make_contig(1);
    if (raw->memh != NULL) {
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param->memh = raw->memh;
    }
}

/* What a part sends or receives, as UCX wants it for the datatype. */
static void *part_memory(const raw_t *raw, unsigned index, size_t part,
                         ucp_request_param_t *param, size_t *count_p)
{
    const buffers_t   *buffers = &raw->end.buffers;
    ucxpool_segment_t *segment = buffers_segments(buffers, index) + part;

    if (raw->iov != NULL) {
        param->datatype = UCP_DATATYPE_IOV;
        *count_p        = buffers->num_segments;
        return raw->iov + index * buffers->num_segments;
    }
    *count_p = segment->length;
    return segment->address;
}

static void reply_received(void *request, ucs_status_t status,
                           const ucp_tag_recv_info_t *info, void *user_data)
{
    end_slot_t *slot = user_data;

    slot->pending--;
    ucp_request_free(request);
    if (status != UCS_OK) {
        lane_fail(slot->end, status, "an answer ended early");
    }
    slot->replied = true;
}

/* The receive of an answer that repeats the message, before it can come. */
static int expect_reply(raw_t *raw, unsigned index)
{
    buffers_t          *buffers = &raw->end.buffers;
    end_slot_t         *slot    = &raw->end.slots[index];
    ucp_request_param_t param;

    fill_param(raw, slot, &param);
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.recv = reply_received;
    return lane_post(raw->lane, slot,
                     ucp_tag_recv_nbx(raw->lane->worker,
                                      buffers_reply(buffers, index),
                                      buffers_reply_size(buffers),
                                      TAG_REPLY | index, UINT64_MAX, &param));
}

static int tag_send(end_t *end, unsigned index)
{
    raw_t              *raw  = (raw_t *)end;
    end_slot_t         *slot = &end->slots[index];
    ucp_request_param_t param;
    size_t              count;
    void               *memory;

    lane_enter(raw->lane, end);
    if (end->work.echo && (expect_reply(raw, index) != 0)) {
        return -1;
    }
    for (size_t part = 0; part < num_parts(raw); part++) {
        while ((slot->pending >= WINDOW) && !end->failed) {
            lane_progress(raw->lane, end);
        }
        fill_param(raw, slot, &param);
        param.cb.send = lane_send_done;
        memory        = part_memory(raw, index, part, &param, &count);
        if (end->failed ||
            (lane_post(raw->lane, slot,
                       ucp_tag_send_nbx(raw->lane->ep, memory, count,
                                        tag_of(index, part), &param)) != 0)) {
            return -1;
        }
    }
    return 0;
}

static void received(void *request, ucs_status_t status,
                     const ucp_tag_recv_info_t *info, void *user_data)
{
    end_slot_t  *slot = user_data;
    const raw_t *raw  = (const raw_t *)slot->end;

    slot->pending--;
    ucp_request_free(request);
    if (status != UCS_OK) {
        lane_fail(slot->end, status, "a receive ended early");
        return;
    }
    slot->num_bytes += info->length;
    if (++slot->num_arrived < num_parts(raw)) {
        return;
    }
    slot->arrived = slot->num_bytes == slot->end->buffers.size;
    if (!slot->arrived) {
        lane_fail(slot->end, UCS_ERR_MESSAGE_TRUNCATED,
                  "a message of a wrong size");
    }
}

static int tag_expect(end_t *end, unsigned index)
{
    raw_t              *raw  = (raw_t *)end;
    end_slot_t         *slot = &end->slots[index];
    ucp_request_param_t param;
    ucs_status_ptr_t    request;
    size_t              count;
    void               *memory;

    lane_enter(raw->lane, end);
    slot->num_arrived = 0;
    slot->num_bytes   = 0;
    for (size_t part = 0; part < num_parts(raw); part++) {
        fill_param(raw, slot, &param);
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        param.cb.recv = received;
        memory        = part_memory(raw, index, part, &param, &count);

        request = ucp_tag_recv_nbx(raw->lane->worker, memory, count,
                                   tag_of(index, part), UINT64_MAX, &param);
        if (lane_post(raw->lane, slot, request) != 0) {
            return -1;
        }
    }
    return 0;
}

static int tag_reply(end_t *end, unsigned index)
{
    raw_t              *raw  = (raw_t *)end;
    end_slot_t         *slot = &end->slots[index];
    ucp_request_param_t param;
    size_t              count;
    void               *memory;

    if (!end->work.echo) {
        return raw_reply(end, index);
    }
    fill_param(raw, slot, &param);
    param.cb.send = lane_send_done;
    memory        = part_memory(raw, index, 0, &param, &count);
    return lane_post(raw->lane, slot,
                     ucp_tag_send_nbx(raw->lane->ep, memory, count,
                                      TAG_REPLY | index, &param));
}

const end_ops_t raw_tag_ops = {
    .send     = tag_send,
    .expect   = tag_expect,
    .reply    = tag_reply,
    .progress = raw_progress,
    .destroy  = raw_destroy,
};
