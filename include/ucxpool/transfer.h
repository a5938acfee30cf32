/*
 * Sending and receiving.
 *
 * A message is data, a 64-bit tag, and up to MAX_METADATA bytes of the caller's
 * own metadata. It arrives whole or not at all. ucxpool_send_buffer() and
 * ucxpool_recv_buffer() are for data in one buffer; ucxpool_send(),
 * ucxpool_recv() and ucxpool_message_recv() for data of any form, which a
 * ucxpool_data_t describes. The receiver's data need not be cut like the
 * sender's: the bytes of the message are the sender's segments one after the
 * other, and they fill the receiver's segments one after the other.
 *
 *     sender's segments     [ 100 ][    4096    ][ 0 ][  7 ]
 *     message               4203 bytes, 4 lengths, tag, metadata
 *     receiver's segments   [        4203        ]      (or as the sender's,
 *                                                        or any other cut)
 *
 * Segments may have any alignment and any length, 0 included. What lies in
 * ucxpool_comm_alloc() memory is sent and received in place; so are long
 * segments in any memory over the `ucx` wire, where the machine has no RDMA
 * device. Everything else is packed.
 *
 * Order. Messages of one channel that match the same receive are received in
 * the order in which they were sent. A receive takes the oldest message that
 * matches; a message takes the oldest receive.
 */
#ifndef UCXPOOL_TRANSFER_H
#define UCXPOOL_TRANSFER_H

#include <ucxpool/channel.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* --- data -------------------------------------------------------------------
 * Where the bytes of a message are, or where they go. A description is made by
 * one of seven functions:
 *
 *                 to send or receive into   to send only (const)
 *     one buffer  ucxpool_data_buffer()     ucxpool_source_buffer()
 *     segments    ucxpool_data_segments()   ucxpool_source_segments()
 *     pieces      ucxpool_data_pieces()     ucxpool_source_pieces()
 *     ranges      -                         ucxpool_source_ranges()
 *
 * The description may go as soon as the call that it was made for has returned.
 * What it points to, arrays, memory and names, must stay unchanged until the
 * request ends; an array of one is copied.
 *
 * Pieces are segments that all have one length. For many short ones they are
 * quicker, for the array is half as long and nobody need add it up. In a pool
 * on a GPU, where the params say UCXPOOL_SEGMENTS_CUDA, the array is read as
 * its pieces are moved: by the GPU itself if it lies in pinned memory
 * (cuMemHostAlloc(), cudaMallocHost()) and has 4,096 addresses or more.
 * So it is with 4,096 segments or more in a pinned array that turn out to have
 * one length, of less than 512 bytes, and to lie in one allocation; these are
 * looked through once, when they are posted, but not where the params say
 * UCXPOOL_SEGMENTS_EVEN.
 *
 * Ranges are of memory and of files, in any order; to the receiver each is a
 * segment. A file is read as its bytes go to the wire, not mapped, and by its
 * offset, so that the descriptor's own position does not move. Descriptors are
 * the caller's: they must stay open until the request ends, be of regular files
 * or block devices, and not need aligned memory (O_DIRECT). Reading may wait
 * for the device, in ucxpool_progress() and the functions that wait, and for
 * messages of up to EAGER_SIZE bytes in ucxpool_send() too; beside such
 * messages one round of progress reads one block at the most. Ranges that
 * follow each other in one file are read together.
 */

/* Length bytes from address (NULL is fine for length 0). */
typedef struct ucxpool_segment {
    void  *address;
    size_t length;
} ucxpool_segment_t;

/* The same of memory that is only read. */
typedef struct ucxpool_const_segment {
    const void *address;
    size_t      length;
} ucxpool_const_segment_t;

typedef enum ucxpool_range_kind {
    UCXPOOL_RANGE_MEMORY = 0,
    UCXPOOL_RANGE_FILE   = 1
} ucxpool_range_kind_t;

/* Length bytes of memory, or of a file; with length 0 the rest does not matter.
 * Made by ucxpool_range_memory() and ucxpool_range_file(). */
