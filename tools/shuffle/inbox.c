/* The receiving side of the exchange. */
#include <config.h>

#include "tools/shuffle/error.h"
#include "tools/shuffle/exchange_inside.h"

#include <stdlib.h>
#include <string.h>

unsigned exchange_num_arrivals(const exchange_params_t *params)
{
    unsigned n = 2 * (params->num_workers - 1);

    n = n < EXCHANGE_ARRIVALS_MIN ? EXCHANGE_ARRIVALS_MIN : n;
    return n > EXCHANGE_ARRIVALS_MAX ? EXCHANGE_ARRIVALS_MAX : n;
}

int exchange_incoming_init(exchange_t *exchange)
{
    const batch_shape_t *shape = exchange->params.shape;
    unsigned             num   = exchange_num_arrivals(&exchange->params);
    size_t               size  = store_round(batch_memory_size(shape));

    exchange->ready_end = &exchange->ready;
    exchange->notes_end = &exchange->notes;
    if (exchange->params.gpu_store != NULL) {
        exchange->list = gpu_store_list(exchange->params.gpu_store);
        return 0;
    }
    exchange->list = &exchange->own_list;
    return incoming_list_init(exchange->list, shape,
                              store_take(&exchange->memory, num * size), num);
}

static void exchange_batch_received(ucxpool_request_t *request,
                                    ucxpool_status_t status, void *arg)
{
    incoming_t *incoming = arg;
    exchange_t *exchange = incoming->context;

    exchange->num_receiving--;
    if (status != UCXPOOL_OK) {
        exchange_fail_request(exchange, request, incoming->source,
                              "cannot receive from");
        incoming_list_put(exchange->list, incoming);
        return;
    }
    exchange->times.batches_received++;
    exchange->times.bytes_received += incoming->length;
    exchange->peers[incoming->source].batches_received++;
    incoming->next       = NULL;
    *exchange->ready_end = incoming;
    exchange->ready_end  = &incoming->next;
}

static void exchange_take_batch(exchange_t                   *exchange,
                                ucxpool_message_t            *message,
                                const ucxpool_message_attr_t *attr,
                                const exchange_header_t      *header)
{
    incoming_t              *incoming = incoming_list_peek(exchange->list);
    ucxpool_request_params_t params   = {0};
    ucxpool_data_t           data;
    ucxpool_status_t         status;
    char                    *memory;

    if ((header->count > UINT32_MAX) ||
        (incoming_prepare(incoming, header->source, attr->length,
                          (uint32_t)header->count, &memory) != 0)) {
        exchange_fail(exchange, UCXPOOL_ERR_LIMIT, header->source,
                      "cannot receive from", error_text());
        ucxpool_message_refuse(message, error_text());
        return;
    }
    incoming_list_get(exchange->list);
    incoming->context = exchange;
    data              = ucxpool_data_buffer(memory, attr->length);
    exchange_params_on_device(exchange, UCXPOOL_STREAM_READY,
                              incoming_is_large(incoming), &params);
    params.field_mask |= UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK;
    params.callback     = exchange_batch_received;
    params.callback_arg = incoming;
    exchange->num_receiving++;
    status = ucxpool_message_recv(message, &data, &params, NULL);
    if (status != UCXPOOL_OK) {
        exchange->num_receiving--;
        exchange_fail(exchange, status, header->source, "cannot receive from",
                      ucxpool_error_detail());
        ucxpool_message_refuse(message, "the receiver failed");
        incoming_list_put(exchange->list, incoming);
    }
}

static void exchange_take_note(exchange_t *exchange, unsigned source,
                               const void *data, size_t length)
{
    exchange_note_t *note = calloc(1, sizeof(*note));

    if (note == NULL) {
        exchange_fail(exchange, UCXPOOL_ERR_NO_MEMORY, source,
                      "cannot receive from", "out of memory for a note");
        return;
    }
    note->source = source;
    note->length = (uint32_t)length;
    memcpy(note->data, data, length);
    *exchange->notes_end = note;
    exchange->notes_end  = &note->next;
}

/* Messages without a payload: all they say is in the metadata. */
static void exchange_take_small(exchange_t                   *exchange,
                                ucxpool_message_t            *message,
                                const ucxpool_message_attr_t *attr,
                                const exchange_header_t      *header)
{
    exchange_peer_t *peer    = &exchange->peers[header->source];
    ucxpool_data_t   nothing = ucxpool_data_buffer(NULL, 0);

    if (header->kind == EXCHANGE_END) {
        peer->has_ended        = true;
        peer->batches_expected = header->count;
    } else {
        exchange_take_note(exchange, header->source,
                           (const char *)attr->metadata + sizeof(*header),
                           attr->metadata_length - sizeof(*header));
    }
    if (ucxpool_message_recv(message, &nothing, NULL, NULL) != UCXPOOL_OK) {
        exchange_fail(exchange, UCXPOOL_ERR_IO, header->source,
                      "cannot receive from", ucxpool_error_detail());
        ucxpool_message_refuse(message, "the receiver failed");
    }
}

static bool exchange_header_is_sound(const exchange_t             *exchange,
                                     const ucxpool_message_attr_t *attr,
                                     exchange_header_t            *header_p)
{
    if (attr->metadata_length < sizeof(*header_p)) {
        return false;
    }
    memcpy(header_p, attr->metadata, sizeof(*header_p));
    if ((header_p->source >= exchange->params.num_workers) ||
        (attr->metadata_length > sizeof(*header_p) + EXCHANGE_NOTE_SIZE)) {
        return false;
    }
    return (header_p->kind == EXCHANGE_BATCH) ||
           (((header_p->kind == EXCHANGE_END) ||
             (header_p->kind == EXCHANGE_NOTE)) &&
            (attr->length == 0));
}

void exchange_take(exchange_t *exchange)
{
    ucxpool_message_t     *message;
    ucxpool_message_attr_t attr;
    exchange_header_t      header;

    /* Without an idle one messages wait with their senders. */
    while (
        (incoming_list_peek(exchange->list) != NULL) && !exchange->failed &&
        (ucxpool_probe(exchange->pool, NULL, 0, 0, &message) == UCXPOOL_OK)) {
        ucxpool_message_query(message, &attr, sizeof(attr));
        if (!exchange_header_is_sound(exchange, &attr, &header)) {
            exchange_fail(exchange, UCXPOOL_ERR_PROTOCOL, exchange->params.self,
                          "nonsense was sent to",
                          "is every worker of the "
                          "same version?");
            ucxpool_message_refuse(message, "not a message of this tool");
        } else if (header.kind == EXCHANGE_BATCH) {
            exchange_take_batch(exchange, message, &attr, &header);
        } else {
            exchange_take_small(exchange, message, &attr, &header);
        }
    }
}

incoming_t *exchange_incoming_get(exchange_t *exchange)
{
    incoming_t *incoming = exchange->ready;

    if (incoming == NULL) {
        return NULL;
    }
    exchange->ready = incoming->next;
    if (exchange->ready == NULL) {
        exchange->ready_end = &exchange->ready;
    }
    return incoming;
}

void exchange_incoming_release(exchange_t *exchange, incoming_t *incoming)
{
    incoming_list_put(exchange->list, incoming);
}

exchange_note_t *exchange_note_get(exchange_t *exchange)
{
    exchange_note_t *note = exchange->notes;

    if (note != NULL) {
        exchange->notes = note->next;
        if (exchange->notes == NULL) {
            exchange->notes_end = &exchange->notes;
        }
    }
    return note;
}
