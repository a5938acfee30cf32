/*
 * A window is application memory that peers read and write directly.
 *
 *     owner                                   peer
 *     ucxpool_window_create()
 *     ucxpool_window_export()  -- blob -->    ucxpool_remote_window_import()
 *                                             ucxpool_remote_window_read()
 *                                             ucxpool_remote_window_write()
 *     ucxpool_window_destroy()                ucxpool_remote_window_release()
 *
 * Windows are for long-lived memory, such as the pages of a cache or the
 * columns of a store. A window is exported once and used until it is destroyed.
 * Reads and writes need no action by the owner, except with
 * UCXPOOL_WAY_MESSAGES, for which the owner's pool must make progress.
 *
 * When a window is imported, the library selects the way in which the window's
 * bytes are transferred. ucxpool_remote_window_query() returns the selected
 * way, which is one of these:
 *
 *     UCXPOOL_WAY_MAPPED    Same host, same user. The window is in a file that
 *                           both processes map: memory from
 *                           ucxpool_heap_alloc(), memory from
 *                           ucxpool_comm_alloc() (only for reads), or a file
 *                           that the owner passes
 *                           (UCXPOOL_WINDOW_PARAM_FIELD_FD). The peer's CPU
 *                           copies the bytes, without a system call per piece.
 *                           The owner does nothing
 *     UCXPOOL_WAY_PROCESS   Same host, same user. The window is in any host
 *                           memory of the owner. The peer's CPU copies the
 *                           bytes with system calls, which take several times
 *                           as long as the copy itself. The owner does nothing.
 *                           If the owner's CPU is idle, WINDOW_WAY=messages is
 *                           faster for more than a few KiB
 *     UCXPOOL_WAY_CUDA      Same host, same user, both pools on GPUs that can
 *                           access each other. The memory is from cuMemAlloc(),
 *                           or virtual memory (cuMemCreate()), such as the
 *                           pool's heap or PyTorch's expandable segments.
 *                           Virtual memory may have at most 262,144
 *                           allocations, which must be exportable as file
 *                           descriptors. The processes then need a few free
 *                           descriptors. They also need a common network
 *                           namespace or SOCKET_DIR, to connect through a Unix
 *                           socket. One kernel on the peer's GPU copies all
 *                           pieces. The owner does nothing.
 *                           A pool on a GPU also reads, but does not write, a
 *                           window of a pool in host memory in this way. The
 *                           window must be in one allocation of the owner's
 *                           pool or in one file, as for UCXPOOL_WAY_MAPPED.
 *                           The window is pinned when it is imported
 *     UCXPOOL_WAY_RMA       Any peer on the `ucx` wire, if UCX's transports
 *                           implement get and put in hardware (RDMA, NVLink).
 *                           The owner does nothing, but over NVLink UCX 1.22
 *                           completes a write only when the owner's pool makes
 *                           progress. An operation with short pieces, under 32
 *                           KiB on average, uses messages unless
 *                           WINDOW_WAY=direct is set. The window is registered
 *                           with UCX once, when the first peer imports it for
 *                           this way. WINDOW_BUDGET limits these
 *                           registrations. Over other transports (TCP), UCX
 *                           would emulate get and put with its own messages.
 *                           The emulation is not faster than
 *                           UCXPOOL_WAY_MESSAGES, and the owner's process would
 *                           crash if the peer died during an emulated get or
 *                           put. So the library uses UCXPOOL_WAY_MESSAGES
 *                           instead
 *     UCXPOOL_WAY_MESSAGES  Any peer. The owner's pool sends the bytes that are
 *                           read and receives the bytes that are written, as
 *                           with ucxpool_send() and ucxpool_recv()
 *
 * The library uses the first way in this list that is available. With
 * WINDOW_WAY=direct it never uses messages: if no other way is available, the
 * remote window fails with UCXPOOL_ERR_UNSUPPORTED and the reason. The setting
 * REQUIRE limits the path of the channel, but not the way of a window.
 *
 * The owner and its peers may access the window at any time. The library does
 * not order their accesses. A read of bytes that are written at the same time
 * returns old bytes, new bytes, or a mix of both. With CHECKSUM=crc32c, such a
 * read through messages can end with UCXPOOL_ERR_CHECKSUM.
 *
 * If the window is in the pool's memory, the caller must not free this memory
 * while the window exists. Otherwise peers may read and write the data of the
 * memory's next user.
 *
 * The blob is a capability: any process that has the blob, and a channel to the
 * owner's pool, has the access that the blob grants. Keep the blob secret. The
 * library allows only the access that a blob grants. The operating system, CUDA
 * and UCX do not enforce this limit:
 *
 *   - a process can access all memory of another process of the same user, as
 *     far as the rules for debuggers (ptrace) allow
 *   - a peer that maps a file can access the whole file
 *   - a peer that imports GPU memory has CUDA's handle of the whole allocation,
 *     for reading and writing
 *   - a peer that has UCX's key of a window can read and write all of the
 *     window, until the endpoint of its channel is closed
 */
