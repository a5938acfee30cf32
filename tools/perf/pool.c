/*
 * The sides that use the pool. They send one message of scattered buffers, in
 * any memory or in the pool's own memory, or the sender reads and writes the
 * receiver's window.
 */
#include "common/system.h"
#include "common/error.h"
#include "common/pool.h"
#include "perf/lane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time limit to connect a channel or import a window. */
#define CONNECT_NS (UINT64_C(120) * 1000000000u)

#define MIB ((size_t)1 << 20)

/* Half of a pool is the caller's share (SEND_SHARE, RECV_SHARE). In a pool of
 * the default size the caller has at least SMALL_SIZE. If the caller needs
 * more, a pool on a GPU has at least GPU_SIZE. */
#define GPU_SIZE   (500 * MIB)
#define SMALL_SIZE (8 * MIB)

/* Completions that are taken in a call. */
#define BATCH_SIZE 64

/* The kind of a message; the slot is in the low bits. */
#define TAG_DATA  (UINT64_C(1) << 32)
#define TAG_REPLY (UINT64_C(2) << 32)

/* Maximum time of a sleep, because the process waits for another descriptor
 * between batches. */
#define SLEEP_MS 10

struct pool_lane {
    uint32_t           mode; /* MODE_AUTO, MODE_MAP or MODE_UCX */
    ucxpool_t         *pool;
    ucxpool_channel_t *channel;
};

typedef struct pool_end {
    end_t              end; /* first: an end_t * is a pool_end_t * */
    ucxpool_t         *pool;
    ucxpool_channel_t *channel;
    void              *comm; /* NULL: the buffers are not in the pool */
    /* For reads and writes, otherwise NULL: the receiver's window, the sender's
     * remote window, and the offsets in it of each slot's buffers. */
    ucxpool_window_t        *window;
    ucxpool_remote_window_t *remote;
    uint64_t                *offsets;
    /* For batches, otherwise NULL: an operation for each buffer, and the params
     * of each slot's receives. */
    ucxpool_op_t             *ops;
    ucxpool_request_params_t *params;
} pool_end_t;

int pool_check(ucxpool_status_t status, const char *what)
{
    return status == UCXPOOL_OK
               ? 0
               : tool_error("%s: %s", what, ucxpool_error_detail());
}

/* Print the error of a call of the library, unless the end has failed before.
 * Returns -1. */
static int fail_end(end_t *end, const char *what)
{
    return end_fail(end, what, ucxpool_error_detail());
}

static void progress(void *pool)
{
    ucxpool_progress(pool);
}

/* --- requests ------------------------------------------------------------- */

/* Record that a request has ended: its slot has one pending operation less. */
static bool ended(end_slot_t *slot, ucxpool_request_t *request,
                  ucxpool_status_t status)
{
    ucxpool_request_attr_t attr;

    slot->pending--;
    if (status == UCXPOOL_OK) {
        return true;
    }
    ucxpool_request_query(request, &attr, sizeof(attr));
    end_fail(slot->end, ucxpool_status_string(status), attr.detail);
    return false;
}

static void sent(ucxpool_request_t *request, ucxpool_status_t status, void *arg)
{
    ended(arg, request, status);
}

/* Called when the reply has arrived, or a read or a write has completed. */
static void replied(ucxpool_request_t *request, ucxpool_status_t status,
                    void *arg)
{
    end_slot_t *slot = arg;

    slot->replied = ended(slot, request, status);
}

static void data_arrived(ucxpool_request_t *request, ucxpool_status_t status,
                         void *arg)
{
    end_slot_t            *slot = arg;
    ucxpool_request_attr_t attr;

    if (ended(slot, request, status)) {
        ucxpool_request_query(request, &attr, sizeof(attr));
        slot->arrived = attr.length == slot->end->buffers.size;
        if (!slot->arrived) {
            end_fail(slot->end, "a message", "its size is wrong");
        }
    }
}

static void part_arrived(ucxpool_request_t *request, ucxpool_status_t status,
                         void *arg)
{
    end_slot_t *slot = arg;

    if (ended(slot, request, status)) {
        end_part_arrived(slot, slot->end->buffers.num_segments);
    }
}

