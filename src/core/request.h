/*
 * Requests: one send or receive in progress.
 *
 * A request ends once, for its caller. It drains after that: fragments
 * of it may still be read by a peer, or written by UCX. Its memory is used
 * again when
 *
 *     ended, no fragment busy, no number held, called back, told of, released
 *     by its owner.
 */
#ifndef CORE_REQUEST_H
#define CORE_REQUEST_H

#include "base/trace.h"
#include "copy/engine.h"
#include "copy/plan.h"
#include "core/channel.h"

#define CORE_DETAIL_SIZE 160u

/* What differs between sends, receives and flushes. All but stop may be NULL;
 * sends have advance, is_quick and abort, receives that wait for their message
 * match and match_short. */
typedef struct core_request_kind {
    void (*init)(ucxpool_request_t *request);

    /* Its message has come, which it uses up. */
    void (*match)(ucxpool_request_t *request, ucxpool_message_t *message);

    /* The same, of a message whose bytes are all in one piece. False: it does
     * not take them from there, and nothing was done. */
    bool (*match_short)(ucxpool_request_t *request, ucxpool_channel_t *channel,
                        uint64_t tag, const void *bytes, size_t size);

    /* Its caller's stream has come to where it was posted. */
    void (*resume)(ucxpool_request_t *request);

    /* Go on as far as it can; false: not at all. */
    bool (*advance)(ucxpool_request_t *request);

    /* The first of its queue: does it go with all that it has, at once? */
    bool (*is_quick)(const ucxpool_request_t *request);

    /* End it early, for its caller and for the peer. */
    void (*stop)(ucxpool_request_t *request, ucxpool_status_t status,
                 const char *detail);

    /* Its channel has ended, and so does it. */
    void (*abort)(ucxpool_request_t *request, ucxpool_status_t status,
                  const char *detail);

    /* It ends now: give back what it holds, and count it. */
    void (*ended)(ucxpool_request_t *request, ucxpool_status_t status);

    /* It has ended. Does anything still refer to it? */
    bool (*is_busy)(const ucxpool_request_t *request);
} core_request_kind_t;

/* The stream of a GPU that the caller's memory is used in, and what that memory
 * is. */
typedef struct core_stream {
    base_list_t        link;              /* the engine's marked ones */
    mem_cuda_marker_t *marker;            /* NULL: the stream has reached it */
    bool               has_host_segments; /* that a GPU does not reach */
    bool               has_gpu_segments;  /* that it does */
} core_stream_t;

/* What is sent, or where to it is received. */
typedef struct core_data {
    copy_memory_t memory; /* the caller's */
    union {
        ucxpool_segment_t segment; /* the list of a single buffer */
        ucxpool_range_t   range;   /* the list of a single range */
    };
    uint64_t      capacity; /* receive: bytes in all */
    copy_run_t   *runs;     /* kept when the request is reused */
    size_t        num_runs;
    size_t        runs_size; /* room */
    copy_totals_t totals;
} core_data_t;

typedef struct core_metadata {
    uint8_t *bytes; /* kept when the request is reused */
    size_t   length;
    size_t   size; /* room */
} core_metadata_t;

typedef void (*core_request_hook_t)(ucxpool_request_t *request,
                                    ucxpool_status_t status, void *arg);

/* How its end is told. */
typedef struct core_told {
    ucxpool_request_cb_t callback; /* NULL: none */
    void                *callback_arg;
    const char          *caller; /* the thread that is in the callback, named by
                                    base_lock_me; NULL: none; atomic */
    void *completion_ptr;
    /* For the library itself: called at the end, with the lock held. NULL: not.
     */
    core_request_hook_t hook;
    void               *hook_arg;
} core_told_t;

/* A free list of requests that are followed by state of one size. */
typedef struct core_request_list {
    base_list_t free;
    size_t      state_size;
} core_request_list_t;

struct xfer_send;
struct xfer_recv;

struct ucxpool_request {
    base_list_t link;            /* posted, the channel's queue, its packing */
                                 /* ones, its flushes, free */
    base_list_t        run_link; /* runnable, waiters, or posted by tag */
    base_list_t        end_link; /* completed, then to_tell */
    base_list_t        all_link;
    base_list_t        deadline_link;
    ucxpool_t         *pool;
    ucxpool_channel_t *channel; /* a reference, or NULL */
    const core_request_kind_t *kind;
    int                        status; /* ucxpool_status_t; atomic */
    int                        shown;  /* the same as callers see it; atomic:
                                          shown != UCXPOOL_INPROGRESS
                                          == called_back */
    bool            user_ref;
    bool            any_channel; /* posted without one */
    bool            called_back;
    bool            has_completion; /* ucxpool_completion_get() tells it */
    core_told_t     told;
    uint64_t        deadline;
    uint64_t        order; /* of sends and flushes, and of posted receives */
    uint64_t        tag;
    uint64_t        mask;
    core_stream_t   stream;
    core_data_t     data;
    core_metadata_t metadata;
    char           *detail; /* kept when the request is reused; NULL: none */

    copy_plan_t         *plan; /* of the data; NULL: not made yet */
    core_request_list_t *home; /* takes the request when it is reused */

    /* Follows the request in memory. */
    union {
        void             *state;
        struct xfer_send *send;
        struct xfer_recv *recv;
    };
};

static inline void core_request_list_init(core_request_list_t *list,
                                          size_t               state_size)
{
    base_list_init(&list->free);
    list->state_size = state_size;
}

