/* The windows of a pool and of a channel: their state, messages, progress and
 * end. */
#ifndef WINDOW_SERVICE_H
#define WINDOW_SERVICE_H

#include "core/proto.h"
#include "core/wire.h"
#include "window/window.h"

#define WINDOW_REACH_ANY \
    ((unsigned)(CORE_REACH_HOST | CORE_REACH_GPU | CORE_REACH_MIXED | \
                CORE_REACH_UCX))

/* The windows of a pool. */
struct window_pool {
    core_reach_t reach;    /* HOST or GPU, like the pool's memory */
    base_list_t  all;      /* the application's windows */
    base_list_t  copying;  /* operations that take turns copying */
    base_list_t  runnable; /* served operations that can continue */
    base_list_t  free_operations;
    uint64_t     next_number; /* last number of a window or a grant */
    /* For tests and benchmarks only: use UCX's get and put even if the
     * transport only emulates them. With emulation, UCX may abort the owner's
     * process when a peer dies (window/rma.c). */
    bool may_emulate;
};

/* The state of windows on a channel. */
struct window_channel {
    base_list_t remotes; /* remote windows: the peer's windows */
    base_list_t grants;  /* the peer's imports of our windows */
    unsigned    num_grants;
    base_list_t served; /* the peer's operations that use messages, on our
                         * windows */
    unsigned    num_served;
    uint64_t    served_size; /* total size of their CALL messages */
    base_list_t queued;      /* our operations that use messages, CALL not sent
                              * yet */
    base_list_t called;      /* our operations that use messages, CALL sent */
    base_list_t moving;      /* our operations through UCX's get and put that
                              * have more to post */
    base_list_t moved;       /* our operations through UCX's get and put that
                              * have nothing to post now */
    unsigned num_rma;        /* outstanding UCX gets, puts and flushes */
    unsigned num_calls;      /* CALL messages that the peer may still hold */
    uint64_t calls_size;     /* total size of these CALL messages */
    uint64_t next_number;    /* last number of a remote window or operation */
    uint64_t num_revokes;    /* REVOKE messages received */
};

/* Errors: UCXPOOL_ERR_NO_MEMORY. */
ucxpool_status_t window_pool_create(ucxpool_t *pool);

/* Free the state, and all windows that still exist. */
void window_pool_destroy(ucxpool_t *pool);

/* Errors: UCXPOOL_ERR_NO_MEMORY. */
ucxpool_status_t window_channel_create(ucxpool_channel_t *channel);

/* The channel must have no remote windows, grants or operations left. */
void window_channel_destroy(ucxpool_channel_t *channel);

/* Handle a control message for windows. */
void window_received(ucxpool_channel_t *channel, const proto_fixed_t *message,
                     const void *data, size_t data_size);

/* Handle a message that has a flag of PROTO_DESC_WINDOW. */
void window_message(ucxpool_message_t *message);

/* Make progress on the windows of a pool or of a channel. Both functions return
 * the number of steps done. */
unsigned window_progress(ucxpool_t *pool);

unsigned window_channel_progress(ucxpool_channel_t *channel);

/* Returns true if window_channel_progress() has nothing to do while the channel
 * is open. */
bool window_channel_is_quiet(const ucxpool_channel_t *channel);

/* Returns true if operations that this side posted on the channel are
 * unfinished. */
bool window_channel_is_busy(const ucxpool_channel_t *channel);

/* Fail the remote windows and the operations of a channel that has ended. The
 * channel's grants are released when the peer can no longer access the
 * memory. */
void window_channel_ended(ucxpool_channel_t *channel);

/* Free all remaining window objects of the channel, because the pool is being
 * freed. */
void window_channel_drop_all(ucxpool_channel_t *channel);

/* --- serving reads and writes by messages: serve.c -------------------------
 * The owner's side of reads and writes whose data is sent in messages.
 */

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
