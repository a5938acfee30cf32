/*
 * The `map` wire: each side has mapped the other's regions. The receiver reads
 * the sender's memory, or the sender's GPU writes to blocks that the receiver
 * granted. Only the locations of fragments are sent, through the ring.
 *
 * Messages between a GPU and a CPU, and between two GPUs without access to each
 * other, pass through host memory. The sender's GPU gathers data into pinned
 * blocks, and the receiver's GPU or CPU reads the blocks.
 */
#include "core/control.h"
#include "core/memory.h"
#include "wire/wire.h"

#include <string.h>

/* The default fragment size: so short that the DEPTH fragments in flight stay
 * in the CPU caches between gather and scatter. */
#define FRAG_SIZE ((uint64_t)256 << 10)

/* A short message is split into CUTS fragments, so that one fragment is read
 * while the next one is gathered. Fragments shorter than FRAG_MIN would take
 * longer to announce than to copy. */
#define CUTS       4u
#define FRAG_MIN   ((uint64_t)16 << 10)
#define FRAG_ALIGN ((uint64_t)4 << 10)

/* A launch takes a few microseconds, in which the link between GPUs transfers
 * several hundred KiB. Several fragments must be in flight, so that a gather
 * does not wait until another fragment has been read. With shorter fragments,
 * more of them must be in flight. */
#define GPU_FRAG_SIZE   ((uint64_t)16 << 20)
#define GPU_FRAG_MIN    ((uint64_t)1 << 20)
#define GPU_FRAGS       4u
#define GPU_SHORT_FRAGS 8u
#define GPU_SHORT_SHARE ((uint64_t)64 << 20)

/* A message is split into at least GPU_CUTS fragments, so that the CPUs process
 * lists while the link is busy. */
#define GPU_CUTS 8u

/* Long segments are copied by copy engines, which are faster with long
 * fragments. */
#define GPU_LONG_SIZE ((uint64_t)32 << 20)
#define GPU_LONG_MIN  GPU_FRAG_SIZE

/* The longest fragment in place. A GPU reads a peer's memory fastest in long
 * fragments, and needs no blocks for them. */
#define GPU_FRAG_MAX ((uint64_t)128 << 20)

/* Through host memory: a launch and its report take a few microseconds, in
 * which PCIe transfers several hundred KiB. */
#define HOST_FRAG_SIZE ((uint64_t)2 << 20)
#define HOST_FRAG_MIN  ((uint64_t)512 << 10)
#define HOST_CUTS      4u

/* The largest copy of one thread block. */
#define WAIT_MAX 4096u

static block_pool_t *map_blocks(const ucxpool_t *pool)
{
    return pool->memory.blocks;
}

static unsigned map_path(const ucxpool_channel_t *channel)
{
    return UCXPOOL_PATH_MAP | UCXPOOL_PATH_DIRECT;
}

static unsigned host_path(const ucxpool_channel_t *channel)
{
    return UCXPOOL_PATH_MAP;
}

static void map_opened(ucxpool_channel_t *channel)
{
    core_lifeline_end(channel, BOOTSTRAP_CLOSE_SPARE);
}

/* Always returns false: the receiver can read only mapped memory. */
static bool map_takes_any_memory(const ucxpool_t *pool, uint64_t length)
{
    return false;
}

/* Choose the fragment size between GPUs. The block size does not limit in-place
 * fragments, and a GPU's link is faster with long fragments. */
