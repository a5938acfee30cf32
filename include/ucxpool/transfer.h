/*
 * Sending and receiving.
 *
 * A message consists of data, a 64-bit tag, and up to MAX_METADATA bytes of
 * metadata from the caller. A receive succeeds only with the whole message.
 * ucxpool_send_buffer() and ucxpool_recv_buffer() transfer one buffer.
 * ucxpool_send(), ucxpool_recv() and ucxpool_message_recv() transfer data of
 * any layout, described by a ucxpool_data_t. The layouts of the sender and the
 * receiver may differ: the message is the concatenation of the sender's
 * segments, and it fills the receiver's segments one after the other.
 *
 *     sender's segments     [ 100 ][    4096    ][ 0 ][  7 ]
 *     message               4203 bytes, 4 lengths, tag, metadata
 *     receiver's segments   [        4203        ]      (or the same as the
 *                                                        sender's, or others)
 *
 * Segments may have any alignment and any length, including 0. Segments in
 * memory from ucxpool_comm_alloc() are sent and received in place, unless they
 * are short (INPLACE_MIN). On a machine without an RDMA device, long segments
 * in any memory are also sent and received in place over the `ucx` wire. A
 * short message may be sent with its descriptor (EAGER_SIZE). All other data is
 * packed into blocks.
 *
 * Order. Messages of one channel that match the same receive are received in
 * the order in which they were sent. A receive takes the oldest matching
 * message; a message takes the oldest matching receive.
 */
#ifndef UCXPOOL_TRANSFER_H
#define UCXPOOL_TRANSFER_H

#include <ucxpool/channel.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* --- data -------------------------------------------------------------------
 * A ucxpool_data_t describes where the bytes of a message are, or where to put
 * them. Seven functions create one:
 *
 *                 to send or receive into   to send only (const)
 *     one buffer  ucxpool_data_buffer()     ucxpool_source_buffer()
 *     segments    ucxpool_data_segments()   ucxpool_source_segments()
 *     pieces      ucxpool_data_pieces()     ucxpool_source_pieces()
 *     ranges      -                         ucxpool_source_ranges()
 *
 * The ucxpool_data_t itself is not used after the call to which it is passed.
 * The arrays, memory and names to which it points must stay unchanged until the
 * request ends. An array of one element is copied.
 *
 * Pieces are equal-length segments. For many short pieces, this form is faster
 * than segments: the array is half as large, and the library does not have to
 * add the lengths. In a pool on a GPU, if the request's params have
 * UCXPOOL_SEGMENTS_CUDA, the array is read while the pieces are transferred. If
 * the array is in pinned memory (cuMemHostAlloc(), cudaMallocHost()) and has at
 * least 4,096 addresses, the GPU itself reads it.
 *
 * Segments are treated like pieces under these conditions: there are at least
 * 4,096 of them, their array is in pinned memory, all have the same length
 * under 512 bytes, and all are in one allocation. The library checks these
 * conditions once, when the request is posted, unless the params have
 * UCXPOOL_SEGMENTS_EVEN.
 *
 * Ranges are parts of memory and of files, in any order. The receiver sees each
 * range as one segment. A file is read while its bytes are sent. The file is
 * not mapped, and the descriptor's file offset does not change. The caller must
 * keep the descriptors open until the request ends. The descriptors must belong
 * to regular files or block devices, and must not require aligned memory
 * (O_DIRECT). Consecutive ranges of one file are read together.
 *
 * Calls that read a file may block on the file's device. Files are read by
 * ucxpool_progress() and the functions that wait, and for messages of up to
 * EAGER_SIZE bytes also by ucxpool_send() and ucxpool_post(). Apart from
 * messages of up to EAGER_SIZE bytes, one round of progress reads at most one
 * block.
 */

/* `length` bytes from `address`, which may be NULL if length is 0. The layout
 * is the same as that of struct iovec, so an array of struct iovec can be
 * passed with a cast.
 */
typedef struct ucxpool_segment {
    void  *address;
    size_t length;
} ucxpool_segment_t;

/* A segment that is only read. */
typedef struct ucxpool_const_segment {
    const void *address;
    size_t      length;
} ucxpool_const_segment_t;

