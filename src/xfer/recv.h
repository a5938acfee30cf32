/*
 * Receives, and the messages that have arrived.
 *
 * Descriptors are matched in sequence order. A descriptor that arrives early,
 * or without all its runs, is queued in pool->xfer->early.
 */
#ifndef XFER_RECV_H
#define XFER_RECV_H

#include "core/request.h"
#include "xfer/state.h"

/* --- messages ------------------------------------------------------------- */

/* Kinds of keys in pool->xfer->index. */
typedef enum xfer_message_key {
    XFER_BY_TAG,
    XFER_BY_CHANNEL_AND_TAG,
    XFER_BY_NUMBER, /* the sender's message number, with the channel */
    XFER_NUM_KEYS
} xfer_message_key_t;

typedef enum xfer_place {
    XFER_TAKEN, /* not in a list of the pool */
    XFER_EARLY,
    XFER_UNEXPECTED,
    XFER_PROBED
} xfer_place_t;

struct ucxpool_message {
    base_list_t link; /* in the list for `place`, in a list of free
                       * records, or in none */
    base_list_t        index_links[XFER_NUM_KEYS];
    ucxpool_t         *pool;
    ucxpool_channel_t *channel; /* holds a reference */
    xfer_place_t       place;
    bool               canceled;     /* by the sender */
    char              *canceled_why; /* NULL: no reason, or no memory for it */
    bool               refused;      /* its runs exceed the channel's limit */
    proto_desc_t       desc;
    uint32_t           runs_missing;
    copy_totals_t      totals;
    copy_run_t        *runs; /* points into data[], or is allocated */
    bool               own_runs;
    uint8_t           *metadata; /* points into data[] */
    uint8_t           *stream;   /* points into data[]; eager only */
    uint32_t           cost;     /* units of max_unexpected; 0: uses a credit */
    base_list_t       *home;     /* its list of free records; NULL: free() it */
    uint8_t            data[] __attribute__((aligned(16)));
};

/* Handle a descriptor, a SHORT, or more runs of a descriptor. The peer can
 * still change the data of a SHORT, so this data is read only once. */
void xfer_message_desc(ucxpool_channel_t *channel, const proto_desc_t *desc,
                       const void *data, size_t data_size);
void xfer_message_short(ucxpool_channel_t   *channel,
                        const proto_short_t *in_short, const void *data);
void xfer_message_runs(ucxpool_channel_t *channel, const proto_runs_t *runs,
                       const void *data);

/* Returns true if the next message in order has arrived early and is complete.
 * Inline, because progress calls this for each channel. */
static inline bool xfer_message_has_turn(const ucxpool_channel_t *channel)
{
    const xfer_messages_t   *messages = &channel->xfer->messages;
    const ucxpool_message_t *message;

    if (messages->early_size == 0) {
        return false;
    }
    message = messages->early[channel->flow.expected_sequence &
                              (messages->early_size - 1)];
    return (message != NULL) && (message->runs_missing == 0);
}

/* Deliver the messages for which xfer_message_has_turn() is true, at most 64.
 * Returns the number of messages. */
unsigned xfer_message_progress(ucxpool_channel_t *channel);

/* Find the oldest message for a receive, and remove it from its lists. Returns
 * NULL if no message matches. channel: NULL for any channel. */
ucxpool_message_t *xfer_message_match(ucxpool_t               *pool,
                                      const ucxpool_channel_t *channel,
                                      uint64_t tag, uint64_t mask);

/* Keep a message from xfer_message_match() for the caller, until the caller
 * receives or releases it. If the sender cancels the message in the meantime,
 * it is marked as canceled. */
void xfer_message_keep(ucxpool_message_t *message);

/* Free a message. The credit of an eager message is then owed to the peer. */
void xfer_message_release(ucxpool_message_t *message);

/* Free a message that has no receive, and send DONE with this status and
 * reason. */
void xfer_message_drop(ucxpool_message_t *message, ucxpool_status_t status,
                       const char *reason);

/* Handle the sender's CANCEL of a message. Sends DONE at once, or for an early
 * message, when it is next in order. Returns false if no early, unexpected or
 * probed message has this number. */
bool xfer_message_cancel(ucxpool_channel_t *channel, uint64_t message,
                         const char *why);

/* Called when a channel has ended. Drops those of its messages that can no
 * longer be received. */
void xfer_message_channel_ended(ucxpool_channel_t *channel);

/* Called when the pool is destroyed: first drop the channel's remaining
 * messages, then free the channel's unused message records. */
void xfer_message_drop_all(ucxpool_channel_t *channel);
void xfer_message_destroy_all(ucxpool_channel_t *channel);

/* --- posted receives ------------------------------------------------------ */

/*
 * Receives that have no message yet. All are in pool->xfer->posted, oldest
 * first. Most messages match the oldest receive. If a message does not, the
 * receives are sorted: those with a full mask into an index by channel and tag,
 * all others into pool->xfer->posted_masked. The struct wire_recv of a receive
 * is not accessed before its message arrives.
 */

/* Add a receive that has no message yet. */
void xfer_posted_add(ucxpool_request_t *request);

/* Called when a receive has been removed from its lists (link and run_link),
 * because it has a message or has ended. */
void xfer_posted_removed(const ucxpool_request_t *request);

static inline bool xfer_posted_takes(const ucxpool_request_t *request,
                                     const ucxpool_channel_t *channel,
                                     uint64_t                 tag)
{
    return (request->any_channel || (request->channel == channel)) &&
           (((request->tag ^ tag) & request->mask) == 0);
}

/* Called by xfer_posted_find() if the oldest receive does not match. */
ucxpool_request_t *xfer_posted_search(const ucxpool_channel_t *channel,
                                      uint64_t                 tag);

/* Returns the oldest receive that matches a message, without removing it. NULL:
 * none. */
static inline ucxpool_request_t *
xfer_posted_find(const ucxpool_channel_t *channel, uint64_t tag)
{
    const base_list_t *posted = &channel->pool->xfer->posted;
    ucxpool_request_t *request;

    if (base_list_is_empty(posted)) {
        return NULL;
    }
    request = base_list_head(posted, ucxpool_request_t, link);
    return xfer_posted_takes(request, channel, tag)
               ? request
               : xfer_posted_search(channel, tag);
}

/* End the receives that wait only for messages of a channel that has ended. */
void xfer_posted_abort(ucxpool_channel_t *channel, ucxpool_status_t status,
                       const char *detail);

/* --- receives with a message ---------------------------------------------- */

extern const core_request_kind_t xfer_recv_kind;

/* Count a receive that has ended. */
void xfer_recv_count(ucxpool_request_t *request, ucxpool_status_t status);

/* Start a receive with its message, and release the message. */
void xfer_recv_start(ucxpool_request_t *request, ucxpool_message_t *message);

/* Handle a CANCEL from the sender of a message. reason: one line, or "". */
void xfer_recv_canceled(ucxpool_channel_t    *channel,
                        const proto_cancel_t *cancel, const char *reason);

#endif
