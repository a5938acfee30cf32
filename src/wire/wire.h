/*
 * The wires and their parts: the fragments of receives, their delivery, loans,
 * mailboxes and rendezvous. core/wire.h describes the functions of a wire.
 */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include "base/math.h"
#include "core/pool.h"
#include "core/request.h"
#include "core/wire.h"

#include <assert.h>

/* The `map` wire between CPUs, between GPUs, and through host memory if one or
 * both pools are on a GPU. */
extern const core_wire_t wire_map, wire_map_gpu, wire_map_host;
extern const core_wire_t wire_ucx;

/* --- state ---------------------------------------------------------------- */

/*
 * State of the wires in a pool. The lower layers know only the name of the
 * struct.
 */

/* The maximum number of channels that share a block for mailboxes. */
#define WIRE_PARTS_MAX 64u

/* A block of the receive share that is lent in parts, for mailboxes. */
typedef struct wire_mail {
    uint32_t                 block; /* valid if num_lent != 0 */
    unsigned                 num_lent;
    const ucxpool_channel_t *owners[WIRE_PARTS_MAX]; /* NULL: not lent */
} wire_mail_t;

struct wire_pool {
    base_list_t deliveries;
    base_list_t free_deliveries;
    base_list_t writing; /* fragments being written by UCX or delivered */
    base_list_t waiting; /* fragments that wait for a receive block or the
                          * caller's stream */
    base_list_t free_rndvs;
    base_list_t loans;
    wire_mail_t mail;
};

/* Create the state. UCXPOOL_ERR_NO_MEMORY */
ucxpool_status_t wire_pool_create(ucxpool_t *pool);

/* Free the state. All requests must have been freed. */
void wire_pool_destroy(ucxpool_t *pool);

/* --- receives ------------------------------------------------------------- */

/*
 * The fragments of a receive. They arrive over any wire, and are checked,
 * delivered and counted. The last fragment ends the receive.
 */

/* The state of a receive; it follows the request in memory. */
struct wire_recv {
    uint64_t receive;   /* our receive number; 0: none */
    uint64_t message;   /* the sender's message number */
    uint64_t begun;     /* stream bytes in the fragments that have arrived */
    uint64_t received;  /* bytes that have been copied */
    uint64_t next;      /* `map` wire: end of the previous fragment */
    uint32_t restarts;  /* walks of the plan from its start */
    uint32_t num_begun; /* fragments that arrived */
    uint32_t num_seen;  /* fragments that have been copied */
    uint32_t max_index; /* highest index of a fragment that arrived */
    uint32_t num_all;   /* fragments of the message; 0: not known yet */
    /* At most PENDING_MAX each; see wire/recv.c. */
    uint16_t         rndvs; /* UCX operations that write data, and deliveries */
    uint16_t         pending;  /* rndvs, and fragments that wait for a block */
    uint16_t         in_place; /* rndvs now writing to the caller's memory */
    ucxpool_status_t failing;  /* status of a receive that ends when in_place
                                  is 0; OK: none */
    struct wire_loan *loan; /* blocks that the sender writes to; NULL: none */
};

static_assert(sizeof(ucxpool_request_t) + sizeof(struct wire_recv) <= 512,
              "a receive takes little memory");

/* Returns the receive of a fragment; NULL if the receive has ended. */
ucxpool_request_t *wire_recv_find(ucxpool_channel_t  *channel,
                                  const proto_data_t *data);

/* Check that a fragment which has arrived is valid. Counts it and returns true,
 * or fails the channel. is_in_order: the wire keeps the order of fragments. */
bool wire_recv_check(ucxpool_request_t *request, const proto_data_t *data,
                     bool is_in_order);

/* Called when the delivery of a fragment has ended. Counts the fragment, or
 * stops the receive if the checksum is wrong. */
void wire_recv_delivered(ucxpool_request_t *request, const proto_data_t *data,
                         ucxpool_status_t status, core_mode_t mode);

/* Called when an operation that wrote to the caller's memory has stopped. Ends
 * the request if it waits to end and this was the last such operation. */
void wire_recv_release(ucxpool_request_t *request);

/* End the receive now, or as soon as no operation writes to its target. The
 * sender keeps its data unchanged until then. */
void wire_recv_end(ucxpool_request_t *request, ucxpool_status_t status,
                   const char *detail);

/* End the receive early, and send DONE with the reason to the sender. */
void wire_recv_stop(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail);

/* --- deliveries ----------------------------------------------------------- */

/*
 * Deliveries: bytes of a message that have arrived over any wire and must be
 * copied to the memory of the receive. The CPU copies them at once. A GPU
 * copies them when the earlier work in the caller's stream is done and a copy
 * job is free. It uses as many launches as the pieces need, one after the
 * other.
 *
 * recv.in_place counts the launches in flight. These launches write to the
 * caller's memory, so the request must not end before they do.
 */