/* Returns the hint about the buffers for a pool on a GPU. */
static ucxpool_segments_kind_t segments_kind(const end_t *end)
{
    if (!memory_is_on_gpu(end->buffers.memory)) {
        return UCXPOOL_SEGMENTS_HOST;
    }
    return (end->side.way == WAY_POOL_EVEN) ? UCXPOOL_SEGMENTS_EVEN
                                            : UCXPOOL_SEGMENTS_CUDA;
}

/* Describe the memory. The GPU is idle when a message is posted. is_data: the
 * segments are buffers, known to be in the GPU's memory; otherwise they may be
 * a word in host memory. */
static void fill_memory_params(ucxpool_request_params_t *params,
                               const end_t *end, bool is_data)
{
    if (end->buffers.memory->device != WORK_HOST) {
        params->field_mask |= UCXPOOL_REQUEST_PARAM_FIELD_STREAM;
        params->stream = UCXPOOL_STREAM_READY;
        if (is_data && !end->work.untold) {
            params->field_mask |= UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS;
            params->segments_kind = segments_kind(end);
        }
    }
}

/* Set the params of a request that counts as pending. */
static void fill_params(ucxpool_request_params_t *params, end_slot_t *slot,
                        ucxpool_request_cb_t callback, bool is_data)
{
    params->field_mask   = UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK;
    params->callback     = callback;
    params->callback_arg = slot;
    fill_memory_params(params, slot->end, is_data);
    slot->pending++;
}

/* Handle the status of a post with these params. */
static int posted(end_slot_t *slot, ucxpool_status_t status)
{
    if (status == UCXPOOL_OK) {
        return 0;
    }
    slot->pending--;
    return fail_end(slot->end, "cannot start a request");
}

/* --- messages ------------------------------------------------------------- */

static ucxpool_data_t describe(const end_t *end, unsigned index)
{
    const buffers_t *buffers = &end->buffers;

    if (side_is(end->side, IS_ONE_SIDED) && (buffers->num_segments == 1)) {
        return ucxpool_data_buffer(buffers_addresses(buffers, index)[0],
                                   buffers->size);
    }
    if (side_is(end->side, IS_PIECES | IS_ONE_SIDED)) {
        return ucxpool_data_pieces(buffers_addresses(buffers, index),
                                   buffers->num_segments, end->work.size);
    }
    return ucxpool_data_segments(buffers_segments(buffers, index),
                                 buffers->num_segments);
}

/* Post the receive of the reply, before the reply can arrive. */
static int expect_reply(end_t *end, unsigned index)
{
    pool_end_t              *pool = (pool_end_t *)end;
    end_slot_t              *slot = &end->slots[index];
    ucxpool_request_params_t params;

    fill_params(&params, slot, replied, end->work.echo);
    return posted(slot, ucxpool_recv_buffer(pool->pool, pool->channel,
                                            buffers_reply(&end->buffers, index),
                                            buffers_reply_size(&end->buffers),
                                            TAG_REPLY | index, UINT64_MAX,
                                            &params, NULL));
}

static int pool_send(end_t *end, unsigned index)
{
    pool_end_t              *pool = (pool_end_t *)end;
    end_slot_t              *slot = &end->slots[index];
    ucxpool_data_t           data = describe(end, index);
    ucxpool_request_params_t params;

    if (expect_reply(end, index) != 0) {
        return -1;
    }
    fill_params(&params, slot, sent, true);
    return posted(slot, ucxpool_send(pool->channel, &data, TAG_DATA | index,
                                     &params, NULL));
}

/* Send each buffer as a message. The reply shows that all sends have ended. */
static int each_send(end_t *end, unsigned index)
{
    const ucxpool_segment_t *segments = buffers_segments(&end->buffers, index);
    pool_end_t              *pool     = (pool_end_t *)end;

    if (expect_reply(end, index) != 0) {
        return -1;
    }
    for (size_t i = 0; i < end->buffers.num_segments; i++) {
        if (ucxpool_send_buffer(pool->channel, segments[i].address,
                                segments[i].length, TAG_DATA | index, NULL,
                                NULL) != UCXPOOL_OK) {
            return fail_end(end, "cannot start a send or receive");
        }
    }
    return 0;
}

static int each_expect(end_t *end, unsigned index)
{
    const ucxpool_segment_t *segments = buffers_segments(&end->buffers, index);
    pool_end_t              *pool     = (pool_end_t *)end;
    end_slot_t              *slot     = &end->slots[index];
    ucxpool_request_params_t params;

    slot->num_arrived = 0;
    for (size_t i = 0; i < end->buffers.num_segments; i++) {
        fill_params(&params, slot, part_arrived, true);
        if (posted(slot, ucxpool_recv_buffer(
                             pool->pool, pool->channel, segments[i].address,
                             segments[i].length, TAG_DATA | index, UINT64_MAX,
                             &params, NULL)) != 0) {
            return -1;
        }
    }
    return 0;
}

