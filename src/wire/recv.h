/*
 * The fragments of a receive. They arrive over any wire, and are checked,
 * delivered and counted. The last fragment ends the receive.
 */
#ifndef WIRE_RECV_H
#define WIRE_RECV_H

#include "core/request.h"

#include <assert.h>

/* The state of a receive; it follows the request in memory. */
struct wire_recv {
    uint64_t receive;   /* our number; 0: none */
    uint64_t message;   /* the sender's */
    uint64_t begun;     /* bytes of the stream, in fragments that arrived */
    uint64_t received;  /* bytes that have been copied */
    uint64_t next;      /* `map` wire: end of the previous fragment */
    uint32_t restarts;  /* walks of the plan from its start */
    uint32_t num_begun; /* fragments that arrived */
    uint32_t num_seen;  /* fragments that have been copied */
    uint32_t max_index; /* highest index of a fragment that arrived */
    uint32_t num_all;   /* fragments of the message; 0: not known yet */
    /* At most PENDING_MAX each; see wire/recv.c. */
    uint16_t         rndvs; /* UCX operations that write data, and deliveries */
    uint16_t         pending;  /* rndvs, and fragments that wait for a block */
    uint16_t         in_place; /* rndvs that write to the caller's memory */
    ucxpool_status_t failing;  /* end status that waits for in_place; OK:
                                  none */
    struct wire_loan *loan; /* blocks that the sender writes to; NULL: none */
};

static_assert(sizeof(ucxpool_request_t) + sizeof(struct wire_recv) <= 512,
              "a receive takes little memory");

/* Returns the receive of a fragment; NULL if the receive has ended. */
ucxpool_request_t *wire_recv_find(ucxpool_channel_t  *channel,
                                  const proto_data_t *data);

/* Check that a fragment which has arrived is valid. Counts it and returns true,
 * or fails the channel. is_in_order: the wire keeps the order of fragments. */
bool wire_recv_check(ucxpool_request_t *request, const proto_data_t *data,
                     bool is_in_order);

/* Called when the delivery of a fragment has ended. Counts the fragment, or
 * stops the receive if the checksum is wrong. */
void wire_recv_delivered(ucxpool_request_t *request, const proto_data_t *data,
                         ucxpool_status_t status, core_mode_t mode);

/* Called when a writer to the caller's memory has stopped. Ends the request if
 * its end has waited for this, and no other writer is left. */
void wire_recv_release(ucxpool_request_t *request);

/* End the receive now, or when nothing writes to its target any more. The
 * sender keeps its data unchanged until then. */
void wire_recv_end(ucxpool_request_t *request, ucxpool_status_t status,
                   const char *detail);

/* End the receive early, and send DONE with the reason to the sender. */
void wire_recv_stop(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail);

#endif
