/*
 * Gets and puts: one for a contiguous message, or one for each scattered
 * buffer, of memory that both ends have registered. A flush tells of the end.
 */
#include "perf/error.h"
#include "perf/raw.h"

#include <stdlib.h>
#include <string.h>

/* Operations of one slot that UCX may hold before we let it progress. */
#define WINDOW 64u

/* What one process tells the other, and its key behind it. */
typedef struct offer {
    uint64_t address;
} offer_t;

static ucs_status_ptr_t start(const raw_t *raw, ucxpool_segment_t *segment,
                              const ucp_request_param_t *param)
{
    const buffers_t *buffers = &raw->end.buffers;
    uint64_t         at      = raw->peer - buffers->shift +
                  (uint64_t)((const char *)segment->address -
                             (const char *)buffers->arena);

    if (side_is_read(raw->end.side)) {
        return ucp_get_nbx(raw->lane->ep, segment->address, segment->length, at,
                           raw->rkey, param);
    }
    return ucp_put_nbx(raw->lane->ep, segment->address, segment->length, at,
                       raw->rkey, param);
}

static void flushed(void *request, ucs_status_t status, void *user_data)
{
    end_slot_t *slot = user_data;

    lane_send_done(request, status, user_data);
    slot->replied = true;
}

static int flush(raw_t *raw, end_slot_t *slot)
{
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send   = flushed,
        .user_data = slot,
    };
    ucs_status_ptr_t request = ucp_ep_flush_nbx(raw->lane->ep, &param);

    if (lane_post(raw->lane, slot, request) != 0) {
        return -1;
    }
    slot->replied = request == NULL;
    return 0;
}

static int rma_send(end_t *end, unsigned index)
{
    raw_t              *raw      = (raw_t *)end;
    end_slot_t         *slot     = &end->slots[index];
    ucxpool_segment_t  *segments = buffers_segments(&end->buffers, index);
    ucp_request_param_t param    = {
           .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                           UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMH,
           .cb.send   = lane_send_done,
           .user_data = slot,
           .memh      = raw->memh,
    };

    for (size_t i = 0; i < end->buffers.num_segments; i++) {
        while ((slot->pending >= WINDOW) && !end->failed) {
            lane_progress(raw->lane, end);
        }
        if (end->failed || (lane_post(raw->lane, slot,
                                      start(raw, &segments[i], &param)) != 0)) {
            return -1;
        }
    }
    return flush(raw, slot);
}

/* The receiver has no part in it. */
static int no_part(end_t *end, unsigned slot)
{
    char name[SIDE_NAME_SIZE];

    (void)slot;
    return perf_error("%s: the receiver is asked for what only the sender does",
                      side_name(end->side, name));
}

const end_ops_t raw_rma_ops = {
    .send     = rma_send,
    .expect   = no_part,
    .reply    = no_part,
    .progress = raw_progress,
    .destroy  = raw_destroy,
};

/* Ours, in one piece. *offer_p is to be freed. */
static int make_offer(const raw_t *raw, offer_t **offer_p, size_t *length_p)
{
    void        *key;
    size_t       key_length;
    offer_t     *offer;
    ucs_status_t status =
        ucp_rkey_pack(raw->lane->context, raw->memh, &key, &key_length);

    if (status != UCS_OK) {
        return perf_error("UCX makes no key of its memory: %s",
                          ucs_status_string(status));
    }
    offer = malloc(sizeof(*offer) + key_length);
    if (offer != NULL) {
        offer->address = (uintptr_t)raw->end.buffers.arena;
        memcpy(offer + 1, key, key_length);
    }
    ucp_rkey_buffer_release(key);
    *offer_p  = offer;
    *length_p = sizeof(*offer) + key_length;
    return offer != NULL ? 0 : perf_error("out of memory for a key");
}

static int take_offer(raw_t *raw, const void *bytes, size_t length)
{
    const offer_t *offer = bytes;
    ucs_status_t   status;

    if (length <= sizeof(*offer)) {
        return perf_error("the other process speaks another version: a key of "
                          "%zu bytes",
                          length);
    }
    raw->peer = offer->address;
    status    = ucp_ep_rkey_unpack(raw->lane->ep, offer + 1, &raw->rkey);
    if (status != UCS_OK) {
        raw->rkey = NULL;
        return perf_error("%s: the other process's memory cannot be reached: "
                          "%s",
                          side_mode_title(raw->lane->mode),
                          ucs_status_string(status));
    }
    return 0;
}

int raw_rma_connect(raw_t *raw, control_t *control)
{
    offer_t *mine;
    void    *theirs;
    size_t   length;
    int      status;

    if (make_offer(raw, &mine, &length) != 0) {
        return -1;
    }
    status = control_exchange(control, mine, length, &theirs, &length);
    free(mine);
    if (status == 0) {
        status = take_offer(raw, theirs, length);
        free(theirs);
    }
    return status;
}