typedef struct ucxpool_range {
    ucxpool_range_kind_t kind;
    int                  fd; /* of a file */
    union {
        const void *address;
        int64_t     offset; /* in the file */
    } at;
    size_t      length;
    const char *name; /* of a file, for errors. NULL: as /proc has it */
} ucxpool_range_t;

typedef enum ucxpool_data_kind {
    UCXPOOL_DATA_BUFFER   = 0,
    UCXPOOL_DATA_SEGMENTS = 1,
    UCXPOOL_DATA_PIECES   = 2,
    UCXPOOL_DATA_RANGES   = 3
} ucxpool_data_kind_t;

typedef struct ucxpool_data {
    ucxpool_data_kind_t kind;
    int                 is_source; /* 0, or 1: to send only */
    union {
        const void                    *buffer;
        const ucxpool_const_segment_t *segments;
        const void *const             *pieces;
        const ucxpool_range_t         *ranges;
    } at;
    size_t   count;       /* of segments, pieces or ranges; 1 buffer */
    size_t   length;      /* bytes of the buffer, or of each piece */
    uint64_t reserved[4]; /* 0 */
} ucxpool_data_t;

static inline ucxpool_data_t ucxpool_source_buffer(const void *address,
                                                   size_t      length)
{
    ucxpool_data_t data = {UCXPOOL_DATA_BUFFER, 1, {NULL}, 1, length, {0}};

    data.at.buffer = address;
    return data;
}

static inline ucxpool_data_t
ucxpool_source_segments(const ucxpool_const_segment_t *segments, size_t count)
{
    ucxpool_data_t data = {UCXPOOL_DATA_SEGMENTS, 1, {NULL}, count, 0, {0}};

    data.at.segments = segments;
    return data;
}

/* With length 0 the addresses do not matter. */
static inline ucxpool_data_t ucxpool_source_pieces(const void *const *addresses,
                                                   size_t count, size_t length)
{
    ucxpool_data_t data = {UCXPOOL_DATA_PIECES, 1, {NULL}, count, length, {0}};

    data.at.pieces = addresses;
    return data;
}

static inline ucxpool_range_t ucxpool_range_memory(const void *address,
                                                   size_t      length)
{
    ucxpool_range_t range = {UCXPOOL_RANGE_MEMORY, -1, {NULL}, length, NULL};

    range.at.address = address;
    return range;
}

static inline ucxpool_range_t
ucxpool_range_file(int fd, int64_t offset, size_t length, const char *name)
{
    ucxpool_range_t range = {UCXPOOL_RANGE_FILE, fd, {NULL}, length, name};

    range.at.offset = offset;
    return range;
}

static inline ucxpool_data_t
ucxpool_source_ranges(const ucxpool_range_t *ranges, size_t count)
{
    ucxpool_data_t data = {UCXPOOL_DATA_RANGES, 1, {NULL}, count, 0, {0}};

    data.at.ranges = ranges;
    return data;
}

static inline ucxpool_data_t ucxpool_data_buffer(void *address, size_t length)
{
    ucxpool_data_t data = ucxpool_source_buffer(address, length);

    data.is_source = 0;
    return data;
}

static inline ucxpool_data_t
ucxpool_data_segments(const ucxpool_segment_t *segments, size_t count)
{
    ucxpool_data_t data = ucxpool_source_segments(
        (const ucxpool_const_segment_t *)segments, count);

    data.is_source = 0;
    return data;
}

static inline ucxpool_data_t ucxpool_data_pieces(void *const *addresses,
                                                 size_t count, size_t length)
{
    ucxpool_data_t data =
        ucxpool_source_pieces((const void *const *)addresses, count, length);

    data.is_source = 0;
    return data;
}

/* --- requests ---------------------------------------------------------------
 */

/* One send or receive in progress. */
typedef struct ucxpool_request ucxpool_request_t;

/* One message that has arrived (its descriptor at least) and is not received
 * yet. */
