/*
 * State of the transfers in a pool and in a channel. The lower layers know only
 * the names of the two structs.
 *
 *     pool->xfer
 *       posted       --> receives without a message, oldest first
 *       early        --> messages that arrived early, or without all their runs
 *       unexpected   --> messages without a receive, oldest first
 *       index        --> unexpected messages by tag, by channel and tag, and
 *                        by channel and number; early messages only by channel
 *                        and number
 *       waiters      --> sends that wait for a block
 *       readers      --> sends that read files; they take turns
 *
 *     channel->xfer
 *       queue        --> sends whose descriptor has not been sent completely
 *       packing      --> sends that fill blocks
 *       messages     --> messages that no receive has matched
 */
#ifndef XFER_STATE_H
#define XFER_STATE_H

#include "core/channel.h"
#include "core/pool.h"
#include "core/request.h"
#include "wire/wire.h"

/*
 * A hash table that keeps the order of its elements: each list holds the
 * elements with the same hash. A key is a number, with or without a channel.
 * There are at least as many lists as elements, unless memory is exhausted.
 */
typedef struct xfer_index {
    base_list_t *lists;
    unsigned     num_kinds; /* kinds of keys; each has its own lists */
    uint32_t     size;      /* number of lists for each kind */
    uint32_t     num;       /* number of elements; the caller sets it */
    uint64_t     factor;    /* for the hash; random, odd, secret */
} xfer_index_t;

/*
 * Returns the list of a key. Set channel to NULL if the key has no channel. The
 * hash depends on a random factor, so that a peer cannot choose keys with the
 * same hash. The second multiplication spreads consecutive numbers, because
 * some factors map them to neighboring lists.
 */
static inline base_list_t *xfer_index_list(const xfer_index_t      *index,
                                           unsigned                 kind,
                                           const ucxpool_channel_t *channel,
                                           uint64_t                 value)
{
    uint64_t hash = (value ^ (uintptr_t)channel) * index->factor;

    hash = (hash ^ (hash >> 32)) * UINT64_C(0x9e3779b97f4a7c15);
    return &index->lists[(size_t)kind * index->size +
                         (((hash >> 32) * index->size) >> 32)];
}

/* Returns true if xfer_index_grow() would change the index. */
static inline bool xfer_index_is_full(const xfer_index_t *index)
{
    return index->num >= index->size;
}

/*
 * Make room for one more element. Returns true if the lists have been replaced
 * by empty ones; the caller must then add all elements again, without removing
 * them first. Returns false if nothing has changed.
 */
bool xfer_index_grow(xfer_index_t *index, ucxpool_t *pool);

/* Slots: the mailbox that the peer lent to a channel, or the pool's outbox. See
 * xfer/mailbox.c. */
typedef struct xfer_mailbox {
    wire_mailbox_t at;     /* its address in our memory */
    unsigned       region; /* index of the owner's region */
    uint64_t       offset;
    uint64_t       free_slots; /* bit i: slot i is free */
    uint32_t       block;      /* outbox only */
} xfer_mailbox_t;

struct xfer_pool {
    base_list_t posted;
    base_list_t posted_masked; /* receives whose mask has a 0 bit, linked
                                * by run_link */
    xfer_index_t posted_index; /* receives with a full mask, by channel and
                                * tag */
    uint64_t     num_posted;   /* order of the newest receive */
    uint64_t     last_sorted;  /* order of the newest sorted receive */
    base_list_t  early;
    base_list_t  unexpected;
    xfer_index_t index;
    base_list_t  probed;        /* probed messages that callers hold */
    uint64_t     next_announce; /* earliest announce_at of a channel */
    base_list_t  waiters;
    base_list_t  readers;          /* only the first may read, one fragment per
                                      round */
    unsigned            read_in;   /* progress_count of the last read */
    base_list_t         fragments; /* all fragments, in use or free */
    xfer_mailbox_t      outbox;
    core_request_list_t sends;
    core_request_list_t recvs; /* receives, and flushes, which need no state */
    base_list_t         free_fragments;
};

/* Reusable message records of the same size. */
typedef struct xfer_records {
    base_list_t free;
    uint32_t    count; /* records kept for reuse, at most CREDITS */
} xfer_records_t;

typedef struct xfer_messages {
    ucxpool_message_t **early;      /* by sequence number; see xfer/message.c */
    uint32_t            early_size; /* number of slots, a power of two or 0 */
    xfer_records_t      small;      /* for little data */
    xfer_records_t      large;      /* for up to PROTO_DATA_MAX bytes */
    uint32_t announced;      /* units of this pool's max_unexpected that the
                                peer is using */
    uint32_t num_unexpected; /* messages that no receive has matched */
    size_t   num_runs;       /* runs in lists of messages without a receive */
} xfer_messages_t;

struct xfer_channel {
    base_list_t queue;
    base_list_t flushes;
    base_list_t packing;    /* sends that fill blocks, in starting order */
    base_list_t ending;     /* sends that end once nothing reads their memory */
    unsigned    num_pushes; /* copies to the peer's blocks, in flight */
    base_list_t sent; /* unfinished sends with a number, in posting order */
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