typedef enum ucxpool_range_kind {
    UCXPOOL_RANGE_MEMORY = 0,
    UCXPOOL_RANGE_FILE   = 1
} ucxpool_range_kind_t;

/* `length` bytes of memory or of a file. If length is 0, fd, at and name are
 * ignored. Create one with ucxpool_range_memory() or ucxpool_range_file(). */
typedef struct ucxpool_range {
    ucxpool_range_kind_t kind;
    int                  fd; /* the file's descriptor */
    union {
        const void *address;
        int64_t     offset; /* offset in the file */
    } at;
    size_t length;
    /* File name for error messages. NULL: the file's path in /proc. */
    const char *name;
    uint64_t    reserved[2]; /* 0 */
} ucxpool_range_t;

typedef enum ucxpool_data_kind {
    UCXPOOL_DATA_BUFFER   = 0,
    UCXPOOL_DATA_SEGMENTS = 1,
    UCXPOOL_DATA_PIECES   = 2,
    UCXPOOL_DATA_RANGES   = 3
} ucxpool_data_kind_t;

typedef struct ucxpool_data {
    ucxpool_data_kind_t kind;
    int is_source; /* 1: for sends only; 0: for sends and receives */
    union {
        const void                    *buffer;
        const ucxpool_const_segment_t *segments;
        const void *const             *pieces;
        const ucxpool_range_t         *ranges;
    } at;
    size_t   count;       /* number of segments, pieces or ranges; buffer: 1 */
    size_t   length;      /* length of the buffer, or of each piece */
    uint64_t reserved[4]; /* 0 */
} ucxpool_data_t;

/* Describe one buffer to send. */
ucxpool_data_t ucxpool_source_buffer(const void *address, size_t length);

/* Describe segments to send. */
ucxpool_data_t ucxpool_source_segments(const ucxpool_const_segment_t *segments,
                                       size_t                         count);

/* Describe pieces to send. If length is 0, the addresses are ignored. */
ucxpool_data_t ucxpool_source_pieces(const void *const *addresses, size_t count,
                                     size_t length);

/* Describe ranges to send. */
ucxpool_data_t ucxpool_source_ranges(const ucxpool_range_t *ranges,
                                     size_t                 count);

/* Describe one buffer to send or to receive into. */
ucxpool_data_t ucxpool_data_buffer(void *address, size_t length);

/* Describe segments to send or to receive into. */
ucxpool_data_t ucxpool_data_segments(const ucxpool_segment_t *segments,
                                     size_t                   count);

/* Describe pieces to send or to receive into. If length is 0, the addresses are
 * ignored. */
ucxpool_data_t ucxpool_data_pieces(void *const *addresses, size_t count,
                                   size_t length);

/* Describe a range of memory. */
ucxpool_range_t ucxpool_range_memory(const void *address, size_t length);

/* Describe a range of a file. name is used in errors; NULL: the file's path in
 * /proc. */
ucxpool_range_t ucxpool_range_file(int fd, int64_t offset, size_t length,
                                   const char *name);

/* --- requests ---------------------------------------------------------------
 */

/* A send, receive, read or write in progress. */
typedef struct ucxpool_request ucxpool_request_t;

/* A message that has not been received yet. At least its descriptor has
 * arrived. */
typedef struct ucxpool_message ucxpool_message_t;

/*
 * Called once when a request ends, with no lock held. The caller is
 * ucxpool_progress(), a function that waits, or a function that destroys an
 * object. The function that posts the request never calls the callback, even if
 * the request ends before that function returns. The callback may call any
 * function except ucxpool_destroy(), and may release the request.
 *
 * Other functions report completion only after the callback has returned:
 * ucxpool_request_test(), ucxpool_request_wait(), ucxpool_request_query() and
 * ucxpool_completion_get(). The caller may therefore free the callback's data
 * as soon as any of them has reported completion. In the callback itself,
 * ucxpool_request_test(), ucxpool_request_wait() and ucxpool_request_query()
 * already report completion. Do not wait for a request while holding a lock
 * that its callback takes: another thread may be in the callback.
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

/* The kind of memory that a request's segments are in. Only pools of kind
 * UCXPOOL_MEMORY_CUDA use it. */
