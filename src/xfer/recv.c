#include "xfer/recv.h"

#include "base/error.h"
#include "copy/crc32c.h"
#include "copy/list.h"
#include "core/control.h"
#include "core/wire.h"
#include "xfer/delivery.h"
#include "xfer/rndv.h"

#include <stdio.h>
#include <string.h>

/* Fragments of one message that may be on their way into memory: several times
 * what any window allows, because on the `ucx` wire the sender may hear of a
 * fragment's end before we do. */
#define PENDING_MAX (4 * CORE_FRAGMENTS_MAX)

/* A GPU reads a peer's memory best in long pieces, and needs no block for it.
 */
#define MAP_FRAG_SIZE ((uint64_t)128 << 20)

/* The longest fragment that we can take in: one that fits in a block, where it
 * needs one. */
static uint64_t frag_size_of(const ucxpool_request_t *request)
{
    uint64_t block_size =
        block_pool_block_size(core_channel_blocks(request->channel));

    if (copy_engine_is_launched(request->pool->engine) &&
        request->channel->wire->is_read) {
        return base_max(block_size, MAP_FRAG_SIZE);
    }
    return block_size;
}

static bool lies_inside(const ucxpool_request_t *request,
                        const proto_data_t      *data)
{
    uint64_t size = request->data.totals.stream_size;

    return (data->length != 0) && (data->length <= frag_size_of(request)) &&
           (data->offset <= size) && (data->length <= size - data->offset) &&
           (data->length <= size - request->recv.begun);
}

/* Where fragments come in their order, they cover all but padding, of which
 * there are fewer bytes than an alignment. */
static bool is_next(const ucxpool_request_t *request, const proto_data_t *data)
{
    const core_recv_t *recv = &request->recv;

    return (data->index == recv->num_begun) && (data->offset >= recv->next) &&
           (data->offset - recv->next < COPY_ALIGNMENT);
}

/* Indices are counted, not listed: there are no more fragments than the last
 * one's index says, and none behind it. */
static bool has_good_index(const ucxpool_request_t *request,
                           const proto_data_t      *data)
{
    const core_recv_t *recv = &request->recv;

    if (data->index == UINT32_MAX) {
        return false;
    }
    if (request->channel->wire->in_order && !is_next(request, data)) {
        return false;
    }
    if (data->flags & PROTO_DATA_LAST) {
        return (recv->num_begun == 0) ||
               ((recv->num_all == 0) && (recv->max_index < data->index) &&
                (recv->num_begun <= data->index));
    }
    return (recv->num_all == 0) ||
           ((recv->num_begun < recv->num_all) && (data->index < recv->num_all));
}

static void count_begun(core_recv_t *recv, const proto_data_t *data)
{
    recv->begun += data->length;
    recv->num_begun++;
    recv->max_index = base_max(recv->max_index, data->index);
    recv->next      = data->offset + data->length;
    if (data->flags & PROTO_DATA_LAST) {
        recv->num_all = data->index + 1;
    }
}

/*
 * On the `ucx` wire fragments may overtake each other, and going back in a
 * plan costs a walk from its start. The bytes that have arrived must be worth
 * these walks: an honest sender's fragments are.
 */
static bool is_worth_its_cost(const ucxpool_request_t *request)
{
    const uint64_t free_restarts = 64;
    const uint64_t steps_a_byte  = 16;
    uint64_t       steps    = request->data.num_runs + request->data.memory.num;
    uint64_t       restarts = request->recv.restarts;

    return (restarts <= free_restarts) ||
           (restarts - free_restarts <=
            request->recv.received * steps_a_byte / steps);
}

