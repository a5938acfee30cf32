/*
 * State of the transfers in a pool and in a channel. The layers below know the
 * two structs by name alone.
 *
 *     pool->xfer
 *       posted       --> receives without a message, in their order
 *       early        --> messages that wait for their turn or their runs
 *       unexpected   --> messages without a receive, in their order
 *       index        --> the same by tag, by channel and tag, and by channel
 *                        and number; early ones by channel and number alone
 *       waiters      --> sends that wait for a block
 *       readers      --> sends that want to read files, in turns
 *
 *     channel->xfer
 *       queue        --> sends that wait for their turn
 *       packing      --> sends that fill blocks
 *       messages     --> what has arrived, and no receive has matched
 */
#ifndef XFER_STATE_H
#define XFER_STATE_H

#include "core/channel.h"
#include "core/pool.h"
#include "core/request.h"
#include "xfer/index.h"

/* A block of the receive share that is lent in parts: see xfer/mailbox.h. */
typedef struct xfer_mail {
    uint32_t block; /* valid if parts are used */
    uint64_t used;  /* bit i: part i is lent to a channel */
} xfer_mail_t;

struct xfer_pool {
    base_list_t  posted;
    base_list_t  posted_masked; /* those whose masks have a 0, by run_link */
    xfer_index_t posted_index;  /* the others, by channel and tag */
    uint64_t     num_posted;    /* since the pool began; see xfer/posted.c */
    base_list_t  early;
    base_list_t  unexpected;
    xfer_index_t index;
    base_list_t  probed;        /* messages that a caller looks at */
    uint64_t     next_announce; /* when a channel is to look at announce_at */
    base_list_t  waiters;
    base_list_t  readers; /* the first may read, if no other has in this round
                           */
    unsigned            read_in;    /* progress_count when one did last */
    base_list_t         fragments;  /* of all sends */
    base_list_t         deliveries; /* bytes that a GPU puts in their place */
    core_request_list_t sends;
    core_request_list_t recvs; /* and flushes, which have no state */
    base_list_t         free_fragments;
    base_list_t         free_deliveries;
    xfer_mail_t         mail;
};

/* Records of messages, all with the same room, that are used again. */
typedef struct xfer_records {
    base_list_t free;
    uint32_t    count; /* allocated, at most CREDITS */
} xfer_records_t;

typedef struct xfer_messages {
    ucxpool_message_t **early;      /* by sequence number; see xfer/message.c */
    uint32_t            early_size; /* slots, a power of two; 0: none */
    xfer_records_t      eager; /* for messages that come with their bytes */
    xfer_records_t      small; /* for others, with few lengths or none */
    xfer_records_t      large; /* for others, with many lengths or metadata */
    uint32_t            announced; /* of our max_unexpected, by the others */
    uint32_t num_unexpected;       /* in use, and no receive has matched it */
    size_t   num_runs;             /* in lists that have no receive yet */
} xfer_messages_t;

/* For short messages between GPUs: see xfer/mailbox.h. */
typedef struct xfer_mailbox {
    bool     is_lent; /* one of ours, to the peer */
    unsigned part;    /* which, of the pool's block */
    uint8_t *slots;   /* the peer's, lent to us; NULL: none */
    unsigned region;  /* of it */
    uint64_t offset;
    uint64_t slot_size;
    uint64_t free_slots; /* bit i: number i is */
} xfer_mailbox_t;

struct xfer_channel {
    base_list_t queue;
    base_list_t flushes;
    base_list_t packing;    /* sends that fill blocks, in that order */
    base_list_t ending;     /* sends that end when no peer reads them */
    base_list_t loans;      /* of blocks, to the peer: xfer/loan.h */
    unsigned    num_pushes; /* copies to blocks of the peer's */
    base_list_t sent;       /* sends with a number that have not ended, in the
                               order in which they were posted */
    base_list_t wordless;   /* accepted sends that wait for a word */
    uint64_t    words[PROTO_SENDS_MAX / 64]; /* bit i: a send has the word
                                                revoked[i] */
    xfer_messages_t messages;
    xfer_mailbox_t  mailbox;
};

/* UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO */
ucxpool_status_t xfer_pool_create(ucxpool_t *pool);

/* Frees what is left of it; no channel and no request is. */
void xfer_pool_destroy(ucxpool_t *pool);

/* UCXPOOL_ERR_NO_MEMORY */
ucxpool_status_t xfer_channel_create(ucxpool_channel_t *channel);

/* Frees what is left of it; NULL is fine. */
void xfer_channel_destroy(ucxpool_channel_t *channel);

#endif
