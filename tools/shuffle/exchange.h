/*
 * The exchange transfers batches between workers through a pool.
 *
 *     batch_get(target) -> batch_append() ... -> post(batch)
 *                                                   |  message
 *     put(batch) <- (written) <- received() <-------'
 *
 * There is a fixed number of batches for each target, and a fixed number to
 * receive into. Memory is therefore bounded, and a slow worker delays only the
 * workers that send to it. A worker that cannot send continues to receive, so
 * that workers do not deadlock.
 *
 * At the end, every worker sends the number of its batches to every other
 * worker.
 *
 * Functions that return an int return -1 with an error.
 */
#ifndef SHUFFLE_EXCHANGE_H
#define SHUFFLE_EXCHANGE_H

#include "tools/shuffle/batch.h"

#include "common/system.h"

#include <ucxpool/ucxpool.h>

/* Time that has passed, and CPU time. */
typedef struct stopwatch {
    uint64_t wall_ns;
    uint64_t cpu_ns;
} stopwatch_t;

stopwatch_t stopwatch_start(void);
/* Add the time since `start`. */
void stopwatch_stop(stopwatch_t *total, const stopwatch_t *start);
void stopwatch_add(stopwatch_t *total, const stopwatch_t *other);

typedef struct exchange_report {
    stopwatch_t transfer;   /* in send, receive and progress calls */
    stopwatch_t wait;       /* until something arrives */
    uint64_t    bytes_sent; /* batches with their columns */
    uint64_t    bytes_received;
    uint64_t    batches_sent;
    uint64_t    batches_received;
    unsigned    num_map; /* peers by wire */
    unsigned    num_ucx;
    uint64_t    registrations_after_start;
} exchange_report_t;

typedef struct exchange exchange_t;

/* Create the pool and the batches of worker `self`, and destroy them. Returns
 * NULL with an error. */
exchange_t *exchange_create(unsigned self, unsigned num_workers,
                            size_t batch_size);
void        exchange_destroy(exchange_t *exchange);

/* Get the address that the other workers pass to exchange_connect(). The
 * address is valid until exchange_destroy(). */
int exchange_address(exchange_t *exchange, const void **address_p,
                     size_t *length_p);
int exchange_connect(exchange_t *exchange, unsigned peer, const void *address,
                     size_t length);

/* Returns an empty batch for another worker, or NULL if all batches for this
 * worker are in flight. */
batch_t *exchange_batch_get(exchange_t *exchange, unsigned target);

/* Send a batch. The batch becomes empty again when it has been sent. */
int exchange_post(exchange_t *exchange, batch_t *batch);

/* Notify all other workers that no more batches follow. */
int exchange_end(exchange_t *exchange);

/* Progress all transfers, and detect the loss of a peer. */
int exchange_progress(exchange_t *exchange);

/* Sleep until an event or a timeout. */
void exchange_wait(exchange_t *exchange, int timeout_ms);

/* exchange_received() returns the next batch that has arrived, or NULL.
 * exchange_put() returns the batch to the exchange. */
batch_t *exchange_received(exchange_t *exchange);
void     exchange_put(exchange_t *exchange, batch_t *batch);

/* Returns true if all sends have completed and all batches of all other workers
 * have been received. */
bool exchange_has_ended(const exchange_t *exchange);

/* Returns true if the failure was the loss of another worker. */
bool exchange_lost_peer(const exchange_t *exchange);

/* Get the bytes that were transferred, the time, and the statistics of the
 * pool. */
void exchange_report(exchange_t *exchange, exchange_report_t *report_p);

#endif