typedef struct ucxpool_message ucxpool_message_t;

/*
 * Called once when a request ends, from ucxpool_progress() and the functions
 * that wait or destroy, with no lock held. Never called from the function that
 * posts the request, even if the request ends there. May call anything but
 * ucxpool_destroy(), and may release the request.
 *
 * Other functions report the end only after the callback has returned:
 * ucxpool_request_test(), ucxpool_request_wait(), ucxpool_request_query() and
 * ucxpool_completion_get(). So what the callback uses may be freed as soon as
 * any of them has reported the end. Inside the callback, in its thread, test,
 * wait and query report the end already. Do not wait for a request while
 * holding a lock that its callback takes: another thread may be in the
 * callback.
 */
typedef void (*ucxpool_request_cb_t)(ucxpool_request_t *request,
                                     ucxpool_status_t status, void *arg);

typedef enum ucxpool_request_params_field {
    UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK   = 1u << 0,
    UCXPOOL_REQUEST_PARAM_FIELD_METADATA   = 1u << 1,
    UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT    = 1u << 2,
    UCXPOOL_REQUEST_PARAM_FIELD_STREAM     = 1u << 3,
    UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS   = 1u << 4,
    UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION = 1u << 5,
    UCXPOOL_REQUEST_PARAM_FIELD_NOTIFY     = 1u << 6
} ucxpool_request_params_field_t;

/* What the segments of a request are, for pools of UCXPOOL_MEMORY_CUDA. */
typedef enum ucxpool_segments_kind {
    UCXPOOL_SEGMENTS_ANY = 0,  /* the CUDA driver is asked, once for each
                                  allocation that the list leads to */
    UCXPOOL_SEGMENTS_CUDA = 1, /* all are such that the pool's GPU reaches
                                  them: device, managed or pinned memory. The
                                  caller answers for it: where it is not so,
                                  the GPU's context breaks */
    UCXPOOL_SEGMENTS_HOST = 2, /* all are host memory, pinned or not, and the
                                  processor copies them. The caller answers for
                                  it: where it is not so, the process dies.
                                  Nothing else is known of pageable memory
                                  without a question for each segment */
    UCXPOOL_SEGMENTS_EVEN = 3  /* as CUDA, and all have the length of the first
                                  one: of many short ones, in pinned memory,
                                  nobody but the GPU looks at the array then.
                                  A request of which it is not so may end with
                                  UCXPOOL_ERR_INVALID_PARAM, and the detail
                                  names the segment */
} ucxpool_segments_kind_t;

/* A stream that there is nothing to wait for in. */
#define UCXPOOL_STREAM_READY ((void *)-1)

/* Only the fields named in field_mask are read. */
typedef struct ucxpool_request_params {
    uint64_t             field_mask;
    ucxpool_request_cb_t callback;
    void                *callback_arg; /* given with callback */
    /* Send only: bytes that travel with the descriptor. Copied. */
    const void *metadata;
    size_t      metadata_length; /* at most MAX_METADATA */
    /*
     * Deadline: the request ends with UCXPOOL_ERR_TIMED_OUT when it has not
     * completed this many nanoseconds from now. Default: REQUEST_TIMEOUT.
     */
    uint64_t timeout_ns;
    /*
     * For pools of UCXPOOL_MEMORY_CUDA: a CUstream (or cudaStream_t). The
     * segments are read, or written, only after what is in that stream when
     * the request is posted. Default: NULL, the legacy default stream, which
     * itself comes after all streams of its context that were not made
     * non-blocking. UCXPOOL_STREAM_READY: at once. Each request puts a word
     * in the stream; where the stream stands still and has as much to do as the
     * driver takes, about 1,000 operations, the call waits as any other would.
     * When a request has ended, nothing reads or writes the segments any more,
     * and kernels that are launched from then on see what was received.
     */
    void                   *stream;
    ucxpool_segments_kind_t segments_kind;
    /*
     * Tell of the request's end by ucxpool_completion_get(), with this pointer
     * (NULL will do). A callback may be given, too.
     */
    void *completion_ptr;
    /* For ucxpool_read() and ucxpool_write(): the tag of a message to the
     * window's owner when all is done. */
    uint64_t notify_tag;
} ucxpool_request_params_t;

