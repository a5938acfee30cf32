/*
 * The ways of the pool: one message of scattered buffers, in any memory or in
 * the pool's own.
 */
#include "perf/error.h"
#include "perf/pool_end.h"

#include <poll.h>
#include <stdlib.h>

/* What a message is; the slot stands in the low bits. */
#define TAG_DATA  (UINT64_C(1) << 32)
#define TAG_REPLY (UINT64_C(2) << 32)

/* A sleep is that long at most: between batches another descriptor is waited
 * for. */
#define SLEEP_MS 10

int pool_end_fail(end_t *end, const char *what, const char *why)
{
    char name[SIDE_NAME_SIZE];

    if (!end->failed) {
        end->failed = true;
        perf_error("%s: %s: %s", side_name(end->side, name), what, why);
    }
    return -1;
}

bool pool_end_ended_well(end_slot_t *slot, ucxpool_request_t *request,
                         ucxpool_status_t status)
{
    ucxpool_request_attr_t attr;

    slot->pending--;
    if (status == UCXPOOL_OK) {
        return true;
    }
    ucxpool_request_query(request, &attr, sizeof(attr));
    pool_end_fail(slot->end, ucxpool_status_string(status), attr.detail);
    return false;
}

static void sent(ucxpool_request_t *request, ucxpool_status_t status, void *arg)
{
    pool_end_ended_well(arg, request, status);
}

static void reply_arrived(ucxpool_request_t *request, ucxpool_status_t status,
                          void *arg)
{
    end_slot_t *slot = arg;

    slot->replied = pool_end_ended_well(slot, request, status);
}

static void data_arrived(ucxpool_request_t *request, ucxpool_status_t status,
                         void *arg)
{
    end_slot_t            *slot = arg;
    ucxpool_request_attr_t attr;

    if (pool_end_ended_well(slot, request, status)) {
        ucxpool_request_query(request, &attr, sizeof(attr));
        slot->arrived = attr.length == slot->end->buffers.size;
        if (!slot->arrived) {
            pool_end_fail(slot->end, "a message", "of a wrong size");
        }
    }
}

static void part_arrived(ucxpool_request_t *request, ucxpool_status_t status,
                         void *arg)
{
    end_slot_t *slot = arg;

    if (pool_end_ended_well(slot, request, status) &&
        (++slot->num_arrived == slot->end->buffers.num_segments)) {
        slot->arrived = true;
    }
}

/* What is told of the buffers in a pool on a GPU. */
static ucxpool_segments_kind_t segments_kind(const end_t *end)
{
    if (!memory_is_on_gpu(end->buffers.memory)) {
        return UCXPOOL_SEGMENTS_HOST;
    }
    return (end->side.way == WAY_POOL_EVEN) ? UCXPOOL_SEGMENTS_EVEN
                                            : UCXPOOL_SEGMENTS_CUDA;
}

void pool_end_fill_params(ucxpool_request_params_t *params, end_slot_t *slot,
                          ucxpool_request_cb_t callback, bool is_data)
{
    params->field_mask   = UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK;
    params->callback     = callback;
    params->callback_arg = slot;
    if (work_is_on_gpu(&slot->end->work)) {
        params->field_mask |= UCXPOOL_REQUEST_PARAM_FIELD_STREAM;
        params->stream = UCXPOOL_STREAM_READY;
        if (is_data && !slot->end->work.untold) {
            params->field_mask |= UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS;
            params->segments_kind = segments_kind(slot->end);
        }
    }
    slot->pending++;
}

int pool_end_posted(end_slot_t *slot, ucxpool_status_t status)
{
    if (status == UCXPOOL_OK) {
        return 0;
    }
    slot->pending--;
    return pool_end_fail(slot->end, "a request was not taken",
                         ucxpool_error_detail());
}

static ucxpool_data_t describe(const end_t *end, unsigned index)
{
    const buffers_t *buffers = &end->buffers;

    if (side_is_pieces(end->side)) {
        return ucxpool_data_pieces(buffers_addresses(buffers, index),
                                   buffers->num_segments, end->work.size);
    }
    return ucxpool_data_segments(buffers_segments(buffers, index),
                                 buffers->num_segments);
}