/* --- messages in batches -------------------------------------------------- */

/* Describe the send or receive of each buffer. A message always has the same
 * buffers, so the arrays are filled only once. */
static void make_ops(pool_end_t *pool)
{
    end_t           *end     = &pool->end;
    const buffers_t *buffers = &end->buffers;
    size_t           num     = buffers->num_slots * buffers->num_segments;

    pool->ops    = tool_calloc(num, sizeof(*pool->ops));
    pool->params = tool_calloc(buffers->num_slots, sizeof(*pool->params));
    for (size_t slot = 0; slot < buffers->num_slots; slot++) {
        ucxpool_request_params_t *params = &pool->params[slot];

        params->field_mask     = UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION;
        params->completion_ptr = &end->slots[slot];
        fill_memory_params(params, end, true);
    }
    for (size_t i = 0; i < num; i++) {
        const ucxpool_segment_t *segment = &buffers->segments[i];
        size_t                   slot    = i / buffers->num_segments;

        pool->ops[i] = (ucxpool_op_t){
            .kind    = end->is_sender ? UCXPOOL_OP_SEND : UCXPOOL_OP_RECV,
            .data    = ucxpool_data_buffer(segment->address, segment->length),
            .params  = end->is_sender ? NULL : &pool->params[slot],
            .channel = pool->channel,
            .tag     = TAG_DATA | slot,
            .mask    = UINT64_MAX,
        };
    }
}

/* Post a send or receive of each buffer of a message. */
static int post_batch(end_t *end, unsigned index)
{
    const pool_end_t   *pool = (const pool_end_t *)end;
    size_t              num  = end->buffers.num_segments;
    const ucxpool_op_t *ops  = &pool->ops[index * num];
    size_t              num_posted;

    return ucxpool_post(pool->pool, ops, sizeof(ops[0]), num, &num_posted) ==
                   UCXPOOL_OK
               ? 0
               : fail_end(end, "cannot post a batch");
}

static int batch_send(end_t *end, unsigned index)
{
    return expect_reply(end, index) != 0 ? -1 : post_batch(end, index);
}

static int batch_expect(end_t *end, unsigned index)
{
    end_slot_t *slot = &end->slots[index];

    slot->pending += (unsigned)end->buffers.num_segments;
    slot->num_arrived = 0;
    return post_batch(end, index);
}

static void completed(const ucxpool_completion_t *completion)
{
    end_slot_t *slot = completion->completion_ptr;

    slot->pending--;
    if (completion->status == UCXPOOL_OK) {
        end_part_arrived(slot, slot->end->buffers.num_segments);
    } else {
        end_fail(slot->end, "a receive ended early",
                 ucxpool_status_string(completion->status));
    }
}

static void batch_progress(end_t *end)
{
    pool_end_t          *pool = (pool_end_t *)end;
    ucxpool_completion_t completions[BATCH_SIZE];
    size_t               num;

    ucxpool_progress(pool->pool);
    do {
        (void)ucxpool_completion_get(pool->pool, completions, BATCH_SIZE, &num);
        for (size_t i = 0; i < num; i++) {
            completed(&completions[i]);
        }
    } while (num == BATCH_SIZE);
}

/* --- messages of many buffers --------------------------------------------- */

static int pool_expect(end_t *end, unsigned index)
{
    pool_end_t              *pool = (pool_end_t *)end;
    end_slot_t              *slot = &end->slots[index];
    ucxpool_data_t           data = describe(end, index);
    ucxpool_request_params_t params;

    fill_params(&params, slot, data_arrived, true);
    return posted(slot,
                  ucxpool_recv(pool->pool, pool->channel, &data,
                               TAG_DATA | index, UINT64_MAX, &params, NULL));
}

static int pool_reply(end_t *end, unsigned index)
{
    pool_end_t              *pool = (pool_end_t *)end;
    end_slot_t              *slot = &end->slots[index];
    void                    *data = buffers_reply(&end->buffers, index);
    ucxpool_request_params_t params;

    if (end->work.echo) {
        data = buffers_segments(&end->buffers, index)[0].address;
    }
    fill_params(&params, slot, sent, end->work.echo);
    return posted(slot, ucxpool_send_buffer(pool->channel, data,
                                            buffers_reply_size(&end->buffers),
                                            TAG_REPLY | index, &params, NULL));
}