/*
 * Send data as one message.
 *
 * data         See above.
 * params       NULL for none.
 * request_p    [out] The request, to be released by ucxpool_request_release().
 *              NULL: the library releases it when it ends.
 *
 * The request ends with
 * UCXPOOL_OK                 the receiver has the message. A message of up to
 *                            EAGER_SIZE bytes, none of which the pool's GPU
 *                            reaches, ends earlier, when its bytes were copied,
 *                            unless the receiver already holds CREDITS such
 *                            messages that it has not received
 * UCXPOOL_ERR_REFUSED        the receiver refused; the detail has its reason
 * UCXPOOL_ERR_CANCELED       canceled here, or the receive there was
 * UCXPOOL_ERR_TIMED_OUT      the deadline passed
 * UCXPOOL_ERR_PEER_LOST      the peer died or cannot be reached
 * UCXPOOL_ERR_LIMIT          the receiver has MAX_UNEXPECTED messages that it
 *                            has not received, and UNEXPECTED_FULL is `fail`
 * UCXPOOL_ERR_INVALID_PARAM  a piece is NULL that was looked at late (a pool on
 *                            a GPU, UCXPOOL_SEGMENTS_CUDA); the detail names it
 * UCXPOOL_ERR_IO             a file cannot be read, or ends before its range
 *                            does; the detail has its name, the offset and the
 *                            reason. The receive ends with
 *                            UCXPOOL_ERR_CANCELED and the same detail; of a
 *                            message of up to EAGER_SIZE bytes see below
 *
 * After any end the caller's memory and descriptors are the caller's again.
 *
 * The receiver does not learn of a message that ends before it is announced. A
 * receive posted for it stays in progress and takes the next message that
 * matches. This happens, over both wires, if a range of a file in a message of
 * up to EAGER_SIZE bytes cannot be read, or if a send is canceled or times out
 * while it waits for its turn.
 *
 * Long messages to several GPUs take turns as ucxpool_write() does; the order
 * in which they are posted matters as there.
 *
 * Returned at once, with no request made:
 * UCXPOOL_ERR_INVALID_PARAM  lengths overflow, a NULL address with a length; in
 *                            a pool on a GPU: memory that is not there; a range
 *                            whose descriptor is not open, or whose offset is
 *                            negative or beyond what a file can have
 * UCXPOOL_ERR_UNSUPPORTED    a segment lies on another GPU than the pool; a
 *                            range is of a pipe, a socket or another file
 *                            without offsets; or this library is older than
 *                            the kind of data or range
 * UCXPOOL_ERR_LIMIT          more metadata or more differing segment lengths
 *                            than MAX_METADATA, MAX_SEGMENTS
 * UCXPOOL_ERR_CLOSED, UCXPOOL_ERR_PEER_LOST  the channel has ended
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t ucxpool_send(ucxpool_channel_t    *channel,
                              const ucxpool_data_t *data, uint64_t tag,
                              const ucxpool_request_params_t *params,
                              ucxpool_request_t             **request_p);

/* The same for one buffer. */
ucxpool_status_t ucxpool_send_buffer(ucxpool_channel_t *channel,
                                     const void *address, size_t length,
                                     uint64_t                        tag,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p);

