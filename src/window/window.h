/*
 * Windows: memory of the application that peers read and write directly
 * (docs/internals/windows.md).
 *
 *     owner                                     peer
 *
 *     window  (pool->windows->all)
 *       grants --> grant  <-- one of a channel --> remote
 *                    |                              |
 *                    +-- served <------ CALL ------ operation --> request
 *
 * window     the memory, the keys of its blobs, and its grants
 * grant      one import of a window, on the owner's side
 * remote     the same import, on the importer's side: a remote window
 * operation  a read or write of a remote window, on the importer's side
 * served     an operation by messages, on the owner's side
 *
 * A grant exists for as long as its importer may access the memory.
 */
#ifndef WINDOW_WINDOW_H
#define WINDOW_WINDOW_H

#include "base/crc32c.h"
#include "core/request.h"
#include "core/wire.h"
#include "ipc/virtual.h"
#include "ucx/reg.h"

#include <ucxpool/window.h>

#include <stddef.h>
#include <stdio.h>

#define WINDOW_KEY_SIZE 16u

#define WINDOW_BLOB_MAGIC 0x77786375u /* "ucxw" */

/* The blob that ucxpool_window_export() writes, in little-endian. */
typedef struct window_blob {
    uint32_t magic;
    uint16_t version;
    uint16_t access;
    uint8_t  pool[CORE_ID_SIZE];
    uint64_t window;
    uint8_t  key[WINDOW_KEY_SIZE];
    uint64_t length;
    uint32_t checksum; /* CRC32C of the blob, computed with this field set to 0,
                          in the same way in every version */
    uint32_t reserved; /* 0 */
} window_blob_t;

static inline uint32_t window_blob_checksum(const window_blob_t *blob)
{
    return base_crc32c_of_record(blob, sizeof(*blob),
                                 offsetof(window_blob_t, checksum));
}

static_assert(sizeof(window_blob_t) == UCXPOOL_WINDOW_BLOB_SIZE,
              "the size of a blob is public");

/* --- state ---------------------------------------------------------------- */

#define WINDOW_REACH_ANY \
    ((unsigned)(CORE_REACH_HOST | CORE_REACH_GPU | CORE_REACH_MIXED | \
                CORE_REACH_UCX))

/* The windows of a pool. */
struct window_pool {
    core_reach_t reach;    /* of peers that need no endpoint */
    base_list_t  all;      /* windows of the application */
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
    base_list_t remotes; /* windows of the peer, imported here */
    base_list_t grants;  /* the peer's imports of our windows */
    unsigned    num_grants;
    base_list_t served; /* the peer's operations by messages on our windows */
    unsigned    num_served;
    uint64_t    served_size; /* total size of their CALL messages */
    base_list_t queued;      /* our operations by messages, CALL not sent yet */
    base_list_t called;      /* our operations by messages, CALL sent */
    base_list_t moving;      /* our operations by UCX's get and put that have
                                more to post */
    base_list_t moved;       /* our operations by UCX's get and put that have
                                nothing to post now */
    unsigned num_rma;        /* outstanding UCX gets, puts and flushes */
    unsigned num_calls;      /* CALL messages that the peer may still hold */
    uint64_t calls_size;     /* total size of these CALL messages */
    uint64_t next_number;    /* last number of a remote or an operation */
    uint64_t num_revokes;    /* REVOKE messages received */
};

/* Errors: UCXPOOL_ERR_NO_MEMORY. */
ucxpool_status_t window_pool_create(ucxpool_t *pool);

/* Free the state, and all windows that still exist. */
void window_pool_destroy(ucxpool_t *pool);

/* Errors: UCXPOOL_ERR_NO_MEMORY. */
ucxpool_status_t window_channel_create(ucxpool_channel_t *channel);

/* The channel must have no remotes, grants or operations left. */
void window_channel_destroy(ucxpool_channel_t *channel);

/* --- owner: windows and grants -------------------------------------------- */

