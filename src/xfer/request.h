/*
 * The state of sends and receives, which follows their requests in memory.
 */
#ifndef XFER_REQUEST_H
#define XFER_REQUEST_H

#include "core/request.h"

#include <assert.h>

/* Most fragments of one request in flight, and blocks it holds for them. */
#define XFER_FRAGMENTS_MAX   64u
#define XFER_NO_BLOCK        UINT32_MAX
#define XFER_LENT_BLOCK      (UINT32_MAX - 1)
#define XFER_SEND_BLOCKS_MAX 8u

/*
 * A block held by a send, cut into slices of one fragment each.
 *
 *     free_slices   1 1 0 1 ...     1: nothing is in flight from it
 */
typedef struct xfer_send_block {
    uint32_t index; /* XFER_NO_BLOCK: not there; XFER_LENT_BLOCK: it is the
                       receiver's */
    uint32_t region;
    uint64_t free_slices;
    uint8_t *address;
    uint64_t offset; /* in the region, of the side that has the block */
} xfer_send_block_t;

/* One fragment: being gathered, or in flight. */
typedef struct xfer_fragment {
    ucxpool_request_t *request;
    unsigned           number;      /* among the request's */
    base_list_t        link;        /* the request's unsent ones, none, or */
                                    /* free */
    base_list_t          all_link;  /* the pool's */
    copy_job_t           copy;      /* the gather, on a GPU */
    const void          *bytes;     /* where it lies */
    bool                 in_place;  /* in the caller's memory */
    bool                 is_pushed; /* in a block of the receiver's */
    block_comm_buffer_t *buffer; /* in place: of this buffer; NULL: of none */
    unsigned     block; /* packed: which of the send's blocks, and slice */
    unsigned     slice;
    void        *ucx;   /* UCX's request; NULL on the `map` wire */
    mem_piece_t  where; /* unless in memory outside the pool */
    proto_data_t data;  /* stays valid until UCX has sent it */
    base_range_t range; /* of its gather, then of its way */
} xfer_fragment_t;

typedef enum xfer_send_step {
    XFER_SEND_TURN,
    XFER_SEND_DESC,
    XFER_SEND_RUNS,
    XFER_SEND_ACCEPT,
    XFER_SEND_FRAGMENTS,
    XFER_SEND_DONE
} xfer_send_step_t;

struct xfer_send {
    xfer_send_step_t step;
    uint32_t         desc_flags;  /* of PROTO_DESC_WINDOW; 0: the caller's */
    bool             in_place;    /* something can be sent in place */
    bool             ending;      /* ends when UCX has let go of the memory */
    ucxpool_status_t end;         /* how, if ending */
    uint64_t         longest;     /* segment */
    uint64_t         inplace_min; /* shorter ones are packed */
    uint64_t         message;     /* our number of it; 0: none */
    uint64_t         receive;     /* the receiver's number */
    uint64_t         loan;        /* the same as message, where the blocks were
                                     lent for it; 0: they are ours */
    unsigned          slot; /* of the peer's mailbox, from 1 on; 0: none */
    unsigned          word; /* of revoked[], from 1 on; 0: none */
    uint32_t          cost; /* of the peer's max_unexpected, until ACCEPT */
    uint64_t          block_size; /* of the shortest */
    uint64_t          sequence;
    uint64_t          offset; /* of the next fragment */
    uint64_t          frag_size;
    uint64_t          blocked_since; /* waiting for a block; 0: not */
    base_range_t      blocked;       /* the same, for profilers */
    uint32_t          runs_sent;
    uint32_t          index; /* of the next fragment */
    uint32_t          window;
    bool              all_posted;   /* all of the stream has its piece */
    uint64_t          inplace_size; /* of the longest fragment in place */
    base_list_t       unsent;    /* that the wire has not got yet, in order */
    base_list_t       read_link; /* pool->xfer->readers */
    base_list_t       sent_link; /* the channel's sent ones */
    core_link_work_t  push;      /* if it has a loan */
    uint64_t          busy;      /* bit i: fragments[i] is there */
    unsigned          num_blocks;
    xfer_send_block_t blocks[XFER_SEND_BLOCKS_MAX];
    xfer_fragment_t  *fragments[XFER_FRAGMENTS_MAX];
};

struct xfer_recv {
    uint64_t receive;   /* our number; 0: none */
    uint64_t message;   /* the sender's */
    uint64_t begun;     /* bytes of the stream, in fragments that have come */
    uint64_t received;  /* bytes that are in their place */
    uint64_t next;      /* `map` wire: end of the fragment before */
    uint32_t restarts;  /* walks of the plan from its start */
    uint32_t num_begun; /* fragments that have come */
    uint32_t num_seen;  /* fragments that are in their place */
    uint32_t max_index; /* the highest of a fragment that has come */
    uint32_t num_all;   /* fragments of the message; 0: not known yet */
    unsigned rndvs;    /* operations of UCX that write for us, and deliveries */
    unsigned pending;  /* these, and those that wait for a block */
    unsigned in_place; /* those that write to the caller's memory */
    ucxpool_status_t  failing; /* the end that waits for these; OK: none */
    struct xfer_loan *loan; /* blocks that the sender writes to; NULL: none */
};

/* The request that the state belongs to. */
static inline ucxpool_request_t *xfer_send_request(struct xfer_send *send)
{
    return (ucxpool_request_t *)(void *)send - 1;
}

static_assert(sizeof(ucxpool_request_t) + sizeof(struct xfer_send) <= 1536,
              "a send takes little memory");
static_assert(sizeof(ucxpool_request_t) + sizeof(struct xfer_recv) <= 512,
              "a receive takes little memory");

#endif