static uint64_t gpu_frag_size(const ucxpool_channel_t  *channel,
                              const core_frag_params_t *params,
                              uint64_t                 *inplace_size_p)
{
    const block_pool_t *blocks = map_blocks(channel->pool);
    uint64_t            size   = params->lent_size;
    block_stats_t       share;

    *inplace_size_p = UINT64_MAX;
    if (size == 0) {
        block_pool_stats(blocks, BLOCK_SHARE_SEND, &share);
        size = share.total * block_pool_block_size(blocks);
    }
    /* Fragments are also long if two processes share a GPU. The processes take
     * turns on the GPU, and waiting for a turn takes longer than copying a
     * fragment. */
    if ((params->longest >= GPU_LONG_MIN) || core_channel_shares_gpu(channel)) {
        return base_max(GPU_FRAG_MIN, base_min(GPU_LONG_SIZE, size / 2));
    }
    size /= (size < GPU_SHORT_SHARE) ? GPU_SHORT_FRAGS : GPU_FRAGS;
    size = base_min(size, params->stream_size / GPU_CUTS);
    return base_max(GPU_FRAG_MIN, base_min(GPU_FRAG_SIZE, size));
}

/* Choose the fragment size between CPUs. Shorter fragments let gathers overlap
 * with reads, but data in place is not gathered. */
static uint64_t map_frag_size(const ucxpool_channel_t  *channel,
                              const core_frag_params_t *params,
                              uint64_t                 *inplace_size_p)
{
    uint64_t size = params->stream_size / CUTS;

    *inplace_size_p = 0;
    if (params->in_place || (size >= FRAG_SIZE)) {
        return FRAG_SIZE;
    }
    return base_max(FRAG_MIN, base_align_up(size, FRAG_ALIGN));
}

/* Choose the fragment size through host memory. A GPU reads data in place
 * fastest in long fragments. */
static uint64_t host_frag_size(const ucxpool_channel_t  *channel,
                               const core_frag_params_t *params,
                               uint64_t                 *inplace_size_p)
{
    uint64_t size = base_align_up(params->stream_size / HOST_CUTS, FRAG_ALIGN);

    *inplace_size_p = UINT64_MAX;
    return base_max(HOST_FRAG_MIN, base_min(HOST_FRAG_SIZE, size));
}

static uint64_t map_frag_max(const ucxpool_t *pool)
{
    return block_pool_block_size(map_blocks(pool));
}

static uint64_t gpu_frag_max(const ucxpool_t *pool)
{
    return base_max(map_frag_max(pool), GPU_FRAG_MAX);
}

static uint64_t host_frag_max(const ucxpool_t *pool)
{
    return copy_engine_memory_kind(pool->engine) == UCXPOOL_MEMORY_HOST
               ? base_max(map_frag_max(pool), HOST_FRAG_SIZE)
               : gpu_frag_max(pool);
}

static const char *map_how(const ucxpool_channel_t *channel)
{
    return "each side reads the other's blocks";
}

static const char *gpu_how(const ucxpool_channel_t *channel)
{
    return channel->peer.pushes
               ? "each side's GPU writes to blocks that the other lends"
               : "each side's GPU reads the other's blocks";
}

static const char *host_how(const ucxpool_channel_t *channel)
{
    const char *unpinned = channel->peer.mapping->unpinned;

    return (unpinned[0] == '\0') ? "through pinned host memory" : unpinned;
}

static ucxpool_status_t map_send(ucxpool_channel_t *channel,
                                 core_fragment_t   *fragment)
{
    proto_fixed_t *fixed;
    proto_head_t   head;

    fixed = core_control_begin(channel, PROTO_DATA, 0, CORE_MAY, NULL);
    if (fixed == NULL) {
        return UCXPOOL_ERR_BUSY;
    }
    head             = fixed->head;
    fixed->data      = fragment->data;
    fixed->data.head = head;
    core_control_end(channel);
    return UCXPOOL_OK;
}

static void taken(ucxpool_channel_t *channel, const proto_data_t *data)
{
    proto_fixed_t *fixed;

    fixed = core_control_begin(channel, PROTO_TAKEN, 0, CORE_MUST, NULL);
    if (fixed != NULL) {
        fixed->taken.message = data->message;
        fixed->taken.piece   = data->piece;
        core_control_end(channel);
    }
}

/* Returns true if the message is complete with the fragment that has just been
 * copied. DONE then replaces the fragment's TAKEN. */