struct ucxpool_window {
    base_list_t link;
    ucxpool_t  *pool;
    uint64_t    number;
    char        name[CORE_NAME_SIZE];
    void       *address;
    uint64_t    length;
    /* One key for each access: blobs for `access` hold key[access - 1]. */
    uint8_t key[UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE][WINDOW_KEY_SIZE];
    bool    is_revoked;
    bool    is_destroyed; /* by the caller; the window is freed with its last
                             grant */
    base_list_t grants;
    /* How peers map GPU memory. `way` is 0 if the memory is not mapped as one
     * allocation. */
    proto_window_cuda_t  cuda;
    ipc_virtual_memory_t memory; /* the allocations of virtual memory; num 0:
                                    none */
    /* The parts of files that make up the window, in address order. If peers
     * cannot map the window, `reason` says why; an empty reason means that the
     * memory is in no known file. */
    proto_window_part_t *parts;
    unsigned             num_parts;
    int  fd; /* duplicate of the caller's descriptor; -1: none */
    char reason[PROTO_TEXT_MAX + 1];
    /* The window is registered with UCX when a peer first asks for the key. If
     * registration fails, not_registered says why. It is empty until
     * registration has failed. */
    ucx_rma_memory_t registered;
    char             not_registered[CORE_REASON_SIZE];
};

typedef struct window_grant {
    base_list_t        link; /* in window->grants */
    base_list_t        channel_link;
    ucxpool_window_t  *window;
    ucxpool_channel_t *channel; /* lists the grant, which holds no reference */
    uint64_t           number;
    uint64_t           remote; /* the importer's number of the remote window */
    unsigned           access;
    unsigned           num_served;  /* served operations that use the grant */
    bool               is_released; /* released: freed when num_served is 0 */
    bool               wants_key;   /* the importer asked for UCX's key */
    bool               has_key;     /* the importer may have that key */
} window_grant_t;

/* Implements ucxpool_window_create(). */
ucxpool_status_t window_create(ucxpool_t *pool, void *address, size_t length,
                               const ucxpool_window_params_t *params,
                               ucxpool_window_t             **window_p);

/* The window must have no grants. */
void window_free(ucxpool_window_t *window);

/* Mark the window as destroyed by the caller. Frees it now, or together with
 * its last grant. */
void window_destroy(ucxpool_window_t *window);

/* Implements ucxpool_window_export(). */
ucxpool_status_t window_export(const ucxpool_window_t *window, unsigned access,
                               void *blob);

/* Reject further imports, cancel served operations, and ask all importers to
 * release the window. Each call also releases the grants of importers that can
 * no longer access the memory. Call this function repeatedly until
 * window_is_free() returns true. */
void window_revoke(ucxpool_window_t *window);

/* Revoke all windows that have not been destroyed. */
void window_revoke_all(ucxpool_t *pool);

/* Return true if no importer can access the memory of the window, or of any
 * window of the pool. The second function ignores destroyed windows. */
bool window_is_free(const ucxpool_window_t *window);
bool window_all_are_free(const ucxpool_t *pool);

/* Log the importers that have not released the window in time, and fail their
 * channels on the `ucx` wire. Returns true if a channel failed: the window
 * becomes free when its endpoint closes. */
bool window_abandon(const ucxpool_window_t *window);
void window_abandon_all(const ucxpool_t *pool);

/* Grant or refuse the peer's request to import a window. */
void window_grant_open(ucxpool_channel_t         *channel,
                       const proto_window_open_t *open);

/* Returns the channel's grant with this number, or NULL. */
window_grant_t *window_grant_find(const ucxpool_channel_t *channel,
                                  uint64_t                 number);

/*
 * window_grant_num_files() returns the number of files of a grant's window: one
 * for each part outside the pool's regions, or for each allocation of virtual
 * memory. It returns 0 if no such grant exists, or the window is revoked.
 * window_grant_files() gets descriptors of some of these files, which must
 * exist. The caller closes them if *are_new_p is true; otherwise the window
 * owns them. Errors: see ipc_virtual_export().
 */
uint32_t         window_grant_num_files(const ucxpool_channel_t *channel,
                                        uint64_t                 number);
