/*
 * Which channel a HELLO is for; and the HELLOs that came before theirs was made
 * here. Whoever reaches UCX's ports can send such, so few are kept, and none
 * for long. Nothing is lost with one, because who means it says it again.
 */
#ifndef XFER_PAIRING_H
#define XFER_PAIRING_H

#include "xfer/channel.h"

/* A HELLO that came early. */
typedef struct xfer_early {
    base_list_t      link;
    uint64_t         deadline; /* by then it has been said again             */
    ucp_ep_h         reply_ep; /* may be gone: to be compared, and no more   */
    proto_hello_t    hello;
    mem_share_file_t files[];
} xfer_early_t;

/* The channel that a HELLO is for, or that it has met before; NULL: none. */
ucxpool_channel_t *xfer_pairing_find(ucxpool_t           *pool,
                                     const proto_hello_t *hello,
                                     ucp_ep_h             reply_ep);

/* Keep a HELLO. One that says the same again takes the place of the first; the
 * oldest goes when there are too many. */
void xfer_pairing_keep(ucxpool_t *pool, const proto_hello_t *hello,
                       const void *files, ucp_ep_h reply_ep);

/* The one for this channel, which the caller frees; NULL: none has come. */
xfer_early_t *xfer_pairing_take(ucxpool_channel_t *channel);

/* Let those go that were not said again. Returns when the next one's time is
 * over, or BASE_CLOCK_FOREVER. */
uint64_t xfer_pairing_expire(ucxpool_t *pool, uint64_t now);

void xfer_pairing_destroy_all(ucxpool_t *pool);

#endif