static void pool_progress(end_t *end)
{
    ucxpool_progress(((pool_end_t *)end)->pool);
}

static void pool_wait(end_t *end)
{
    ucxpool_wait(((pool_end_t *)end)->pool, SLEEP_MS * UINT64_C(1000000));
}

/* --- reads and writes of a window ----------------------------------------- */

static ucxpool_remote_window_attr_t query(const pool_end_t *pool)
{
    ucxpool_remote_window_attr_t attr;

    ucxpool_remote_window_query(pool->remote, &attr, sizeof(attr));
    return attr;
}

static int window_send(end_t *end, unsigned index)
{
    const pool_end_t        *pool = (const pool_end_t *)end;
    size_t                   num  = end->buffers.num_segments;
    ucxpool_data_t           data = describe(end, index);
    ucxpool_places_t         places;
    end_slot_t              *slot = &end->slots[index];
    ucxpool_request_params_t params;

    places = ucxpool_places_even(pool->offsets + index * num, num,
                                 num == 1 ? end->buffers.size : end->work.size);
    fill_params(&params, slot, replied, true);
    return posted(slot, side_is(end->side, IS_READ)
                            ? ucxpool_remote_window_read(pool->remote, &places,
                                                         &data, &params, NULL)
                            : ucxpool_remote_window_write(
                                  pool->remote, &places, &data, &params, NULL));
}

static void close_window(pool_end_t *pool)
{
    ucxpool_remote_window_release(pool->remote);
    ucxpool_window_destroy(pool->window);
    memory_list_free(pool->end.buffers.memory, pool->offsets);
    pool->remote  = NULL;
    pool->window  = NULL;
    pool->offsets = NULL;
}

/* Export the window to the sender. If the sender cannot use the window, the
 * window is destroyed before either side continues. */
static int give(pool_end_t *pool, control_t *control, char *missing)
{
    unsigned access = side_is(pool->end.side, IS_READ) ? UCXPOOL_WINDOW_READ
                                                       : UCXPOOL_WINDOW_WRITE;
    uint8_t  blob[UCXPOOL_WINDOW_BLOB_SIZE];
    char     done = 1;

    if (ucxpool_window_export(pool->window, access, blob) != UCXPOOL_OK) {
        return fail_end(&pool->end, "cannot create or export the window");
    }
    if ((control_send(control, blob, sizeof(blob)) != 0) ||
        (control_recv_while(control, progress, pool->pool, missing,
                            JOB_REASON_SIZE) != 0)) {
        return -1;
    }
    missing[JOB_REASON_SIZE - 1] = '\0';
    if (missing[0] == '\0') {
        return 0;
    }
    close_window(pool);
    return control_send(control, &done, sizeof(done));
}

static int import(pool_end_t *pool, const uint8_t *blob)
{
    uint64_t                     deadline = clock_now() + CONNECT_NS;
    ucxpool_remote_window_attr_t attr;

    if (ucxpool_remote_window_import(pool->channel, blob,
                                     UCXPOOL_WINDOW_BLOB_SIZE,
                                     &pool->remote) != UCXPOOL_OK) {
        return fail_end(&pool->end, "cannot import the window");
    }
    do {
        ucxpool_progress(pool->pool);
        attr = query(pool);
    } while ((attr.status == UCXPOOL_INPROGRESS) && (clock_now() < deadline));
    if (attr.status == UCXPOOL_OK) {
        return 0;
    }
    return end_fail(&pool->end, "cannot import the window",
                    attr.status == UCXPOOL_INPROGRESS
                        ? "the owner of the window has not answered"
                        : attr.reason);
}

static int make_offsets(pool_end_t *pool)
{
    const buffers_t *buffers = &pool->end.buffers;
    size_t           num     = buffers->num_slots * buffers->num_segments;

    pool->offsets =
        memory_list_alloc(buffers->memory, num, sizeof(*pool->offsets));
    if (pool->offsets == NULL) {
        return -1;
    }
    for (size_t i = 0; i < num; i++) {
        pool->offsets[i] =
            buffers_peer_offset(buffers, buffers->segments[i].address);
    }
    return 0;
}

