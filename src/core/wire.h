/* Wires transfer fragments from one pool to another. */
#ifndef CORE_WIRE_H
#define CORE_WIRE_H

#include "core/request.h"

/* The maximum number of fragments of a send in flight. */
#define CORE_FRAGMENTS_MAX 64u

struct xfer_fragment;

/* The location of a peer, which determines the ways to its windows. */
typedef enum core_reach {
    /* Another process, with both pools in host memory, or both on GPUs. */
    CORE_REACH_HOST = 1 << UCXPOOL_MEMORY_HOST,
    CORE_REACH_GPU  = 1 << UCXPOOL_MEMORY_CUDA,
    CORE_REACH_UCX  = 1 << 7 /* over an endpoint */
} core_reach_t;

typedef struct core_wire {
    ucxpool_wire_t id;
    const char    *name;
    core_mode_t    packed; /* for the statistics */
    core_mode_t    in_place;
    /* The longest message of one segment that is sent with its descriptor, in
     * one entry of the ring; 0: none. */
    size_t max_inline;
    /* A peer has mapped our regions contiguously: a fragment in place may span
     * several of them. */
    bool joins_regions;
    /* Control messages and the places of fragments are sent through the
     * channel's ring: the peer can read them even after the connection has
     * failed. */
    bool         has_ring;
    core_reach_t reach;

    /* Does the connection that it needs exist? */
    bool (*is_connected)(const ucxpool_channel_t *channel);

    /* The ucxpool_path_t of the connected channel, or 0 for a slower one. */
    unsigned (*path)(const ucxpool_channel_t *channel);

    /* Called when the channel opens. */
    void (*opened)(ucxpool_channel_t *channel);

    /* A description of the transfers, for ucxpool_channel_query(). */
    const char *(*how)(const ucxpool_channel_t *channel);

    /* The blocks for packed data of its channels. */
    block_pool_t *(*blocks)(const ucxpool_t *pool);

    /* May a fragment of this length be sent in place from any memory? */
    bool (*takes_any_memory)(const ucxpool_t *pool, uint64_t length);

    /* The best fragment size of a send if FRAG_SIZE is auto: packed, and in
     * place (0: the same). */
    uint64_t (*frag_size)(const ucxpool_request_t *request,
                          uint64_t                *inplace_size_p);

    /* The longest fragment that a receiver accepts. */
    uint64_t (*frag_max)(const ucxpool_t *pool);

    /*
     * Send a fragment; fragment->data is filled.
     *
     * UCXPOOL_OK        in flight; xfer_send_fragment_done() will be called
     * UCXPOOL_ERR_BUSY  no room now: try again later
     * others            the channel has failed
     */
    ucxpool_status_t (*send)(ucxpool_channel_t    *channel,
                             struct xfer_fragment *fragment);

    /* The place of a fragment has arrived through the ring. NULL without a
     * ring. */
    void (*arrived)(ucxpool_channel_t *channel, const proto_data_t *data);

    /* The data of a receive is being written to our mailbox. NULL: not
     * supported. */
    void (*mailed)(ucxpool_request_t *request, const proto_desc_t *desc);
    /* A receive has ended: drop its fragments that the wire holds. */
    void (*forget)(ucxpool_request_t *request);

    /* A fragment has arrived as an active message: called by UCX's handler. */
    ucs_status_t (*arrived_am)(ucxpool_channel_t  *channel,
                               const proto_data_t *data, void *payload,
                               size_t length, const ucp_am_recv_param_t *param);
} core_wire_t;

/* arrived_am() of a wire without active messages: UCX drops the fragment. */
ucs_status_t core_wire_drop_am(ucxpool_channel_t  *channel,
                               const proto_data_t *data, void *payload,
                               size_t length, const ucp_am_recv_param_t *param);

/* The wire of a channel before one is chosen: it sends nothing. */
extern const core_wire_t core_wire_none;

#endif
