/*
 * Sending and receiving.
 *
 * A message is a list of segments, a 64-bit tag, and up to MAX_METADATA bytes
 * of the caller's own metadata. It arrives whole or not at all. The receiver's
 * segments need not be cut like the sender's: the bytes of the message are the
 * sender's segments one after the other, and they fill the receiver's segments
 * one after the other.
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

/* A piece of memory: length bytes from address (NULL is fine for length 0). */
typedef struct ucxpool_segment {
    void  *address;
    size_t length;
} ucxpool_segment_t;

/* One send or receive in progress. */
typedef struct ucxpool_request ucxpool_request_t;

/* One message that has arrived (its descriptor at least) and is not received
 * yet. */
typedef struct ucxpool_message ucxpool_message_t;

/*
 * Called once when a request ends, from ucxpool_progress() and the functions
 * that wait or destroy, with no lock held. May call anything but destroy, and
 * may free the request.
 */
typedef void (*ucxpool_request_cb_t)(ucxpool_request_t *request,
                                     ucxpool_status_t status, void *arg);

typedef enum ucxpool_request_params_field {
    UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK = 1u << 0,
    UCXPOOL_REQUEST_PARAM_FIELD_METADATA = 1u << 1,
    UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT  = 1u << 2,
    UCXPOOL_REQUEST_PARAM_FIELD_STREAM   = 1u << 3,
    UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS = 1u << 4
} ucxpool_request_params_field_t;

/* What the segments of a request are, for pools of UCXPOOL_MEMORY_CUDA. */
typedef enum ucxpool_segments_kind {
    UCXPOOL_SEGMENTS_ANY = 0, /* the CUDA driver is asked, once for each
                                 allocation that the list leads to */
    UCXPOOL_SEGMENTS_CUDA = 1 /* all are such that the pool's GPU reaches
                                 them: device, managed or pinned memory. The
                                 caller answers for it: where it is not so,
                                 the GPU's context breaks */
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
} ucxpool_request_params_t;

/*
 * Send a list of segments as one message.
 *
 * segments     Array of num_segments. The array and what it points to must stay
 *              unchanged until the request ends (an array of one is copied).
 * params       NULL for none.
 * request_p    [out] The request, to be freed by ucxpool_request_free().
 *              NULL: the library frees it when it ends.
 *
 * The request ends with
 * UCXPOOL_OK                 a message of up to EAGER_SIZE bytes of host
 *                            memory: its bytes were copied; any other: the
 *                            receiver has it
 * UCXPOOL_ERR_REFUSED        the receiver refused; the detail has its reason
 * UCXPOOL_ERR_CANCELED       canceled here, or the receive there was
 * UCXPOOL_ERR_TIMED_OUT      the deadline passed
 * UCXPOOL_ERR_PEER_LOST      the peer died or cannot be reached
 *
 * After any end the caller's memory is the caller's again.
 *
 * Returned at once, with no request made:
 * UCXPOOL_ERR_INVALID_PARAM  lengths overflow, a NULL address with a length; in
 *                            a pool on a GPU: memory that is not there
 * UCXPOOL_ERR_UNSUPPORTED    a segment lies on another GPU than the pool
 * UCXPOOL_ERR_LIMIT          more metadata or more differing segment lengths
 *                            than MAX_METADATA, MAX_SEGMENTS
 * UCXPOOL_ERR_CLOSED, UCXPOOL_ERR_PEER_LOST  the channel has ended
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t ucxpool_send_buffers(ucxpool_channel_t       *channel,
                                      const ucxpool_segment_t *segments,
                                      size_t num_segments, uint64_t tag,
                                      const ucxpool_request_params_t *params,
                                      ucxpool_request_t **request_p);

/* The same for one buffer. */
ucxpool_status_t ucxpool_send_buffer(ucxpool_channel_t *channel,
                                     const void *address, size_t length,
                                     uint64_t                        tag,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p);

/*
 * Send pieces of one length as one message: what ucxpool_send_buffers() would
 * send of segments that all have this length. For many short pieces this is
 * quicker, for the list is half as long and nobody need add it up.
 *
 * addresses    Array of num_pieces. The array and what it points to must stay
 *              unchanged until the request ends (an array of one is copied).
 * length       Of each piece, in bytes. 0: the addresses do not matter.
 *
 * As ucxpool_send_buffers(), but: in a pool on a GPU, where params say
 * UCXPOOL_SEGMENTS_CUDA, the array is read as its pieces are sent; by the GPU
 * itself if it lies in pinned memory (cuMemHostAlloc(), cudaMallocHost()) and
 * has 4,096 addresses or more. A NULL in it then ends the request
 *
 * UCXPOOL_ERR_INVALID_PARAM  a piece is NULL; the detail names it
 */
ucxpool_status_t ucxpool_send_pieces(ucxpool_channel_t *channel,
                                     void *const *addresses, size_t num_pieces,
                                     size_t length, uint64_t tag,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p);

