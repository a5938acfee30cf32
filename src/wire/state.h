/*
 * State of the wires in a pool. The lower layers know only the name of the
 * struct.
 */
#ifndef WIRE_STATE_H
#define WIRE_STATE_H

#include "core/pool.h"

/* The maximum number of channels that share a block for mailboxes. */
#define WIRE_PARTS_MAX 64u

/* A block of the receive share that is lent in parts: see wire/mailbox.h. */
typedef struct wire_mail {
    uint32_t                 block; /* valid if num_lent != 0 */
    unsigned                 num_lent;
    const ucxpool_channel_t *owners[WIRE_PARTS_MAX]; /* NULL: not lent */
} wire_mail_t;

struct wire_pool {
    base_list_t deliveries; /* see wire/delivery.h */
    base_list_t free_deliveries;
    base_list_t writing; /* fragments being written by UCX, or delivered */
    base_list_t waiting; /* for a receive block, or the caller's stream */
    base_list_t free_rndvs;
    base_list_t loans; /* see wire/loan.h */
    wire_mail_t mail;
};

/* Create the state. UCXPOOL_ERR_NO_MEMORY */
ucxpool_status_t wire_pool_create(ucxpool_t *pool);

/* Free the state. All requests must have been freed. */
void wire_pool_destroy(ucxpool_t *pool);

#endif