static int take(pool_end_t *pool, control_t *control, char *missing)
{
    ucxpool_remote_window_attr_t attr;
    uint8_t                      blob[UCXPOOL_WINDOW_BLOB_SIZE];
    char                         done;

    if ((control_recv(control, blob, sizeof(blob)) != 0) ||
        (import(pool, blob) != 0) || (make_offsets(pool) != 0)) {
        return -1;
    }
    attr = query(pool);
    if (side_is(pool->end.side, IS_ASLEEP) &&
        (attr.way == UCXPOOL_WAY_MESSAGES)) {
        snprintf(missing, JOB_REASON_SIZE,
                 "messages need an owner that calls the library (%.*s)",
                 JOB_REASON_SIZE - 50, attr.way_reason);
    }
    if (control_send(control, missing, JOB_REASON_SIZE) != 0) {
        return -1;
    }
    if (missing[0] == '\0') {
        return 0;
    }
    close_window(pool);
    return control_recv_while(control, progress, pool->pool, &done,
                              sizeof(done));
}

/* --- an end --------------------------------------------------------------- */

static void pool_destroy(end_t *end)
{
    pool_end_t *pool = (pool_end_t *)end;

    close_window(pool);
    buffers_cleanup(&end->buffers);
    ucxpool_comm_free(pool->pool, pool->comm);
    free(pool->ops);
    free(pool->params);
    free(pool);
}

static const end_ops_t pool_ops   = {pool_send, pool_expect, pool_reply,
                                     pool_progress, pool_destroy};
static const end_ops_t each_ops   = {each_send, each_expect, pool_reply,
                                     pool_progress, pool_destroy};
static const end_ops_t batch_ops  = {batch_send, batch_expect, pool_reply,
                                     batch_progress, pool_destroy};
static const end_ops_t wait_ops   = {pool_send, pool_expect, pool_reply,
                                     pool_wait, pool_destroy};
static const end_ops_t window_ops = {window_send, end_no_part, end_no_part,
                                     pool_progress, pool_destroy};

static const end_ops_t *ops_of(side_t side)
{
    switch (side.way) {
    case WAY_POOL_EACH:
        return &each_ops;
    case WAY_POOL_BATCH:
        return &batch_ops;
    case WAY_POOL_WAIT:
        return &wait_ops;
    default:
        return side_is(side, IS_ONE_SIDED) ? &window_ops : &pool_ops;
    }
}

static size_t end_comm_size(side_t side, const work_t *work)
{
    return side_is(side, IS_COMM) ? buffers_arena_size(work, true) : 0;
}

/* Create the objects of the pool that the side needs. */
static int create_parts(pool_end_t *pool)
{
    end_t *end       = &pool->end;
    size_t comm_size = end_comm_size(end->side, &end->work);

    if ((comm_size != 0) && (ucxpool_comm_alloc(pool->pool, comm_size,
                                                &pool->comm) != UCXPOOL_OK)) {
        return fail_end(&pool->end, "cannot allocate memory of the pool");
    }
    if (end_init_buffers(end, pool->comm) != 0) {
        return -1;
    }
    if (end->side.way == WAY_POOL_BATCH) {
        make_ops(pool);
    }
    if (side_is(end->side, IS_ONE_SIDED) && !end->is_sender &&
        (ucxpool_window_create(pool->pool, end->buffers.arena,
                               end->buffers.arena_size, NULL,
                               &pool->window) != UCXPOOL_OK)) {
        return fail_end(&pool->end, "no window");
    }
    return 0;
}

int pool_end_create(pool_lane_t *lane, const end_params_t *params,
                    control_t *control, char *missing, end_t **end_p)
{
    pool_end_t *pool   = tool_calloc(1, sizeof(*pool));
    int         status = 0;

    end_init(&pool->end, ops_of(params->side), params);
    pool->pool    = lane->pool;
    pool->channel = lane->channel;
    memset(missing, 0, JOB_REASON_SIZE);
    if ((create_parts(pool) != 0) ||
        (side_is(params->side, IS_ONE_SIDED) &&
         ((params->is_sender ? take : give)(pool, control, missing) != 0))) {
        status = -1;
    }
    if ((status != 0) || (missing[0] != '\0')) {
        pool_destroy(&pool->end);
        return status;
    }
    *end_p = &pool->end;
    return 0;
}

/* --- a pool --------------------------------------------------------------- */