bool xfer_recv_check(ucxpool_request_t *request, const proto_data_t *data)
{
    if (!lies_inside(request, data) || !has_good_index(request, data)) {
        core_channel_fail(request->channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent a fragment (%llu bytes at %llu, "
                          "number %u) that does not fit its message of %llu",
                          (unsigned long long)data->length,
                          (unsigned long long)data->offset, data->index,
                          (unsigned long long)request->data.totals.stream_size);
        return false;
    }
    if ((request->recv.pending >= PENDING_MAX) || !is_worth_its_cost(request)) {
        core_channel_fail(request->channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer cut a message into too many fragments");
        return false;
    }
    count_begun(&request->recv, data);
    return true;
}

/* All fragments have arrived: do they make the message? Fails the channel if
 * not. */
static bool check_whole(ucxpool_request_t *request)
{
    if (request->recv.received < request->data.totals.payload_size) {
        core_channel_fail(request->channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer ended a message of %llu bytes after %llu",
                          (unsigned long long)request->data.totals.payload_size,
                          (unsigned long long)request->recv.received);
        return false;
    }
    return true;
}

/* Take a number for the receive: its low bits are an index of receives[]. */
static void take_number(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;
    uint64_t           number  = channel->flow.next_number;

    while (channel->requests.receives[number % PROTO_SENDS_MAX] != NULL) {
        number++;
    }
    channel->flow.next_number                            = number + 1;
    channel->requests.receives[number % PROTO_SENDS_MAX] = request;
    channel->requests.num_receives++;
    request->recv.receive = number;
}

static void put_number(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;

    if (request->recv.receive != 0) {
        channel->requests.receives[request->recv.receive % PROTO_SENDS_MAX] =
            NULL;
        channel->requests.num_receives--;
        request->recv.receive = 0;
    }
}

/* End the receive now, or when UCX has stopped writing to its target. The
 * sender keeps the bytes as they are until then. */
static void end(ucxpool_request_t *request, ucxpool_status_t status,
                const char *detail)
{
    put_number(request);
    xfer_delivery_forget(request);
    xfer_rndv_forget(request);
    if (request->recv.in_place != 0) {
        if (request->recv.failing == UCXPOOL_OK) {
            request->recv.failing = status;
            core_request_set_detail(request, detail);
            core_request_drain(request);
        }
        return;
    }
    core_request_end(request, status, detail);
    core_request_reuse(request);
}

/* A GPU works on several at a time: as many must be on their way besides. */
static uint32_t window(const ucxpool_request_t *request)
{
    const ucxpool_t *pool = request->pool;

    return copy_engine_is_launched(pool->engine) ? 2 * pool->config.depth
                                                 : pool->config.depth;
}

static void send_accept(ucxpool_request_t *request)
{
    proto_fixed_t *fixed;

    fixed =
        core_control_begin(request->channel, PROTO_ACCEPT, 0, CORE_MUST, NULL);
    if (fixed == NULL) {
        return;
    }
    fixed->accept.message   = request->recv.message;
    fixed->accept.receive   = request->recv.receive;
    fixed->accept.frag_size = frag_size_of(request);
    fixed->accept.window    = window(request);
    core_control_end(request->channel);
}

/* Keep what the request needs of the message: its runs. */
static ucxpool_status_t take_runs(ucxpool_request_t *request,
                                  ucxpool_message_t *message)
{
    size_t           num_runs = message->desc.num_runs;
    ucxpool_status_t status;

    status = core_request_reserve_runs(request, num_runs);
    if (status != UCXPOOL_OK) {
        return status;
    }
    /* An empty message has none, and no place for them either. */
    if (num_runs > 0) {
        memcpy(request->data.runs, message->runs,
               num_runs * sizeof(copy_run_t));
    }
    request->data.num_runs = num_runs;
    return UCXPOOL_OK;
}

static void refuse_no_memory(ucxpool_request_t *request,
                             ucxpool_message_t *message)
{
    if (message->desc.message != 0) {
        core_control_done(message->channel, message->desc.message,
                          UCXPOOL_ERR_NO_MEMORY, "the receiver has no memory");
    }
    end(request, UCXPOOL_ERR_NO_MEMORY, "no memory for the message");
}

static void end_eager(ucxpool_request_t *request)
{
    core_traffic_t *received = &request->pool->stats.received[CORE_MODE_EAGER];

    received->bytes += request->data.totals.payload_size;
    received->fragments++;
    end(request, UCXPOOL_OK, NULL);
}

/* They are in their place. */
static void delivered_eager(ucxpool_request_t  *request,
                            const proto_data_t *data, ucxpool_status_t status,
                            void *arg)
{
    (void)data;
    (void)arg;
    if (status == UCXPOOL_OK) {
        end_eager(request);
    }
}

/* Everything that came with the descriptor. */
static void receive_eager(ucxpool_request_t *request,
                          ucxpool_message_t *message)
{
    const proto_data_t data = {.length = message->totals.stream_size};

    if (take_runs(request, message) != UCXPOOL_OK) {
        refuse_no_memory(request, message);
        return;
    }
    copy_plan_init(&request->data.plan, request->data.runs,
                   request->data.num_runs, &message->totals,
                   &request->data.memory);
    if (data.length == 0) {
        end_eager(request);
        return;
    }
    xfer_deliver(request, &(xfer_delivery_params_t){.data  = &data,
                                                    .bytes = message->stream,
                                                    .must_copy = true,
                                                    .done = delivered_eager});
}

static void start_large(ucxpool_request_t *request, ucxpool_message_t *message)
{
    ucxpool_channel_t *channel = message->channel;

    if (!core_channel_is_live(channel)) {
        end(request, UCXPOOL_ERR_PEER_LOST, channel->reason);
        return;
    }
    if (channel->requests.num_receives == PROTO_SENDS_MAX) {
        end(request, UCXPOOL_ERR_PROTOCOL, "the peer sends too much at once");
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer began more than %u messages at once",
                          PROTO_SENDS_MAX);
        return;
    }
    request->recv.message = message->desc.message;
    if (take_runs(request, message) != UCXPOOL_OK) {
        refuse_no_memory(request, message);
        return;
    }
    copy_plan_init(&request->data.plan, request->data.runs,
                   request->data.num_runs, &request->data.totals,
                   &request->data.memory);
    take_number(request);
    send_accept(request);
}

static void refuse_truncated(ucxpool_request_t *request,
                             ucxpool_message_t *message)
{
    char text[PROTO_TEXT_MAX + 1];

    snprintf(text, sizeof(text),
             "the message has %llu bytes, the receive has room for %llu",
             (unsigned long long)message->totals.payload_size,
             (unsigned long long)request->data.capacity);
    if (message->desc.message != 0) {
        core_control_done(message->channel, message->desc.message,
                          UCXPOOL_ERR_TRUNCATED, text);
        request->pool->stats.messages_refused++;
    }
    end(request, UCXPOOL_ERR_TRUNCATED, text);
}

void xfer_recv_start(ucxpool_request_t *request, ucxpool_message_t *message)
{
    if (request->channel == NULL) {
        core_request_set_channel(request, message->channel);
    }
    request->tag         = message->desc.tag;
    request->data.totals = message->totals;
    if (message->canceled) {
        end(request, UCXPOOL_ERR_CANCELED, "the sender canceled the message");
    } else if (message->totals.payload_size > request->data.capacity) {
        refuse_truncated(request, message);
    } else if (core_request_set_metadata(request, message->metadata,
                                         message->desc.metadata_size) !=
               UCXPOOL_OK) {
        refuse_no_memory(request, message);
    } else if (message->desc.flags & PROTO_DESC_EAGER) {
        receive_eager(request, message);
    } else {
        start_large(request, message);
    }
    xfer_message_release(message);
}

ucxpool_request_t *xfer_recv_find(ucxpool_channel_t  *channel,
                                  const proto_data_t *data)
{
    ucxpool_request_t *request =
        channel->requests.receives[data->receive % PROTO_SENDS_MAX];

    if ((request == NULL) || (request->recv.receive != data->receive) ||
        (request->recv.message != data->message)) {
        return NULL;
    }
    return request;
}

bool xfer_recv_scatter(ucxpool_request_t *request, const proto_data_t *data,
                       const void *bytes)
{
    if ((data->flags & PROTO_DATA_CHECKSUM) &&
        (copy_crc32c(0, bytes, data->length) != data->checksum)) {
        return false;
    }
    request->recv.restarts += (data->offset < request->data.plan.at.offset);
    copy_scatter(&request->data.plan, data->offset, data->length, bytes);
    return true;
}

void xfer_recv_count(ucxpool_request_t *request, const proto_data_t *data,
                     core_mode_t mode)
{
    core_traffic_t *received = &request->pool->stats.received[mode];

    received->bytes += data->length;
    received->fragments++;
    request->recv.received += data->length;
    request->recv.num_seen++;
    if ((request->recv.num_seen == request->recv.num_all) &&
        check_whole(request)) {
        core_control_done(request->channel, request->recv.message, UCXPOOL_OK,
                          NULL);
        end(request, UCXPOOL_OK, NULL);
    }
}

void xfer_recv_delivered(ucxpool_request_t *request, const proto_data_t *data,
                         ucxpool_status_t status, core_mode_t mode)
{
    if (status == UCXPOOL_OK) {
        xfer_recv_count(request, data, mode);
    } else if (status == UCXPOOL_ERR_CHECKSUM) {
        xfer_recv_stop(request, status, "the checksum of a fragment is wrong");
    }
}

void xfer_recv_let_go(ucxpool_request_t *request)
{
    if ((request->recv.failing != UCXPOOL_OK) &&
        (request->recv.in_place == 0)) {
        core_request_end(request, request->recv.failing, request->detail);
    }
    core_request_reuse(request);
}

void xfer_recv_stop(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail)
{
    if (request->recv.failing != UCXPOOL_OK) {
        core_request_end_drain(request, request->recv.failing,
                               "the peer did not send the rest of a receive in "
                               "place over the ucx wire that had been ended");
        return;
    }
    if (request->recv.receive != 0) {
        core_control_done(request->channel, request->recv.message, status,
                          detail);
    }
    end(request, status, detail);
}

void xfer_recv_abort(ucxpool_request_t *request, ucxpool_status_t status,
                     const char *detail)
{
    end(request, status, detail);
}

void xfer_recv_canceled(ucxpool_channel_t *channel, uint64_t message)
{
    static const char text[] = "the sender canceled the message";

    if (message == 0) {
        return; /* the number of all that came with their descriptors */
    }
    for (unsigned i = 0; i < PROTO_SENDS_MAX; i++) {
        ucxpool_request_t *request = channel->requests.receives[i];

        if ((request != NULL) && (request->recv.message == message)) {
            core_control_done(channel, message, UCXPOOL_ERR_CANCELED, text);
            end(request, UCXPOOL_ERR_CANCELED, text);
            return;
        }
    }
    if (xfer_message_cancel(channel, message)) {
        core_control_done(channel, message, UCXPOOL_ERR_CANCELED, text);
    }
}

/* --- as a request --------------------------------------------------------- */

static void init(ucxpool_request_t *request)
{
    memset(&request->recv, 0, sizeof(request->recv));
}

static void ended(ucxpool_request_t *request, ucxpool_status_t status)
{
    core_stats_t *stats = &request->pool->stats;

    if (status == UCXPOOL_OK) {
        stats->messages_received++;
    } else {
        stats->messages_failed++;
    }
}

static bool is_busy(const ucxpool_request_t *request)
{
    return (request->recv.rndvs != 0) || (request->recv.receive != 0);
}

const core_request_kind_t xfer_recv_kind = {
    .init    = init,
    .match   = xfer_recv_start,
    .stop    = xfer_recv_stop,
    .ended   = ended,
    .is_busy = is_busy,
};
