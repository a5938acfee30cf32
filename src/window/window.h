/*
 * Windows: memory of the caller's that peers read and write by themselves
 * (docs/internals/windows.md).
 *
 *     owner                                     peer
 *
 *     window  (pool->windows->all)
 *       grants --> grant  <-- one of a channel --> remote
 *                    |                              |
 *                    +-- served <------ CALL ------ operation --> request
 *
 * window     memory, the keys of its blobs, and the grants to touch it
 * grant      one import of a window, as its owner has it
 * remote     the same, as the importer has it
 * operation  a read or write of a remote: the importer's
 * served     the same by messages, as the owner has it
 *
 * A grant is there for as long as its importer may touch the memory.
 */
#ifndef WINDOW_WINDOW_H
#define WINDOW_WINDOW_H

#include "base/crc32c.h"
#include "core/files.h"
#include "core/request.h"
#include "core/wire.h"
#include "ipc/mempool.h"
#include "ipc/virtual.h"
#include "ucx/rma.h"

#include <ucxpool/window.h>

#include <stddef.h>
#include <stdio.h>

#define WINDOW_KEY_SIZE 16u

#define WINDOW_BLOB_MAGIC 0x77786375u /* "ucxw" */

/* What ucxpool_window_export() gives. Little-endian. */
typedef struct window_blob {
    uint32_t magic;
    uint16_t version;
    uint16_t access;
    uint8_t  pool[CORE_ID_SIZE];
    uint64_t window;
    uint8_t  key[WINDOW_KEY_SIZE];
    uint64_t length;
    uint32_t checksum; /* CRC32C of all bytes, where this field counts as 0; in
                          every version */
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
    ((unsigned)(CORE_REACH_HOST | CORE_REACH_GPU | CORE_REACH_UCX))

/* The windows of a pool. */
struct window_pool {
    core_reach_t reach;    /* of peers that no endpoint needs */
    base_list_t  all;      /* of the caller's */
    base_list_t  copying;  /* operations that copy by themselves, in turns */
    base_list_t  runnable; /* operations of peers, which can continue */
    base_list_t  free_operations;
    uint64_t     next_number; /* of windows and grants */
    /* For tests and benchmarks: get and put over transports that have none,
     * too, where a peer that dies may take its owner with it (window/rma.c). */
    bool may_emulate;
};

/* The windows over a channel. */
struct window_channel {
    base_list_t remotes; /* the peer's, imported here */
    base_list_t grants;  /* ours, imported there */
    unsigned    num_grants;
    base_list_t served; /* the peer's operations on ours, by messages */
    unsigned    num_served;
    uint64_t    served_size; /* bytes of their CALLs */
    base_list_t queued;    /* operations on the peer's, by messages, whose CALL
                              has not been sent */
    base_list_t called;    /* likewise, whose CALL has */
    base_list_t moving;    /* operations on the peer's, by UCX's get and put,
                              with something left to be posted */
    base_list_t moved;     /* likewise, without */
    unsigned    num_rma;   /* operations of UCX for these, under way */
    unsigned    num_calls; /* of ours that the peer may hold */
    uint64_t    calls_size;
    uint64_t    next_number; /* of remotes and operations */
    uint64_t    num_revokes; /* REVOKE messages that have been read */
};

/* UCXPOOL_ERR_NO_MEMORY */
ucxpool_status_t window_pool_create(ucxpool_t *pool);

/* With the windows that are left. */
void window_pool_destroy(ucxpool_t *pool);

/* UCXPOOL_ERR_NO_MEMORY */
ucxpool_status_t window_channel_create(ucxpool_channel_t *channel);

/* Nothing is left over it. */
void window_channel_destroy(ucxpool_channel_t *channel);

/* --- owner: windows and grants -------------------------------------------- */

struct ucxpool_window {
    base_list_t link;
    ucxpool_t  *pool;
    uint64_t    number;
    char        name[CORE_NAME_SIZE];
    void       *address;
    uint64_t    length;
    /* Of a blob for each access: key[access - 1]. */
    uint8_t key[UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE][WINDOW_KEY_SIZE];
    bool    is_revoked;
    bool    is_destroyed; /* the caller has it no more; its grants have */
    base_list_t grants;
    /* Of a GPU's memory: how peers may map it; `way` 0: they may not. */
    proto_window_cuda_t cuda;
    /* Where it lies in files; none: it is not to be mapped so, and why ("": it
     * is in no file that we know of). */
    proto_window_part_t *parts;
    unsigned             num_parts;
    bool                 is_virtual; /* they are allocations, by files of
                                        their own */
    int  fd; /* of the caller's file; -1: none was given */
    char reason[PROTO_TEXT_MAX + 1];
    /* With UCX, since a peer has asked for the key. */
    ucx_rma_memory_t registered;
    char             not_registered[CORE_REASON_SIZE]; /* why; "": not asked */
};

typedef struct window_grant {
    base_list_t        link; /* the window's */
    base_list_t        channel_link;
    ucxpool_window_t  *window;
    ucxpool_channel_t *channel; /* in whose list it is: no reference */
    uint64_t           number;
    uint64_t           remote; /* the importer's number */
    unsigned           access;
    unsigned           num_served; /* operations that still use it */
    bool               is_let_go;  /* by the importer */
    bool               wants_key;  /* the importer does: UCX's */
    bool               has_key;    /* it has it */
} window_grant_t;

/* As ucxpool_window_create(). */
ucxpool_status_t window_create(ucxpool_t *pool, void *address, size_t length,
                               const ucxpool_window_params_t *params,
                               ucxpool_window_t             **window_p);

/* No grant refers to it any more. */
void window_free(ucxpool_window_t *window);

/* The caller has it no more: it is freed now, or with its last grant. */
void window_destroy(ucxpool_window_t *window);

/* As ucxpool_window_export(). */
ucxpool_status_t window_export(const ucxpool_window_t *window, unsigned access,
                               void *blob);

/* Refuse imports from now on, end what is served, and ask all importers to
 * release it. To be called again until the window is free: an importer that is
 * seen not to touch it is not waited for. */
void window_revoke(ucxpool_window_t *window);

/* The same for all that have not been destroyed. */
void window_revoke_all(ucxpool_t *pool);

/* Does no importer touch it any more? */
bool window_is_free(const ucxpool_window_t *window);
bool window_all_are_free(const ucxpool_t *pool);

/* Log the importers that have not released it in time. Their channels over UCX
 * fail; true: some have, and the window is free when their endpoints close. */
bool window_abandon(const ucxpool_window_t *window);
void window_abandon_all(const ucxpool_t *pool);

/* An import is wanted: grant or refuse it. */
void window_grant_open(ucxpool_channel_t         *channel,
                       const proto_window_open_t *open);

/* The grant of a number, if it is the channel's; else NULL. */
window_grant_t *window_grant_find(const ucxpool_channel_t *channel,
                                  uint64_t                 number);

/* The files that a grant's window lies in, one for each part that is no
 * region's; 0: there are none, or no such grant. */
uint32_t window_grant_num_files(const ucxpool_channel_t *channel,
                                uint64_t                 number);
int      window_grant_file(const ucxpool_channel_t *channel, uint64_t number,
                           uint32_t index);

/* The importer touches the memory no more. What is served of it ends. */
void window_grant_let_go(window_grant_t *grant);

/* The same of those of a channel, which has ended: where the importer can touch
 * nothing any more, or even so. */
void window_grants_let_go(ucxpool_channel_t *channel, bool are_touched);

/* Could the importer's processor copy, as far as the ring tells? */
bool window_grant_may_copy(const window_grant_t *grant);

/* An operation of it is not served any more. */
void window_grant_put(window_grant_t *grant);

/* --- importer: remotes ---------------------------------------------------- */

/* Why it goes in that way, and why not in another. */
#define WINDOW_REASON_SIZE (2 * CORE_REASON_SIZE + 20)

/* The owner's answer to an import. */
typedef struct window_answer {
    proto_window_opened_t opened;
    const void           *data; /* that came with it */
    size_t                data_size;
    const char           *reason; /* why the importer cannot reach it */
    proto_window_cuda_t   cuda;   /* of the flag for it */
    const int *fds; /* of its files, given by the owner; NULL: they are taken
                       from its process */
    size_t              num_parts;
    proto_window_part_t parts[PROTO_PARTS_MAX];
} window_answer_t;

/* Does it need descriptors that the system does not let us take? */
static inline bool window_is_forbidden(const window_answer_t *answer,
                                       ucxpool_status_t       status)
{
    return (answer->fds == NULL) && ((status == UCXPOOL_ERR_PERMISSION) ||
                                     (status == UCXPOOL_ERR_UNSUPPORTED));
}

/* A part of the window, mapped here. */
typedef struct window_view {
    uint64_t   end;     /* offset in the window, of what comes behind */
    uint8_t   *address; /* of the window's byte `end`, if there were one */
    ipc_view_t view;    /* size 0: it is in a region, and the channel's */
} window_view_t;

struct ucxpool_remote {
    base_list_t        link;    /* the channel's */
    ucxpool_channel_t *channel; /* a reference */
    uint64_t           number;
    window_blob_t      blob;
    bool               was_asked; /* for; when the channel is open */
    bool               user_ref;
    unsigned           refs; /* operations */
    ucxpool_status_t   status;
    char               reason[WINDOW_REASON_SIZE];
    uint64_t           length;
    unsigned           access;
    uint64_t           grant; /* the owner's number; 0: none, or given back */
    uint64_t       address; /* in the owner's process; on a GPU: mapped here */
    ipc_cuda_t     share;   /* of what is mapped; `way` 0: nothing is */
    const void    *mapping;
    ipc_virtual_t  range;   /* of virtual memory that is mapped, likewise */
    ipc_mempool_t  mempool; /* of a memory pool, likewise */
    window_view_t *views;   /* of parts of files, in their order */
    unsigned       num_views;
    bool           can_write;    /* to these */
    bool           is_forbidden; /* to take the descriptors */
    ucp_rkey_h     key;          /* UCX's; NULL: none */
    bool           is_on_gpu;    /* the memory that it is for */
    bool           is_trying;    /* the key: tried() follows */
    void (*tried)(struct ucxpool_remote *remote);
    uint8_t                  probe;  /* read to see whether it can be */
    window_answer_t         *answer; /* kept while files are asked for; NULL */
    const struct window_way *way;    /* of reads, if there are any */
    const struct window_way *write_way;
    char                     way_reason[WINDOW_REASON_SIZE];
    base_list_t waiting; /* operations, until the owner has answered */
};

/* As ucxpool_window_import(). */
ucxpool_status_t window_import(ucxpool_channel_t *channel, const void *blob,
                               size_t blob_size, ucxpool_remote_t **remote_p);

/* The caller, or an operation, has it no more. */
void window_remote_release(ucxpool_remote_t *remote);
void window_remote_put(ucxpool_remote_t *remote);

/* Ask for what was imported before the channel was open. */
unsigned window_remotes_progress(ucxpool_channel_t *channel);

/* The owner has answered; and wants to be let go. */
void window_remote_opened(ucxpool_channel_t           *channel,
                          const proto_window_opened_t *opened, const void *data,
                          size_t data_size, const char *reason);

/* The owner has given the files that we may not take (they stay the caller's);
 * or NULL: it has not, and why. */
void window_remote_given(ucxpool_channel_t *channel, uint64_t number,
                         const int *fds, const char *reason);

void window_remote_revoked(ucxpool_channel_t *channel, uint64_t number);

/* Add why it uses a way, or cannot. The newest reason comes first. */
void window_remote_say(ucxpool_remote_t *remote, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Let go of all that is mapped of it. */
void window_remote_unmap(ucxpool_remote_t *remote);

/* It cannot be used any more; its operations end so. */
void window_remote_end(ucxpool_remote_t *remote, ucxpool_status_t status,
                       const char *reason);

/* --- importer: operations ------------------------------------------------- */

/* Launches of one operation under way: the link is busy while the next list is
 * filled. */
#define WINDOW_JOBS 8u

typedef struct window_job {
    copy_job_t               copy;
    uint64_t                 size;
    struct window_operation *operation;
} window_job_t;

typedef struct window_operation {
    base_list_t link; /* the remote's waiting ones, the channel's queued,
                         called, moving or moved ones, the pool's copying ones,
                         free, or none */
    ucxpool_remote_t   *remote;       /* a reference */
    ucxpool_request_t  *request;      /* the caller's; NULL: it has ended */
    ucxpool_request_t  *call_request; /* sends the CALL; NULL: not under way */
    core_request_hook_t call_ended;   /* its end */
    uint64_t            number;
    bool                is_write;
    bool                was_called;     /* the CALL counts at the owner */
    bool                lists_are_read; /* by the GPU, and places checked */
    ucxpool_places_t    places;
    ucxpool_place_t     place; /* the list of one */
    uint64_t            size;  /* bytes of all places */
    /* Copying by ourselves: what comes next, and what a GPU has under way. */
    size_t           next_place;
    uint64_t         place_offset;
    size_t           next_memory;
    uint64_t         memory_offset;
    window_job_t     jobs[WINDOW_JOBS];
    unsigned         num_jobs;
    core_link_work_t work;  /* of a GPU */
    ucxpool_status_t end;   /* that waits for these; OK: none */
    base_range_t     range; /* from its post to its end */
    /* By UCX's get and put: what it will call back, and whether it was asked to
     * flush. */
    unsigned num_rma;
    bool     is_flushed;
    /* By messages. */
    bool               is_answered;  /* a read's bytes come */
    ucxpool_segment_t  call;         /* the CALL with its places */
    ucxpool_request_t *notification; /* NULL: none is wanted */
} window_operation_t;

static inline const void *window_places_list(const ucxpool_places_t *places)
{
    return (places->places != NULL) ? (const void *)places->places
                                    : (const void *)places->offsets;
}

/* As ucxpool_read() and ucxpool_write(). */
ucxpool_status_t window_operate(ucxpool_remote_t *remote, bool is_write,
                                const ucxpool_places_t         *places,
                                const copy_memory_t            *memory,
                                const ucxpool_request_params_t *params,
                                ucxpool_request_t             **request_p);

/* The owner has answered: those that waited for it begin. */
void window_operations_begin(ucxpool_remote_t *remote);

/* The remote has ended, and so do its operations. */
void window_operations_abort(ucxpool_remote_t *remote, ucxpool_status_t status,
                             const char *reason);

/* Free the memory of the free list. */
void window_operations_destroy_all(ucxpool_t *pool);

/* A part of an operation: as much of the window as of our memory. */
typedef struct window_piece {
    uint64_t offset; /* in the window */
    char    *ours;
    uint64_t length; /* 0: a place or a piece of memory that is empty */
} window_piece_t;

/* The next, of at most max_length bytes; false: there is none. */
bool window_operation_next(window_operation_t *operation, uint64_t max_length,
                           window_piece_t *piece_p);

/* It is over: the request ends, and the operation may be gone. */
static inline void window_operation_end(window_operation_t *operation,
                                        ucxpool_status_t    status,
                                        const char         *detail)
{
    ucxpool_request_t *request = operation->request;

    core_request_stop(request, status, detail);
    core_request_reuse(request);
}

/* --- ways ----------------------------------------------------------------- */

/* The answer to an import, as the owner fills it. */
typedef struct window_offer {
    uint32_t    flags;
    const void *data;
    size_t      size;
} window_offer_t;

/* How bytes get to a window, and from it. A function may be NULL. */
typedef struct window_way {
    ucxpool_way_t id;
    unsigned      reach; /* core_reach_t: of the peers that it is for */

    /* Owner: find out how peers can reach the memory; where they cannot,
     * window->reason says why. An error: there can be no such window. */
    ucxpool_status_t (*share)(ucxpool_window_t *window);

    /* Owner: no peer uses it any more. May be called again. */
    void (*unshare)(ucxpool_window_t *window);

    /* Owner: add to the answer to an import. */
    void (*offer)(window_grant_t *grant, window_offer_t *offer);

    /* Owner: could the importer of a window that was revoked, or whose channel
     * has ended, still be touching it? */
    bool (*may_touch)(const window_grant_t *grant);

    /* Importer: flags to import with. */
    uint32_t (*ask)(ucxpool_remote_t *remote);

    /*
     * Importer: get to the memory. window_remote_say() has the reason.
     * A way that needs time sets is_trying, and calls tried() at the end.
     * Returns the accesses that it is for: UCXPOOL_WINDOW_READ, _WRITE, both,
     * or 0.
     */
    unsigned (*open)(ucxpool_remote_t *remote, const window_answer_t *answer);

    /* Importer: nothing of ours touches it any more. May be called again. */
    void (*close)(ucxpool_remote_t *remote);

    /* Can the operation go by it? If not, it goes by messages. NULL: all can.
     */
    bool (*fits)(const window_operation_t *operation);

    /* Will the places be checked while they are copied? */
    bool (*checks_places)(const window_operation_t *operation);

    /* Begin. The operation may be gone after it. */
    void (*start)(window_operation_t *operation);

    /*
     * Copy some of an operation in its turn (turns.c).
     *
     * UCXPOOL_OK          that was all
     * UCXPOOL_INPROGRESS  there is more
     * UCXPOOL_ERR_BUSY    nothing now
     * UCXPOOL_ERR_IO      memory of the owner's, or of ours, is not there
     * UCXPOOL_ERR_PEER_LOST
     */
    ucxpool_status_t (*copy)(window_operation_t *operation);
} window_way_t;

/* By a mapping of the owner's memory, or of its files; by the kernel; by a GPU;
 * by UCX's get and put; and by messages, which is always possible. */
extern const window_way_t window_mapped, window_process, window_device,
    window_rma, window_messages;

/* All, best first; NULL ends them. */
extern const window_way_t *const window_ways[];

/* Those for such peers (core_reach_t). */
#define window_for_each_way(way, wanted) \
    for (size_t at = 0; ((way) = window_ways[at]) != NULL; at++) \
        if (((way)->reach & (wanted)) != 0)

static inline const window_way_t *
window_operation_way(const window_operation_t *operation)
{
    return operation->is_write ? operation->remote->write_way
                               : operation->remote->way;
}

/* --- the ways: more of them ----------------------------------------------- */

/* Descriptors that an importer needs for this: of a memory pool, 1. */
static inline uint32_t window_cuda_num_files(const proto_window_cuda_t *cuda)
{
    return (cuda->share.way == IPC_CUDA_MEMPOOL) ? 1 : 0;
}

/* Of a GPU's windows, those in virtual memory, allocation by allocation. As
 * ipc_virtual_export(). */
ucxpool_status_t window_virtual_share(ucxpool_window_t *window);
void             window_virtual_unshare(ucxpool_window_t *window);
ucxpool_status_t window_virtual_map(ucxpool_remote_t      *remote,
                                    const window_answer_t *answer);
void             window_virtual_unmap(ucxpool_remote_t *remote);

/* Are the places in the window, as the owner will check? */
ucxpool_status_t window_messages_check(const window_operation_t *operation);

/* Those that wait until the owner holds fewer. */
unsigned window_messages_progress(ucxpool_channel_t *channel);

/* An operation that may have been called has ended. */
void window_messages_ended(window_operation_t *operation,
                           ucxpool_status_t    status);

/* The bytes of a read have come. */
void window_messages_answered(ucxpool_message_t *message);

/* The owner has refused one. */
void window_messages_refused(ucxpool_channel_t        *channel,
                             const proto_window_end_t *end, const char *reason);

/* --- what copies, in turns: turns.c --------------------------------------- */

/* Copy it now if it is short, or else in turns. */
void window_turns_start(window_operation_t *operation);

/* Its copy() has returned that: it waits for its turn, or ends. */
void window_turns_wait(window_operation_t *operation, ucxpool_status_t status);

/* A step of a copy by the processor, which the owner can see (core/ring.h). As
 * copy() of a way. */
ucxpool_status_t
window_turns_step(window_operation_t *operation,
                  ucxpool_status_t (*step)(window_operation_t *operation));

/* One step of the first, which then stands behind the others. */
unsigned window_turns_progress(ucxpool_t *pool);

/* --- owner: operations by messages: serve.c ------------------------------- */

typedef enum window_step {
    WINDOW_STEP_CALL,  /* the CALL is being received */
    WINDOW_STEP_WRITE, /* what a write brings has not come */
    WINDOW_STEP_MOVE   /* the bytes go */
} window_step_t;

typedef struct window_served {
    base_list_t        link;     /* the channel's */
    base_list_t        run_link; /* the pool's runnable ones, or none */
    ucxpool_channel_t *channel;  /* a reference */
    window_grant_t    *grant;    /* NULL: not known yet, or no more */
    uint64_t           number;   /* the importer's */
    window_step_t      step;
    bool               is_over; /* given up, revoked, or failed */
    ucxpool_request_t *request; /* receives the CALL, or moves the bytes */
    ucxpool_message_t *message; /* what a write brings; NULL: not there */
    ucxpool_segment_t  call;    /* its places become addresses */
    copy_memory_t      memory;  /* these */
} window_served_t;

/* A CALL has come; what a write brings. */
void window_served_called(ucxpool_message_t *message);
void window_served_brought(ucxpool_message_t *message);

/* Those that can go on. */
unsigned window_served_progress(ucxpool_t *pool);

/* The importer has given it up. */
void window_served_given_up(ucxpool_channel_t *channel, uint64_t number);

/* End those of a grant; NULL: all of the channel. */
void window_served_cancel(ucxpool_channel_t    *channel,
                          const window_grant_t *grant);

/* --- what arrives, and ends: service.c ------------------------------------ */

/* A control message of a window's. */
void window_received(ucxpool_channel_t *channel, const proto_fixed_t *message,
                     const void *data, size_t data_size);

/* A message with a flag of PROTO_DESC_WINDOW. */
void window_message(ucxpool_message_t *message);

unsigned window_progress(ucxpool_t *pool);

unsigned window_channel_progress(ucxpool_channel_t *channel);

/* Is there nothing for it to do, while the channel is open? */
bool window_channel_is_quiet(const ucxpool_channel_t *channel);

/* Has the channel operations of ours under way? */
bool window_channel_is_busy(const ucxpool_channel_t *channel);

/* The channel has ended, and so do its remotes and operations. Its grants do
 * when the peer can touch nothing any more. */
void window_channel_ended(ucxpool_channel_t *channel);

/* The pool is being freed: drop what is left over the channel. */
void window_channel_drop_all(ucxpool_channel_t *channel);

#endif
