/*
 * Windows: memory of the caller's that peers read and write by themselves.
 *
 *     owner                                   peer
 *     ucxpool_window_create()
 *     ucxpool_window_export()  -- blob -->    ucxpool_window_import()
 *                                             ucxpool_read(), ucxpool_write()
 *     ucxpool_window_destroy()                ucxpool_remote_release()
 *
 * A window is for what lives long: pages of a cache, columns of a store. It is
 * made known once, and then used for as long as it lives. The owner takes no
 * part in a read or a write, but that its pool must progress where the bytes go
 * by messages.
 *
 * How the bytes go is found out when a window is imported, and told by
 * ucxpool_remote_query():
 *
 *     UCXPOOL_WAY_MAPPED    one host, one user, and memory of a file that both
 *                           map: the pool's own (ucxpool_heap_alloc();
 *                           ucxpool_comm_alloc(), for reading), or that of a
 *                           file which the owner names
 *                           (UCXPOOL_WINDOW_PARAM_FIELD_FD). The peer's
 *                           processor copies, without a call of the system for
 *                           each piece. The owner does nothing
 *     UCXPOOL_WAY_PROCESS   one host, one user: the peer's processor copies
 *                           from or to the owner's memory, whatever memory of
 *                           the host that is, by calls of the system, which
 *                           take several times as long as the copy itself. The
 *                           owner does nothing. Where its processor is free
 *                           anyway, WINDOW_WAY=messages is quicker for more
 *                           than some KiB
 *     UCXPOOL_WAY_CUDA      one host, one user, both pools on GPUs that reach
 *                           each other, and memory of cuMemAlloc(), of a
 *                           driver's memory pool whose handle is a file, or
 *                           virtual memory (cuMemCreate()) of at most 128
 *                           allocations whose handles are files, as the pool's
 *                           heap is: the peer's GPU copies, from scattered
 *                           pieces to scattered pieces, by one kernel. The
 *                           owner does nothing
 *     UCXPOOL_WAY_RMA       any peer on the `ucx` wire, where UCX's transports
 *                           get and put by themselves (RDMA, NVLink): long
 *                           pieces go so, and the owner does nothing. An
 *                           operation whose pieces are short, under 32 KiB in
 *                           the mean, goes by messages. The window is
 *                           registered with UCX, once, when the first such peer
 *                           imports it, up to WINDOW_BUDGET. With
 *                           WINDOW_WAY=direct all pieces go so. Over other
 *                           transports (TCP) UCX would make messages of it,
 *                           which are no faster than ours, and a peer that dies
 *                           in one takes the owner's process along: there
 *                           windows go by messages
 *     UCXPOOL_WAY_MESSAGES  any peer: the owner's pool packs what is read, or
 *                           puts in its place what is written, as with
 *                           ucxpool_send() and ucxpool_recv()
 *
 * The first of these that is possible is taken. Memory of the pool's must live
 * as long as the window: what is freed under it is somebody else's, and is read
 * and written all the same.
 *
 * The blob is a capability: who has it, and a channel to the owner's pool, can
 * do what it was made for. Keep it from strangers. What the library holds a
 * peer to is not what the system does: a process of the same user may reach
 * all memory of another one anyway, as far as the rules on debugging let it;
 * one that maps a file can reach all of it; one that imports memory of a GPU
 * has CUDA's handle of the whole allocation, for reading and for writing; one
 * that was given UCX's key of a window can do both with all of it, until its
 * channel's endpoint is closed.
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
    const char *name; /* for errors and the log; at most 31 bytes are kept */
    /*
     * A memory file (memfd_create()) that the memory is a shared mapping of,
     * wherever in it: peers of the host and user map it. It must be sealed
     * against shrinking (F_SEAL_SHRINK), since a file that is cut short kills
     * those who read it; one that is not, or has less memory behind it than the
     * window has bytes, is not mapped, and the remote's way_reason says why.
     * The descriptor stays the caller's, who may close it. In a pool on a GPU
     * it has no effect.
     */
    int fd;
} ucxpool_window_params_t;

