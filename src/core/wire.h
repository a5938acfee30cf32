/* Wires transfer fragments from one pool to another. */
#ifndef CORE_WIRE_H
#define CORE_WIRE_H

#include "core/request.h"

/* The maximum number of fragments of a send in flight. */
#define CORE_FRAGMENTS_MAX 64u

/* A fragment that is being gathered or is in flight. */
typedef struct core_fragment core_fragment_t;

struct core_fragment {
    ucxpool_request_t   *request;
    unsigned             number;    /* index in send.fragments */
    base_list_t          link;      /* in send.unsent, the free list, or none */
    base_list_t          all_link;  /* pool->xfer->fragments */
    copy_job_t           copy;      /* the gather, on a GPU */
    const void          *bytes;     /* the fragment's data */
    bool                 in_place;  /* the data is in the caller's memory */
    bool                 is_pushed; /* the data is in a block of the receiver */
    block_comm_buffer_t *buffer;    /* in place: holds the data; NULL: none */
    unsigned             block;     /* packed: index in send.blocks */
    unsigned             slice;
    void                *ucx; /* UCX's request; NULL on the `map` wire */
    mem_piece_t where;  /* location of `bytes`; not set for memory outside the
                           pool */
    proto_data_t data;  /* stays valid until UCX has sent it */
    base_range_t range; /* trace of the gather, then of the transfer */
    /* Called when UCX has completed the operation. */
    void (*done)(core_fragment_t *fragment);
};

/* The properties of a send that determine the size of its fragments. */
typedef struct core_frag_params {
    uint64_t stream_size;
    uint64_t longest;   /* length of the longest segment */
    uint64_t lent_size; /* total size of the blocks that the receiver lent;
                           0: none */
    bool in_place;      /* some data can be sent in place */
} core_frag_params_t;

/* The location of a peer. It determines how the peer's windows are accessed. */
typedef enum core_reach {
    /* Another process; both pools are in host memory, or both are on GPUs. */
    CORE_REACH_HOST = 1 << UCXPOOL_MEMORY_HOST,
    CORE_REACH_GPU  = 1 << UCXPOOL_MEMORY_CUDA,
    /* Another process; the blocks are in host memory, and at least one pool is
     * on a GPU. */
    CORE_REACH_MIXED = 1 << 6,
    CORE_REACH_UCX   = 1 << 7 /* a peer that is reached over a UCX endpoint */
} core_reach_t;

typedef struct core_wire {
    ucxpool_wire_t id;
    const char    *name;
    core_mode_t    packed; /* mode of packed fragments in the statistics */
    core_mode_t    in_place;
    /* The longest message of one segment that is sent with its descriptor, in
     * one entry of the ring; 0: none. */
    size_t max_inline;
    /* A peer has mapped our regions contiguously: an in-place fragment may span
     * several of them. */
    bool joins_regions;
    /* Control messages and the locations of fragments are sent through the
     * channel's ring, which the peer can read even after the connection has
     * failed. */
    bool         has_ring;
    bool         needs_endpoint; /* the channel needs an endpoint of UCX */
    core_reach_t reach;

    /* Returns the ucxpool_path_t of the connected channel, or 0 if none
     * describes its path. */
    unsigned (*path)(const ucxpool_channel_t *channel);

    /* Called when the channel opens. */
    void (*opened)(ucxpool_channel_t *channel);

    /* Returns a description of the transfers, for ucxpool_channel_query(). */
    const char *(*how)(const ucxpool_channel_t *channel);

    /* Returns the blocks for packed data of the wire's channels. */
    block_pool_t *(*blocks)(const ucxpool_t *pool);

    /* Returns true if a fragment of this length may be sent in place from any
     * memory. */
    bool (*takes_any_memory)(const ucxpool_t *pool, uint64_t length);

    /* Returns the best size of packed fragments if FRAG_SIZE is auto.
     * *inplace_size_p is the best size of in-place fragments (0: the same). */
    uint64_t (*frag_size)(const ucxpool_channel_t  *channel,
                          const core_frag_params_t *params,
                          uint64_t                 *inplace_size_p);

    /* Returns the length of the longest fragment that a receiver accepts. */
    uint64_t (*frag_max)(const ucxpool_t *pool);

    /*
     * Send a fragment. The caller has filled fragment->data.
     *
     * UCXPOOL_OK        in flight, until fragment->done() is called, or the
     *                   peer sends TAKEN or DONE
     * UCXPOOL_ERR_BUSY  no room now: try again later
     * others            the channel has failed
     */
    ucxpool_status_t (*send)(ucxpool_channel_t *channel,
                             core_fragment_t   *fragment);

    /* Called when a DATA message has arrived through the ring. The message
     * contains the location of a fragment. NULL for a wire without a ring. */
    void (*arrived)(ucxpool_channel_t *channel, const proto_data_t *data);

    /* Short messages are copied to slots of the pool's outbox. */
    bool has_outbox;

    /* Find the data of a message with PROTO_DESC_MAILED, and the flag that is
     * set when the data is complete. Returns NULL if the descriptor is invalid.
     * NULL: not supported, as `mailed`. */
    const uint8_t *(*find_mailed)(const ucxpool_channel_t *channel,
                                  const proto_desc_t      *desc,
                                  uint64_t stream_size, copy_flag_t *flag_p);

    /* Called when such a message has been matched. */
    void (*mailed)(ucxpool_request_t *request, const proto_desc_t *desc);

    /* A fragment has arrived as an active message: called by UCX's handler.
     * NULL: the wire has no active messages, and UCX drops the fragment. */
    ucs_status_t (*arrived_am)(ucxpool_channel_t  *channel,
                               const proto_data_t *data, void *payload,
                               size_t length, const ucp_am_recv_param_t *param);
} core_wire_t;

/* The wire of a channel before one is chosen: it sends nothing. */
extern const core_wire_t core_wire_none;

/* Returns true if the connection that the channel's wire needs exists. */
static inline bool core_wire_is_connected(const ucxpool_channel_t *channel)
{
    return !channel->wire->needs_endpoint || (channel->conn.endpoint != NULL);
}

#endif