typedef enum ucxpool_segments_kind {
    UCXPOOL_SEGMENTS_ANY = 0,  /* the library queries the CUDA driver for each
                                  allocation in the list */
    UCXPOOL_SEGMENTS_CUDA = 1, /* all segments are in device, managed or pinned
                                  memory that the pool's GPU can access. The
                                  library does not check this. If the GPU cannot
                                  access a segment, the GPU's context becomes
                                  unusable */
    UCXPOOL_SEGMENTS_HOST = 2, /* all segments are in host memory, pinned or
                                  not, and the CPU copies them. The library does
                                  not check this. If a segment is in GPU memory,
                                  the process crashes. With
                                  UCXPOOL_SEGMENTS_ANY, the library makes one
                                  query per segment of pageable memory */
    UCXPOOL_SEGMENTS_EVEN = 3  /* as UCXPOOL_SEGMENTS_CUDA, and all segments
                                  have the same length. If an array of many
                                  short segments is in pinned memory, only the
                                  GPU reads it. If the lengths differ, the
                                  request may fail with
                                  UCXPOOL_ERR_INVALID_PARAM; the detail then
                                  names the segment */
} ucxpool_segments_kind_t;

/* A value for `stream`: the segments do not depend on work in a stream. */
#define UCXPOOL_STREAM_READY ((void *)-1)

/* Only the fields named in field_mask are read. */
typedef struct ucxpool_request_params {
    uint64_t             field_mask;
    ucxpool_request_cb_t callback;
    void                *callback_arg; /* passed to the callback */
    /* Sends: bytes that are sent with the message's descriptor. Reads and
     * writes of remote windows: bytes that are sent with the notification
     * (notify_tag). The library copies the bytes. */
    const void *metadata;
    size_t      metadata_length; /* at most MAX_METADATA */
    /*
     * Deadline: the request ends with UCXPOOL_ERR_TIMED_OUT if it has not
     * completed this many nanoseconds after its post. Default: REQUEST_TIMEOUT.
     */
    uint64_t timeout_ns;
    /*
     * For pools of UCXPOOL_MEMORY_CUDA: a CUstream (or cudaStream_t). The
     * library accesses the segments only after the work that is in the stream
     * at the time of the post has completed. Default: NULL, the legacy default
     * stream, which waits for all blocking streams of its context.
     * UCXPOOL_STREAM_READY: no dependency.
     *
     * Each request adds one operation to the stream. If the stream is stalled
     * and the driver's queue is full (about 1,000 operations), the call blocks,
     * as any other call to the driver would.
     *
     * After a request has ended, the library no longer accesses the segments,
     * and kernels launched afterwards see the received data.
     */
    void                   *stream;
    ucxpool_segments_kind_t segments_kind;
    /*
     * If this field is in the mask, ucxpool_completion_get() reports the end of
     * the request and returns this pointer, which may be NULL. A callback may
     * also be set.
     */
    void *completion_ptr;
    /*
     * For reads and writes of remote windows: the tag of a message that the
     * window's owner receives after all bytes have been transferred.
     */
    uint64_t notify_tag;
} ucxpool_request_params_t;

