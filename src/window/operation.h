/* Reads and writes of remote windows, on the importer's side. */
#ifndef WINDOW_OPERATION_H
#define WINDOW_OPERATION_H

#include "core/request.h"
#include "window/remote.h"

/* The maximum number of concurrent GPU launches of one operation. Several
 * launches are needed to keep the link busy while the CPU fills the list of the
 * next launch. */
#define WINDOW_JOBS 8u

typedef struct window_job {
    copy_job_t               copy;
    uint64_t                 size;
    struct window_operation *operation;
} window_job_t;

typedef struct window_operation {
    base_list_t link; /* in one list: the remote window's waiting; the channel's
                         queued, called, moving or moved; the pool's copying or
                         free_operations; or none */
    ucxpool_remote_window_t *remote;  /* holds a reference */
    ucxpool_request_t       *request; /* the caller's request; NULL: it has
                                         ended */
    ucxpool_request_t  *call_request; /* sends the CALL; NULL: none */
    core_request_hook_t call_ended;   /* called when call_request ends */
    uint64_t            number;
    bool                is_write;
    ucxpool_way_t       way;        /* transfers the data; for the statistics */
    bool                was_called; /* counted in windows->num_calls */
    bool                lists_are_read; /* the GPU reads the caller's lists
                                           and checks the places */
    ucxpool_places_t places;
    ucxpool_place_t  place; /* our copy of a list of one place */
    uint64_t         size;  /* total length of the places */
    /* Position of the next piece. */
    size_t           next_place;
    uint64_t         place_offset;
    size_t           next_memory;
    uint64_t         memory_offset;
    window_job_t     jobs[WINDOW_JOBS];
    unsigned         num_jobs;
    core_link_work_t work; /* the operation's use of a GPU's link */
    ucxpool_status_t end;  /* the final status, while jobs, gets or puts are
                              still in flight; OK: not set */
    base_range_t range;    /* trace range, from post to completion */
    /* For UCX's get and put: the number of outstanding callbacks, and whether a
     * flush was posted. */
    unsigned num_rma;
    bool     is_flushed;
    /* For operations that use messages. */
    bool               is_answered;  /* the data of a read is arriving */
    ucxpool_segment_t  call;         /* the CALL with its places */
    ucxpool_request_t *notification; /* sent on success; NULL: none */
} window_operation_t;

static inline const void *window_places_list(const ucxpool_places_t *places)
{
    return (places->places != NULL) ? (const void *)places->places
                                    : (const void *)places->offsets;
}

static inline ucxpool_place_t window_place(const ucxpool_places_t *places,
                                           size_t                  i)
{
    return (places->places != NULL)
               ? places->places[i]
               : (ucxpool_place_t){places->offsets[i], places->length};
}

/* Implements ucxpool_remote_window_read() and ucxpool_remote_window_write(). */
ucxpool_status_t window_operate(ucxpool_remote_window_t *remote, bool is_write,
                                const ucxpool_places_t         *places,
                                const copy_memory_t            *memory,
                                const ucxpool_request_params_t *params,
                                ucxpool_request_t             **request_p);

/* Start the operations that were waiting for the owner's answer to the
 * import. */
void window_operations_begin(ucxpool_remote_window_t *remote);

/* End the operations of a remote window that has failed. */
void window_operations_abort(ucxpool_remote_window_t *remote,
                             ucxpool_status_t status, const char *reason);

/* Free the operations of the free list. */
void window_operations_destroy_all(ucxpool_t *pool);

/* A part of an operation that is contiguous both in the window and in local
 * memory. */
typedef struct window_piece {
    uint64_t offset; /* in the window */
    char    *ours;
    uint64_t length; /* 0: an empty place or piece of memory */
} window_piece_t;

/* Get the next piece, of at most max_length bytes. Returns false if no piece is
 * left. */
bool window_operation_next(window_operation_t *operation, uint64_t max_length,
                           window_piece_t *piece_p);

/* Returns true if the operation has not failed, and has pieces left. */
static inline bool
window_operation_has_more(const window_operation_t *operation)
{
    return (operation->end == UCXPOOL_OK) &&
           (operation->next_place != operation->places.count);
}

/* Record the first error of an operation that cannot end yet. */
static inline void window_operation_fail(window_operation_t *operation,
                                         ucxpool_status_t    status,
                                         const char         *detail)
{
    if (operation->end == UCXPOOL_OK) {
        operation->end = status;
        core_request_set_detail(operation->request, detail);
    }
}

/* End the operation's request. May free the operation. */
static inline void window_operation_end(window_operation_t *operation,
                                        ucxpool_status_t    status,
                                        const char         *detail)
{
    ucxpool_request_t *request = operation->request;

    core_request_stop(request, status, detail);
    core_request_reuse(request);
}

#endif
