/* The public function that posts a batch. */
#include <ucxpool/batch.h>

#include "api/api.h"
#include "base/error.h"
#include "core/control.h"
#include "window/remote.h"
#include "xfer/post.h"

#include <assert.h>
#include <stdalign.h>

/* Name of the public function, for errors about fields of an operation. */
static const char post_name[] = "ucxpool_post";

/* Size of an operation in the first version. Later versions append fields. */
#define OP_SIZE_MIN 128u

static_assert(sizeof(ucxpool_op_t) == OP_SIZE_MIN,
              "the first version has no appended fields");

static const ucxpool_op_t *op_at(const uint8_t *at)
{
    return (const ucxpool_op_t *)(const void *)at;
}

static bool is_missing(const void *field, const char *name)
{
    return base_error_is_missing(field, post_name, name);
}

/* Returns true if the data is one buffer, which needs no api_data_read(). */
static bool is_buffer(const ucxpool_data_t *data)
{
    const uint64_t *reserved = data->reserved;

    return (data->kind == UCXPOOL_DATA_BUFFER) &&
           ((reserved[0] | reserved[1] | reserved[2] | reserved[3]) == 0);
}

static ucxpool_status_t post_send(const ucxpool_t *pool, const ucxpool_op_t *op)
{
    if (is_missing(op->channel, "channel") ||
        api_is_foreign(pool, op->channel, "channel", post_name)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return api_post_send(op->channel, &op->data, op->tag, op->params,
                         op->request_p);
}

static ucxpool_status_t post_recv(ucxpool_t *pool, const ucxpool_op_t *op)
{
    if (api_is_foreign(pool, op->channel, "channel", post_name)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    if (is_buffer(&op->data) && !op->data.is_source) {
        /* Casts away const: the data is not a source. */
        return xfer_post_recv_buffer(
            pool, op->channel, (void *)op->data.at.buffer, op->data.length,
            op->tag, op->mask, op->params, op->request_p);
    }
    return api_post_recv(pool, op->channel, &op->data, op->tag, op->mask,
                         op->params, op->request_p);
}

static ucxpool_status_t post_window(const ucxpool_t    *pool,
                                    const ucxpool_op_t *op)
{
    if (is_missing(op->remote, "remote") || is_missing(op->places, "places") ||
        api_is_foreign(pool, op->remote->channel, "remote window", post_name)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return api_post_operation(op->remote, op->kind == UCXPOOL_OP_WRITE,
                              op->places, &op->data, op->params, op->request_p);
}

/* Returns true if all fields that this version does not know are 0: the
 * reserved field, and the bytes that a newer version has appended. */
static bool is_known(const ucxpool_op_t *op, size_t op_size)
{
    const uint8_t *bytes = (const uint8_t *)op;

    for (size_t i = sizeof(*op); i < op_size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return op->reserved == 0;
}

static ucxpool_status_t post(ucxpool_t *pool, const ucxpool_op_t *op,
                             size_t op_size)
{
    if (!is_known(op, op_size)) {
        return base_error(
            UCXPOOL_ERR_UNSUPPORTED,
            "an operation has a field that is not 0 and that this "
            "library does not know: the library is older than "
            "the header, or the ucxpool_op_t was not initialized");
    }
    switch (op->kind) {
    case UCXPOOL_OP_SEND:
        return post_send(pool, op);
    case UCXPOOL_OP_RECV:
        return post_recv(pool, op);
    case UCXPOOL_OP_READ:
    case UCXPOOL_OP_WRITE:
        return post_window(pool, op);
    }
    return base_error(UCXPOOL_ERR_UNSUPPORTED,
                      "this library does not know operations of kind %d",
                      (int)op->kind);
}

/* Returns true if the operation sends a buffer, without params and request. */
static bool is_plain_send(const ucxpool_op_t *op, size_t op_size)
{
    return (op->kind == UCXPOOL_OP_SEND) && (op->params == NULL) &&
           (op->request_p == NULL) && (op->data.at.buffer != NULL) &&
           is_buffer(&op->data) && is_known(op, op_size);
}

/* Send the leading operations as one SHORT if they are plain sends of one
 * length on one channel. Returns the number of posted operations; 0: post the
 * first operation alone. */
static size_t send_together(const ucxpool_t *pool, const uint8_t *at,
                            size_t op_size, size_t num_ops)
{
    const ucxpool_op_t *first   = op_at(at);
    ucxpool_channel_t  *channel = first->channel;
    xfer_short_t        messages[XFER_SHORTS_MAX];
    uint32_t            num = 0;
    size_t              max;

    if ((channel == NULL) || (channel->pool != pool)) {
        return 0;
    }
    max = base_min(num_ops, xfer_short_max(channel, first->data.length));
    for (; num < max; at += op_size) {
        const ucxpool_op_t *op = op_at(at);

        if (!is_plain_send(op, op_size) || (op->channel != channel) ||
            (op->data.length != first->data.length)) {
            break;
        }
        messages[num++] = (xfer_short_t){op->tag, op->data.at.buffer};
    }
    return ((num != 0) &&
            xfer_short_send(channel, messages, num, first->data.length))
               ? num
               : 0;
}

ucxpool_status_t ucxpool_post(ucxpool_t *pool, const ucxpool_op_t *ops,
                              size_t op_size, size_t num_ops,
                              size_t *num_posted_p)
{
    const uint8_t   *at     = (const uint8_t *)ops;
    ucxpool_status_t status = UCXPOOL_OK;
    size_t           num    = 0;
    size_t           done;

    if (base_missing(num_posted_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    *num_posted_p = 0;
    if (base_missing(pool) || ((num_ops != 0) && base_missing(ops))) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    if ((op_size < OP_SIZE_MIN) || (op_size % alignof(ucxpool_op_t) != 0)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "op_size is %zu, but must be at least %u and a "
                          "multiple of %zu: pass sizeof(ops[0])",
                          op_size, OP_SIZE_MIN, alignof(ucxpool_op_t));
    }
    core_lock(pool);
    core_control_hold(pool);
    while ((num < num_ops) && (status == UCXPOOL_OK)) {
        done = 0;
        if (op_at(at)->kind == UCXPOOL_OP_SEND) { /* avoids calls */
            done = send_together(pool, at, op_size, num_ops - num);
        }
        if (done == 0) {
            status = post(pool, op_at(at), op_size);
            done   = (status == UCXPOOL_OK) ? 1 : 0;
        }
        num += done;
        at += done * op_size;
    }
    core_control_release(pool);
    core_unlock_posted(pool);
    *num_posted_p = num;
    return status;
}
