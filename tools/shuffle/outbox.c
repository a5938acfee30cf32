/* The sending side of the exchange. */
#include <config.h>

#include "tools/shuffle/error.h"
#include "tools/shuffle/exchange_inside.h"

#include <assert.h>
#include <string.h>

int exchange_peer_init(exchange_t *exchange, unsigned index)
{
    const batch_shape_t *shape  = exchange->params.shape;
    exchange_peer_t     *peer   = &exchange->peers[index];
    size_t               size   = batch_memory_size(shape);
    char                *mirror = NULL;
    batch_t             *batch;

    peer->exchange = exchange;
    for (unsigned i = 0; i < EXCHANGE_BATCHES_PER_PEER; i++) {
        if (exchange->device != NULL) {
            mirror = store_take(&exchange->mirrors, size);
        }
        batch =
            batch_create(shape, store_take(&exchange->memory, size), mirror);
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

static void exchange_send_params(const exchange_header_t *header,
                                 size_t                   header_size,
                                 ucxpool_request_cb_t callback, void *arg,
                                 ucxpool_request_params_t *params)
{
    memset(params, 0, sizeof(*params));
    params->field_mask = UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK |
                         UCXPOOL_REQUEST_PARAM_FIELD_METADATA;
    params->callback        = callback;
    params->callback_arg    = arg;
    params->metadata        = header;
    params->metadata_length = header_size;
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

/* The segments of a batch, where they are sent from. What is copied there is
 * waited for by the library, in the device's stream. */
static size_t exchange_segments(exchange_t *exchange, batch_t *batch,
                                const ucxpool_segment_t **segments_p)
{
    size_t num = batch_segments(batch, segments_p);

    if ((exchange->device != NULL) && !batch_is_large(batch) &&
        (device_copy_in(exchange->device, batch->mirror, batch->memory,
                        batch_extent(batch)) != 0)) {
        exchange_fail(exchange, UCXPOOL_ERR_IO, batch->target, "cannot send to",
                      error_text());
    }
    return num;
}

static ucxpool_status_t exchange_send_batch(exchange_t *exchange,
                                            batch_t    *batch)
{
    exchange_header_t        header = {EXCHANGE_BATCH, exchange->params.self,
                                       batch->num_chunks};
    const ucxpool_segment_t *segments;
    ucxpool_request_params_t params;
    void                    *stream = UCXPOOL_STREAM_READY;
    ucxpool_data_t           data;
    size_t                   num;

    num = exchange_segments(exchange, batch, &segments);
    if (exchange->failed) {
        return UCXPOOL_ERR_IO;
    }
    if ((exchange->device != NULL) && !batch_is_large(batch)) {
        stream = device_stream_in(exchange->device);
    }
    exchange_send_params(&header, sizeof(header), exchange_batch_sent, batch,
                         &params);
    exchange_params_on_device(exchange, stream, batch_is_large(batch), &params);
    data = ucxpool_data_segments(segments, num);
    return ucxpool_send(exchange->peers[batch->target].channel, &data,
                        EXCHANGE_BATCH, &params, NULL);
}

int exchange_post(exchange_t *exchange, batch_t *batch)
{
    exchange_peer_t *peer  = batch->holder;
    stopwatch_t      start = stopwatch_start();
    ucxpool_status_t status;

    peer->pending++;
    peer->batches_sent++;
    exchange->times.batches_sent++;
    exchange->times.bytes_sent += batch_message_size(batch);
    status = exchange_send_batch(exchange, batch);
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
    ucxpool_request_params_t params;
    ucxpool_status_t         status;

    exchange_send_params(header, size, exchange_note_sent,
                         &exchange->peers[target], &params);
    exchange->notes_pending++;
    status = ucxpool_send_buffer(exchange->peers[target].channel, NULL, 0,
                                 header->kind, &params, NULL);
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
