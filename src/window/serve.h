/* Window reads and writes whose data is sent in messages: the owner's side. */
#ifndef WINDOW_SERVE_H
#define WINDOW_SERVE_H

#include "core/request.h"
#include "window/window.h"

typedef enum window_step {
    WINDOW_STEP_CALL,  /* receiving the CALL */
    WINDOW_STEP_WRITE, /* waiting for the data of a write */
    WINDOW_STEP_MOVE   /* sending or receiving the data */
} window_step_t;

typedef struct window_served {
    base_list_t        link;     /* in the channel's list */
    base_list_t        run_link; /* in the pool's runnable list, or none */
    ucxpool_channel_t *channel;  /* holds a reference */
    window_grant_t    *grant;    /* NULL: not known yet */
    uint64_t           number;   /* given by the importer */
    window_step_t      step;
    bool               is_over; /* canceled, revoked, or failed */
    ucxpool_request_t *request; /* the receive of the CALL, or the transfer of
                                   the data */
    ucxpool_message_t *message; /* data of a write; NULL: it has not arrived, or
                                   is being received */
    ucxpool_segment_t call;     /* the CALL; its places become addresses */
    copy_memory_t     memory;   /* the memory at these addresses */
} window_served_t;

/* Handle a CALL, or the data of a write. Both functions take ownership of the
 * message. */
void window_served_start(ucxpool_message_t *message);
void window_served_data_received(ucxpool_message_t *message);

/* Continue the runnable operations. Returns the number of these operations. */
unsigned window_served_progress(ucxpool_t *pool);

/* End an operation that the importer has canceled. */
void window_served_abandon(ucxpool_channel_t *channel, uint64_t number);

/* Cancel the served operations of a grant, or of the whole channel if the grant
 * is NULL. */
void window_served_cancel(ucxpool_channel_t    *channel,
                          const window_grant_t *grant);

#endif
