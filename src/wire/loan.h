/*
 * Loans: blocks that a receiver grants to a sender for one message. The
 * sender's GPU writes to them. The blocks come from the receive share first,
 * then from the send share, which is mostly unused where messages are pushed.
 *
 *     ACCEPT with blocks   lent: the sender gathers into them and sends a DATA
 *                          for each fragment; the receiver scatters from them
 *     message succeeded    free
 *     message failed       in quarantine until the sender sends RETURNED, or
 *                          until its process or the channel has ended
 */
#ifndef WIRE_LOAN_H
#define WIRE_LOAN_H

#include "core/request.h"

typedef struct wire_loan wire_loan_t;

/*
 * Lend blocks for the message of a receive. Lends no more than the message
 * needs, and never the last free block of a share, which another send or
 * receive may need. At most half of the other free blocks are lent, to leave
 * some for the next message, unless half is too little to be useful. Writes the
 * blocks to `lent`, which has room for PROTO_LENT_MAX. Returns NULL if no
 * blocks are free, a loan would not be faster, the channel does not push, or
 * out of memory.
 */
wire_loan_t *wire_loan_create(const ucxpool_request_t *request,
                              proto_lent_t *lent, unsigned *num_lent_p);

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

#endif