/*
 * Send data as one message.
 *
 * data         What to send; see ucxpool_data_t.
 * params       NULL for none.
 * request_p    [out] The request; release it with ucxpool_request_release().
 *              NULL: the library releases the request when the request ends.
 *
 * The request ends with
 * UCXPOOL_OK                 the message has been received. An eager send ends
 *                            earlier, as soon as its bytes have been copied. A
 *                            send is eager if it has at most EAGER_SIZE bytes,
 *                            none of its bytes are in memory that the pool's
 *                            GPU can access, and fewer than CREDITS eager
 *                            messages are queued at the receiver
 * UCXPOOL_ERR_REFUSED        the receiver refused the message; the detail
 *                            contains the reason
 * UCXPOOL_ERR_CANCELED       the send was canceled here, or the receive was
 *                            canceled at the peer
 * UCXPOOL_ERR_TIMED_OUT      the deadline passed
 * UCXPOOL_ERR_PEER_LOST      the peer died or cannot be reached, or the channel
 *                            has failed at the peer
 * UCXPOOL_ERR_CLOSED         the channel was closed; for a failed channel, the
 *                            channel's own error instead
 * UCXPOOL_ERR_LIMIT          the send was posted before the channel opened,
 *                            and exceeds the peer's MAX_METADATA or
 *                            MAX_SEGMENTS
 * UCXPOOL_ERR_INVALID_PARAM  the address of a piece is NULL; the detail names
 *                            the piece. Only in a pool on a GPU and with
 *                            UCXPOOL_SEGMENTS_CUDA, where the library reads the
 *                            addresses during the transfer
 * UCXPOOL_ERR_IO             a file cannot be read, or ends before its range
 *                            does; the detail contains the file's name, the
 *                            offset and the reason. The receive ends with
 *                            UCXPOOL_ERR_CANCELED and the same detail; for a
 *                            message of up to EAGER_SIZE bytes see below
 *
 * Once the request has ended, with any status, the library no longer uses the
 * caller's memory and descriptors.
 *
 * A send can end before its message has been announced to the receiver. This
 * happens if the send is canceled or times out while it is queued. It also
 * happens if a file range of a message of up to EAGER_SIZE bytes cannot be
 * read. The receiver then never sees the message. This applies to both wires. A
 * receive that would have matched the message stays posted and can match
 * another one.
 *
 * If a pool on a GPU has long messages for several other GPUs, it sends them
 * one at a time. ucxpool_remote_window_write() describes the order.
 *
 * Returned at once, without a request:
 * UCXPOOL_ERR_INVALID_PARAM  the sum of the lengths overflows; an address is
 *                            NULL, but its length is not 0; the descriptor of a
 *                            range is not open; the offset of a range is
 *                            negative, or the range exceeds the largest file
 *                            size; or, in a pool on a GPU, an address is not
 *                            mapped
 * UCXPOOL_ERR_UNSUPPORTED    a segment is on a GPU other than the pool's; a
 *                            range belongs to a pipe, a socket or another file
 *                            without offsets; or the kind of data or range is
 *                            unknown, or a `reserved` field is not 0: the
 *                            program is newer than the library
 * UCXPOOL_ERR_LIMIT          the metadata is longer than MAX_METADATA; or there
 *                            are more segments than MAX_SEGMENTS. Consecutive
 *                            equal-length segments count as one
 * UCXPOOL_ERR_CLOSED         the channel was closed; for a failed channel, the
 *                            channel's own error instead
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t ucxpool_send(ucxpool_channel_t    *channel,
                              const ucxpool_data_t *data, uint64_t tag,
                              const ucxpool_request_params_t *params,
                              ucxpool_request_t             **request_p);

/* Send one buffer; otherwise the same as ucxpool_send(). */
ucxpool_status_t ucxpool_send_buffer(ucxpool_channel_t *channel,
                                     const void *address, size_t length,
                                     uint64_t                        tag,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p);

