/*
 * The exchange: batches between workers, through a pool.
 *
 *     batch_get(target) -> batch_append() ... -> post(batch)
 *                                                   |  message
 *     put(batch) <- (written) <- received() <-------'
 *
 * Each target has a fixed number of batches, and there is a fixed number to
 * receive into: memory is bounded, and a slow worker stops only those that send
 * to it. A worker that cannot send keeps receiving, so that workers do not wait
 * in a circle.
 *
 * With a GPU store, batches are built in pinned memory, copied to the GPU and
 * sent from there, and received into places of the store.
 *
 * At the end every worker tells every other how many batches it sent.
 *
 * Functions that return an int return -1 with an error.
 */
#ifndef SHUFFLE_EXCHANGE_H
#define SHUFFLE_EXCHANGE_H

#include "tools/shuffle/gpu_store.h"

#include "common/system.h"
#include "common/pool_stats.h"

#include <ucxpool/ucxpool.h>

/* Time by the clock, and of the processor. */
typedef struct stopwatch {
    uint64_t wall_ns;
    uint64_t cpu_ns;
} stopwatch_t;

stopwatch_t stopwatch_start(void);
/* Add the time since then. */
void stopwatch_stop(stopwatch_t *total, const stopwatch_t *start);
void stopwatch_add(stopwatch_t *total, const stopwatch_t *other);

typedef struct exchange_params {
    unsigned     self;
    unsigned     num_workers;
    size_t       batch_size;
    gpu_store_t *gpu_store; /* outlives the exchange; NULL: none */
} exchange_params_t;

typedef struct exchange_report {
    stopwatch_t        transfer;   /* in calls that send, receive, progress */
    stopwatch_t        wait;       /* until something arrives */
    uint64_t           bytes_sent; /* batches with their columns */
    uint64_t           bytes_received;
    uint64_t           batches_sent;
    uint64_t           batches_received;
    unsigned           num_map; /* peers by wire */
    unsigned           num_ucx;
    ucxpool_degraded_t degraded_to;
    pool_stats_t       stats;
} exchange_report_t;

typedef struct exchange exchange_t;

/* Create the pool and its batches. */
int  exchange_create(const exchange_params_t *params, exchange_t **exchange_p);
void exchange_destroy(exchange_t *exchange);

/* The address for exchange_connect() of the others; valid until destroy. */
int exchange_address(exchange_t *exchange, const void **address_p,
                     size_t *length_p);
int exchange_connect(exchange_t *exchange, unsigned peer, const void *address,
                     size_t length);

/* An empty batch for another worker, or NULL if all of its batches are in
 * flight. */
batch_t *exchange_batch_get(exchange_t *exchange, unsigned target);

/* Send a batch; it becomes empty again when it has been sent. */
int exchange_post(exchange_t *exchange, batch_t *batch);

/* Tell all others that no more batches come. */
int exchange_end(exchange_t *exchange);

/* Progress all transfers, and detect the loss of a peer. */
int exchange_progress(exchange_t *exchange);

/* Sleep until an event or a timeout. */
void exchange_wait(exchange_t *exchange, int timeout_ms);

/* The next batch that is here, or NULL; and back, unless the GPU store holds
 * it. */
batch_t *exchange_received(exchange_t *exchange);
void     exchange_put(exchange_t *exchange, batch_t *batch);

/* All sends have completed, and all batches of all others were received. */
bool exchange_is_over(const exchange_t *exchange);

/* Whether the failure was the loss of another worker. */
bool exchange_lost_peer(const exchange_t *exchange);

/* The bytes that were moved, the time, and the statistics of the pool. */
void exchange_report(exchange_t *exchange, exchange_report_t *report_p);

#endif
