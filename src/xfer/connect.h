/*
 * How a channel finds its peer: by address, by endpoint, or through a door.
 */
#ifndef XFER_CONNECT_H
#define XFER_CONNECT_H

#include "xfer/channel.h"
#include "xfer/where.h"

/*
 * The blob of ucxpool_address_get(). Little-endian.
 *
 *     magic | version | AM_ID | id of the pool | its key | UCX's worker address
 */
typedef struct xfer_blob {
    uint32_t magic;
    uint16_t version;
    uint16_t am_id; /* of its active messages; the next is used too */
    uint8_t  id[XFER_ID_SIZE];
    uint8_t  key[XFER_ID_SIZE];
    uint64_t pair; /* from a door: the number of the pair; else 0 */
    uint32_t worker_length;
    uint32_t reserved2;
    uint8_t  worker[];
} xfer_blob_t;

/* This pool's blob, allocated. */
ucxpool_status_t xfer_blob_create(ucxpool_t *pool, uint64_t pair,
                                     xfer_blob_t **address_p,
                                     size_t *length_p);

/* Check a blob that came from somewhere, and connect the channel to it. */
ucxpool_status_t xfer_connect_address(ucxpool_channel_t *channel,
                                      const void *address, size_t length);
ucxpool_status_t xfer_connect_ep(ucxpool_channel_t *channel, ucp_ep_h ep);

/* Knock at a listener's door; what follows is done by progress. */
ucxpool_status_t xfer_connect_door(ucxpool_channel_t  *channel,
                                   const xfer_where_t *where);

/* A channel that is still at a door goes no further. */
void xfer_connect_stop(ucxpool_channel_t *channel);

/* The pool goes. */
void xfer_connect_cleanup(ucxpool_t *pool);

/* The doors and the channels at them. */
unsigned xfer_connect_progress(ucxpool_t *pool);

/* When the next of them wants to be called. */
uint64_t xfer_connect_deadline(ucxpool_t *pool);

/* The doors of this pool; see listener.c. */
unsigned xfer_listener_progress(ucxpool_t *pool);
uint64_t xfer_listener_deadline(ucxpool_t *pool);
void     xfer_listener_destroy_all(ucxpool_t *pool);

#endif