/*
 * Receive a message.
 *
 * channel      A channel of this pool, to receive from its peer only. NULL:
 *              receive from any channel of the pool.
 * data         Where to put the bytes. It must be at least as long as the
 *              message, and must not have been created by a ucxpool_source
 *              function.
 * tag          A message matches if its tag equals `tag` in the bits of `mask`.
 * mask         0 matches every message.
 *
 * The request ends with
 * UCXPOOL_OK             all bytes have arrived; ucxpool_request_query()
 *                        returns how many
 * UCXPOOL_ERR_TRUNCATED  the message is longer than the memory that `data`
 *                        describes. The message is discarded, and its sender is
 *                        notified (to avoid this, probe first)
 * UCXPOOL_ERR_INVALID_PARAM  the address of a piece is NULL, as for
 *                        ucxpool_send(). The sender's request ends with
 *                        UCXPOOL_ERR_REFUSED
 * UCXPOOL_ERR_CANCELED   canceled here or by the sender, or the channel was
 *                        closed here
 * UCXPOOL_ERR_CLOSED     the peer closed the channel
 * UCXPOOL_ERR_TIMED_OUT, UCXPOOL_ERR_PEER_LOST, UCXPOOL_ERR_CHECKSUM,
 * UCXPOOL_ERR_PROTOCOL, or the error with which the channel has failed
 *
 * After an error the memory may hold a part of the message. The library no
 * longer writes to the memory.
 *
 * Returned at once, without a request:
 * UCXPOOL_ERR_INVALID_PARAM  the channel belongs to another pool; the data is a
 *                            source; the sum of the lengths overflows; or an
 *                            address is NULL, but its length is not 0
 * UCXPOOL_ERR_CLOSED         the channel was closed; for a failed channel, the
 *                            channel's own error instead
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t ucxpool_recv(ucxpool_t *pool, ucxpool_channel_t *channel,
                              const ucxpool_data_t *data, uint64_t tag,
                              uint64_t                        mask,
                              const ucxpool_request_params_t *params,
                              ucxpool_request_t             **request_p);

/* Receive into one buffer; otherwise the same as ucxpool_recv(). */
ucxpool_status_t ucxpool_recv_buffer(ucxpool_t         *pool,
                                     ucxpool_channel_t *channel, void *address,
                                     size_t length, uint64_t tag, uint64_t mask,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p);

/*
 * Take the oldest matching message that no receive has taken. The caller can
 * then inspect the message before receiving it. The caller then owns the
 * message and must release it with ucxpool_message_recv() or
 * ucxpool_message_refuse(). Does not make progress.
 *
 * UCXPOOL_ERR_NO_MESSAGE     no such message has arrived
 * UCXPOOL_ERR_INVALID_PARAM  the channel belongs to another pool
 */
ucxpool_status_t ucxpool_probe(ucxpool_t *pool, ucxpool_channel_t *channel,
                               uint64_t tag, uint64_t mask,
                               ucxpool_message_t **message_p);

typedef struct ucxpool_message_attr {
    uint64_t           tag;
    size_t             length;       /* total bytes */
    size_t             num_segments; /* number of the sender's segments */
    const void        *metadata;     /* NULL when metadata_length is 0 */
    size_t             metadata_length;
    ucxpool_channel_t *channel; /* NULL if the channel is closed */
} ucxpool_message_attr_t;

/* Query a message before receiving it. The metadata stays valid until the
 * message is received or refused. attr_size is sizeof(*attr_p), see
 * ucxpool.h. */
void ucxpool_message_query(const ucxpool_message_t *message,
                           ucxpool_message_attr_t *attr_p, size_t attr_size);

/*
 * Get the lengths of the sender's segments, starting with segment `first`.
 *
 * lengths [out]  Array with room for num_lengths lengths.
 *
 * Returns the number of lengths written, which is less than num_lengths if the
 * message has no more segments.
 */
size_t ucxpool_message_lengths(const ucxpool_message_t *message, size_t first,
                               size_t num_lengths, size_t *lengths);

/*
 * Receive a probed message; otherwise the same as ucxpool_recv(). On success
 * the message handle becomes invalid; after an error the caller still owns it.
 *
 * UCXPOOL_ERR_TRUNCATED  the message is longer than the memory that `data`
 *                        describes. This status is returned at once, and the
 *                        caller still owns the message
 */
ucxpool_status_t ucxpool_message_recv(ucxpool_message_t              *message,
                                      const ucxpool_data_t           *data,
                                      const ucxpool_request_params_t *params,
                                      ucxpool_request_t **request_p);

/*
 * Refuse a probed message. The sender's request ends with UCXPOOL_ERR_REFUSED
 * and this reason.
 *
 * reason  Up to 127 bytes of text; NULL for none.
 */
void ucxpool_message_refuse(ucxpool_message_t *message, const char *reason);

