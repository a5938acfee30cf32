/*
 * A request is one send, receive or flush in progress.
 *
 * For its caller, a request ends exactly once. After that, the request may
 * drain: a peer may still read its fragments, or UCX may still write them. A
 * request is reused when all of this is true: it has ended, it has no busy
 * fragment, it has no number in its channel, its callback has returned, its
 * completion has been reported, and its owner has released it.
 */
#ifndef CORE_REQUEST_H
#define CORE_REQUEST_H

#include "base/trace.h"
#include "copy/engine.h"
#include "copy/plan.h"
#include "core/channel.h"

/* A detail may contain the reason of a channel. */
#define CORE_DETAIL_SIZE CORE_LONG_REASON_SIZE

/* The functions that differ between sends, receives and flushes. All except
 * stop may be NULL. Sends have advance, is_quick and abort. Receives that wait
 * for a message have match and match_short. */
typedef struct core_request_kind {
    void (*init)(ucxpool_request_t *request);

    /* Called when a message has arrived for the receive. Consumes the
     * message. */
    void (*match)(ucxpool_request_t *request, ucxpool_message_t *message);

    /* Like match, for a message whose data is contiguous. Returns false, and
     * does nothing, if the receive cannot take the data directly. */
    bool (*match_short)(ucxpool_request_t *request, ucxpool_channel_t *channel,
                        uint64_t tag, const void *bytes, size_t size);

    /* Called when the caller's stream has reached the point where the request
     * was posted. */
    void (*resume)(ucxpool_request_t *request);

    /* Continue as far as possible. Returns false if no progress was
     * possible. */
    bool (*advance)(ucxpool_request_t *request);

    /* For the first request of its queue: returns true if it can send all its
     * data at once. */
    bool (*is_quick)(const ucxpool_request_t *request);

    /* End the request early, for its caller and for the peer. */
    void (*stop)(ucxpool_request_t *request, ucxpool_status_t status,
                 const char *detail);

    /* End the request, because its channel has ended. */
    void (*abort)(ucxpool_request_t *request, ucxpool_status_t status,
                  const char *detail);

    /* The request ends now: release its resources, and update the
     * statistics. */
    void (*ended)(ucxpool_request_t *request, ucxpool_status_t status);

    /* Called after the end. Returns true if the request is still in use, for
     * example by a fragment. */
    bool (*is_busy)(const ucxpool_request_t *request);
} core_request_kind_t;

/* The CUDA stream in which the caller uses the memory. */
typedef struct core_stream {
    base_list_t        link;   /* in the engine's list `marked` */
    mem_cuda_marker_t *marker; /* NULL: no marker, or it was reached */
} core_stream_t;

/* The data to send, or the buffers to receive into. */
typedef struct core_data {
    union {
        struct {
            ucxpool_segment_t segment; /* copy of the caller's list, if it has
                                          only one segment or piece */
            uint64_t capacity;         /* of a receive, in bytes */
        };
        ucxpool_range_t range; /* copy of the caller's list, if it has only one
                                  range; not used by receives */
    };
    copy_totals_t totals;
    copy_memory_t memory; /* owned by the caller */
    size_t        num_runs;
    copy_run_t   *runs;      /* kept when the request is reused */
    size_t        runs_size; /* allocated size */
} core_data_t;

typedef struct core_metadata {
    uint8_t *bytes; /* kept when the request is reused */
    size_t   length;
    size_t   size; /* allocated size */
} core_metadata_t;

typedef void (*core_request_hook_t)(ucxpool_request_t *request,
                                    ucxpool_status_t status, void *arg);

/* How the completion of a request is reported. */
typedef struct core_notify {
    ucxpool_request_cb_t callback; /* NULL: none */
    void                *completion_ptr;
    /* For internal use: called when the request ends, with the lock held. NULL:
     * none. */
    core_request_hook_t hook;
    void               *hook_arg;
    void               *callback_arg;
    const char         *caller; /* thread that runs the callback, identified by
                                   base_lock_me; NULL: none; atomic */
} core_notify_t;

/* A free list of requests that are followed in memory by state of the same
 * size. */
typedef struct core_request_list {
    base_list_t free;
    size_t      state_size;
} core_request_list_t;

struct xfer_send;
struct wire_recv;

/* The fields that a short message uses are at the beginning, before `stream`. A
 * cache line ends before `kind`. */
struct ucxpool_request {
    base_list_t link;            /* in posted, in the channel's queue, */
                                 /* packing or flushes, or in free */
    base_list_t        end_link; /* in completed, then in to_report */
    base_list_t        run_link; /* in runnable, waiters, or posted by tag */
    ucxpool_t         *pool;
    ucxpool_channel_t *channel; /* holds a reference; or NULL */

