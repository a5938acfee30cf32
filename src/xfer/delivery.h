/*
 * Arrivals: bytes of a message that have come, and that are copied into their
 * receive's memory, by whatever wire. The processor does that at once. On a GPU
 * they wait for the caller's stream and for a free job, and take as many
 * launches, one after the other, as their pieces need.
 *
 * While one is being copied there the request counts it as writing to its
 * caller's memory (recv.in_place), so that its end waits for it.
 */
#ifndef XFER_DELIVERY_H
#define XFER_DELIVERY_H

#include "core/request.h"

/*
 * Called once for each fragment that arrives.
 *
 * UCXPOOL_OK            the bytes are in their place
 * UCXPOOL_ERR_CHECKSUM  the checksum is wrong, and nothing was done
 * UCXPOOL_ERR_CANCELED  the receive does not want them any more
 * others                the GPU failed
 */
typedef void (*xfer_delivery_cb_t)(ucxpool_request_t  *request,
                                   const proto_data_t *data,
                                   ucxpool_status_t status, void *arg);

/* What has arrived. */
typedef struct xfer_delivery_params {
    const proto_data_t *data; /* where in the stream it belongs */
    const void         *bytes;
    bool                must_copy; /* they are host memory of somebody else's,
                                      that stays no longer than this call */
    bool               are_far;    /* another GPU's memory */
    copy_flag_t        flag;       /* to wait for: the bytes are on their way */
    xfer_delivery_cb_t done;
    void              *arg;
} xfer_delivery_params_t;

/* Copy them, now or later. Stops the receive where there is no memory for it.
 */
void xfer_deliver(ucxpool_request_t            *request,
                  const xfer_delivery_params_t *params);

/* The receive has ended: drop what is not being copied yet. */
void xfer_delivery_forget(ucxpool_request_t *request);

/* The first of those that wait, that can go. Returns how many have. */
unsigned xfer_delivery_progress(ucxpool_t *pool);

void xfer_delivery_destroy_all(ucxpool_t *pool);

#endif
