/*
 * Wires: what carries a fragment from one pool to the other.
 */
#ifndef CORE_WIRE_H
#define CORE_WIRE_H

#include "core/request.h"

struct xfer_fragment;

/* The place of a peer, for the ways of windows. */
typedef enum core_reach {
    /* Another process, both pools in host memory; both on GPUs. */
    CORE_REACH_HOST = 1 << UCXPOOL_MEMORY_HOST,
    CORE_REACH_GPU  = 1 << UCXPOOL_MEMORY_CUDA,
    CORE_REACH_UCX  = 1 << 7 /* over an endpoint */
} core_reach_t;

typedef struct core_wire {
    ucxpool_wire_t id;
    const char    *name;
    core_mode_t    packed; /* for the statistics */
    core_mode_t    in_place;
    /* Longest message of one piece of memory that goes with its descriptor, in
     * one entry of the ring; 0: none does. */
    size_t max_inline;
    /* A peer has our regions side by side: a fragment in place may extend over
     * several of them. */
    bool joins_regions;
    /* Control messages go through the channel's ring, as does the place of a
     * fragment: the peer can read them whatever becomes of the connection. */
    bool         has_ring;
    core_reach_t reach;

    /* Is there the connection that it needs? */
    bool (*is_connected)(const ucxpool_channel_t *channel);

    /* The channel is open now. */
    void (*opened)(ucxpool_channel_t *channel);

    /* How bytes go, for ucxpool_channel_query(). */
    const char *(*how)(const ucxpool_channel_t *channel);

    /* What a channel over it packs into, and out of. */
    block_pool_t *(*blocks)(const ucxpool_t *pool);

    /* May so many bytes go in place, wherever they lie? */
    bool (*takes_any_memory)(const ucxpool_t *pool, uint64_t length);

    /* Best fragment of a send, where FRAG_SIZE is auto: packed, and the longest
     * in place; 0: as packed. */
    uint64_t (*frag_size)(const ucxpool_request_t *request,
                          uint64_t                *inplace_size_p);

    /* The longest fragment that a receiver takes. */
    uint64_t (*frag_max)(const ucxpool_t *pool);

    /*
     * Hand a fragment to the wire: fragment->data is filled.
     *
     * UCXPOOL_OK          on its way; xfer_send_fragment_done() will be called
     * UCXPOOL_ERR_BUSY    no room now: try again later
     * other               the channel has failed
     */
    ucxpool_status_t (*send)(ucxpool_channel_t    *channel,
                             struct xfer_fragment *fragment);

    /* The place of a fragment has come through the ring. */
    void (*arrived)(ucxpool_channel_t *channel, const proto_data_t *data);

    /* The message of a receive is on its way to our mailbox. NULL: there is
     * none. */
    void (*mailed)(ucxpool_request_t *request, const proto_desc_t *desc);
    /* A receive has ended: drop its fragments that the wire holds. */
    void (*forget)(ucxpool_request_t *request);

    /* A fragment has come as an active message: UCX's handler. */
    ucs_status_t (*arrived_am)(ucxpool_channel_t  *channel,
                               const proto_data_t *data, void *payload,
                               size_t length, const ucp_am_recv_param_t *param);
} core_wire_t;

/* arrived_am() of a wire on which no fragment comes so: UCX drops it. */
ucs_status_t core_wire_drop_am(ucxpool_channel_t  *channel,
                               const proto_data_t *data, void *payload,
                               size_t length, const ucp_am_recv_param_t *param);

/* Of a channel for which none was chosen yet: it sends nothing. */
extern const core_wire_t core_wire_none;

#endif
