#include <config.h>

#include "tools/shuffle/exchange_inside.h"
#include "tools/shuffle/error.h"
#include "tools/shuffle/pool.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static size_t exchange_memory_size(const exchange_params_t *params)
{
    size_t num_batches =
        EXCHANGE_BATCHES_PER_PEER * (size_t)(params->num_workers - 1);
    size_t num_arrivals =
        params->gpu_store == NULL ? exchange_num_arrivals(params) : 0;

    return (num_batches + num_arrivals) *
           store_round(batch_memory_size(params->shape));
}

static int exchange_init_memory(exchange_t *exchange)
{
    size_t size = exchange_memory_size(&exchange->params);

    if (exchange->params.gpu_store == NULL) {
        return store_init(&exchange->memory, exchange->pool, NULL, size);
    }
    return store_init_pinned(&exchange->memory, exchange->device, size) == 0
               ? store_init(&exchange->mirrors, exchange->pool,
                            exchange->device, size)
               : -1;
}

static int exchange_init(exchange_t *exchange)
{
    if (exchange->params.gpu_store != NULL) {
        exchange->device = gpu_store_device(exchange->params.gpu_store);
    }
    if ((pool_create(exchange->params.self, exchange->device,
                     exchange_memory_size(&exchange->params),
                     &exchange->pool) != 0) ||
        (exchange_init_memory(exchange) != 0)) {
        return -1;
    }
    exchange->peers =
        calloc(exchange->params.num_workers, sizeof(*exchange->peers));
    if (exchange->peers == NULL) {
        return say_error("out of memory for %u peers",
                         exchange->params.num_workers);
    }
    for (unsigned i = 0; i < exchange->params.num_workers; i++) {
        if ((i != exchange->params.self) &&
            (exchange_peer_init(exchange, i) != 0)) {
            return -1;
        }
    }
    return exchange_incoming_init(exchange);
}

int exchange_create(const exchange_params_t *params, exchange_t **exchange_p)
{
    exchange_t *exchange = calloc(1, sizeof(*exchange));

    if (exchange == NULL) {
        return say_error("out of memory");
    }
    exchange->params = *params;
    if (exchange_init(exchange) != 0) {
        exchange_destroy(exchange);
        return -1;
    }
    *exchange_p = exchange;
    return 0;
}

static void exchange_free(exchange_t *exchange)
{
    exchange_note_t *note;

    while ((note = exchange_note_get(exchange)) != NULL) {
        free(note);
    }
    incoming_list_cleanup(&exchange->own_list);
    for (unsigned i = 0; i < exchange->params.num_workers; i++) {
        for (unsigned j = 0; j < EXCHANGE_BATCHES_PER_PEER; j++) {
            if (exchange->peers != NULL) {
                batch_destroy(exchange->peers[i].all[j]);
            }
        }
    }
    free(exchange->peers);
    free(exchange);
}

void exchange_destroy(exchange_t *exchange)
{
    if (exchange == NULL) {
        return;
    }
    /* What ends now is no failure to report an error about. */
    exchange->failed = true;
    ucxpool_address_release(exchange->address);
    /* Registered memory may still be read by a peer: it goes with the pool,
     * which asks for the batches back. */
    ucxpool_destroy(exchange->pool);
    /* After a failure a batch may be on its way to its mirror. */
    if (exchange->device != NULL) {
        device_wait_in(exchange->device);
    }
    if (exchange->mirrors.origin != STORE_OF_POOL) {
        store_cleanup(&exchange->mirrors);
    }
    if (exchange->memory.origin != STORE_OF_POOL) {
        store_cleanup(&exchange->memory);
    }
    exchange_free(exchange);
}

int exchange_address(exchange_t *exchange, const void **address_p,
                     size_t *length_p)
{
    if ((exchange->address == NULL) &&
        (ucxpool_address_get(exchange->pool, &exchange->address,
                             &exchange->address_length) != UCXPOOL_OK)) {
        return say_error("cannot get the pool's address: %s",
                         ucxpool_error_detail());
    }
    *address_p = exchange->address;
    *length_p  = exchange->address_length;
    return 0;
}

/* What the end of a peer looks like. */
static bool exchange_is_loss(ucxpool_status_t status)
{
    return (status == UCXPOOL_ERR_PEER_LOST) ||
           (status == UCXPOOL_ERR_CLOSED) || (status == UCXPOOL_ERR_CANCELED);
}

int exchange_connect(exchange_t *exchange, unsigned peer, const void *address,
                     size_t length)
{
    ucxpool_channel_params_t params = {0};
    char                     name[32];
    ucxpool_status_t         status;

    snprintf(name, sizeof(name), "worker-%u", peer);
    params.field_mask =
        UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS | UCXPOOL_CHANNEL_PARAM_FIELD_NAME;
    params.address        = address;
    params.address_length = length;
    params.name           = name;

    status = ucxpool_channel_create(exchange->pool, &params,
                                    &exchange->peers[peer].channel);
    if (status != UCXPOOL_OK) {
        exchange->lost_peer = exchange_is_loss(status);
        return say_error("cannot make a channel to worker %u: %s", peer,
                         ucxpool_error_detail());
    }
    return 0;
}