/*
 * Receive a message into a list of segments.
 *
 * channel      From this peer only; NULL: from any channel of the pool.
 * tag, mask    Messages match whose tag equals `tag` in the bits of `mask`;
 *              mask 0 takes every message.
 * segments     Array of num_segments, which must stay unchanged until the
 *              request ends (an array of one is copied). Together they must
 *              hold the message; it may be shorter.
 *
 * The request ends with
 * UCXPOOL_OK             all bytes are there; ucxpool_request_query() tells
 *                        how many
 * UCXPOOL_ERR_TRUNCATED  the message is longer than the segments; it is gone,
 *                        and its sender was told (probe first to avoid this)
 * UCXPOOL_ERR_CANCELED, UCXPOOL_ERR_TIMED_OUT, UCXPOOL_ERR_PEER_LOST,
 * UCXPOOL_ERR_CHECKSUM, UCXPOOL_ERR_PROTOCOL
 *
 * After an error the segments may hold a part of the message; nothing writes
 * to them any more.
 */
ucxpool_status_t ucxpool_recv_buffers(ucxpool_t               *pool,
                                      ucxpool_channel_t       *channel,
                                      const ucxpool_segment_t *segments,
                                      size_t num_segments, uint64_t tag,
                                      uint64_t                        mask,
                                      const ucxpool_request_params_t *params,
                                      ucxpool_request_t **request_p);

/*
 * Receive a message, of whatever segments, into pieces of one length.
 *
 * addresses    Array of num_pieces, as in ucxpool_send_pieces().
 * length       Of each piece, in bytes.
 *
 * As ucxpool_recv_buffers(), but: in a pool on a GPU, where params say
 * UCXPOOL_SEGMENTS_CUDA, a NULL in the array ends the request when its turn
 * comes
 *
 * UCXPOOL_ERR_INVALID_PARAM  a piece is NULL; the detail names it. The sender's
 *                            request ends with UCXPOOL_ERR_REFUSED
 */
ucxpool_status_t ucxpool_recv_pieces(ucxpool_t         *pool,
                                     ucxpool_channel_t *channel,
                                     void *const *addresses, size_t num_pieces,
                                     size_t length, uint64_t tag, uint64_t mask,
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
 * ucxpool_message_recv(), ucxpool_message_recv_pieces() or
 * ucxpool_message_refuse(). Does not progress.
 *
 * UCXPOOL_ERR_NO_MESSAGE  there is none now
 */
ucxpool_status_t ucxpool_probe(ucxpool_t *pool, ucxpool_channel_t *channel,
                               uint64_t tag, uint64_t mask,
                               ucxpool_message_t **message_p);

/* The pointers are valid until the message is received or refused. */
typedef struct ucxpool_message_attr {
    uint64_t           tag;
    size_t             length;       /* bytes in all */
    size_t             num_segments; /* the sender's */
    const void        *metadata;     /* NULL when metadata_length is 0 */
    size_t             metadata_length;
    ucxpool_channel_t *channel; /* NULL when it has been closed since */
} ucxpool_message_attr_t;

/* What is known of a message before it is received. */
void ucxpool_message_query(const ucxpool_message_t *message,
                           ucxpool_message_attr_t  *attr_p);

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
 * Receive a message that was probed. As ucxpool_recv_buffers(); the message
 * handle is invalid after success, and still the caller's after an error.
 *
 * UCXPOOL_ERR_TRUNCATED  returned at once, with nothing lost: the segments are
 *                        too small
 */
ucxpool_status_t ucxpool_message_recv(ucxpool_message_t       *message,
                                      const ucxpool_segment_t *segments,
                                      size_t                   num_segments,
                                      const ucxpool_request_params_t *params,
                                      ucxpool_request_t **request_p);

/* The same into pieces of one length, as ucxpool_recv_pieces(). */
ucxpool_status_t
ucxpool_message_recv_pieces(ucxpool_message_t *message, void *const *addresses,
                            size_t num_pieces, size_t length,
                            const ucxpool_request_params_t *params,
                            ucxpool_request_t             **request_p);

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
 * count. Where nothing is under way it has ended at once.
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

/* The state of a request: UCXPOOL_INPROGRESS, or how it ended. Does not
 * progress. */
ucxpool_status_t ucxpool_request_test(const ucxpool_request_t *request);

/*
 * Progress until the request has ended, or the time is over.
 *
 * Returns how it ended, or UCXPOOL_INPROGRESS.
 */
ucxpool_status_t ucxpool_request_wait(ucxpool_request_t *request,
                                      uint64_t           timeout_ns);

/* The pointers are valid until the request is freed. */
typedef struct ucxpool_request_attr {
    ucxpool_status_t   status;
    const char        *detail;   /* why it failed, in words; or "" */
    uint64_t           tag;      /* of the message */
    size_t             length;   /* bytes of the message */
    const void        *metadata; /* receive: the sender's */
    size_t             metadata_length;
    ucxpool_channel_t *channel; /* NULL when not known or closed */
} ucxpool_request_attr_t;

/* How a request stands, and the message it moves. */
void ucxpool_request_query(const ucxpool_request_t *request,
                           ucxpool_request_attr_t  *attr_p);

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

/*
 * Release a request. One that has not ended goes on, and is released when it
 * ends; its callback is still called. NULL is allowed.
 */
void ucxpool_request_free(ucxpool_request_t *request);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