static bool is_last(const struct wire_recv *recv)
{
    return recv->num_seen + 1 == recv->num_all;
}

/* Returns the address of a fragment in the peer's mapped memory; NULL if it is
 * outside the peer's regions. */
static const uint8_t *locate_pulled(const ucxpool_channel_t *channel,
                                    const proto_data_t      *data)
{
    const core_mapping_t *mapping = channel->peer.mapping;
    uint64_t              size;

    if (data->region >= mapping->num_regions) {
        return NULL;
    }
    size = mapping->region_sizes[data->region];
    if (mapping->gpu.way != 0) {
        /* A GPU's regions are contiguous, and a fragment may span several. */
        size *= mapping->num_regions - data->region;
    }
    if ((data->region_offset > size) ||
        (data->length > size - data->region_offset)) {
        return NULL;
    }
    return mapping->regions[data->region] + data->region_offset;
}

static bool is_pushed(const proto_data_t *data)
{
    return (data->flags & PROTO_DATA_PUSHED) != 0;
}

static const uint8_t *locate(const ucxpool_request_t *request,
                             const proto_data_t      *data)
{
    return is_pushed(data)
               ? wire_loan_locate(request->recv->loan, request->pool, data)
               : locate_pulled(request->channel, data);
}

/* Find the flag of a fragment that is announced before it is complete. Returns
 * false if the fragment has no valid flag, or cannot have one. */
static bool find_flag(const ucxpool_channel_t *channel,
                      const proto_data_t *data, copy_flag_t *flag_p)
{
    return !(data->flags & PROTO_DATA_EARLY) ||
           (is_pushed(data) && !(data->flags & PROTO_DATA_CHECKSUM) &&
            ((uint32_t)data->message != 0) &&
            wire_mailbox_find_flag(channel, data->slot, data->message, flag_p));
}

static core_mode_t mode_of(const proto_data_t *data)
{
    if (is_pushed(data)) {
        return CORE_MODE_MAP_PUSHED;
    }
    return (data->flags & PROTO_DATA_INPLACE) ? CORE_MODE_MAP_INPLACE
                                              : CORE_MODE_MAP_PACKED;
}

/* Called when the delivery of a fragment has ended. */
static void delivered(ucxpool_request_t *request, const proto_data_t *data,
                      ucxpool_status_t status, void *arg)
{
    ucxpool_channel_t *channel = request->channel;

    if ((status != UCXPOOL_OK) && (status != UCXPOOL_ERR_CHECKSUM)) {
        return;
    }
    if (core_ring_is_revoked(&channel->ring, data->word, data->message)) {
        /* The data is invalid. A CANCEL with the reason, or the end of the
         * channel, will end the receive. */
        return;
    }
    if ((status == UCXPOOL_OK) && !is_last(request->recv)) {
        taken(channel, data);
    }
    wire_recv_delivered(request, data, status, mode_of(data));
}

/* Returns true if the peer's memory is not on our GPU. */
static bool is_far(const ucxpool_channel_t *channel)
{
    return (channel->peer.mapping->gpu.way == 0) ||
           !core_channel_shares_gpu(channel);
}

/* Returns true if our GPU or CPU can read the peer's memory itself. */
static bool can_read(const ucxpool_channel_t *channel)
{
    const core_mapping_t *mapping = channel->peer.mapping;

    return (mapping->gpu.way != 0) || mapping->is_pinned ||
           (copy_engine_memory_kind(channel->pool->engine) ==
            UCXPOOL_MEMORY_HOST);
}

