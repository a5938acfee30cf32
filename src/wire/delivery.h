/*
 * Deliveries: bytes of a message that have arrived over any wire and must be
 * copied to the memory of the receive. The CPU copies them at once. A delivery
 * by a GPU waits for the caller's stream and for a free copy job. It then uses
 * as many launches as its pieces need, one after the other.
 *
 * recv.in_place counts the launches in flight, because these write to the
 * caller's memory: the request ends only after them.
 */
#ifndef WIRE_DELIVERY_H
#define WIRE_DELIVERY_H

#include "core/request.h"

/*
 * Called once for each fragment that arrives.
 *
 * UCXPOOL_OK            the bytes have been copied
 * UCXPOOL_ERR_CHECKSUM  the checksum is wrong; nothing was copied
 * UCXPOOL_ERR_CANCELED  the receive has ended, is ending, or ran out of memory
 * others                the GPU failed
 */
typedef void (*wire_delivery_cb_t)(ucxpool_request_t  *request,
                                   const proto_data_t *data,
                                   ucxpool_status_t status, void *arg);

/* A fragment that has arrived. */
typedef struct wire_delivery_params {
    const proto_data_t *data; /* its position in the stream */
    const void         *bytes;
    bool                must_copy; /* the bytes are in host memory that is valid
                                      only during this call */
    bool               are_far;    /* in another GPU's memory */
    copy_flag_t        flag;       /* set when all bytes have been written */
    wire_delivery_cb_t done;
    void              *arg;
} wire_delivery_params_t;

/* Copy the bytes, now or later. Stops the receive if out of memory. */
void wire_deliver(ucxpool_request_t            *request,
                  const wire_delivery_params_t *params);

/* Drop the deliveries of a receive that has ended, except those being
 * copied. */
void wire_delivery_forget(ucxpool_request_t *request);

/* Launch the first waiting delivery that can start. Returns the number of
 * launches, 0 or 1. */
unsigned wire_delivery_progress(ucxpool_t *pool);

void wire_delivery_destroy_all(ucxpool_t *pool);

#endif