static ucxpool_status_t send_data(pool_lane_t *lane, end_t *end, unsigned index,
                                  const ucxpool_request_params_t *params)
{
    ucxpool_data_t data = describe(end, index);

    return ucxpool_send(lane->channel, &data, TAG_DATA | index, params, NULL);
}

static ucxpool_status_t recv_data(pool_lane_t *lane, end_t *end, unsigned index,
                                  const ucxpool_request_params_t *params)
{
    ucxpool_data_t data = describe(end, index);

    return ucxpool_recv(lane->pool, lane->channel, &data, TAG_DATA | index,
                        UINT64_MAX, params, NULL);
}

/* The receive of the answer first, so that it is there in time. */
static int expect_reply(end_t *end, unsigned index)
{
    pool_lane_t             *lane = ((pool_end_t *)end)->lane;
    end_slot_t              *slot = &end->slots[index];
    ucxpool_request_params_t params;

    pool_end_fill_params(&params, slot, reply_arrived, end->work.echo);
    return pool_end_posted(
        slot,
        ucxpool_recv_buffer(lane->pool, lane->channel,
                            buffers_reply(&end->buffers, index),
                            buffers_reply_size(&end->buffers),
                            TAG_REPLY | index, UINT64_MAX, &params, NULL));
}

static int pool_send(end_t *end, unsigned index)
{
    pool_lane_t             *lane = ((pool_end_t *)end)->lane;
    end_slot_t              *slot = &end->slots[index];
    ucxpool_request_params_t params;

    if (expect_reply(end, index) != 0) {
        return -1;
    }
    pool_end_fill_params(&params, slot, sent, true);
    return pool_end_posted(slot, send_data(lane, end, index, &params));
}

/* That all have ended is told by the answer. */
static int pool_send_each(end_t *end, unsigned index)
{
    const ucxpool_segment_t *segments = buffers_segments(&end->buffers, index);
    pool_lane_t             *lane     = ((pool_end_t *)end)->lane;

    if (expect_reply(end, index) != 0) {
        return -1;
    }
    for (size_t i = 0; i < end->buffers.num_segments; i++) {
        if (ucxpool_send_buffer(lane->channel, segments[i].address,
                                segments[i].length, TAG_DATA | index, NULL,
                                NULL) != UCXPOOL_OK) {
            return pool_end_fail(end, "a message was not taken",
                                 ucxpool_error_detail());
        }
    }
    return 0;
}

static int pool_expect_each(end_t *end, unsigned index)
{
    const ucxpool_segment_t *segments = buffers_segments(&end->buffers, index);
    pool_lane_t             *lane     = ((pool_end_t *)end)->lane;
    end_slot_t              *slot     = &end->slots[index];
    ucxpool_request_params_t params;

    slot->num_arrived = 0;
    for (size_t i = 0; i < end->buffers.num_segments; i++) {
        pool_end_fill_params(&params, slot, part_arrived, true);
        if (pool_end_posted(
                slot, ucxpool_recv_buffer(lane->pool, lane->channel,
                                          segments[i].address,
                                          segments[i].length, TAG_DATA | index,
                                          UINT64_MAX, &params, NULL)) != 0) {
            return -1;
        }
    }
    return 0;
}

static int pool_expect(end_t *end, unsigned index)
{
    pool_lane_t             *lane = ((pool_end_t *)end)->lane;
    end_slot_t              *slot = &end->slots[index];
    ucxpool_request_params_t params;

    pool_end_fill_params(&params, slot, data_arrived, true);
    return pool_end_posted(slot, recv_data(lane, end, index, &params));
}

static int pool_reply(end_t *end, unsigned index)
{
    pool_lane_t             *lane = ((pool_end_t *)end)->lane;
    end_slot_t              *slot = &end->slots[index];
    void                    *data = buffers_reply(&end->buffers, index);
    ucxpool_request_params_t params;

    if (end->work.echo) {
        data = buffers_segments(&end->buffers, index)[0].address;
    }
    pool_end_fill_params(&params, slot, sent, end->work.echo);
    return pool_end_posted(
        slot, ucxpool_send_buffer(lane->channel, data,
                                  buffers_reply_size(&end->buffers),
                                  TAG_REPLY | index, &params, NULL));
}