/*
 * Make memory known as a window.
 *
 * address      Memory of any origin that the pool could send from. It stays the
 *              caller's, and must stay there until the window is destroyed, or
 *              ucxpool_window_revoke() has said UCXPOOL_OK.
 * length       Bytes, 1 or more.
 * params       NULL for none.
 * window_p [out]  Released by ucxpool_window_destroy() or ucxpool_destroy().
 *
 * UCXPOOL_ERR_INVALID_PARAM  address is NULL, length is 0, or both together go
 *                            beyond the end of all addresses; the memory is no
 *                            shared mapping of the file that is given; in a
 *                            pool on a GPU: there is no memory
 * UCXPOOL_ERR_UNSUPPORTED    it lies on a GPU that the pool's does not reach
 * UCXPOOL_ERR_CLOSED         the pool is being destroyed
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t ucxpool_window_create(ucxpool_t *pool, void *address,
                                       size_t                         length,
                                       const ucxpool_window_params_t *params,
                                       ucxpool_window_t             **window_p);

/* What a blob lets its holder do; both may be ored. */
typedef enum ucxpool_window_access {
    UCXPOOL_WINDOW_READ  = 1u << 0,
    UCXPOOL_WINDOW_WRITE = 1u << 1
} ucxpool_window_access_t;

/* Bytes of a blob. */
#define UCXPOOL_WINDOW_BLOB_SIZE 64

/*
 * A blob by which peers import the window.
 *
 * access      ucxpool_window_access_t, one or both.
 * blob [out]  UCXPOOL_WINDOW_BLOB_SIZE bytes, to be handed to peers in any way:
 *             in a message, say. All blobs of a window with the same access are
 *             the same.
 *
 * UCXPOOL_ERR_INVALID_PARAM  access is 0 or has other bits
 * UCXPOOL_ERR_CANCELED       the window has been revoked
 */
ucxpool_status_t ucxpool_window_export(const ucxpool_window_t *window,
                                       unsigned access, void *blob);

/*
 * Stop all access by peers: imports are refused from now on, and reads and
 * writes that peers have under way end with UCXPOOL_ERR_CANCELED. Progresses
 * until no peer accesses the memory, or the time is over. When a peer stops
 * depends on how it accesses the window:
 *
 *     mapped, process  at the end of the step of its copy that is under way, of
 *                      1 MiB at most. A peer that is not copying need not
 *                      progress
 *     messages         at once, as soon as this pool has ended its copies. Over
 *                      `ucx`, when UCX has ended what it moves in place
 *     CUDA             when the peer progresses, or its process has ended
 *     RMA              the same, or when its endpoint is closed
 *
 * Does not wait for a peer whose channel failed with UCXPOOL_ERR_PROTOCOL: it
 * may still write where it has mapped the memory.
 *
 * UCXPOOL_OK          no peer accesses the memory
 * UCXPOOL_INPROGRESS  a peer still may: call again
 */
ucxpool_status_t ucxpool_window_revoke(ucxpool_window_t *window,
                                       uint64_t          timeout_ns);

/*
 * Revoke a window, wait as ucxpool_window_revoke() does, for CLOSE_TIMEOUT at
 * most, and release it. NULL is allowed.
 *
 * A peer that still accesses the memory after CLOSE_TIMEOUT is abandoned, and
 * logged as a warning with its channel and the window. How it accesses the
 * window decides what it may still do:
 *
 *     mapped, process  finish one step of a copy, of 1 MiB at most. This takes
 *                      a process that was stopped (SIGSTOP, a debugger) in the
 *                      middle of that step
 *     CUDA             finish the kernels that it has launched, and launch more
 *                      until it progresses
 *     RMA, messages    nothing: its channel fails with UCXPOOL_ERR_TIMED_OUT,
 *                      which closes its endpoint. That takes 1 s more at most.
 *                      The caller's own endpoint must be closed by the caller
 *
 * To be certain, call ucxpool_window_revoke() until it returns UCXPOOL_OK, and
 * keep the memory until then. Over `ucx`, keep progressing afterwards as long
 * as peers may have been reading or writing by messages: a channel whose bytes
 * do not move for 250 ms fails.
 */