#ifndef UCXPOOL_WINDOW_H
#define UCXPOOL_WINDOW_H

#include <ucxpool/transfer.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* --- the owner's side ----------------------------------------------------- */

typedef struct ucxpool_window ucxpool_window_t;

typedef enum ucxpool_window_params_field {
    UCXPOOL_WINDOW_PARAM_FIELD_NAME = 1u << 0,
    UCXPOOL_WINDOW_PARAM_FIELD_FD   = 1u << 1
} ucxpool_window_params_field_t;

/* Only the fields named in field_mask are read. */
typedef struct ucxpool_window_params {
    uint64_t    field_mask;
    const char *name; /* in errors and the log; at most 31 bytes are kept */
    /*
     * A memory file (memfd_create()). The window's memory must be a shared
     * mapping of this file, at any offset. Peers on the same host that run as
     * the same user map the file. The file must be sealed against shrinking
     * (F_SEAL_SHRINK), because truncating the file would kill the processes
     * that read it. If the file is not sealed, or is too short for the window,
     * peers do not map it, and way_reason of their remote windows contains the
     * reason. The descriptor belongs to the caller, who may close it after the
     * call. Ignored in a pool on a GPU.
     */
    int fd;
} ucxpool_window_params_t;

/*
 * Create a window over memory.
 *
 * address      Memory of any kind that the pool can send. The memory belongs to
 *              the caller. The caller must not free it before the window has
 *              been destroyed, or ucxpool_window_revoke() has returned
 *              UCXPOOL_OK.
 * length       Bytes, 1 or more.
 * params       NULL for none.
 * window_p [out]  Destroy it with ucxpool_window_destroy(); otherwise
 *                 ucxpool_destroy() destroys it.
 *
 * UCXPOOL_ERR_INVALID_PARAM  address is NULL, length is 0, or the range exceeds
 *                            the address space; the memory is not a shared
 *                            mapping of the given file; in a pool on a GPU: the
 *                            memory is not mapped
 * UCXPOOL_ERR_UNSUPPORTED    the memory is on a GPU that the pool's GPU cannot
 *                            access
 * UCXPOOL_ERR_CLOSED         the pool is being destroyed
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ucxpool_window_create(ucxpool_t *pool, void *address,
                                       size_t                         length,
                                       const ucxpool_window_params_t *params,
                                       ucxpool_window_t             **window_p);

/* The access that a blob grants. The flags may be combined. */
typedef enum ucxpool_window_access {
    UCXPOOL_WINDOW_READ  = 1u << 0,
    UCXPOOL_WINDOW_WRITE = 1u << 1
} ucxpool_window_access_t;

/* Size of a blob in bytes. */
#define UCXPOOL_WINDOW_BLOB_SIZE 64