void exchange_fail(exchange_t *exchange, ucxpool_status_t status, unsigned peer,
                   const char *what, const char *detail)
{
    if (exchange->failed) {
        return;
    }
    exchange->failed    = true;
    exchange->lost_peer = exchange_is_loss(status);
    say_error("%s worker %u: %s: %s", what, peer, ucxpool_status_string(status),
              detail);
}

void exchange_params_on_device(const exchange_t *exchange, void *stream,
                               bool is_large, ucxpool_request_params_t *params)
{
    if (exchange->device == NULL) {
        return;
    }
    params->field_mask |= UCXPOOL_REQUEST_PARAM_FIELD_STREAM |
                          UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS;
    params->stream = stream;
    params->segments_kind =
        is_large ? UCXPOOL_SEGMENTS_ANY : UCXPOOL_SEGMENTS_CUDA;
}

void exchange_fail_request(exchange_t *exchange, ucxpool_request_t *request,
                           unsigned peer, const char *what)
{
    ucxpool_request_attr_t attr;

    ucxpool_request_query(request, &attr, sizeof(attr));
    exchange_fail(exchange, attr.status, peer, what, attr.detail);
}

/* A peer that went away is noticed even when nothing is under way to it. */
static void exchange_watch(exchange_t *exchange)
{
    ucxpool_channel_attr_t attr;

    for (unsigned i = 0; i < exchange->params.num_workers; i++) {
        if (exchange->peers[i].channel == NULL) {
            continue;
        }
        ucxpool_channel_query(exchange->peers[i].channel, &attr, sizeof(attr));
        if (attr.state == UCXPOOL_CHANNEL_FAILED) {
            exchange_fail(exchange, attr.status, i, "lost", attr.reason);
        } else if ((attr.state == UCXPOOL_CHANNEL_CLOSED) &&
                   !exchange->peers[i].has_ended) {
            exchange_fail(exchange, UCXPOOL_ERR_CLOSED, i, "lost",
                          "it left before it had sent everything");
        }
    }
}

int exchange_progress(exchange_t *exchange)
{
    stopwatch_t start = stopwatch_start();
    unsigned    moved = ucxpool_progress(exchange->pool);

    exchange_take(exchange);
    /* Looking in vain is part of waiting. */
    stopwatch_stop(
        moved > 0 ? &exchange->times.transfer : &exchange->times.wait, &start);
    exchange_watch(exchange);
    return exchange->failed ? -1 : 0;
}

void exchange_wait(exchange_t *exchange, int timeout_ms)
{
    stopwatch_t   start = stopwatch_start();
    struct pollfd event = {-1, POLLIN, 0};

    /* What is pending is moved, and timed, by exchange_progress(). */
    if ((ucxpool_event_fd(exchange->pool, &event.fd) == UCXPOOL_OK) &&
        (ucxpool_arm(exchange->pool) == UCXPOOL_OK)) {
        poll(&event, 1, timeout_ms);
    }
    stopwatch_stop(&exchange->times.wait, &start);
}

bool exchange_is_over(const exchange_t *exchange)
{
    const exchange_peer_t *peer;

    if ((exchange->notes_pending > 0) || (exchange->num_receiving > 0) ||
        (exchange->ready != NULL)) {
        return false;
    }
    for (unsigned i = 0; i < exchange->params.num_workers; i++) {
        peer = &exchange->peers[i];
        if ((i != exchange->params.self) &&
            (!peer->has_ended || (peer->pending > 0) ||
             (peer->batches_received != peer->batches_expected))) {
            return false;
        }
    }
    return true;
}

unsigned exchange_notes_pending(const exchange_t *exchange)
{
    return exchange->notes_pending;
}

bool exchange_lost_peer(const exchange_t *exchange)
{
    return exchange->lost_peer;
}

int exchange_check(exchange_t *exchange)
{
    if (ucxpool_check(exchange->pool) != UCXPOOL_OK) {
        return say_error("the pool of worker %u lost count of its blocks: %s",
                         exchange->params.self, ucxpool_error_detail());
    }
    return 0;
}

void exchange_times_get(const exchange_t *exchange, exchange_times_t *times_p)
{
    *times_p = exchange->times;
}

void exchange_stats_get(exchange_t *exchange, pool_stats_t *stats_p,
                        ucxpool_degraded_t *degraded_to_p)
{
    ucxpool_attr_t attr;

    pool_stats_read(exchange->pool, stats_p);
    ucxpool_query(exchange->pool, &attr, sizeof(attr));
    *degraded_to_p = attr.degraded_to;
}

unsigned exchange_count_wire(const exchange_t *exchange, ucxpool_wire_t wire)
{
    ucxpool_channel_attr_t attr;
    unsigned               count = 0;

    for (unsigned i = 0; i < exchange->params.num_workers; i++) {
        if (exchange->peers[i].channel != NULL) {
            ucxpool_channel_query(exchange->peers[i].channel, &attr,
                                  sizeof(attr));
            count += attr.wire == wire;
        }
    }
    return count;
}
