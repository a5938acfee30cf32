/*
 * Wires: what carries a fragment from one pool to the other.
 */
#ifndef XFER_WIRE_H
#define XFER_WIRE_H

#include "xfer/request.h"

typedef struct xfer_wire {
    ucxpool_wire_t id;
    const char    *name;
    ucxpool_mode_t packed; /* for the statistics */
    ucxpool_mode_t in_place;
    /* Takes bytes from any memory, where none needs registration. */
    bool           any_memory;

    /* Best fragment of a send, where FRAG_SIZE is auto. */
    uint64_t (*frag_size)(const ucxpool_request_t *request);

    /*
     * Hand a fragment to the wire: piece->data is filled.
     *
     * UCXPOOL_OK          on its way; xfer_send_piece_done() will be called
     * UCXPOOL_ERR_BUSY    no room now: try again later
     * other               the channel has failed
     */
    ucxpool_status_t (*send)(ucxpool_channel_t *channel, xfer_piece_t *piece);
} xfer_wire_t;

extern const xfer_wire_t xfer_wire_map;
extern const xfer_wire_t xfer_wire_ucx;

/* A fragment has arrived on the `map` wire. */
void xfer_wire_map_data(ucxpool_channel_t *channel, const proto_data_t *data);

/* A fragment has arrived on the `ucx` wire: UCX's handler. */
ucs_status_t xfer_wire_ucx_data(ucxpool_channel_t *channel,
                                const proto_data_t *data, void *payload,
                                size_t length,
                                const ucp_am_recv_param_t *param);

#endif