/*
 * Get the blob that peers need to import the window.
 *
 * access      Bitwise OR of ucxpool_window_access_t.
 * blob [out]  UCXPOOL_WINDOW_BLOB_SIZE bytes. The caller passes them to peers
 *             by any means, for example in a message. All calls with the same
 *             window and access return the same bytes.
 *
 * UCXPOOL_ERR_INVALID_PARAM  access is 0 or has other bits
 * UCXPOOL_ERR_CANCELED       the window has been revoked
 */
ucxpool_status_t ucxpool_window_export(const ucxpool_window_t *window,
                                       unsigned access, void *blob);

/*
 * Stop all access by peers. From then on, imports are refused, and the reads
 * and writes in progress end with UCXPOOL_ERR_CANCELED at the peers. Makes
 * progress until no peer accesses the memory, or the timeout expires. The time
 * at which a peer stops depends on the way in which it accesses the window:
 *
 *     mapped, process  at the end of the current step of its copy. A step
 *                      copies at most 1 MiB. A peer that is not copying does
 *                      not need to make progress
 *     messages         as soon as this pool has finished its copies. Over
 *                      `ucx`, after UCX has finished its in-place transfers
 *     CUDA             when the peer makes progress, or its process has ended.
 *                      Also for a window in host memory, if the peer's pool is
 *                      on a GPU and may have pinned the window. The peer does
 *                      not report whether it has, so this applies even if it
 *                      uses messages
 *     RMA              when the peer makes progress, its process has ended, or
 *                      the channel's endpoint is closed
 *
 * Does not wait for a peer whose channel failed with UCXPOOL_ERR_PROTOCOL. Such
 * a peer may still write to memory that it has mapped.
 *
 * UCXPOOL_OK          no peer accesses the memory
 * UCXPOOL_INPROGRESS  a peer may still access the memory: call again
 */
ucxpool_status_t ucxpool_window_revoke(ucxpool_window_t *window,
                                       uint64_t          timeout_ns);

/*
 * Revoke a window as ucxpool_window_revoke() does, waiting for at most
 * CLOSE_TIMEOUT, and destroy it. NULL is allowed.
 *
 * If a peer still accesses the memory after CLOSE_TIMEOUT, the library stops
 * waiting for the peer and logs a warning with the peer's channel and the
 * window. What the peer may still do depends on the way in which it accesses
 * the window:
 *
 *     mapped, process  finish one step of a copy, of at most 1 MiB. This
 *                      happens only if the process was stopped (SIGSTOP, a
 *                      debugger) in the middle of that step
 *     CUDA             finish the kernels that it has launched. It may launch
 *                      more until it makes progress and detects the revocation
 *     RMA, messages    nothing: the channel fails with UCXPOOL_ERR_TIMED_OUT.
 *                      This closes the channel's endpoint and takes at most 1 s
 *                      more. A borrowed endpoint must be closed by the caller
 *
 * To be certain that no peer accesses the memory, call ucxpool_window_revoke()
 * until it returns UCXPOOL_OK, and do not free the memory before then. Over
 * `ucx`, the peers' reads or writes through messages may still be in progress.
 * Keep calling ucxpool_progress() until they have ended. If UCX still uses the
 * peers' memory after 250 ms, the channel fails.
 */
void ucxpool_window_destroy(ucxpool_window_t *window);

typedef struct ucxpool_window_attr {
    char     name[UCXPOOL_NAME_SIZE]; /* "" if unnamed */
    void    *address;
    size_t   length;
    unsigned num_peers; /* number of channels that have imported it */
    int      is_revoked;
    size_t   registered; /* bytes registered with UCX: length, or 0 */
    /* Why the registration that the last peer requested was refused, or "". */
    char not_registered[UCXPOOL_REASON_SIZE];
} ucxpool_window_attr_t;

/* Query a window. The strings are copies. attr_size is sizeof(*attr_p), see
 * ucxpool.h. */