/*
 * Called once for each delivered fragment, when its delivery ends.
 *
 * UCXPOOL_OK            the bytes have been copied
 * UCXPOOL_ERR_CHECKSUM  the checksum is wrong; nothing was copied
 * UCXPOOL_ERR_CANCELED  the receive has ended, is ending, or ran out of memory
 * others                the GPU failed
 */
typedef void (*wire_delivery_cb_t)(ucxpool_request_t  *request,
                                   const proto_data_t *data,
                                   ucxpool_status_t status, void *arg);

/* A fragment that has arrived. */
typedef struct wire_delivery_params {
    const proto_data_t *data; /* its position in the stream */
    const void         *bytes;
    bool                must_copy; /* the bytes are in host memory that is valid
                                      only during this call */
    bool               are_far; /* bytes are in host or another GPU's memory */
    bool               are_unpinned; /* the GPU cannot read the bytes */
    copy_flag_t        flag;         /* set when all bytes have been written */
    bool               is_flag_on_host; /* the CPU can read the flag */
    bool               gpu_may_wait;    /* the GPU may wait for such a flag */
    wire_delivery_cb_t done;
    void              *arg;
} wire_delivery_params_t;

/* Copy the bytes, now or later. Stops the receive if out of memory. */
void wire_deliver(ucxpool_request_t            *request,
                  const wire_delivery_params_t *params);

/* Drop the deliveries of a receive that has ended, except those being
 * copied. */
void wire_delivery_forget(ucxpool_request_t *request);

/* Launch the first waiting delivery that can start. Returns the number of
 * launches, 0 or 1. */
unsigned wire_delivery_progress(ucxpool_t *pool);

/* Returns the time at which the deliveries need progress. They are polled,
 * because no event reports that a flag was written. A delivery whose flag only
 * the GPU can read needs none before its next launch. Without deliveries:
 * BASE_CLOCK_FOREVER. */
uint64_t wire_delivery_deadline(const ucxpool_t *pool);

void wire_delivery_destroy_all(ucxpool_t *pool);

/* --- loans ---------------------------------------------------------------- */

/*
 * Loans: blocks that a receiver lends to a sender for one message. The
 * sender's GPU writes to them. The blocks come from the receive share first,
 * then from the send share, which is mostly unused on channels that push.
 *
 *     ACCEPT with blocks   lent: the sender gathers into them and sends a
 *                          DATA for each fragment; the receiver scatters from
 *                          them
 *     message succeeded    free
 *     message failed       in quarantine until the sender sends RETURNED, or
 *                          until its process or the channel has ended
 */

typedef struct wire_loan wire_loan_t;

/*
 * Lend blocks for the message of a receive. Lends no more blocks than the
 * message needs, and never the last free block of a share, because another send
 * or receive may need it. Lends at most half of the other free blocks, so that
 * the next message can also get a loan. Lends more than half if half would be
 * too few for a faster transfer. Writes the blocks to `lent`, which has room
 * for PROTO_LENT_MAX. Returns NULL if no blocks are free, if a loan would not
 * be faster, if the channel does not push, or if there is too little memory.
 *
 * may_be_early  The message is not from a window, whose messages are never
 *               announced early.
 */
wire_loan_t *wire_loan_create(const ucxpool_request_t *request,
                              bool may_be_early, proto_lent_t *lent,
                              unsigned *num_lent_p);

/* Returns the address of a pushed fragment; NULL if it is outside the loan.
 * loan may be NULL. */
const uint8_t *wire_loan_locate(const wire_loan_t *loan, const ucxpool_t *pool,
                                const proto_data_t *data);

/* End a loan whose receive has ended and no longer reads the blocks. is_well:
 * the receive has ended with UCXPOOL_OK. */
void wire_loan_end(wire_loan_t *loan, bool is_well);

/* Handle RETURNED from the sender. */
void wire_loan_returned(ucxpool_channel_t *channel, uint64_t message);

/* End all loans of a channel whose peer can no longer write to any block. */
void wire_loans_end(ucxpool_channel_t *channel);

/* Free the remaining loans when the pool is destroyed. */
void wire_loan_destroy_all(ucxpool_t *pool);

/* --- mailboxes ------------------------------------------------------------ */

/*
 * Mailboxes: receiver memory to which a sender's GPU writes messages before
 * they are accepted. The receiver lends a mailbox to a channel for the
 * channel's lifetime, after it has accepted a message of at most
 * WIRE_EARLY_MAX bytes.
 *
 *     | slot | slot | ... | flag | flag | ... |    a part of a block of the
 *                                                  receive share
 *
 * A message occupies consecutive slots, and uses the flag of the first one. The
 * sender names this slot in DESC, and only then lets its GPU copy the message
 * (xfer/mailbox.c). The receiver's kernel waits for the flag. So the two copies
 * overlap: the launch of the second copy does not wait until the first copy is
 * complete. The slots are free again when the message has ended and the
 * sender's copy is complete.
 */
typedef struct wire_mailbox {
    uint8_t *slots; /* NULL: none */
    size_t   slot_size;
    unsigned num_slots;
} wire_mailbox_t;