ucxpool_status_t window_grant_files(const ucxpool_channel_t *channel,
                                    uint64_t number, uint32_t first,
                                    uint32_t num, int *fds, bool *are_new_p);

/* Release a grant whose importer no longer accesses the memory. Cancels the
 * grant's served operations. May free the grant. */
void window_grant_release(window_grant_t *grant);

/* Release grants of a channel that has ended. Releases only the grants whose
 * importer can no longer access the memory, or all of them if are_touched is
 * true. */
void window_grants_release(ucxpool_channel_t *channel, bool are_touched);

/* Returns true if the importer's CPU may be copying, according to the channel's
 * ring. */
bool window_grant_may_copy(const window_grant_t *grant);

/* Record that a served operation of the grant has ended. May free the grant. */
void window_grant_put(window_grant_t *grant);

/* --- importer: remotes ---------------------------------------------------- */

/* Size of the text that explains why a remote uses its way. */
#define WINDOW_REASON_SIZE (2 * CORE_REASON_SIZE + 20)

/* The owner's answer to an import. */
typedef struct window_answer {
    proto_window_opened_t opened;
    const void           *data; /* data of the owner's message */
    size_t                data_size;
    const char           *reason; /* why the importer cannot access the
                                     memory */
    proto_window_cuda_t  cuda;    /* valid with PROTO_OPENED_CUDA */
    ipc_virtual_layout_t layout;  /* valid with PROTO_OPENED_VIRTUAL */
    const int *fds; /* descriptors of the parts, sent by the owner; NULL: take
                       them from the owner's process, or request them */
    size_t              num_parts;
    proto_window_part_t parts[PROTO_PARTS_MAX];
} window_answer_t;

/* Returns true if `status` means that the system does not allow this process to
 * take the owner's descriptors. */
static inline bool window_is_forbidden(const window_answer_t *answer,
                                       ucxpool_status_t       status)
{
    return (answer->fds == NULL) && ((status == UCXPOOL_ERR_PERMISSION) ||
                                     (status == UCXPOOL_ERR_UNSUPPORTED));
}

/* A part of the window, mapped into this process. */
typedef struct window_view {
    uint64_t   end;     /* window offset of the first byte after the part */
    uint8_t   *address; /* mapped address of that byte */
    ipc_view_t view;    /* size 0: in a region, which the channel has mapped */
} window_view_t;

struct ucxpool_remote_window {
    base_list_t        link;    /* in the channel's list */
    ucxpool_channel_t *channel; /* holds a reference */
    uint64_t           number;
    window_blob_t      blob;
    bool               was_asked; /* OPEN was sent, or the import failed
                                     first */
    bool             user_ref;    /* the caller has not released the remote */
    unsigned         refs;        /* of operations and internal users */
    ucxpool_status_t status;
    char             reason[WINDOW_REASON_SIZE];
    uint64_t         length;
    unsigned         access;
    uint64_t         grant;   /* the owner's number; 0: none, or closed */
    uint64_t         address; /* in the owner's process; for GPU memory, its
                                 address in this process */
    ipc_cuda_t     share;     /* of the mapping; `way` 0: not mapped */
    const void    *mapping;
    ipc_virtual_t  range; /* the owner's allocations; size 0: none */
    window_view_t *views; /* the mapped parts, in the window's order */
    unsigned       num_views;
    bool           can_write;   /* the views are writable */
    bool           is_pinned;   /* our GPU can access the view */
    bool           needs_files; /* the owner must send its descriptors */
    ucp_rkey_h     key;         /* UCX's key; NULL: none */
    bool           is_on_gpu;   /* the key is for GPU memory */
    bool           is_trying;   /* a test of the key is in progress; tried() is
                                   called after it unless the channel ends */
    void (*tried)(struct ucxpool_remote_window *remote);
    uint8_t                  probe;  /* one byte, read to test the key */
    window_answer_t         *answer; /* while files are requested; else NULL */
    const struct window_way *way;    /* the way of reads */
    const struct window_way *write_way;
    char                     way_reason[WINDOW_REASON_SIZE];
    base_list_t waiting; /* operations that wait for the owner's answer */
};