void ucxpool_window_destroy(ucxpool_window_t *window);

typedef struct ucxpool_window_attr {
    char     name[UCXPOOL_NAME_SIZE]; /* "": it has none */
    void    *address;
    size_t   length;
    unsigned num_peers; /* channels over which it is imported */
    int      is_revoked;
    size_t   registered; /* bytes registered with UCX: all or none */
    /* Why a peer that asked for that was not given it, the last time; "". */
    char not_registered[UCXPOOL_REASON_SIZE];
} ucxpool_window_attr_t;

/* What a window is. The strings are copies. attr_size is sizeof(*attr_p), see
 * ucxpool.h. */
void ucxpool_window_query(const ucxpool_window_t *window,
                          ucxpool_window_attr_t *attr_p, size_t attr_size);

/* --- the peer's side ------------------------------------------------------ */

/* A window of a peer's. */
typedef struct ucxpool_remote ucxpool_remote_t;

/*
 * Import a window of the channel's peer. Returns at once: the owner is asked,
 * and reads and writes that are posted meanwhile wait for its answer. Where it
 * refuses they end with UCXPOOL_ERR_REFUSED and its reason.
 *
 * blob          From the owner's ucxpool_window_export().
 * remote_p [out]  Released by ucxpool_remote_release().
 *
 * UCXPOOL_ERR_INVALID_PARAM  the blob is damaged (it has a checksum), or a
 *                            window's of another pool than the channel's peer
 * UCXPOOL_ERR_PROTOCOL       it is of another version of libucxpool
 * UCXPOOL_ERR_CLOSED, UCXPOOL_ERR_PEER_LOST  the channel has ended
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t ucxpool_window_import(ucxpool_channel_t *channel,
                                       const void *blob, size_t blob_size,
                                       ucxpool_remote_t **remote_p);

/* Release it. Reads and writes that are under way go on; then the owner is
 * told. NULL is allowed. */
void ucxpool_remote_release(ucxpool_remote_t *remote);

typedef enum ucxpool_way {
    UCXPOOL_WAY_NONE     = 0, /* not known yet */
    UCXPOOL_WAY_MESSAGES = 1,
    UCXPOOL_WAY_PROCESS  = 2,
    UCXPOOL_WAY_CUDA     = 3,
    UCXPOOL_WAY_MAPPED   = 4,
    UCXPOOL_WAY_RMA      = 5
} ucxpool_way_t;

typedef struct ucxpool_remote_attr {
    /* UCXPOOL_INPROGRESS: the owner has not answered yet; UCXPOOL_OK; or why
     * it cannot be used (any more), and reason has the same in words. */
    ucxpool_status_t status;
    char             reason[UCXPOOL_REASON_SIZE];
    size_t           length; /* bytes of the window */
    unsigned         access; /* ucxpool_window_access_t */
    ucxpool_way_t    way;    /* of reads; of writes, if it is for these alone */
    char             way_reason[UCXPOOL_REASON_SIZE]; /* why this way and no
                                                         other */
    ucxpool_channel_t *channel; /* NULL when it has been closed */
} ucxpool_remote_attr_t;

/* What is known of a peer's window. The strings are copies. attr_size is
 * sizeof(*attr_p), see ucxpool.h. */
void ucxpool_remote_query(const ucxpool_remote_t *remote,
                          ucxpool_remote_attr_t *attr_p, size_t attr_size);

/* A piece of a window. */
typedef struct ucxpool_place {
    uint64_t offset; /* from the window's first byte */
    uint64_t length;
} ucxpool_place_t;

/*
 * Which bytes of a window, in which order. Made by ucxpool_places() or
 * ucxpool_places_even(). What it points to must stay unchanged until the
 * request ends; an array of one is copied.
 */
typedef struct ucxpool_places {
    const ucxpool_place_t *places;  /* NULL: they have one length */
    const uint64_t        *offsets; /* then these */
    size_t                 count;
    uint64_t               length; /* of each, with offsets */
    uint64_t               reserved[2];
} ucxpool_places_t;

