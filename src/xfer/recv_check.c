/*
 * Which fragments a receive takes: what the sender says of them is a
 * stranger's word.
 */
#include "base/error.h"
#include "core/wire.h"
#include "xfer/recv.h"

/* Fragments of one message that may be on their way into memory: several times
 * what any window allows, because on the `ucx` wire the sender may hear of a
 * fragment's end before we do. */
#define PENDING_MAX (4 * CORE_FRAGMENTS_MAX)

/* A GPU reads a peer's memory best in long pieces, and needs no block for it.
 */
#define MAP_FRAG_SIZE ((uint64_t)128 << 20)

/* The longest fragment that we can take in: one that fits in a block, where it
 * needs one. */
uint64_t xfer_recv_frag_size(const ucxpool_request_t *request)
{
    uint64_t block_size =
        block_pool_block_size(core_channel_blocks(request->channel));

    if ((request->pool->engine != NULL) && request->channel->wire->is_read) {
        return base_max(block_size, MAP_FRAG_SIZE);
    }
    return block_size;
}

static bool lies_inside(const ucxpool_request_t *request,
                        const proto_data_t      *data)
{
    uint64_t size = request->totals.stream_size;

    return (data->length != 0) &&
           (data->length <= xfer_recv_frag_size(request)) &&
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
    uint64_t       steps         = request->num_runs + request->memory.num;
    uint64_t       restarts      = request->recv.restarts;

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
                          (unsigned long long)request->totals.stream_size);
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

bool xfer_recv_check_whole(ucxpool_request_t *request)
{
    if (request->recv.received < request->totals.payload_size) {
        core_channel_fail(request->channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer ended a message of %llu bytes after %llu",
                          (unsigned long long)request->totals.payload_size,
                          (unsigned long long)request->recv.received);
        return false;
    }
    return true;
}
