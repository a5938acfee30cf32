#include "wire/wire.h"

#include "core/control.h"

/* The maximum number of fragments of a message that are being received at the
 * same time. It is several times the maximum window, because on the `ucx` wire
 * a fragment may complete at the sender before it completes here. */
#define PENDING_MAX (4 * CORE_FRAGMENTS_MAX)

static bool lies_inside(const ucxpool_request_t *request,
                        const proto_data_t      *data)
{
    uint64_t size = request->data.totals.stream_size;
    uint64_t max  = request->channel->wire->frag_max(request->pool);

    return (data->length != 0) && (data->length <= max) &&
           (data->offset <= size) && (data->length <= size - data->offset) &&
           (data->length <= size - request->recv->begun);
}

/* For a wire that keeps the order of fragments: returns true if this fragment
 * follows the previous one. Only padding, which is shorter than COPY_ALIGNMENT,
 * may be between them. */
static bool is_next(const ucxpool_request_t *request, const proto_data_t *data)
{
    const struct wire_recv *recv = request->recv;

    return (data->index == recv->num_begun) && (data->offset >= recv->next) &&
           (data->offset - recv->next < COPY_ALIGNMENT);
}

/* Check the index of a fragment. Indices are not recorded one by one. This
 * function checks only that no index is higher than the index of the last
 * fragment, and that no more fragments arrive than the last index allows. */
static bool has_good_index(const ucxpool_request_t *request,
                           const proto_data_t *data, bool is_in_order)
{
    const struct wire_recv *recv = request->recv;

    if (data->index == UINT32_MAX) {
        return false;
    }
    if (is_in_order && !is_next(request, data)) {
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

static void count_begun(struct wire_recv *recv, const proto_data_t *data)
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
 * Returns false if the peer causes too much work. On the `ucx` wire, fragments
 * may overtake each other. A fragment that precedes the plan's position
 * requires another walk of the plan from its start. The number of such walks is
 * limited in proportion to the bytes received. A correct sender stays below
 * this limit.
 */
static bool is_cost_acceptable(const ucxpool_request_t *request)
{
    const uint64_t free_restarts = 64;
    const uint64_t steps_a_byte  = 16;
    uint64_t       steps    = request->data.num_runs + request->data.memory.num;
    uint64_t       restarts = request->recv->restarts;

    return (restarts <= free_restarts) ||
           (restarts - free_restarts <=
            request->recv->received * steps_a_byte / steps);
}

bool wire_recv_check(ucxpool_request_t *request, const proto_data_t *data,
                     bool is_in_order)
{
    if (!lies_inside(request, data) ||
        !has_good_index(request, data, is_in_order)) {
        core_channel_fail(request->channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent a fragment (%llu bytes at %llu, "
                          "number %u) that does not fit its message of %llu",
                          (unsigned long long)data->length,
                          (unsigned long long)data->offset, data->index,
                          (unsigned long long)request->data.totals.stream_size);
        return false;
    }
    if ((request->recv->pending >= PENDING_MAX) ||
        !is_cost_acceptable(request)) {
        core_channel_fail(request->channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer cut a message into too many fragments");
        return false;
    }
    count_begun(request->recv, data);
    return true;
}

/* Check that the message is complete when all fragments have arrived. Otherwise
 * fails the channel. */
static bool check_whole(ucxpool_request_t *request)
{
    if (request->recv->received < request->data.totals.payload_size) {
        core_channel_fail(request->channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer ended a message of %llu bytes after %llu",
                          (unsigned long long)request->data.totals.payload_size,
                          (unsigned long long)request->recv->received);
        return false;
    }
    return true;
}

static void put_number(ucxpool_request_t *request)
{
    if (request->recv->receive != 0) {
        core_numbers_put(&request->channel->requests.receives,
                         request->recv->receive);
        request->recv->receive = 0;
    }
}

void wire_recv_end(ucxpool_request_t *request, ucxpool_status_t status,
                   const char *detail)
{
    put_number(request);
    wire_delivery_forget(request);
    if (request->recv->pending != 0) {
        wire_rndv_forget(request);
    }
    if (request->recv->in_place != 0) {
        if (request->recv->failing == UCXPOOL_OK) {
            request->recv->failing = status;
            core_request_set_detail(request, detail);
            core_request_drain(request);
        }
        return;
    }
    core_request_finish(request, status, detail);
}

ucxpool_request_t *wire_recv_find(ucxpool_channel_t  *channel,
                                  const proto_data_t *data)
{
    ucxpool_request_t *request =
        core_numbers_find(&channel->requests.receives, data->receive);

    if ((request == NULL) || (request->recv->message != data->message)) {
        return NULL;
    }
    return request;
}

/* Count a fragment that has been copied. The last one ends the receive. */
static void recv_count(ucxpool_request_t *request, const proto_data_t *data,
                       core_mode_t mode)
{
    core_traffic_add(&request->channel->counts.received[mode], data->length);
    request->path = (uint8_t)mode;
    request->recv->received += data->length;
    request->recv->num_seen++;
    if ((request->recv->num_seen == request->recv->num_all) &&
        check_whole(request)) {
        core_control_done(request->channel, request->recv->message, UCXPOOL_OK,
                          NULL);
        wire_recv_end(request, UCXPOOL_OK, NULL);
    }
}

void wire_recv_delivered(ucxpool_request_t *request, const proto_data_t *data,
                         ucxpool_status_t status, core_mode_t mode)
{
    if (status == UCXPOOL_OK) {
        recv_count(request, data, mode);
    } else if (status == UCXPOOL_ERR_CHECKSUM) {
        wire_recv_stop(request, status,
                       "the checksum of a fragment is wrong: the sender's "
                       "memory was changed while it was sent, or the data was "
                       "corrupted in transit");
    }
}

void wire_recv_release(ucxpool_request_t *request)
{
    if ((request->recv->failing != UCXPOOL_OK) &&
        (request->recv->in_place == 0)) {
        core_request_end(request, request->recv->failing,
                         core_request_detail(request));
    }
    core_request_reuse(request);
}

void wire_recv_stop(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail)
{
    if (request->recv->failing != UCXPOOL_OK) {
        core_request_end_drain(request, request->recv->failing,
                               "the peer did not finish sending to the buffer "
                               "of a failed receive over the ucx wire");
        return;
    }
    if (request->recv->receive != 0) {
        core_control_done(request->channel, request->recv->message, status,
                          detail);
    }
    wire_recv_end(request, status, detail);
}
