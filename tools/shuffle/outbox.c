/* The sending side of the exchange. */
#include <config.h>

#include "tools/shuffle/complaint.h"
#include "tools/shuffle/exchange_inside.h"

#include <assert.h>
#include <string.h>

int exchange_peer_init(exchange_t *exchange, unsigned index)
{
    const batch_shape_t *shape = exchange->params.shape;
    exchange_peer_t     *peer  = &exchange->peers[index];
    batch_t             *batch;

    peer->exchange = exchange;
    for (unsigned i = 0; i < EXCHANGE_BATCHES_PER_PEER; i++) {
        batch = batch_create(shape,
                             store_take(&exchange->memory,
                                         batch_memory_size(shape)),
                             NULL);
        if (batch == NULL) {
            return -1;
        }
        batch->holder = peer;
        batch->next   = peer->idle;
        peer->idle    = batch;
        peer->all[i]  = batch;
    }
    return 0;
}

static ucxpool_status_t exchange_send(exchange_t *exchange, unsigned target,
                                      const exchange_header_t *header,
                                      size_t header_size,
                                      const ucxpool_segment_t *segments,
                                      size_t num_segments,
                                      ucxpool_request_cb_t callback, void *arg)
{
    ucxpool_request_params_t params = {0};

    params.field_mask = UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK |
                        UCXPOOL_REQUEST_PARAM_FIELD_METADATA;
    params.callback        = callback;
    params.callback_arg    = arg;
    params.metadata        = header;
    params.metadata_length = header_size;
    return ucxpool_send_buffers(exchange->peers[target].channel, segments,
                                num_segments, header->kind, &params, NULL);
}

batch_t *exchange_batch_get(exchange_t *exchange, unsigned target)
{
    exchange_peer_t *peer  = &exchange->peers[target];
    batch_t         *batch = peer->idle;

    if (batch != NULL) {
        peer->idle = batch->next;
        batch_reset(batch, target);
    }
    return batch;
}

static void exchange_batch_sent(ucxpool_request_t *request,
                                ucxpool_status_t status, void *arg)
{
    batch_t         *batch = arg;
    exchange_peer_t *peer  = batch->holder;

    peer->pending--;
    if (status != UCXPOOL_OK) {
        exchange_fail_request(peer->exchange, request, batch->target,
                              "cannot send to");
    }
    batch->next = peer->idle;
    peer->idle  = batch;
}

int exchange_post(exchange_t *exchange, batch_t *batch)
{
    exchange_peer_t         *peer   = batch->holder;
    exchange_header_t        header = {EXCHANGE_BATCH, exchange->params.self,
                                       batch->num_chunks};
    stopwatch_t              start  = stopwatch_start();
    const ucxpool_segment_t *segments;
    size_t                   num_segments = batch_segments(batch, &segments);
    ucxpool_status_t         status;

    peer->pending++;
    peer->batches_sent++;
    exchange->times.batches_sent++;
    exchange->times.bytes_sent += batch_message_size(batch);
    status = exchange_send(exchange, batch->target, &header, sizeof(header),
                           segments, num_segments, exchange_batch_sent, batch);
    stopwatch_stop(&exchange->times.transfer, &start);
    if (status != UCXPOOL_OK) {
        peer->pending--;
        exchange_fail(exchange, status, batch->target, "cannot send to",
                      ucxpool_error_detail());
    }
    return exchange->failed ? -1 : 0;
}

static void exchange_note_sent(ucxpool_request_t *request,
                               ucxpool_status_t status, void *arg)
{
    exchange_peer_t *peer = arg;

    peer->exchange->notes_pending--;
    if (status != UCXPOOL_OK) {
        exchange_fail_request(peer->exchange, request,
                              (unsigned)(peer - peer->exchange->peers),
                              "cannot send to");
    }
}

static int exchange_send_small(exchange_t *exchange, unsigned target,
                               const exchange_header_t *header, size_t size)
{
    ucxpool_status_t status;

    exchange->notes_pending++;
    status = exchange_send(exchange, target, header, size, NULL, 0,
                           exchange_note_sent, &exchange->peers[target]);
    if (status != UCXPOOL_OK) {
        exchange->notes_pending--;
        exchange_fail(exchange, status, target, "cannot send to",
                      ucxpool_error_detail());
    }
    return exchange->failed ? -1 : 0;
}

int exchange_end(exchange_t *exchange)
{
    for (unsigned i = 0; i < exchange->params.num_workers; i++) {
        exchange_header_t header = {EXCHANGE_END, exchange->params.self,
                                    exchange->peers[i].batches_sent};

        if ((i != exchange->params.self) &&
            (exchange_send_small(exchange, i, &header, sizeof(header)) != 0)) {
            return -1;
        }
    }
    return 0;
}

int exchange_note_send(exchange_t *exchange, unsigned target, const void *data,
                       size_t length)
{
    struct {
        exchange_header_t header;
        char              data[EXCHANGE_NOTE_SIZE];
    } note = {{EXCHANGE_NOTE, exchange->params.self, 0}, {0}};

    assert(length <= sizeof(note.data));
    memcpy(note.data, data, length);
    return exchange_send_small(exchange, target, &note.header,
                               sizeof(note.header) + length);
}