/* Returns COMM_SIZE for a pool. NULL: the default, or the environment's. */
static const char *size_setting(int device, size_t comm_size, char text[32])
{
    size_t size = 2 * comm_size + 64 * MIB;

    if ((comm_size <= SMALL_SIZE) || (getenv("UCXPOOL_COMM_SIZE") != NULL)) {
        return NULL;
    }
    if ((device != WORK_HOST) && (size < GPU_SIZE)) {
        size = GPU_SIZE;
    }
    snprintf(text, 32, "%zum", size / MIB);
    return text;
}

int pool_create(uint32_t mode, int device, size_t comm_size, const char *name,
                ucxpool_t **pool_p)
{
    /* If the setting required the map wire, a channel that cannot use this wire
     * would fail. With `auto`, the channel uses the map wire if possible, and
     * both ends see which wire is used. */
    static const char *const wires[MODE_LAST] = {
        [MODE_MAP] = "auto", [MODE_UCX] = "ucx"};
    char                   size[32];
    const setting_change_t changes[] = {
        {"WIRE", wires[mode]},
        {"COMM_SIZE", size_setting(device, comm_size, size)},
        {NULL, NULL},
    };
    ucxpool_params_t params = {.field_mask = UCXPOOL_PARAM_FIELD_NAME,
                               .name       = name};

    if (device != WORK_HOST) {
        params.field_mask |=
            UCXPOOL_PARAM_FIELD_MEMORY_KIND | UCXPOOL_PARAM_FIELD_DEVICE;
        params.memory_kind = UCXPOOL_MEMORY_CUDA;
        params.device      = device;
    }
    return pool_check(settings_create_pool(changes, false, &params, pool_p),
                      "cannot create the pool");
}

int pool_accept(ucxpool_t *pool, ucxpool_listener_t *listener,
                ucxpool_channel_t **channel_p, const char *what)
{
    ucxpool_status_t status;

    while ((status = ucxpool_listener_accept(listener, NULL, channel_p)) ==
           UCXPOOL_INPROGRESS) {
        ucxpool_wait(pool, UCXPOOL_FOREVER);
    }
    ucxpool_listener_destroy(listener);
    return pool_check(status, what);
}

/* --- a lane --------------------------------------------------------------- */

/* Make progress until both sides have seen that the channel is open. */
static int wait_both(pool_lane_t *lane, control_t *control)
{
    ucxpool_channel_attr_t attr;
    char                   word = 1;

    if (ucxpool_channel_wait(lane->channel, CONNECT_NS) != UCXPOOL_OK) {
        ucxpool_channel_query(lane->channel, &attr, sizeof(attr));
        return tool_error("%s: the two pools did not connect: %s",
                          side_mode_title(lane->mode),
                          attr.reason[0] != '\0'
                              ? attr.reason
                              : "no answer from the peer yet");
    }
    return (control_send(control, &word, sizeof(word)) != 0) ||
                   (control_recv_while(control, progress, lane->pool, &word,
                                       sizeof(word)) != 0)
               ? -1
               : 0;
}

static int check_wire(const pool_lane_t *lane, char *missing)
{
    ucxpool_channel_attr_t attr;
    const char            *used;

    ucxpool_channel_query(lane->channel, &attr, sizeof(attr));
    used = attr.wire == UCXPOOL_WIRE_MAP ? "map" : "ucx";
    if ((lane->mode != MODE_AUTO) &&
        (strcmp(used, side_mode_name(lane->mode)) != 0)) {
        snprintf(
            missing, JOB_MISSING_SIZE,
            "the wire %s is not available between these two processes (%.*s)",
            side_mode_name(lane->mode), JOB_REASON_SIZE, attr.wire_reason);
        return -1;
    }
    return 0;
}

/* Accept a channel of the same host. The receiver listens on loopback, so that
 * UCX does not listen on any other device. */
static int accept_local(pool_lane_t *lane, control_t *control)
{
    ucxpool_listener_t *listener;
    uint16_t            port;

    if (pool_check(
            ucxpool_listener_create(lane->pool, "127.0.0.1:0", &listener),
            "the pool cannot listen") != 0) {
        return -1;
    }
    port = ucxpool_listener_port(listener);
    if (control_send(control, &port, sizeof(port)) != 0) {
        return -1;
    }
    return pool_accept(lane->pool, listener, &lane->channel,
                       "cannot create a channel to the sender");
}