static void map_arrived(ucxpool_channel_t *channel, const proto_data_t *data)
{
    ucxpool_request_t *request = wire_recv_find(channel, data);
    copy_flag_t        flag    = {.word = NULL};
    const uint8_t     *bytes;

    if (request == NULL) {
        /* The receive has ended: its DONE frees the fragment at the sender. */
        return;
    }
    bytes = locate(request, data);
    if ((bytes == NULL) || !find_flag(channel, data, &flag)) {
        core_channel_fail(
            channel, UCXPOOL_ERR_PROTOCOL,
            "the peer sent a fragment outside %s",
            is_pushed(data) ? "the blocks and the mailbox that were lent to it"
                            : "its regions");
        return;
    }
    if (!wire_recv_check(request, data, true)) {
        return;
    }
    wire_deliver(request, &(wire_delivery_params_t){
                              .data    = data,
                              .bytes   = bytes,
                              .are_far = !is_pushed(data) && is_far(channel),
                              .are_unpinned = !can_read(channel),
                              .flag         = flag,
                              .done         = delivered});
}

/* Returns true if our GPU may wait for the flag of a message in an outbox. A
 * GPU serves the polls of several thread blocks over PCIe one after the other,
 * so only a copy of one thread block waits. Two H200, 64 KiB there and back: 66
 * us if the GPU waits, 48 us if the CPU does. */
static bool gpu_may_wait(const ucxpool_channel_t *channel, uint64_t stream_size)
{
    return can_read(channel) && !core_channel_shares_gpu(channel) &&
           (stream_size <= WAIT_MAX);
}

/* A message in a mailbox or an outbox is received as one fragment. */
static void map_mailed(ucxpool_request_t *request, const proto_desc_t *desc)
{
    const ucxpool_channel_t *channel     = request->channel;
    uint64_t                 stream_size = request->data.totals.stream_size;
    bool                     is_pushed   = channel->peer.pushes;
    uint32_t                 flags       = is_pushed ? PROTO_DATA_PUSHED : 0;
    const proto_data_t       data        = {
                     .message = desc->message,
                     .receive = request->recv->receive,
                     .length  = stream_size,
                     .flags   = PROTO_DATA_LAST | flags,
    };
    wire_delivery_params_t params = {
        .data            = &data,
        .are_far         = !is_pushed,
        .are_unpinned    = !can_read(channel),
        .is_flag_on_host = !is_pushed,
        .gpu_may_wait    = gpu_may_wait(channel, stream_size),
        .done            = delivered,
    };

    if (!wire_recv_check(request, &data, true)) {
        return;
    }
    params.bytes =
        channel->wire->find_mailed(channel, desc, stream_size, &params.flag);
    wire_deliver(request, &params);
}

/* The members that are equal in all `map` wires. */
/* clang-format off */
#define MAP_WIRE \
    .id               = UCXPOOL_WIRE_MAP, \
    .name             = "map", \
    .packed           = CORE_MODE_MAP_PACKED, \
    .in_place         = CORE_MODE_MAP_INPLACE, \
    .has_ring         = true, \
    .opened           = map_opened, \
    .takes_any_memory = map_takes_any_memory, \
    .send             = map_send, \
    .arrived          = map_arrived

const core_wire_t wire_map = {
    MAP_WIRE,
    .max_inline = PROTO_SHORT_MAX,
    .reach      = CORE_REACH_HOST,
    .path       = map_path,
    .how        = map_how,
    .blocks     = map_blocks,
    .frag_size  = map_frag_size,
    .frag_max   = map_frag_max,
};

const core_wire_t wire_map_gpu = {
    MAP_WIRE,
    .joins_regions = true,
    .reach         = CORE_REACH_GPU,
    .path          = map_path,
    .how           = gpu_how,
    .blocks        = map_blocks,
    .frag_size     = gpu_frag_size,
    .frag_max      = gpu_frag_max,
    .find_mailed   = wire_mailbox_find,
    .mailed        = map_mailed,
};

const core_wire_t wire_map_host = {
    MAP_WIRE,
    .reach       = CORE_REACH_MIXED,
    .path        = host_path,
    .how         = host_how,
    .blocks      = core_memory_host_blocks,
    .frag_size   = host_frag_size,
    .frag_max    = host_frag_max,
    .has_outbox  = true,
    .find_mailed = wire_outbox_find,
    .mailed      = map_mailed,
};
/* clang-format on */