/*
 * Receive a message.
 *
 * channel      A channel of this pool: receive from this peer only. NULL: from
 *              any channel of the pool.
 * data         Where to. It must hold the message, which may be shorter, and
 *              must not be a source.
 * tag, mask    Messages match whose tag equals `tag` in the bits of `mask`;
 *              mask 0 takes every message.
 *
 * The request ends with
 * UCXPOOL_OK             all bytes are there; ucxpool_request_query() tells
 *                        how many
 * UCXPOOL_ERR_TRUNCATED  the message is longer than the data; it is gone, and
 *                        its sender was told (probe first to avoid this)
 * UCXPOOL_ERR_INVALID_PARAM  a piece is NULL that was looked at late, as for
 *                        sends. The sender's request ends with
 *                        UCXPOOL_ERR_REFUSED
 * UCXPOOL_ERR_CANCELED   canceled here or by the sender, or the channel was
 *                        closed here
 * UCXPOOL_ERR_CLOSED     the peer closed the channel
 * UCXPOOL_ERR_TIMED_OUT, UCXPOOL_ERR_PEER_LOST, UCXPOOL_ERR_CHECKSUM,
 * UCXPOOL_ERR_PROTOCOL
 *
 * After an error the memory may hold a part of the message; nothing writes to
 * it any more.
 *
 * Returned at once, with no request made:
 * UCXPOOL_ERR_INVALID_PARAM  the channel belongs to another pool; the data is a
 *                            source; lengths overflow, or an address is NULL
 *                            with a length
 * UCXPOOL_ERR_CLOSED, UCXPOOL_ERR_PEER_LOST  the channel has ended
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t ucxpool_recv(ucxpool_t *pool, ucxpool_channel_t *channel,
                              const ucxpool_data_t *data, uint64_t tag,
                              uint64_t                        mask,
                              const ucxpool_request_params_t *params,
                              ucxpool_request_t             **request_p);

/* The same into one buffer. */
ucxpool_status_t ucxpool_recv_buffer(ucxpool_t         *pool,
                                     ucxpool_channel_t *channel, void *address,
                                     size_t length, uint64_t tag, uint64_t mask,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p);

/*
 * Take the oldest message that matches and that no receive has taken, to look
 * at it first. The caller then owns it and must end it by
 * ucxpool_message_recv() or ucxpool_message_refuse(). Does not progress.
 *
 * UCXPOOL_ERR_NO_MESSAGE     there is none now
 * UCXPOOL_ERR_INVALID_PARAM  the channel belongs to another pool
 */
ucxpool_status_t ucxpool_probe(ucxpool_t *pool, ucxpool_channel_t *channel,
                               uint64_t tag, uint64_t mask,
                               ucxpool_message_t **message_p);

typedef struct ucxpool_message_attr {
    uint64_t           tag;
    size_t             length;       /* bytes in all */
    size_t             num_segments; /* the sender's */
    const void        *metadata;     /* NULL when metadata_length is 0 */
    size_t             metadata_length;
    ucxpool_channel_t *channel; /* NULL when it has been closed since */
} ucxpool_message_attr_t;

/* What is known of a message before it is received. attr_size is
 * sizeof(*attr_p), see ucxpool.h. */
void ucxpool_message_query(const ucxpool_message_t *message,
                           ucxpool_message_attr_t *attr_p, size_t attr_size);

/*
 * The lengths of the sender's segments, from number `first` on.
 *
 * lengths [out]  Array of num_lengths.
 *
 * Returns how many were written: fewer than num_lengths at the end.
 */
size_t ucxpool_message_lengths(const ucxpool_message_t *message, size_t first,
                               size_t num_lengths, size_t *lengths);

/*
 * Receive a message that was probed. As ucxpool_recv(); the message handle is
 * invalid after success, and still the caller's after an error.
 *
 * UCXPOOL_ERR_TRUNCATED  returned at once, with nothing lost: the data is too
 *                        small
 */
ucxpool_status_t ucxpool_message_recv(ucxpool_message_t              *message,
                                      const ucxpool_data_t           *data,
                                      const ucxpool_request_params_t *params,
                                      ucxpool_request_t **request_p);

/*
 * Refuse a message that was probed. Its sender's request ends with
 * UCXPOOL_ERR_REFUSED and this reason.
 *
 * reason  Up to 127 bytes of text; NULL for none.
 */
void ucxpool_message_refuse(ucxpool_message_t *message, const char *reason);