    const core_request_kind_t *kind;
    int                        status; /* ucxpool_status_t; atomic */
    int                        shown;  /* status as callers see it; atomic:
                                          UCXPOOL_INPROGRESS unless
                                          called_back */
    bool    user_ref;
    bool    any_channel; /* posted without a channel */
    bool    called_back;
    bool    has_completion;          /* reported by ucxpool_completion_get() */
    uint8_t operation;               /* core_operation_t */
    uint8_t path;                    /* by which the last data was transferred;
                                        see core/stats.h */
    bool          has_host_segments; /* segments that the GPU cannot access */
    bool          has_gpu_segments;  /* segments that the GPU can access */
    core_notify_t notify;

    uint64_t tag;
    uint64_t mask;
    uint64_t order;      /* the order of sends and flushes, or of posted
                            receives */
    uint64_t    started; /* see core_latency_begin() */
    uint64_t    deadline;
    core_data_t data;

    core_stream_t   stream;
    core_metadata_t metadata;
    char           *detail;    /* kept when the request is reused; NULL: none */
    copy_plan_t    *plan;      /* of the data; NULL: not created yet */
    core_request_list_t *home; /* the free list of this request */
    base_list_t          deadline_link;
    base_list_t          all_link;

    /* The state, which follows the request in memory. */
    union {
        void             *state;
        struct xfer_send *send;
        struct wire_recv *recv;
    };
};

static_assert(offsetof(struct ucxpool_request, kind) == BASE_CACHE_LINE,
              "a cache line ends before `kind`");

static inline void core_request_list_init(core_request_list_t *list,
                                          size_t               state_size)
{
    base_list_init(&list->free);
    list->state_size = state_size;
}

/* Get a request from the list, or allocate one. It has no parameters and no
 * memory yet. Returns NULL if out of memory. */
ucxpool_request_t *core_request_get(ucxpool_t *pool, core_request_list_t *list,
                                    const core_request_kind_t *kind);

/* Copy the caller's parameters. UCXPOOL_ERR_LIMIT, UCXPOOL_ERR_INVALID_PARAM,
 * UCXPOOL_ERR_NO_MEMORY */
ucxpool_status_t
core_request_set_params(ucxpool_request_t              *request,
                        const ucxpool_request_params_t *params);

/* Set the memory to one buffer. */
static inline void core_request_set_buffer(ucxpool_request_t *request,
                                           void *address, size_t length)
{
    request->data.segment = (ucxpool_segment_t){address, length};
    request->data.memory  = copy_memory_of_segments(&request->data.segment, 1);
}

/* Get a request, and set its memory and parameters. A list of only one segment
 * or piece is copied. */
ucxpool_status_t core_request_create(ucxpool_t *pool, core_request_list_t *list,
                                     const core_request_kind_t      *kind,
                                     const copy_memory_t            *memory,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p);

/* Set the request's kind, and call the kind's init(). */
void core_request_set_kind(ucxpool_request_t         *request,
                           const core_request_kind_t *kind);

/* Release the caller's handle of the request. The completion of the request is
 * no longer reported. */
void core_request_release(ucxpool_request_t *request);

/* Report the completions of ended requests, at most `max`. Returns how many. */
size_t core_request_report(ucxpool_t *pool, ucxpool_completion_t *completions,
                           size_t max);

/* Discard a request whose handle was not returned to a caller. */
void core_request_discard(ucxpool_request_t *request);

/* Add the request to the list of deadlines that progress checks. */
void core_request_arm(ucxpool_request_t *request);

/* Set the deadline for draining a request that cannot end yet, because UCX
 * still uses the caller's memory. If UCX has not finished by the deadline, the
 * channel fails, which ends UCX's operations. */
void core_request_drain(ucxpool_request_t *request);

/*
 * Check the deadline of a draining request. After the deadline, this call fails
 * the request's channel with this status and detail, because UCX ends its
 * operations only when the endpoint is closed. If UCX has no operation in
 * flight on the channel, only copies by a GPU remain. This call then extends
 * the deadline, because these copies always complete. If the channel has
 * already ended, the deadline of its close expires instead.
 */
void core_request_end_drain(ucxpool_request_t *request, ucxpool_status_t status,
                            const char *what);

/* Continue the request in the next progress call. */
void core_request_wake(ucxpool_request_t *request);

/* Like core_request_wake(), for a request for which the wire had no room. */
void core_request_stall(ucxpool_request_t *request);

/* Returns UCXPOOL_INPROGRESS, or the status with which the request has
 * ended. */
static inline ucxpool_status_t
core_request_status(const ucxpool_request_t *request)
{
    return (ucxpool_status_t)__atomic_load_n(&request->status,
                                             __ATOMIC_RELAXED);
}