static inline ucxpool_places_t ucxpool_places(const ucxpool_place_t *places,
                                              size_t                 count)
{
    ucxpool_places_t list = {places, NULL, count, 0, {0, 0}};

    return list;
}

/*
 * Pieces of one length at these offsets. For many short ones it is quicker,
 * above all where a GPU can read the lists itself: 4,096 pieces or more, the
 * offsets and the addresses of our own pieces (ucxpool_data_pieces()) in arrays
 * in pinned memory (ucxpool_device_list_alloc(), or CUDA's own). It is also the
 * GPU then that finds a place beyond the window's end: that one is left out,
 * others are moved or not, and the request ends with UCXPOOL_ERR_INVALID_PARAM.
 */
static inline ucxpool_places_t
ucxpool_places_even(const uint64_t *offsets, size_t count, uint64_t length)
{
    ucxpool_places_t list = {NULL, offsets, count, length, {0, 0}};

    return list;
}

/*
 * Read places of a peer's window into memory here: the bytes of the places, one
 * after the other, fill the data, which may be cut in another way and may be
 * longer.
 *
 * data       To receive into; see ucxpool_data_buffer() and others.
 * params     NULL for none. With UCXPOOL_REQUEST_PARAM_FIELD_NOTIFY the owner
 *            gets a message when all is read, without bytes, with notify_tag
 *            and the metadata, which it receives by ucxpool_recv().
 * request_p  [out] As ucxpool_send(); NULL for none.
 *
 * The request ends with
 * UCXPOOL_OK            the bytes are here
 * UCXPOOL_ERR_REFUSED   the owner does not allow it; the detail has its reason
 * UCXPOOL_ERR_CANCELED  canceled here, or the owner has revoked the window
 * UCXPOOL_ERR_INVALID_PARAM  a piece or a place of a list that only a GPU has
 *                            read cannot be; the detail tells its number
 * UCXPOOL_ERR_TIMED_OUT, UCXPOOL_ERR_PEER_LOST, UCXPOOL_ERR_CLOSED,
 * UCXPOOL_ERR_CHECKSUM
 *
 * After an error the data may hold some of the bytes; nothing writes to them
 * any more.
 *
 * Returned at once, with no request made:
 * UCXPOOL_ERR_INVALID_PARAM  a place goes beyond the window's end; the data are
 *                            shorter than the places together; lengths
 *                            overflow; an argument is NULL
 * UCXPOOL_ERR_PERMISSION     the blob was not made for reading
 * UCXPOOL_ERR_LIMIT          more places than a list may have (1 Mi); more
 *                            metadata than MAX_METADATA
 * UCXPOOL_ERR_NO_MEMORY, and what the remote has ended with
 */
ucxpool_status_t ucxpool_read(ucxpool_remote_t               *remote,
                              const ucxpool_places_t         *places,
                              const ucxpool_data_t           *data,
                              const ucxpool_request_params_t *params,
                              ucxpool_request_t             **request_p);

/*
 * Write memory from here to places of a peer's window: the bytes of the data
 * fill the places, one after the other, all of them.
 *
 * data  As for ucxpool_send(), except ranges; as long as the places together.
 *
 * The request ends with UCXPOOL_OK when the bytes are in their places, and
 * otherwise as that of ucxpool_read(). After an error some of the places may
 * have been written. Errors that are returned at once: likewise, and
 * UCXPOOL_ERR_PERMISSION where the blob was not made for writing. A
 * notification comes after the bytes.
 *
 * Long reads, and long writes, of the windows of GPUs go one after the other,
 * in the order in which they are posted, as far as one channel does not get
 * more than the others. Where each of several pools writes to all, let each
 * begin with another: number i with i + 1.
 */
ucxpool_status_t ucxpool_write(ucxpool_remote_t               *remote,
                               const ucxpool_places_t         *places,
                               const ucxpool_data_t           *data,
                               const ucxpool_request_params_t *params,
                               ucxpool_request_t             **request_p);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