/*
 * A request that ends with UCXPOOL_OK when all sends that were posted to the
 * channel before have ended, in whatever way. Of params callback and timeout
 * count. If nothing is under way it has ended at once; one with a callback ends
 * when progress has called it.
 *
 * It ends with UCXPOOL_ERR_CANCELED, UCXPOOL_ERR_TIMED_OUT, and with the error
 * of the channel where that has ended.
 *
 * UCXPOOL_ERR_CLOSED, UCXPOOL_ERR_PEER_LOST  the channel has ended
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t ucxpool_channel_flush(ucxpool_channel_t              *channel,
                                       const ucxpool_request_params_t *params,
                                       ucxpool_request_t **request_p);

/* The state of a request: UCXPOOL_INPROGRESS, or how it ended. A request with a
 * callback has ended when that has returned. Does not progress. */
ucxpool_status_t ucxpool_request_test(const ucxpool_request_t *request);

/*
 * Progress until the request has ended, or the time is over. A request with a
 * callback has ended when that has returned. The sentence of one that failed is
 * then what ucxpool_error_detail() returns.
 *
 * UCXPOOL_INPROGRESS  it has not ended yet
 * others              how it ended
 */
ucxpool_status_t ucxpool_request_wait(ucxpool_request_t *request,
                                      uint64_t           timeout_ns);

typedef struct ucxpool_request_attr {
    ucxpool_status_t status;
    char             detail[UCXPOOL_REASON_SIZE]; /* why it failed, in words;
                                                     never "" then */
    uint64_t tag;         /* of the message; 0 for reads and writes */
    size_t   length;      /* bytes of the message; of a read or a write:
                             of all its places */
    const void *metadata; /* receive: the sender's; NULL before the end */
    size_t      metadata_length;
    ucxpool_channel_t *channel; /* NULL when not known or closed */
} ucxpool_request_attr_t;

/* The state of a request, and the message it moves. The detail is a copy; the
 * metadata stay valid until the request is released. attr_size is
 * sizeof(*attr_p), see ucxpool.h. */
void ucxpool_request_query(const ucxpool_request_t *request,
                           ucxpool_request_attr_t *attr_p, size_t attr_size);

/*
 * End a request early. It ends with UCXPOOL_ERR_CANCELED, or with what it had
 * ended with before. Blocks that the peer may still read wait in quarantine.
 *
 * Over the `ucx` wire, a send or receive in place whose bytes are on their way
 * ends when UCX has let go of the caller's memory. It then is in progress for
 * some time yet; when UCX still uses the memory after 250 ms, because the peer
 * does not progress, the channel fails, which ends it. A deadline that passes
 * does the same.
 */
void ucxpool_request_cancel(ucxpool_request_t *request);

/* How a request ended. */
typedef struct ucxpool_completion {
    ucxpool_request_t *request; /* to be released; NULL: nobody wanted it */
    void              *completion_ptr;
    ucxpool_status_t   status;
    uint64_t           tag;    /* as ucxpool_request_query() reports it */
    uint64_t           length; /* likewise */
    uint64_t           reserved[3];
} ucxpool_completion_t;

/*
 * The requests that have ended since, of those that were posted with
 * UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION: the first to end is the first told,
 * each is told once, and those that were released before are left out. So a
 * program, or a binding of a language, collects in one call what a thousand
 * requests have come to, without a callback. Does not progress, and does not
 * wait.
 *
 * completions [out]  Array of max.
 * num_p       [out]  How many were written: fewer than max when there are no
 *                    more now.
 *
 * While one waits to be told, ucxpool_wait() does not sleep and the event
 * descriptor, when armed, is readable.
 *
 * UCXPOOL_ERR_INVALID_PARAM  an argument is NULL
 */
ucxpool_status_t ucxpool_completion_get(ucxpool_t            *pool,
                                        ucxpool_completion_t *completions,
                                        size_t max, size_t *num_p);

/*
 * Release a request. One that has not ended goes on, and is released when it
 * ends; its callback is still called. NULL is allowed.
 */
void ucxpool_request_release(ucxpool_request_t *request);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
