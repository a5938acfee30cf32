/*
 * The state of a send. It follows the request in memory.
 */
#ifndef XFER_REQUEST_H
#define XFER_REQUEST_H

#include "core/request.h"
#include "core/wire.h"

#include <assert.h>

#define XFER_NO_BLOCK   UINT32_MAX
#define XFER_LENT_BLOCK (UINT32_MAX - 1)
/* The maximum number of blocks of a send. */
#define XFER_SEND_BLOCKS_MAX 8u

/*
 * A block held by a send, cut into slices of one fragment each.
 *
 *     free_slices   1 1 0 1 ...     1: no fragment uses the slice
 */
typedef struct xfer_send_block {
    uint32_t index; /* XFER_NO_BLOCK: the entry is unused;
                       XFER_LENT_BLOCK: the block is the receiver's */
    uint32_t region;
    uint64_t free_slices;
    uint8_t *address;
    uint64_t offset; /* in the region of the block's owner */
} xfer_send_block_t;

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
    uint32_t         desc_flags;  /* of PROTO_DESC_WINDOW; 0: a message */
    bool             in_place;    /* some data can be sent in place */
    bool             ending;      /* ends when nothing reads the memory */
    ucxpool_status_t end;         /* the status, if ending */
    uint64_t         longest;     /* length of the longest segment */
    uint64_t         inplace_min; /* shorter ones are packed */
    uint64_t         message;     /* our message number; 0: none */
    uint64_t         receive;     /* the receiver's number */
    uint64_t         loan;  /* message number, if the receiver lent blocks;
                               0: the blocks are ours */
    unsigned          slot; /* index in the peer's mailbox + 1; 0: none */
    unsigned          word; /* index in revoked[] + 1; 0: none */
    uint32_t          cost; /* units of the peer's max_unexpected */
    uint64_t          block_size; /* of the shortest block */
    uint64_t          sequence;
    uint64_t          offset; /* of the next fragment */
    uint64_t          frag_size;
    uint64_t          blocked_since; /* time; 0: does not wait for a block */
    base_range_t      blocked;       /* the same, for profilers */
    uint32_t          runs_sent;
    uint32_t          index; /* of the next fragment */
    uint32_t          window;
    bool              all_posted;   /* the last fragment has been created */
    uint64_t          inplace_size; /* longest fragment in place */
    base_list_t       unsent;       /* fragments not passed to the wire */
    base_list_t       read_link;    /* pool->xfer->readers */
    base_list_t       sent_link;    /* channel->xfer->sent */
    core_link_work_t  push;         /* if it pushes */
    uint64_t          busy;         /* bit i: fragments[i] is valid */
    unsigned          num_blocks;
    xfer_send_block_t blocks[XFER_SEND_BLOCKS_MAX];
    core_fragment_t  *fragments[CORE_FRAGMENTS_MAX];
};

/* Returns the request to which the state belongs. */
static inline ucxpool_request_t *xfer_send_request(struct xfer_send *send)
{
    return (ucxpool_request_t *)(void *)send - 1;
}

static_assert(sizeof(ucxpool_request_t) + sizeof(struct xfer_send) <= 1536,
              "a send takes little memory");

#endif