static int connect_local(pool_lane_t *lane, control_t *control)
{
    char     where[32];
    uint16_t port;

    if (control_recv(control, &port, sizeof(port)) != 0) {
        return -1;
    }
    snprintf(where, sizeof(where), "127.0.0.1:%u", port);
    return pool_check(
        ucxpool_channel_connect(lane->pool, where, NULL, &lane->channel),
        "cannot create a channel to the receiver");
}

/* Connect to another host over all devices that UCX may use, like raw UCX. */
static int connect_address(pool_lane_t *lane, control_t *control)
{
    ucxpool_channel_params_t params = {.field_mask =
                                           UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS};
    void                    *mine;
    void                    *theirs;
    size_t                   length;
    int                      result;

    if (pool_check(ucxpool_address_get(lane->pool, &mine, &length),
                   "cannot get the pool's address") != 0) {
        return -1;
    }
    result = control_exchange(control, mine, length, &theirs,
                              &params.address_length);
    ucxpool_address_release(mine);
    if (result != 0) {
        return -1;
    }
    params.address = theirs;
    result =
        pool_check(ucxpool_channel_create(lane->pool, &params, &lane->channel),
                   "cannot create a channel to the other host");
    free(theirs);
    return result;
}

static int connect_pool(pool_lane_t *lane, bool is_sender, control_t *control,
                        char *missing)
{
    int result;

    if (control->is_remote) {
        result = connect_address(lane, control);
    } else if (is_sender) {
        result = connect_local(lane, control);
    } else {
        result = accept_local(lane, control);
    }
    if ((result != 0) || (wait_both(lane, control) != 0)) {
        return -1;
    }
    return check_wire(lane, missing);
}

/* Returns the memory that all sides of one mode need from their pool. */
static size_t lane_comm_size(const job_t *job, uint32_t mode)
{
    size_t size = 0;

    for (unsigned i = 0; i < job->num_sides; i++) {
        if (job->sides[i].mode == mode) {
            size += end_comm_size(job->sides[i], &job->work);
        }
    }
    return job->work.both ? 2 * size : size;
}

int pool_lane_create(uint32_t mode, const job_t *job, bool is_sender,
                     control_t *control, char *missing, pool_lane_t **lane_p)
{
    pool_lane_t *lane   = tool_calloc(1, sizeof(*lane));
    int          device = job->work.devices[is_sender ? 0 : 1];

    lane->mode = mode;
    if ((pool_create(mode, device, lane_comm_size(job, mode), "perf",
                     &lane->pool) != 0) ||
        (connect_pool(lane, is_sender, control, missing) != 0)) {
        pool_lane_destroy(lane);
        return -1;
    }
    *lane_p = lane;
    return 0;
}

void pool_lane_destroy(pool_lane_t *lane)
{
    if (lane != NULL) {
        ucxpool_destroy(lane->pool);
        free(lane);
    }
}

void pool_describe(const pool_lane_t *lane, const end_t *end, job_side_t *side)
{
    static const char *const way_names[] = {
        [UCXPOOL_WAY_NONE] = "none",       [UCXPOOL_WAY_MESSAGES] = "messages",
        [UCXPOOL_WAY_PROCESS] = "process", [UCXPOOL_WAY_CUDA] = "cuda",
        [UCXPOOL_WAY_MAPPED] = "mapped",   [UCXPOOL_WAY_RMA] = "rma",
    };
    const pool_end_t            *pool = (const pool_end_t *)end;
    ucxpool_channel_attr_t       attr;
    ucxpool_remote_window_attr_t window;

    ucxpool_channel_query(lane->channel, &attr, sizeof(attr));
    snprintf(side->wire, sizeof(side->wire), "%s",
             attr.wire == UCXPOOL_WIRE_MAP ? "map" : "ucx");
    snprintf(side->wire_reason, sizeof(side->wire_reason), "%.*s",
             (int)sizeof(side->wire_reason) - 1, attr.wire_reason);
    side->registrations = pool_stat(lane->pool, "registrations_after_start");
    if ((pool != NULL) && (pool->remote != NULL)) {
        window = query(pool);
        snprintf(side->way, sizeof(side->way), "%s", way_names[window.way]);
        snprintf(side->way_reason, sizeof(side->way_reason), "%.*s",
                 (int)sizeof(side->way_reason) - 1, window.way_reason);
    }
}