void pool_end_progress(end_t *end)
{
    ucxpool_progress(((pool_end_t *)end)->lane->pool);
}

static void pool_sleep(end_t *end)
{
    pool_end_t   *pool_end = (pool_end_t *)end;
    struct pollfd event    = {.fd = pool_end->event_fd, .events = POLLIN};

    if (ucxpool_arm(pool_end->lane->pool) == UCXPOOL_OK) {
        poll(&event, 1, SLEEP_MS);
    }
    ucxpool_progress(pool_end->lane->pool);
}

static void pool_wait(end_t *end)
{
    ucxpool_wait(((pool_end_t *)end)->lane->pool, SLEEP_MS * UINT64_C(1000000));
}

void pool_end_destroy(end_t *end)
{
    pool_end_t *pool_end = (pool_end_t *)end;

    pool_window_destroy(pool_end);
    buffers_cleanup(&end->buffers);
    ucxpool_comm_free(pool_end->lane->pool, pool_end->comm);
    free(pool_end);
}

static const end_ops_t pool_ops = {
    .send     = pool_send,
    .expect   = pool_expect,
    .reply    = pool_reply,
    .progress = pool_end_progress,
    .destroy  = pool_end_destroy,
};

static const end_ops_t each_ops = {
    .send     = pool_send_each,
    .expect   = pool_expect_each,
    .reply    = pool_reply,
    .progress = pool_end_progress,
    .destroy  = pool_end_destroy,
};

static const end_ops_t event_ops = {
    .send     = pool_send,
    .expect   = pool_expect,
    .reply    = pool_reply,
    .progress = pool_sleep,
    .destroy  = pool_end_destroy,
};

static const end_ops_t wait_ops = {
    .send     = pool_send,
    .expect   = pool_expect,
    .reply    = pool_reply,
    .progress = pool_wait,
    .destroy  = pool_end_destroy,
};

static const end_ops_t *ops_of(side_t side)
{
    switch (side.way) {
    case WAY_POOL_EACH:
        return &each_ops;
    case WAY_POOL_EVENT:
        return &event_ops;
    case WAY_POOL_WAIT:
        return &wait_ops;
    default:
        return side_is_one_sided(side) ? &pool_window_ops : &pool_ops;
    }
}

size_t pool_end_comm_size(side_t side, const work_t *work, bool is_sender)
{
    bool comm =
        (side.way == WAY_POOL_COMM) ||
        (side.way == (is_sender ? WAY_POOL_COMM_SEND : WAY_POOL_COMM_RECV));

    return comm ? buffers_arena_size(work, true) : 0;
}

int pool_end_create(pool_lane_t *lane, const end_params_t *params,
                    control_t *control, char *missing, end_t **end_p)
{
    size_t comm_size =
        pool_end_comm_size(params->side, &params->work, params->is_sender);
    pool_end_t *pool_end = calloc(1, sizeof(*pool_end));

    if (pool_end == NULL) {
        return perf_error("out of memory for a side");
    }
    end_init(&pool_end->end, ops_of(params->side), params);
    pool_end->lane = lane;
    if ((params->side.way == WAY_POOL_EVENT) &&
        (ucxpool_event_fd(lane->pool, &pool_end->event_fd) != UCXPOOL_OK)) {
        pool_end_fail(&pool_end->end, "no event descriptor",
                      ucxpool_error_detail());
        goto err_destroy_end;
    }
    if ((comm_size != 0) &&
        (ucxpool_comm_alloc(lane->pool, comm_size, &pool_end->comm) !=
         UCXPOOL_OK)) {
        pool_end_fail(&pool_end->end, "no memory of the pool",
                      ucxpool_error_detail());
        goto err_destroy_end;
    }
    if ((end_init_buffers(&pool_end->end, params, pool_end->comm) != 0) ||
        (pool_window_create(pool_end) != 0) ||
        (pool_window_connect(pool_end, control, missing) != 0)) {
        goto err_destroy_end;
    }
    if (missing[0] != '\0') {
        pool_end_destroy(&pool_end->end);
        *end_p = NULL;
        return 0;
    }
    *end_p = &pool_end->end;
    return 0;

err_destroy_end:
    pool_end_destroy(&pool_end->end);
    return -1;
}
