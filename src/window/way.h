/* The ways to copy to and from a window. */
#ifndef WINDOW_WAY_H
#define WINDOW_WAY_H

#include "core/wire.h"
#include "window/operation.h"

/* The owner's answer to an import, filled by the offer() functions of the
 * ways. */
typedef struct window_offer {
    uint32_t    flags;
    const void *data;
    size_t      size;
} window_offer_t;

/* A way to copy to and from a window. A function may be NULL. */
typedef struct window_way {
    ucxpool_way_t id;
    unsigned      reach; /* core_reach_t: the peers for which the way works */
    bool          is_on_cpu; /* copy() runs on this side's CPU */

    /* Owner: find out how peers can access the memory. If they cannot, set
     * window->reason. An error makes the creation of the window fail. */
    ucxpool_status_t (*share)(ucxpool_window_t *window);

    /* Owner: undo share(). Called when no peer uses the memory any more. May be
     * called more than once. */
    void (*unshare)(ucxpool_window_t *window);

    /* Owner: fill fields of the answer to an import. */
    void (*offer)(window_grant_t *grant, window_offer_t *offer);

    /* Owner: returns true if the importer may still be accessing the memory.
     * Called after the window was revoked or the channel has ended. */
    bool (*may_touch)(const window_grant_t *grant);

    /* Importer: returns the PROTO_OPEN flags for the OPEN message. */
    uint32_t (*ask)(ucxpool_remote_window_t *remote);

    /*
     * Importer: get access to the memory, and pass the reason for success or
     * failure to window_remote_set_reason(). Returns the kinds of access that
     * the way supports: UCXPOOL_WINDOW_READ, UCXPOOL_WINDOW_WRITE, both, or 0.
     * A way whose test takes time sets is_trying, and calls tried() when it has
     * the result.
     */
    unsigned (*open)(ucxpool_remote_window_t *remote,
                     const window_answer_t   *answer);

    /* Importer: undo open(). Called when no operation uses the way any more.
     * May be called more than once. */
    void (*close)(ucxpool_remote_window_t *remote);

    /* Returns true if this way supports the operation; otherwise messages are
     * used. NULL: the way supports all operations. */
    bool (*fits)(const window_operation_t *operation);

    /* Returns true if the copy itself checks the places, so that they need not
     * be checked first. */
    bool (*checks_places)(const window_operation_t *operation);

    /* Start the operation. May free the operation. */
    void (*start)(window_operation_t *operation);

    /*
     * Copy the next part of an operation ("copying in turns" below).
     *
     * UCXPOOL_OK                 the operation is complete
     * UCXPOOL_INPROGRESS         more is left to copy
     * UCXPOOL_ERR_BUSY           cannot copy now; try again
     * UCXPOOL_ERR_INVALID_PARAM  the address of a local piece is NULL
     * UCXPOOL_ERR_IO             the owner's memory or the local memory is
     *                            unmapped
     * UCXPOOL_ERR_PEER_LOST      the owner's process has ended
     *
     * and errors of the GPU driver.
     */
    ucxpool_status_t (*copy)(window_operation_t *operation);
} window_way_t;

/* In order: the CPU copies to and from mapped memory; the kernel copies between
 * the processes; a GPU copies to and from mapped memory; a GPU reads pinned
 * host memory; UCX's get and put; and messages, which always work. */
extern const window_way_t window_mapped, window_process, window_device,
    window_pinned, window_rma, window_messages;

/* All ways, best first; ends with NULL. */
extern const window_way_t *const window_ways[];

/* Iterate over the ways that work for the peers in `wanted`, a mask of
 * core_reach_t. */
#define window_for_each_way(way, wanted) \
    for (size_t at = 0; ((way) = window_ways[at]) != NULL; at++) \
        if (((way)->reach & (wanted)) != 0)

static inline const window_way_t *
window_operation_way(const window_operation_t *operation)
{
    return operation->is_write ? operation->remote->write_way
                               : operation->remote->way;
}

/* The params of requests that the library posts for windows: no timeout, and no
 * stream to wait for. */
extern const ucxpool_request_params_t window_own_params;

/* --- functions of single ways --------------------------------------------- */

/* Check that the places are in the window. The owner checks them again. */
ucxpool_status_t window_messages_check(const window_operation_t *operation);

/* Send the CALLs of queued operations, as far as the owner's limits allow.
 * Returns the number of operations processed. */
unsigned window_messages_progress(ucxpool_channel_t *channel);

/* Handle the end of an operation. If its CALL was sent and the operation
 * failed, notifies the owner. */
void window_messages_ended(window_operation_t *operation,
                           ucxpool_status_t    status);

/* Send WINDOW_END: the owner has refused the operation, or the importer has
 * canceled it. The reason may be NULL. */
void window_messages_end(ucxpool_channel_t *channel, uint64_t operation,
                         ucxpool_status_t status, bool is_refused,
                         const char *reason);

/* Handle the data of a read. Takes ownership of the message. */
void window_messages_answered(ucxpool_message_t *message);

/* Handle the owner's refusal of an operation. */
void window_messages_refused(ucxpool_channel_t        *channel,
                             const proto_window_end_t *end, const char *reason);

/* --- copying in turns: way.c ---------------------------------------------- */

/* Do a short copy at once. Longer ones take turns: they are queued in
 * pool->windows->copying. */
void window_turns_start(window_operation_t *operation);

/* Queue the operation again or end it, depending on the status that copy()
 * returned. */
void window_turns_wait(window_operation_t *operation, ucxpool_status_t status);

/* Do one step of the first operation, and move it to the end of the list.
 * Returns 1 if the operation made progress, else 0. */
unsigned window_turns_progress(ucxpool_t *pool);

#endif