/* Implements ucxpool_remote_window_import(). */
ucxpool_status_t window_import(ucxpool_channel_t *channel, const void *blob,
                               size_t                    blob_size,
                               ucxpool_remote_window_t **remote_p);

/* Drop the caller's reference, or the reference of an operation. Both may free
 * the remote. */
void window_remote_release(ucxpool_remote_window_t *remote);
void window_remote_put(ucxpool_remote_window_t *remote);

/* Send OPEN for all imports for which it has not been sent. Returns the number
 * of these imports. */
unsigned window_remotes_progress(ucxpool_channel_t *channel);

/* Handle the owner's answer to an import: granted or refused. The data and the
 * reason are only valid during the call. */
void window_remote_opened(ucxpool_channel_t           *channel,
                          const proto_window_opened_t *opened, const void *data,
                          size_t data_size, const char *reason);

/* Map the next allocations of a window whose files have been requested. The
 * caller keeps ownership of the descriptors. Errors: see ipc_virtual_map(). */
ucxpool_status_t window_remote_map_files(ucxpool_channel_t *channel,
                                         uint64_t number, const int *fds,
                                         unsigned num_fds);

/* Handle the owner's reply to a request for descriptors. Such a request is sent
 * for allocations of virtual memory, or if the system does not let this process
 * duplicate the descriptors. The caller keeps ownership of the descriptors. If
 * fds is NULL, the owner did not send them or they cannot be mapped, and
 * `reason` says why. */
void window_remote_files_received(ucxpool_channel_t *channel, uint64_t number,
                                  const int *fds, const char *reason);

/* End the remote, because the owner has revoked the window. */
void window_remote_revoked(ucxpool_channel_t *channel, uint64_t number);

/* Add a reason why the remote uses a way, or cannot use one. The newest reason
 * comes first in the text. */
