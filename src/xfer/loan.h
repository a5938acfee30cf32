/*
 * Loans: blocks that a sender's GPU writes to, one loan for a message. They are
 * of the receive share, and then of the send share: where messages are pushed
 * it has little else to do.
 *
 *     ACCEPT, blocks     lent: the sender gathers to them, DATA after DATA,
 *                        and they are scattered from there
 *     the message has    they are free
 *     ended well
 *     ... or not         in quarantine, until the sender says RETURNED, or can
 *                        write no more: its process, or the channel, has ended
 */
#ifndef XFER_LOAN_H
#define XFER_LOAN_H

#include "core/request.h"

typedef struct xfer_loan xfer_loan_t;

/*
 * Lend blocks for the message of a receive: no more than it needs, and never
 * the last free one of either share: a send or a receive may need just one. Of
 * the others it gets half, so that there are some for the next message, unless
 * half is too little to be of use. Writes what the sender is told,
 * PROTO_LENT_MAX at the most. NULL: there are none, or it is not worth it, or
 * messages of the channel are pulled.
 */
xfer_loan_t *xfer_loan_create(const ucxpool_request_t *request,
                              proto_lent_t *lent, unsigned *num_lent_p);

/* Where a fragment lies that was pushed; NULL: not in the loan. */
const uint8_t *xfer_loan_locate(const xfer_loan_t *loan, const ucxpool_t *pool,
                                const proto_data_t *data);

/* The receive has ended, and reads them no more. */
void xfer_loan_end(ucxpool_channel_t *channel, xfer_loan_t *loan, bool is_well);

/* The sender has said RETURNED. */
void xfer_loan_returned(ucxpool_channel_t *channel, uint64_t message);

/* The peer can write to nothing any more. */
void xfer_loans_end(ucxpool_channel_t *channel);

/* Free what is left when the channel goes. */
void xfer_loans_destroy(ucxpool_channel_t *channel);

#endif