/*
 * Returns the status that callers see. To them, a request with a callback is in
 * progress until the callback has returned. Only the thread that runs the
 * callback already sees the final status. Once the final status is returned,
 * all effects of the request are visible. Needs no lock.
 */
ucxpool_status_t core_request_shown(const ucxpool_request_t *request);

/* Call the callback of an ended request, and then show the final status to
 * callers. Called once for each request, with the lock held. The lock is
 * released during the callback. */
void core_request_call_back(ucxpool_request_t *request);

/* Cancel the request; does nothing if it has ended. */
void core_request_cancel(ucxpool_request_t *request);

/* Cancel all requests. Returns true if some have not ended yet. */
bool core_request_cancel_all(ucxpool_t *pool);

/* End a request of any kind early, and notify the peer. */
void core_request_stop(ucxpool_request_t *request, ucxpool_status_t status,
                       const char *detail);

/* End a request for its caller. Only the first call has an effect. `detail` is
 * the text for ucxpool_request_query(). A peer may send an error without a text
 * (NULL or ""). The text then says that no reason was given. */
void core_request_end(ucxpool_request_t *request, ucxpool_status_t status,
                      const char *detail);

/* Set the detail of a request that has failed but cannot end yet. */
void core_request_set_detail(ucxpool_request_t *request, const char *detail);

/* Returns the detail, or "" if there is none. */
static inline const char *core_request_detail(const ucxpool_request_t *request)
{
    return (request->detail == NULL) ? "" : request->detail;
}

static inline bool core_request_has_ended(const ucxpool_request_t *request)
{
    return core_request_status(request) != UCXPOOL_INPROGRESS;
}

/* Return the request to the free list if it is no longer in use. Call this
 * whenever a use of the request has ended. */
void core_request_reuse(ucxpool_request_t *request);

/* End a request, and reuse it unless it is still in use. */
static inline void core_request_finish(ucxpool_request_t *request,
                                       ucxpool_status_t   status,
                                       const char        *detail)
{
    core_request_end(request, status, detail);
    core_request_reuse(request);
}

/* Return the handle of a request to its caller. If request_p is NULL, the
 * caller gets no handle, and the request is reused when it ends. */
static inline void core_request_hand_out(ucxpool_request_t  *request,
                                         ucxpool_request_t **request_p)
{
    request->user_ref = (request_p != NULL);
    if (request_p != NULL) {
        *request_p = request;
    }
    if (core_request_has_ended(request)) {
        core_request_reuse(request);
    }
}

static inline void core_request_set_channel(ucxpool_request_t *request,
                                            ucxpool_channel_t *channel)
{
    request->channel = channel;
    core_channel_get(channel);
}

/* Make room for runs, or set the metadata. */
ucxpool_status_t core_request_reserve_runs(ucxpool_request_t *request,
                                           size_t             num_runs);
ucxpool_status_t core_request_set_metadata(ucxpool_request_t *request,
                                           const void *metadata, size_t length);

/* Create the copy plan from the runs and the memory. Returns
 * UCXPOOL_ERR_NO_MEMORY if out of memory. */
ucxpool_status_t core_request_make_plan(ucxpool_request_t *request);

/* Free all requests when the pool is destroyed. */
void core_request_destroy_all(ucxpool_t *pool);

/* Find out whether all segments have the same length. Called before the other
 * checks of the memory, because segments of the same length do not need these
 * checks. */
void core_request_find_length(ucxpool_request_t              *request,
                              const ucxpool_request_params_t *params);

/*
 * If the caller declared that the segments have the same length, check this.
 * Called before the CPU reads the array. If the CPU never reads it, the copy
 * checks the lengths, usually in a kernel.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the lengths differ
 */
ucxpool_status_t core_request_check_even(ucxpool_request_t *request);

/*
 * Check the memory of a posted request, and set a marker in the caller's
 * stream. In a pool of host memory, this only checks that no piece is NULL. In
 * a pool on a GPU, nothing is checked if the caller declares the kind of the
 * segments. Ranges have been checked by copy_file_check().
 *
 * UCXPOOL_ERR_UNSUPPORTED    a segment is on a GPU other than the pool's
 * UCXPOOL_ERR_INVALID_PARAM  the memory of a segment does not exist; a piece is
 *                            NULL
 * UCXPOOL_ERR_LIMIT          too many requests wait for their streams
 * UCXPOOL_ERR_IO             the driver failed, or there is no such stream
 */
ucxpool_status_t
core_request_find_memtypes(ucxpool_request_t              *request,
                           const ucxpool_request_params_t *params);

/* Continue requests whose callers' streams have reached their markers. */
unsigned core_request_markers_progress(ucxpool_t *pool);

#endif