/*
 * A longer message is written to lent blocks. If it fits in one fragment, the
 * sender announces this fragment before it is gathered, with a slot whose flag
 * is set when the fragment is complete. So the receiver launches its copy
 * during the gather, and there is one launch on each side. If all slots are in
 * use, the sender sends the fragment without a slot, after the gather.
 */
#define WIRE_EARLY_MAX ((uint64_t)16 << 20)

/* Returns the number of slots that a message occupies. */
static inline uint64_t wire_mailbox_need(const wire_mailbox_t *mailbox,
                                         uint64_t              stream_size)
{
    return (stream_size + mailbox->slot_size - 1) / mailbox->slot_size;
}

/* Returns the flag of a slot, and the flag's value when the message is
 * complete. */
static inline copy_flag_t wire_mailbox_flag(const wire_mailbox_t *mailbox,
                                            unsigned slot, uint64_t message)
{
    uint8_t *flags = mailbox->slots + mailbox->num_slots * mailbox->slot_size;

    return (copy_flag_t){(uint32_t *)(void *)(flags + slot * PROTO_FLAG_SIZE),
                         (uint32_t)message};
}

/* Called when the message of a receive has been accepted. If the message has at
 * most WIRE_EARLY_MAX bytes, and the channel has no mailbox, lends a mailbox to
 * the channel and sends MAILBOX to the peer. */
void wire_mailbox_lend(const ucxpool_request_t *request);

/* Returns true if the channel has a mailbox that this pool lent. */
bool wire_mailbox_is_lent(const ucxpool_channel_t *channel);

/* See core_wire_t.find_mailed: for a message in the channel's mailbox. */
const uint8_t *wire_mailbox_find(const ucxpool_channel_t *channel,
                                 const proto_desc_t *desc, uint64_t stream_size,
                                 copy_flag_t *flag_p);

/* Find the flag of a slot, for a message that uses it. Returns false if the
 * channel has no mailbox with this slot. */
bool wire_mailbox_find_flag(const ucxpool_channel_t *channel, unsigned slot,
                            uint64_t message, copy_flag_t *flag_p);

/* Returns true if the wire finds the data of a message with PROTO_DESC_MAILED.
 * Otherwise fails the channel. */
bool wire_mailbox_check(ucxpool_channel_t *channel, const proto_desc_t *desc,
                        uint64_t stream_size);

/* Release the mailbox of a channel whose peer can no longer write to it. */
void wire_mailbox_end(ucxpool_channel_t *channel);

/* --- outboxes ------------------------------------------------------------- */

/*
 * Outboxes: a block of the sender's pinned host memory, cut into slots. They do
 * for `map` through host memory what mailboxes do between GPUs. The receiver
 * need not lend anything, because it reads the sender's blocks.
 *
 *     | data | flag | ...     a message in consecutive slots
 *
 * The flag follows the data at the next multiple of PROTO_FLAG_SIZE. The sender
 * clears the flag, sends DESC, and only then lets its GPU copy the message. The
 * receiver's kernel or CPU waits for the flag.
 */

/* Returns the size of a message and its flag. */
static inline uint64_t wire_outbox_room(uint64_t stream_size)
{
    return base_align_up(stream_size, PROTO_FLAG_SIZE) + PROTO_FLAG_SIZE;
}

/* Returns the flag of a message, and the flag's value when the message is
 * complete. */
static inline copy_flag_t wire_outbox_flag(uint8_t *data, uint64_t stream_size,
                                           uint64_t message)
{
    return (copy_flag_t){
        (uint32_t *)(void *)(data +
                             base_align_up(stream_size, PROTO_FLAG_SIZE)),
        (uint32_t)message};
}

/* See core_wire_t.find_mailed: for a message in the peer's outbox. The slot of
 * the descriptor is the offset of the data in the peer's regions, which are
 * counted as if they were contiguous, in units of PROTO_FLAG_SIZE. */
const uint8_t *wire_outbox_find(const ucxpool_channel_t *channel,
                                const proto_desc_t *desc, uint64_t stream_size,
                                copy_flag_t *flag_p);

/* --- rendezvous ----------------------------------------------------------- */

/*
 * Rendezvous: fragments of the `ucx` wire that UCX writes to a receive block or
 * in place. If no receive block is free, the fragment waits, and its data stays
 * at the sender.
 */

/* Start or queue a fragment, and keep its descriptor, which UCX passed to the
 * active message handler. Returns false if out of memory; the descriptor is
 * then not kept. */
bool wire_rndv_start(ucxpool_request_t *request, const proto_data_t *data,
                     void *descriptor);

/* Drop the waiting fragments of a receive that has ended, and quarantine the
 * receive blocks of its other fragments, to which UCX may still write. */
void wire_rndv_forget(ucxpool_request_t *request);

/* Start the waiting fragments that can start. Returns how many it started. */
unsigned wire_rndv_progress(ucxpool_t *pool);

/* Free all fragments. All requests must have been freed. */
void wire_rndv_destroy_all(ucxpool_t *pool);

#endif