void ucxpool_window_query(const ucxpool_window_t *window,
                          ucxpool_window_attr_t *attr_p, size_t attr_size);

/* --- the peer's side ------------------------------------------------------ */

/* A remote window: a peer's window, imported here. */
typedef struct ucxpool_remote_window ucxpool_remote_window_t;

/*
 * Import a window of the channel's peer. Returns at once; the library then
 * requests access from the owner. Reads and writes that are posted before the
 * owner answers wait for the answer. If the owner refuses access, these reads
 * and writes fail with UCXPOOL_ERR_REFUSED, and the detail gives the owner's
 * reason.
 *
 * blob          From the owner's ucxpool_window_export().
 * remote_p [out]  Release it with ucxpool_remote_window_release(); otherwise
 *                 ucxpool_destroy() releases it.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the blob is damaged (its checksum does not match),
 *                            or its window belongs to a pool other than the
 *                            channel's peer
 * UCXPOOL_ERR_PROTOCOL       the blob has a different protocol version
 * UCXPOOL_ERR_CLOSED         the channel was closed; for a failed channel, the
 *                            channel's own error instead
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t
ucxpool_remote_window_import(ucxpool_channel_t *channel, const void *blob,
                             size_t                    blob_size,
                             ucxpool_remote_window_t **remote_p);

/* Release a remote window. Reads and writes in progress continue. When they
 * have ended, the owner is notified. NULL is allowed. */
void ucxpool_remote_window_release(ucxpool_remote_window_t *remote);

typedef enum ucxpool_way {
    UCXPOOL_WAY_NONE     = 0, /* not known yet */
    UCXPOOL_WAY_MESSAGES = 1,
    UCXPOOL_WAY_PROCESS  = 2,
    UCXPOOL_WAY_CUDA     = 3,
    UCXPOOL_WAY_MAPPED   = 4,
    UCXPOOL_WAY_RMA      = 5
} ucxpool_way_t;

typedef struct ucxpool_remote_window_attr {
    /* UCXPOOL_INPROGRESS: the owner has not answered yet. UCXPOOL_OK: usable.
     * Any other status: the window cannot be used, and reason contains the
     * cause. */
    ucxpool_status_t status;
    char             reason[UCXPOOL_REASON_SIZE];
    size_t           length; /* size of the window, in bytes */
    unsigned         access; /* ucxpool_window_access_t */
    ucxpool_way_t    way;    /* of reads, or of writes if the blob grants only
                                writing */
    char way_reason[UCXPOOL_REASON_SIZE]; /* why this way was
                                             selected */
    ucxpool_channel_t *channel;           /* NULL if it has been closed */
} ucxpool_remote_window_attr_t;

/* Query a remote window. The strings are copies. attr_size is sizeof(*attr_p),
 * see ucxpool.h. */
void ucxpool_remote_window_query(const ucxpool_remote_window_t *remote,
                                 ucxpool_remote_window_attr_t  *attr_p,
                                 size_t                         attr_size);

/* A place is a range in a window. */
typedef struct ucxpool_place {
    uint64_t offset; /* from the window's first byte */
    uint64_t length;
} ucxpool_place_t;

/*
 * An ordered list of places. Create one with ucxpool_places() or
 * ucxpool_places_even(). The arrays to which the list points must stay
 * unchanged until the request ends; an array of one element is copied.
 */
typedef struct ucxpool_place_list {
    const ucxpool_place_t *places;  /* NULL: all have the same length */
    const uint64_t        *offsets; /* used if places is NULL */
    size_t                 count;
    uint64_t length; /* length of each place; used if places is NULL */
    uint64_t reserved[2];
} ucxpool_places_t;

/* Create a list of places, each with its own length. */
ucxpool_places_t ucxpool_places(const ucxpool_place_t *places, size_t count);

