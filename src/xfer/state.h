/*
 * State of the transfers in a pool and in a channel. The lower layers know only
 * the names of the two structs.
 *
 *     pool->xfer
 *       posted       --> receives without a message, oldest first
 *       early        --> messages that wait for their turn or their runs
 *       unexpected   --> messages without a receive, oldest first
 *       index        --> unexpected messages by tag, by channel and tag, and
 *                        by channel and number; early messages only by channel
 *                        and number
 *       waiters      --> sends that wait for a block
 *       readers      --> sends that read files in turn
 *
 *     channel->xfer
 *       queue        --> sends that wait for their turn
 *       packing      --> sends that fill blocks
 *       messages     --> messages that no receive has matched
 */
#ifndef XFER_STATE_H
#define XFER_STATE_H

#include "core/channel.h"
#include "core/pool.h"
#include "core/request.h"
#include "xfer/index.h"

struct xfer_pool {
    base_list_t  posted;
    base_list_t  posted_masked; /* those whose masks have a 0, by run_link */
    xfer_index_t posted_index;  /* the others, by channel and tag */
    uint64_t     num_posted;    /* last order; see xfer/posted.c */
    base_list_t  early;
    base_list_t  unexpected;
    xfer_index_t index;
    base_list_t  probed;        /* messages held by callers */
    uint64_t     next_announce; /* earliest announce_at of a channel */
    base_list_t  waiters;
    base_list_t  readers;          /* only the first may read, one fragment per
                                      round */
    unsigned            read_in;   /* progress_count of the last read */
    base_list_t         fragments; /* of all sends */
    core_request_list_t sends;
    core_request_list_t recvs; /* and flushes, which have no state */
    base_list_t         free_fragments;
};

/* Reusable message records of the same size. */
typedef struct xfer_records {
    base_list_t free;
    uint32_t    count; /* allocated, at most CREDITS */
} xfer_records_t;

typedef struct xfer_messages {
    ucxpool_message_t **early;      /* by sequence number; see xfer/message.c */
    uint32_t            early_size; /* slots, a power of two; 0: none */
    xfer_records_t      eager;      /* for eager messages */
    xfer_records_t      small;      /* for others, with few runs */
    xfer_records_t      large;      /* for others, with many runs or metadata */
    uint32_t announced;      /* units of our max_unexpected, used by the peer */
    uint32_t num_unexpected; /* messages that no receive has matched */
    size_t   num_runs; /* in allocated lists of messages without a receive */
} xfer_messages_t;

/* The mailbox that the peer lent to the channel: see xfer/mailbox.h. */
typedef struct xfer_mailbox {
    uint8_t *slots;  /* NULL: none */
    unsigned region; /* of the peer */
    uint64_t offset;
    uint64_t slot_size;
    uint64_t free_slots; /* bit i: slot i is free */
} xfer_mailbox_t;

struct xfer_channel {
    base_list_t queue;
    base_list_t flushes;
    base_list_t packing;    /* sends that fill blocks, in starting order */
    base_list_t ending;     /* sends that end when nothing reads their memory */
    unsigned    num_pushes; /* copies to the peer's blocks, in flight */
    base_list_t sent;       /* sends with a number that have not ended, in the
                               order in which they were posted */
    base_list_t word_waiters; /* accepted sends that wait for a word */
    uint64_t    words[PROTO_SENDS_MAX / 64]; /* bit i: a send has the word
                                                revoked[i] */
    xfer_messages_t messages;
    xfer_mailbox_t  mailbox;
};

/* Create the state of a pool. UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO */
ucxpool_status_t xfer_pool_create(ucxpool_t *pool);

/* Free the state of a pool. All channels and requests must have been freed. */
void xfer_pool_destroy(ucxpool_t *pool);

/* Create the state of a channel. UCXPOOL_ERR_NO_MEMORY */
ucxpool_status_t xfer_channel_create(ucxpool_channel_t *channel);

/* Free the state of a channel. Does nothing if channel->xfer is NULL. */
void xfer_channel_destroy(ucxpool_channel_t *channel);

#endif