/*
 * Post a request that ends with UCXPOOL_OK after all sends that were posted to
 * the channel before it have ended, successfully or not. The function uses only
 * the callback and the timeout of the params. If no send is in progress, a
 * request without a callback has already ended when this function returns. A
 * request with a callback ends when ucxpool_progress() has called the callback.
 *
 * The request can also end with UCXPOOL_ERR_CANCELED, with
 * UCXPOOL_ERR_TIMED_OUT, or with the channel's error if the channel ends.
 *
 * UCXPOOL_ERR_CLOSED         the channel was closed; for a failed channel, the
 *                            channel's own error instead
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t ucxpool_channel_flush(ucxpool_channel_t              *channel,
                                       const ucxpool_request_params_t *params,
                                       ucxpool_request_t **request_p);

/* Returns the state of a request: UCXPOOL_INPROGRESS, or its result. If the
 * request has a callback, the result is returned only after the callback has
 * returned (see ucxpool_request_cb_t). Does not make progress. */
ucxpool_status_t ucxpool_request_test(const ucxpool_request_t *request);

/*
 * Make progress until the request has ended, or the timeout expires. If the
 * request has a callback, also waits until the callback has returned (see
 * ucxpool_request_cb_t). If the request failed, ucxpool_error_detail() then
 * returns the request's error detail.
 *
 * UCXPOOL_INPROGRESS  the request has not ended yet
 * others              the result of the request
 */
ucxpool_status_t ucxpool_request_wait(ucxpool_request_t *request,
                                      uint64_t           timeout_ns);

typedef struct ucxpool_request_attr {
    ucxpool_status_t status;
    char             detail[UCXPOOL_REASON_SIZE]; /* why it failed, in words;
                                                     never "" after an error */
    uint64_t    tag;      /* the message's tag; 0 for reads and writes */
    size_t      length;   /* total bytes of the message or of the places */
    const void *metadata; /* of a receive: the sender's metadata; NULL until
                             the receive has ended */
    size_t             metadata_length;
    ucxpool_channel_t *channel; /* NULL if unknown or closed */
} ucxpool_request_attr_t;

/* Query a request and its message. The detail is a copy; the metadata stays
 * valid until the request is released. attr_size is sizeof(*attr_p), see
 * ucxpool.h. */
void ucxpool_request_query(const ucxpool_request_t *request,
                           ucxpool_request_attr_t *attr_p, size_t attr_size);

/*
 * Cancel a request. The request ends with UCXPOOL_ERR_CANCELED, unless it has
 * already ended. Blocks that the peer may still read are quarantined: they are
 * reused only when the peer can no longer read them.
 *
 * Over the `ucx` wire, an in-place send or receive that is transferring data
 * stays in progress until UCX has released the caller's memory. If UCX still
 * uses the memory after 250 ms, because the peer makes no progress, the channel
 * fails, which ends the request. If the deadline of such a request passes, the
 * library cancels the request in the same way: the channel fails if UCX still
 * uses the memory 250 ms later.
 */
void ucxpool_request_cancel(ucxpool_request_t *request);

/* A completed request, as returned by ucxpool_completion_get(). */
typedef struct ucxpool_completion {
    ucxpool_request_t *request; /* to be released; NULL if posted
                                   without request_p */
    void            *completion_ptr;
    ucxpool_status_t status;
    uint64_t         tag;    /* as ucxpool_request_query() reports it */
    uint64_t         length; /* as ucxpool_request_query() reports it */
    uint64_t         reserved[3];
} ucxpool_completion_t;

/*
 * Get requests that have ended and that were posted with
 * UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION. Each request is reported once, in the
 * order in which the requests ended. A request that is released before it is
 * reported is not reported. With this function, one call collects the results
 * of many requests, and no callbacks are needed. Does not make progress, and
 * does not wait.
 *
 * completions [out]  Array with room for max completions.
 * num_p       [out]  Number of completions written; less than max if no more
 *                    requests have ended.
 *
 * While a completion is pending, ucxpool_wait() does not sleep, and an armed
 * event descriptor is readable.
 *
 * UCXPOOL_ERR_INVALID_PARAM  an argument is NULL
 */
ucxpool_status_t ucxpool_completion_get(ucxpool_t            *pool,
                                        ucxpool_completion_t *completions,
                                        size_t max, size_t *num_p);

/*
 * Release a request. If it has not ended, it continues and is released when it
 * ends; its callback is still called. NULL is allowed.
 */
void ucxpool_request_release(ucxpool_request_t *request);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
