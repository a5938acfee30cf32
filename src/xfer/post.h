/*
 * Posting: check a caller's arguments, create a request, and start it.
 */
#ifndef XFER_POST_H
#define XFER_POST_H

#include "core/request.h"
#include "xfer/recv.h"

/* Like ucxpool_send(), but for any copy_memory_t. */
ucxpool_status_t xfer_post_send(ucxpool_channel_t   *channel,
                                const copy_memory_t *memory, uint64_t tag,
                                const ucxpool_request_params_t *params,
                                ucxpool_request_t             **request_p);

/* Like ucxpool_recv(), but for any copy_memory_t. */
ucxpool_status_t xfer_post_recv(ucxpool_t *pool, ucxpool_channel_t *channel,
                                const copy_memory_t *memory, uint64_t tag,
                                uint64_t                        mask,
                                const ucxpool_request_params_t *params,
                                ucxpool_request_t             **request_p);

/* Like ucxpool_recv_buffer(). */
ucxpool_status_t xfer_post_recv_buffer(ucxpool_t         *pool,
                                       ucxpool_channel_t *channel,
                                       void *address, size_t length,
                                       uint64_t tag, uint64_t mask,
                                       const ucxpool_request_params_t *params,
                                       ucxpool_request_t **request_p);

/* Like ucxpool_message_recv(), but for any copy_memory_t. */
ucxpool_status_t xfer_post_message_recv(ucxpool_message_t              *message,
                                        const copy_memory_t            *memory,
                                        const ucxpool_request_params_t *params,
                                        ucxpool_request_t **request_p);

/* Posting in steps. xfer_send_create() and xfer_recv_create() return a request
 * that is not started and whose deadline is not watched yet. xfer_send_queue()
 * adds a send to its channel's queue. */
ucxpool_status_t xfer_send_create(ucxpool_channel_t              *channel,
                                  const copy_memory_t            *memory,
                                  const ucxpool_request_params_t *params,
                                  ucxpool_request_t             **request_p);
void             xfer_send_queue(ucxpool_request_t *request);
ucxpool_status_t xfer_recv_create(ucxpool_t *pool, const copy_memory_t *memory,
                                  const ucxpool_request_params_t *params,
                                  ucxpool_request_t             **request_p);

/* The maximum size of the variable part of a SHORT with several messages, and
 * the maximum number of messages in it. */
#define XFER_SHORTS_SIZE ((size_t)1024)
#define XFER_SHORTS_MAX  (XFER_SHORTS_SIZE / 16) /* proto_short_size(1) */

/* A short message in host memory. */
typedef struct xfer_short {
    uint64_t    tag;
    const void *data;
} xfer_short_t;

/* Returns how many messages of this length can be sent at once, without
 * requests; 0: they must be posted. */
uint32_t xfer_short_max(const ucxpool_channel_t *channel, size_t length);

/* Send up to xfer_short_max() messages of the same length. Returns false if
 * they must be posted. */
bool xfer_short_send(ucxpool_channel_t *channel, const xfer_short_t *messages,
                     uint32_t num, size_t length);

#endif