void window_remote_set_reason(ucxpool_remote_window_t *remote,
                              const char              *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Release the remote's mappings and keys. May be called again. */
void window_remote_unmap(ucxpool_remote_window_t *remote);

/* Make the remote unusable, and end its operations with this status. */
void window_remote_end(ucxpool_remote_window_t *remote, ucxpool_status_t status,
                       const char *reason);

/* --- importer: operations ------------------------------------------------- */

/* The maximum number of concurrent GPU launches of one operation. Several are
 * needed to keep the link busy while the CPU fills the list of the next one. */
#define WINDOW_JOBS 8u

typedef struct window_job {
    copy_job_t               copy;
    uint64_t                 size;
    struct window_operation *operation;
} window_job_t;

typedef struct window_operation {
    base_list_t link; /* in one list: the remote's waiting; the channel's
                         queued, called, moving or moved; the pool's copying
                         or free_operations; or none */
    ucxpool_remote_window_t *remote;  /* holds a reference */
    ucxpool_request_t       *request; /* the caller's request; NULL: it has
                                         ended */
    ucxpool_request_t  *call_request; /* sends the CALL; NULL: none */
    core_request_hook_t call_ended;   /* called when call_request ends */
    uint64_t            number;
    bool                is_write;
    ucxpool_way_t       way;            /* of its data, for the statistics */
    bool                was_called;     /* counted in windows->num_calls */
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
    ucxpool_status_t end;  /* status of the operation after its jobs, or its
                              gets and puts, have ended; OK: not set */
    base_range_t range;    /* trace range, from the post of the operation to its
                              end */
    /* For UCX's get and put: the number of outstanding callbacks, and whether a
     * flush was posted. */
    unsigned num_rma;
    bool     is_flushed;
    /* For message-based operations. */
    bool               is_answered;  /* the data of a read is arriving */
    ucxpool_segment_t  call;         /* the CALL with its places */
    ucxpool_request_t *notification; /* sent at the end; NULL: none */
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

/* End the operations of a remote that has ended. */
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

/* End the operation's request. May free the operation. */
static inline void window_operation_end(window_operation_t *operation,
                                        ucxpool_status_t    status,
                                        const char         *detail)
{
    ucxpool_request_t *request = operation->request;

    core_request_stop(request, status, detail);
    core_request_reuse(request);
}

/* --- ways ----------------------------------------------------------------- */

/* The answer to an import. The owner's ways fill its fields. */
typedef struct window_offer {
    uint32_t    flags;
    const void *data;
    size_t      size;
} window_offer_t;

/* A way to copy to and from a window. A function may be NULL. */
typedef struct window_way {
    ucxpool_way_t id;
    unsigned      reach; /* core_reach_t: the peers for which the way works */

    /* Owner: find out how peers can access the memory. If they cannot, set
     * window->reason. An error makes the creation of the window fail. */
    ucxpool_status_t (*share)(ucxpool_window_t *window);

    /* Owner: undo share(). Called when no peer uses the memory any more. May be
     * called more than once. */
    void (*unshare)(ucxpool_window_t *window);

    /* Owner: add to the answer to an import. */
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

    /* Returns true if the copy itself checks the places, so that they need no
     * check before it. */
    bool (*checks_places)(const window_operation_t *operation);

    /* Start the operation. May free the operation. */
    void (*start)(window_operation_t *operation);

    /*
     * Copy the next part of an operation (see below).
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

/* In order, the ways are: the CPU copies to and from mapped memory; the kernel
 * copies between the processes; a GPU copies to and from mapped memory; a GPU
 * reads pinned host memory; UCX's get and put; and messages, which are always
 * possible. */
extern const window_way_t window_mapped, window_process, window_device,
    window_pinned, window_rma, window_messages;

/* All ways, best first; ends with NULL. */
extern const window_way_t *const window_ways[];

/* Iterate over the ways that work for these peers. `wanted` is a mask of
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

/* --- functions of single ways --------------------------------------------- */

/* Copies by a GPU: functions of window_device and window_pinned. */
bool window_device_fits(const window_operation_t *operation);
bool window_device_checks_places(const window_operation_t *operation);
void window_device_start(window_operation_t *operation);
ucxpool_status_t window_device_copy(window_operation_t *operation);

/* Check that the places are in the window. The owner does the same check. */
ucxpool_status_t window_messages_check(const window_operation_t *operation);

/* Send the CALLs of queued operations, as far as the owner's limits allow.
 * Returns the number of operations processed. */
unsigned window_messages_progress(ucxpool_channel_t *channel);

/* Handle the end of an operation. If its CALL was sent and the operation
 * failed, tells the owner. */
void window_messages_ended(window_operation_t *operation,
                           ucxpool_status_t    status);

/* Handle the data of a read. Takes over the message. */
void window_messages_answered(ucxpool_message_t *message);

/* Handle the owner's refusal of an operation. */
void window_messages_refused(ucxpool_channel_t        *channel,
                             const proto_window_end_t *end, const char *reason);

/* --- copying in turns: way.c ---------------------------------------------- */

/* Copy a short operation at once, and a longer one in turns. */
void window_turns_start(window_operation_t *operation);

/* Queue the operation again or end it, depending on the status that copy()
 * returned. */
void window_turns_wait(window_operation_t *operation, ucxpool_status_t status);

/* Do one step of a copy by the CPU. While it runs, the channel's ring
 * (core/ring.h) shows the owner that a copy is in progress. Returns the same
 * values as copy() of a way. */
ucxpool_status_t
window_turns_step(window_operation_t *operation,
                  ucxpool_status_t (*step)(window_operation_t *operation));

/* Do one step of the first operation, and move it to the end of the list.
 * Returns 1 if it made progress, else 0. */
unsigned window_turns_progress(ucxpool_t *pool);

/* --- owner: operations by messages: serve.c ------------------------------- */

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

/* Handle a CALL, and the data of a write. Both functions take ownership of the
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

/* --- messages, progress and the end of a channel: service.c --------------- */

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

/* End the remotes and operations of a channel that has ended. Its grants are
 * released when the peer can no longer access the memory. */
void window_channel_ended(ucxpool_channel_t *channel);

/* Free all remaining window objects of the channel, because the pool is being
 * freed. */
void window_channel_drop_all(ucxpool_channel_t *channel);

#endif