/* Take a request from the list, or allocate one, and copy the caller's
 * parameters. A list of one segment, or piece, is copied too. */
ucxpool_status_t core_request_create(ucxpool_t *pool, core_request_list_t *list,
                                     const core_request_kind_t      *kind,
                                     const copy_memory_t            *memory,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p);

/* It is of another kind from now on. */
void core_request_set_kind(ucxpool_request_t         *request,
                           const core_request_kind_t *kind);

/* The caller does not want the request any more, nor be told of its end. */
void core_request_release(ucxpool_request_t *request);

/* How requests ended that are to be told of; returns how many. */
size_t core_request_tell(ucxpool_t *pool, ucxpool_completion_t *completions,
                         size_t max);

/* Give a request to its caller, or to itself where the caller wants none. */
void core_request_hand_out(ucxpool_request_t  *request,
                           ucxpool_request_t **request_p);

/* Take back a request that nobody has seen. */
void core_request_discard(ucxpool_request_t *request);

/* Begin to watch the deadline. */
void core_request_arm(ucxpool_request_t *request);

/*
 * The request has ended but for UCX, which still uses the caller's memory.
 * Gives it some time to come to its end; then the deadline passes, and with the
 * channel UCX's operations end too.
 */
void core_request_drain(ucxpool_request_t *request);

/*
 * For one that drains: once its time is over, fail its channel with this
 * status and these words, as only the endpoint's end makes UCX stop. It has
 * more time where UCX has nothing: a GPU is through with its copies one day.
 */
void core_request_end_drain(ucxpool_request_t *request, ucxpool_status_t status,
                            const char *what);

/* Let the request go on at the next progress. */
void core_request_wake(ucxpool_request_t *request);

/* The same, where the wire has had no room for it. */
void core_request_stall(ucxpool_request_t *request);

/* UCXPOOL_INPROGRESS, or how it has ended. */
ucxpool_status_t core_request_status(const ucxpool_request_t *request);

/*
 * The same as callers see it: a request with a callback has ended when that has
 * returned, and within it, for its thread. What the request did is visible
 * then. Needs no lock.
 */
ucxpool_status_t core_request_shown(const ucxpool_request_t *request);

/* Call the callback of a request that has ended, and show its end. With the
 * lock held, once; it is released meanwhile. */
void core_request_call_back(ucxpool_request_t *request);

/* The caller does not want it any more; one that has ended stays so. */
void core_request_cancel(ucxpool_request_t *request);

/* The same of all. Returns whether there are such that have not ended yet. */
bool core_request_cancel_all(ucxpool_t *pool);

/* End it early, whatever it is, and tell the peer. */
void core_request_stop(ucxpool_request_t *request, ucxpool_status_t status,
                       const char *detail);

/*
 * End a request for its caller. Only the first call counts. `detail` is the
 * sentence for ucxpool_request_query(). Where an error comes without one (NULL
 * or ""), as peers may send it, the sentence is that no reason was given.
 */
void core_request_end(ucxpool_request_t *request, ucxpool_status_t status,
                      const char *detail);

/* The sentence for an end that must wait. */
void core_request_set_detail(ucxpool_request_t *request, const char *detail);

/* "": none. */
static inline const char *core_request_detail(const ucxpool_request_t *request)
{
    return (request->detail == NULL) ? "" : request->detail;
}

bool core_request_has_ended(const ucxpool_request_t *request);

/* To be called whenever something that kept the request busy is over. */
void core_request_reuse(ucxpool_request_t *request);

void core_request_set_channel(ucxpool_request_t *request,
                              ucxpool_channel_t *channel);

/* Room for runs and metadata. */
ucxpool_status_t core_request_reserve_runs(ucxpool_request_t *request,
                                           size_t             num_runs);
ucxpool_status_t core_request_set_metadata(ucxpool_request_t *request,
                                           const void *metadata, size_t length);

/* Make the plan from the runs and the memory. UCXPOOL_ERR_NO_MEMORY */
ucxpool_status_t core_request_make_plan(ucxpool_request_t *request);

/* Free what is left when the pool goes. */
void core_request_destroy_all(ucxpool_t *pool);

/* Before its memory is looked at in any other way: have all segments one
 * length? Then nothing else need look at each. */
void core_request_find_length(ucxpool_request_t              *request,
                              const ucxpool_request_params_t *params);

/*
 * Have they one length where the caller says so? For who reads the array by the
 * processor: else whoever copies looks, a kernel most often.
 *
 * UCXPOOL_ERR_INVALID_PARAM  one has not
 */
ucxpool_status_t core_request_check_even(ucxpool_request_t *request);

/*
 * Look at the segments as they are posted, and set a marker in the caller's
 * stream. In a pool of host memory, only pieces are looked at, for NULL; in one
 * on a GPU nothing is, where the caller says what the segments are. Ranges are
 * looked at before, by copy_file_check().
 *
 * UCXPOOL_ERR_UNSUPPORTED    a segment lies on a GPU that the pool's does not
 *                            reach
 * UCXPOOL_ERR_INVALID_PARAM  a segment's memory is not there; a piece is NULL
 * UCXPOOL_ERR_LIMIT          too many requests wait for their streams
 * UCXPOOL_ERR_IO             the driver failed, or there is no such stream
 */
ucxpool_status_t
core_request_find_memtypes(ucxpool_request_t              *request,
                           const ucxpool_request_params_t *params);

/* Requests whose callers' streams have come to their markers go on. */
unsigned core_request_markers_progress(ucxpool_t *pool);

#endif