/*
 * Create a list of equal-length places at these offsets. This form is faster
 * for many short places, especially if a GPU itself reads the array of offsets
 * and the array of local addresses (ucxpool_data_pieces()). The GPU does so if
 * there are at least 4,096 places, and both arrays are in pinned memory (from
 * ucxpool_device_list_alloc() or from CUDA). The GPU then also checks the
 * offsets. If a place is beyond the window's end, the GPU skips it, and the
 * request ends with UCXPOOL_ERR_INVALID_PARAM. The other places may or may not
 * have been transferred.
 */
ucxpool_places_t ucxpool_places_even(const uint64_t *offsets, size_t count,
                                     uint64_t length);

/*
 * Read places of a peer's window into local memory. The bytes of the places are
 * stored one after the other in the memory that `data` describes. The segments
 * of this memory need not match the places, and the memory may be longer than
 * the total length of the places.
 *
 * data       Where to put the bytes; see ucxpool_data_buffer() and the other
 *            functions in transfer.h.
 * params     NULL for none. With UCXPOOL_REQUEST_PARAM_FIELD_NOTIFY the owner
 *            gets an empty message after all bytes have been read. The message
 *            has notify_tag and the metadata; the owner receives it with
 *            ucxpool_recv().
 * request_p  [out] As for ucxpool_send(); NULL for none.
 *
 * The request ends with
 * UCXPOOL_OK            the bytes have arrived
 * UCXPOOL_ERR_REFUSED   the owner refused access; the detail contains the
 *                       reason
 * UCXPOOL_ERR_CANCELED  canceled here, or the owner has revoked the window
 * UCXPOOL_ERR_INVALID_PARAM  a piece or place is invalid in a list that only
 *                            the GPU has read; the detail contains its number
 * UCXPOOL_ERR_TIMED_OUT, UCXPOOL_ERR_PEER_LOST, UCXPOOL_ERR_CLOSED,
 * UCXPOOL_ERR_CHECKSUM, or the error with which the channel has failed
 *
 * After an error, the local memory may contain some of the bytes. The library
 * no longer writes to this memory.
 *
 * Returned at once, without a request:
 * UCXPOOL_ERR_INVALID_PARAM  a place exceeds the window's end; the memory of
 *                            `data` is shorter than all places together; the
 *                            sum of the lengths overflows; an argument is NULL
 * UCXPOOL_ERR_PERMISSION     the blob does not grant reading
 * UCXPOOL_ERR_LIMIT          more than 1 Mi places; more metadata than
 *                            MAX_METADATA
 * UCXPOOL_ERR_NO_MEMORY, and the status of a remote window that has failed
 */
ucxpool_status_t ucxpool_remote_window_read(
    ucxpool_remote_window_t *remote, const ucxpool_places_t *places,
    const ucxpool_data_t *data, const ucxpool_request_params_t *params,
    ucxpool_request_t **request_p);

/*
 * Write local memory to places of a peer's window. The bytes of the data fill
 * all places, one after the other.
 *
 * data  As for ucxpool_send(), but ranges are not allowed. The length of the
 *       data must be the total length of all places.
 *
 * The request ends with UCXPOOL_OK when all bytes are in the window.
 * Otherwise it ends with one of the errors of ucxpool_remote_window_read(), and
 * some of the places may have been written. The errors that are returned at
 * once are also the same, but UCXPOOL_ERR_PERMISSION means that the blob does
 * not grant writing. A notification is delivered after the bytes have been
 * written.
 *
 * Long reads and long writes of windows on GPUs are executed one at a time. The
 * operations of one channel are executed in the order in which they were
 * posted. The channels take turns, so that they share the bandwidth evenly. The
 * operation that was posted first gets the first turn. If several pools write
 * to all others, pool i should begin with pool i + 1, so that each pool begins
 * with a different target.
 */
ucxpool_status_t ucxpool_remote_window_write(
    ucxpool_remote_window_t *remote, const ucxpool_places_t *places,
    const ucxpool_data_t *data, const ucxpool_request_params_t *params,
    ucxpool_request_t **request_p);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
