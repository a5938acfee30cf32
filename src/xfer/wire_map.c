/*
 * The `map` wire: the receiver has mapped the sender's regions and copies
 * straight out of them; only the place of a fragment is told, through the ring.
 */
#include "base/error.h"
#include "xfer/control.h"
#include "xfer/recv.h"
#include "xfer/wire.h"

/* What is in flight (DEPTH of them) stays in the processors' caches between the
 * two copies. */
#define FRAG_SIZE (256u * 1024u)

static uint64_t map_frag_size(const ucxpool_channel_t *channel)
{
    (void)channel;
    return FRAG_SIZE;
}

static ucxpool_status_t map_send(ucxpool_channel_t *channel,
                                 xfer_piece_t *piece)
{
    proto_fixed_t *fixed;
    proto_head_t   head;

    fixed = xfer_control_begin(channel, PROTO_DATA, 0, XFER_MAY, NULL);
    if (fixed == NULL) {
        return UCXPOOL_ERR_BUSY;
    }
    head             = fixed->head;
    fixed->data      = piece->data;
    fixed->data.head = head;
    xfer_control_end(channel);
    return UCXPOOL_OK;
}

static void taken(ucxpool_channel_t *channel, const proto_data_t *data)
{
    proto_fixed_t *fixed;

    fixed = xfer_control_begin(channel, PROTO_TAKEN, 0, XFER_MUST, NULL);
    if (fixed != NULL) {
        fixed->taken.message = data->message;
        fixed->taken.piece   = data->piece;
        xfer_control_end(channel);
    }
}

/* Where the fragment lies in our address space; NULL: nowhere. */
static const uint8_t *locate(const ucxpool_channel_t *channel,
                             const proto_data_t *data)
{
    const xfer_peer_t *peer = &channel->peer;
    uint64_t           size;

    if (data->region >= peer->num_regions) {
        return NULL;
    }
    size = peer->region_sizes[data->region];
    if ((data->region_offset > size) ||
        (data->length > size - data->region_offset)) {
        return NULL;
    }
    return peer->regions[data->region] + data->region_offset;
}

void xfer_wire_map_data(ucxpool_channel_t *channel, const proto_data_t *data)
{
    ucxpool_request_t *request = xfer_recv_find(channel, data);
    const uint8_t     *bytes   = locate(channel, data);
    ucxpool_mode_t     mode;
    bool               is_intact;

    if (request == NULL) {
        /* The receive has ended, and DONE was sent: that freed the piece. */
        return;
    }
    if (bytes == NULL) {
        xfer_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent a fragment outside of its regions");
        return;
    }
    if (!xfer_recv_check(request, data)) {
        return;
    }
    is_intact = xfer_recv_scatter(request, data, bytes);
    if (xfer_ring_is_revoked(&channel->ring, data->message)) {
        xfer_recv_stop(request, UCXPOOL_ERR_CANCELED,
                       "the sender canceled the message");
        return;
    }
    if (!is_intact) {
        xfer_recv_stop_corrupt(request);
        return;
    }
    taken(channel, data);
    if (xfer_request_has_ended(request)) {
        return; /* with the channel */
    }
    mode = (data->flags & PROTO_DATA_INPLACE) ? UCXPOOL_MODE_MAP_INPLACE
                                              : UCXPOOL_MODE_MAP_PACKED;
    xfer_recv_count(request, data, mode);
}

const xfer_wire_t xfer_wire_map = {
    .id        = UCXPOOL_WIRE_MAP,
    .name      = "map",
    .packed    = UCXPOOL_MODE_MAP_PACKED,
    .in_place  = UCXPOOL_MODE_MAP_INPLACE,
    .frag_size = map_frag_size,
    .send      = map_send,
};
