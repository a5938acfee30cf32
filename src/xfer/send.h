/*
 * Sends. The state of a send follows its request in memory.
 */
#ifndef XFER_SEND_H
#define XFER_SEND_H

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
    uint32_t         desc_flags; /* PROTO_DESC_WINDOW flags; 0: a message */
    bool             in_place;   /* some data can be sent in place */
    bool             is_early;   /* the only fragment is sent before it is
                                    gathered; the slot is used only for its
                                    flag, and taken with the gather's launch */
    bool             ending;  /* ends when nothing reads the memory any more */
    ucxpool_status_t end;     /* the final status, if `ending` */
    uint64_t         longest; /* length of the longest segment */
    uint64_t         inplace_min; /* shorter segments are packed */
    uint64_t         message;     /* our message number; 0: none */
    uint64_t         receive;     /* the receiver's receive number */
    uint64_t loan; /* message number, if the receiver lent blocks; 0: the
                      blocks are ours */
    /* Index of its first slot in the peer's mailbox + 1; 0: none */
    unsigned          slot;
    unsigned          word; /* index in revoked[] + 1; 0: none */
    uint32_t          cost; /* units of the peer's max_unexpected it uses */
    uint64_t          block_size; /* size of the smallest block */
    uint64_t          sequence;
    uint64_t          offset; /* stream offset of the next fragment */
    uint64_t          frag_size;
    uint64_t          blocked_since; /* time; 0: does not wait for a block */
    base_range_t      blocked;       /* profiler range of the wait */
    uint32_t          runs_sent;
    uint32_t          index; /* index of the next fragment */
    uint32_t          window;
    bool              all_posted;   /* the last fragment has been created */
    uint64_t          inplace_size; /* maximum length of an in-place fragment */
    base_list_t       unsent;       /* fragments not passed to the wire */
    base_list_t       read_link;    /* pool->xfer->readers */
    base_list_t       sent_link;    /* channel->xfer->sent */
    core_link_work_t  push;         /* use of the GPU's link, if it pushes */
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

/* Returns true if the message is sent in a mailbox or an outbox. */
static inline bool xfer_send_is_mailed(const struct xfer_send *send)
{
    return (send->slot != 0) && !send->is_early;
}

static_assert(sizeof(ucxpool_request_t) + sizeof(struct xfer_send) <= 1536,
              "a send takes little memory");

extern const core_request_kind_t xfer_send_kind;

/*
 * Check the number of runs and the size of the metadata against the peer's
 * limits. Succeeds while the limits are unknown; step TURN checks again.
 *
 * UCXPOOL_ERR_LIMIT
 */
ucxpool_status_t xfer_send_check_limits(const ucxpool_request_t *request);

/* Queue a posted send for the GPU's link, if its channel is open and pushes
 * messages. */
void xfer_send_want_link(ucxpool_request_t *request);

/* Called when the channel opens. Queues the already posted sends for the GPU's
 * link, and wakes the first send. */
void xfer_send_opened(ucxpool_channel_t *channel);

/* Take as many steps as possible. Returns false if no progress was possible. */
bool xfer_send_advance(ucxpool_request_t *request);

/* Free a fragment that is no longer in flight. */
void xfer_send_fragment_done(core_fragment_t *fragment);

/* Handle ACCEPT, TAKEN or DONE from the peer. */
void xfer_send_accepted(ucxpool_channel_t    *channel,
                        const proto_accept_t *accept, const void *data,
                        size_t data_size);
void xfer_send_taken(ucxpool_channel_t *channel, const proto_taken_t *taken);
void xfer_send_done(ucxpool_channel_t *channel, const proto_done_t *done,
                    const char *reason);

/* End a send early, because of a cancel, a deadline or an error. */
void xfer_send_stop(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail);

/* End a send whose channel has ended. */
void xfer_send_abort(ucxpool_request_t *request, ucxpool_status_t status,
                     const char *detail);

/* Called when the peer no longer accesses the send's fragments. Frees the
 * send's number, and the fragments that no UCX operation and no copy uses. */
void xfer_send_forget(ucxpool_request_t *request);

/* Free or quarantine the blocks of a send that has ended. */
void xfer_send_release(ucxpool_request_t *request);

/* Wake one waiting send for each free block. Returns the number of sends. */
unsigned xfer_send_wake_waiters(ucxpool_t *pool);

/* --- flushes -------------------------------------------------------------- */

/* Returns true if any send with an order below `before` (UINT64_MAX: any send)
 * is in progress. Sends that have left the queue are in channel->xfer->sent. */
bool xfer_flush_has_sends(const ucxpool_channel_t *channel, uint64_t before);

/* End the flushes whose earlier sends have all ended. Returns how many. */
unsigned xfer_flush_progress(ucxpool_channel_t *channel);

/* Post a flush. It ends when all sends that were posted before it have
 * ended. */
ucxpool_status_t xfer_flush_post(ucxpool_channel_t              *channel,
                                 const ucxpool_request_params_t *params,
                                 ucxpool_request_t             **request_p);

/* End the flushes of a channel that has ended. */
void xfer_flush_abort(ucxpool_channel_t *channel, ucxpool_status_t status);

/* --- fragments ------------------------------------------------------------ */

/*
 * The fragments of a send: their ranges of the stream, their memory, and the
 * number of fragments in flight.
 */

