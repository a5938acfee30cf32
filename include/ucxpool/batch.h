/*
 * Batches: one call posts many sends, receives, reads and writes.
 *
 * Each element of an array describes one operation. Its fields are the
 * arguments of the function that posts a single operation of this kind. A batch
 * may have operations of all kinds, on any channels and remote windows of one
 * pool. The call takes the pool's lock once. Over `map` it wakes each sleeping
 * peer once, after the last operation. Consecutive sends of short buffers are
 * fastest if they have the same channel and length, no params and no request_p.
 *
 *     ucxpool_op_t ops[2] = {
 *         {.kind    = UCXPOOL_OP_SEND,
 *          .channel = channel,
 *          .data    = ucxpool_source_buffer(header, sizeof(*header)),
 *          .tag     = 1},
 *         {.kind    = UCXPOOL_OP_RECV,
 *          .channel = channel,
 *          .data    = ucxpool_data_buffer(answer, sizeof(*answer)),
 *          .tag     = 2,
 *          .mask    = UINT64_MAX,
 *          .params  = &params},
 *     };
 *
 *     status = ucxpool_post(pool, ops, sizeof(ops[0]), 2, &num_posted);
 *
 * ucxpool_completion_get() returns many completions in one call.
 */
#ifndef UCXPOOL_BATCH_H
#define UCXPOOL_BATCH_H

#include <ucxpool/window.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum ucxpool_op_kind {
    UCXPOOL_OP_SEND  = 1, /* ucxpool_send() */
    UCXPOOL_OP_RECV  = 2, /* ucxpool_recv() */
    UCXPOOL_OP_READ  = 3, /* ucxpool_remote_window_read() */
    UCXPOOL_OP_WRITE = 4  /* ucxpool_remote_window_write() */
} ucxpool_op_kind_t;

/* An operation. Fields that its kind does not use are ignored. */
typedef struct ucxpool_op {
    ucxpool_op_kind_t kind;
    uint32_t          reserved; /* 0 */
    ucxpool_data_t    data;
    /*
     * NULL for none. Several operations may have the same params, which are not
     * used after the call.
     */
    const ucxpool_request_params_t *params;
    /* [out] Where to store the request. NULL: the library releases the request
     * when it ends. */
    ucxpool_request_t **request_p;

    /* Sends and receives. NULL: receive from any channel. */
    ucxpool_channel_t *channel;
    uint64_t           tag;
    uint64_t           mask; /* receives only; 0 matches every message */

    /* Reads and writes. */
    ucxpool_remote_window_t *remote;
    const ucxpool_places_t  *places;
} ucxpool_op_t;

/*
 * Post operations in array order.
 *
 * ops           Array of num_ops operations, which is not used after the call.
 *               The memory, arrays and descriptors to which an operation points
 *               must stay valid as the operation's own function (such as
 *               ucxpool_send()) requires.
 * op_size       sizeof(ops[0]), the size of an element in bytes; a multiple of
 *               the alignment of ucxpool_op_t. If the program is newer than the
 *               library, an element may be longer than the library's
 *               ucxpool_op_t. The additional bytes must then be 0.
 * num_ops       May be 0.
 * num_posted_p  [out] Number of operations that were posted; 0 after an error
 *               in the arguments.
 *
 * Each operation has the same effect as a call to the corresponding function.
 * If an operation is refused, ucxpool_post() returns the status that the
 * corresponding function would return, and ucxpool_error_detail() returns the
 * detail. *num_posted_p is then the index of the refused operation. The
 * operations before it are posted and continue. The operations after it are not
 * posted, and their requests are not stored. To continue without the refused
 * operation, call ucxpool_post() again with the rest of the array.
 *
 * As with single posts, callbacks are never called by this function. Other
 * threads that call functions of the pool wait until all operations have been
 * posted.
 *
 * Errors, in addition to those of the functions that correspond to the
 * operations:
 * UCXPOOL_ERR_INVALID_PARAM  an argument is NULL; op_size is smaller than
 *                            ucxpool_op_t of version 1.0; a channel or remote
 *                            window belongs to another pool
 * UCXPOOL_ERR_UNSUPPORTED    the kind is unknown, or a field that must be 0 is
 *                            not: the program is newer than the library
 */
ucxpool_status_t ucxpool_post(ucxpool_t *pool, const ucxpool_op_t *ops,
                              size_t op_size, size_t num_ops,
                              size_t *num_posted_p);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
