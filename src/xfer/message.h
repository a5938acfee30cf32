/*
 * Messages that have arrived, and the matching of messages and receives.
 *
 * Descriptors are matched in the order of their sequence numbers; one that
 * comes early, or whose runs are not all there, waits for its turn in
 * pool->xfer->early.
 */
#ifndef XFER_MESSAGE_H
#define XFER_MESSAGE_H

#include "core/request.h"
#include "xfer/state.h"

/* Kinds of keys in pool->xfer->index. */
typedef enum xfer_message_key {
    XFER_BY_TAG,
    XFER_BY_CHANNEL_AND_TAG,
    XFER_BY_NUMBER, /* of the channel's sender */
    XFER_NUM_KEYS
} xfer_message_key_t;

typedef enum xfer_place {
    XFER_TAKEN, /* in no list of the pool */
    XFER_EARLY,
    XFER_UNEXPECTED,
    XFER_PROBED
} xfer_place_t;

struct ucxpool_message {
    base_list_t        link; /* of its place, free records, or none */
    base_list_t        index_links[XFER_NUM_KEYS];
    ucxpool_t         *pool;
    ucxpool_channel_t *channel; /* a reference */
    xfer_place_t       place;
    bool               canceled;     /* by the sender */
    char              *canceled_why; /* NULL: there was no memory */
    bool               refused;      /* no room for its runs */
    proto_desc_t       desc;
    uint32_t           runs_missing;
    copy_totals_t      totals;
    copy_run_t        *runs; /* in data, or allocated */
    bool               own_runs;
    uint8_t           *metadata; /* in data */
    uint8_t           *stream;   /* in data; eager only */
    uint32_t           cost;     /* of max_unexpected; 0: a credit */
    base_list_t       *home;     /* free records; NULL: freed after use */
    uint8_t            data[] __attribute__((aligned(16)));
};

/* A descriptor has arrived, or more of its runs. What a SHORT has with it may
 * change meanwhile, and is copied once. */
void xfer_message_desc(ucxpool_channel_t *channel, const proto_desc_t *desc,
                       const void *data, size_t data_size);
void xfer_message_short(ucxpool_channel_t   *channel,
                        const proto_short_t *in_short, const void *data,
                        size_t data_size);
void xfer_message_runs(ucxpool_channel_t *channel, const proto_runs_t *runs,
                       const void *data);

/* Is there a message that arrived early, and whose turn has come? Inline,
 * because progress asks for each channel. */
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

/* Deliver such messages, at most 64. Returns the number of messages. */
unsigned xfer_message_progress(ucxpool_channel_t *channel);

/* Oldest message for a receive, taken out of the list; NULL: none. */
ucxpool_message_t *xfer_message_match(ucxpool_t               *pool,
                                      const ucxpool_channel_t *channel,
                                      uint64_t tag, uint64_t mask);

/* Taken out of all lists, it is its taker's, until it is received or released.
 * That its sender cancels it is noted in it. */
void xfer_message_keep(ucxpool_message_t *message);

/* The message is used up: its credit goes back to the peer. */
void xfer_message_release(ucxpool_message_t *message);

/* The same of one that nobody takes: its sender is told why. */
void xfer_message_drop(ucxpool_message_t *message, ucxpool_status_t status,
                       const char *reason);

/* The sender has canceled it, for this reason. DONE answers at once, or when
 * its turn comes. True when it was there. */
bool xfer_message_cancel(ucxpool_channel_t *channel, uint64_t message,
                         const char *why);

/* The channel has ended: drop what can not be received any more. */
void xfer_message_channel_ended(ucxpool_channel_t *channel);

/* The pool goes: whatever is left of the channel's is dropped. */
void xfer_message_drop_all(ucxpool_channel_t *channel);
void xfer_message_destroy_all(ucxpool_channel_t *channel);

#endif