/* Called when the send needs no more slices. The next send of its channel may
 * then hold several blocks. */
void xfer_slice_leave(ucxpool_request_t *request);

/* Use the blocks that the receiver has lent to the send. Returns false if a
 * block is not aligned, or not inside the peer's regions. */
bool xfer_fragment_take_loan(ucxpool_request_t  *request,
                             const proto_lent_t *lent, unsigned num_lent);

/* Set the fragment size and the window after the receiver has accepted the
 * message. */
void xfer_fragment_set_limits(ucxpool_request_t *request, uint64_t frag_size,
                              uint32_t window);

/*
 * Create the next fragment, and start its gather unless it is sent in place.
 *
 * UCXPOOL_OK             the fragment is in send.unsent; send.all_posted is set
 *                        if it is the last one
 * UCXPOOL_INPROGRESS     the window is full, or no slice is free; a request
 *                        without fragments in flight now waits for a block
 * UCXPOOL_ERR_BUSY       the GPU has no free copy job
 * UCXPOOL_ERR_NO_MEMORY  no memory for the fragment
 * UCXPOOL_ERR_IO         a file could not be read
 * others                 the GPU failed
 */
ucxpool_status_t xfer_fragment_post(ucxpool_request_t *request);

/*
 * Send gathered fragments to the wire, in order.
 *
 * UCXPOOL_OK          no more fragments are ready
 * UCXPOOL_ERR_BUSY    the wire has no room: try again later
 * others              the channel has failed
 */
ucxpool_status_t xfer_fragment_flush(ucxpool_request_t *request);

/* Release the memory and the number of a fragment that is no longer in
 * flight. */
void xfer_fragment_free(core_fragment_t *fragment);

/* Free all fragments when the pool is destroyed. */
void xfer_fragment_destroy_all(ucxpool_t *pool);

/* --- the queue of a channel ----------------------------------------------- */

/*
 * A channel's queue: sends whose descriptors are not completely sent, in
 * posting order. Only the first send advances. A send that leaves the queue
 * wakes the next one.
 */

/* Add a send at the end. Returns true if it is the first one; the caller must
 * then advance it. */
bool xfer_queue_add(ucxpool_request_t *request);

bool xfer_queue_is_first(const ucxpool_request_t *request);

/* Remove a send whose descriptor has been sent, or that is about to end. */
void xfer_queue_leave(ucxpool_request_t *request);

/* End a queued send, and wake the next one if this send was the first. */
void xfer_queue_end(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail);

/* Count a send that has ended. */
void xfer_queue_count(ucxpool_request_t *request, ucxpool_status_t status);

/* Wake the first send, if any. */
void xfer_queue_wake(ucxpool_channel_t *channel);

/*
 * Called when the first send needs a credit, and the channel has none. Returns
 * false if the send must wait. Returns true if the channel has had no credit
 * for announce_ns: its sends may then send their descriptors without data until
 * a credit arrives.
 */
bool xfer_queue_may_announce(ucxpool_channel_t *channel);

/* Called when credits have arrived after xfer_queue_may_announce(). */
void xfer_queue_end_announce(ucxpool_channel_t *channel);

/* Wake the first send of each channel for which xfer_queue_may_announce() has
 * become true. Returns the number of woken sends. */
unsigned xfer_queue_announce(ucxpool_t *pool);

/*
 * Advance a send that is in the queue or has left it. If the send makes
 * progress, also advance the sends that become first in the queue. Stops when
 * no credits are left, or when a send cannot send all its data at once. Returns
 * the number of sends that made progress. The request may have been freed.
 */
unsigned xfer_queue_progress(ucxpool_request_t *request);

/* End all sends in the queue of a channel that has ended. */
void xfer_queue_abort(ucxpool_channel_t *channel, ucxpool_status_t status,
                      const char *detail);

/* --- mailboxes ------------------------------------------------------------ */

/*
 * Sends to a mailbox that the peer has lent to the channel, or through the
 * pool's outbox (wire/wire.h).
 */

/* Handle a mailbox that the peer has lent. Fails the channel if the peer is
 * not allowed to lend it. */
void xfer_mailbox_lent(ucxpool_channel_t *channel, const proto_mailbox_t *lent);

/* If enough slots are free and the send may use them, give them to the send as
 * its block. */
void xfer_mailbox_take(ucxpool_request_t *request);

/* Returns the slot for the descriptor of a send that has slots. */
uint32_t xfer_mailbox_slot(const ucxpool_request_t *request);

/* Set send.is_early if an accepted message fits in one fragment, and can be
 * sent before it is gathered. frag_size is the receiver's limit. */
void xfer_mailbox_check_early(ucxpool_request_t *request, uint64_t frag_size);

/* Called when the gather of an early message is about to be launched. Takes the
 * flag of a free slot for it. If all slots are in use, clears send.is_early. */
void xfer_mailbox_take_flag(ucxpool_request_t *request);

/* Returns the flag that the gather of the next fragment must set when it is
 * complete, or an empty flag. */
copy_flag_t xfer_mailbox_flag(const ucxpool_request_t *request);

/* Free the slots of a send, if the message has ended and no local copy writes
 * to them. */
void xfer_mailbox_put(ucxpool_request_t *request);

#endif
