/*
 * The exchange: batches between workers, through a pool.
 *
 *     batch_get(target) -> batch_append() ... -> post(batch)
 *                                                   |  message
 *     incoming_release() <- (written) <- incoming_get()
 *
 * Each target has a fixed number of batches, and there is a fixed number of
 * incoming: memory is bounded, and a slow worker stops those that send to it,
 * and nobody else. A worker that cannot send goes on receiving, so nobody waits
 * in a circle.
 *
 * With a store, batches are built in pinned memory, copied to the GPU and sent
 * from there; incoming are places of the store.
 *
 * At the end every worker tells every other how many batches it sent.
 *
 * Functions that return an int return -1 with an error.
 */
#ifndef SHUFFLE_EXCHANGE_H
#define SHUFFLE_EXCHANGE_H

#include "tools/shuffle/incoming.h"
#include "tools/shuffle/batch.h"
#include "tools/shuffle/stopwatch.h"
#include "tools/shuffle/gpu_store.h"

#include "common/pool_stats.h"

#include <ucxpool/ucxpool.h>

#include <stdbool.h>

/* Bytes of the longest note. */
#define EXCHANGE_NOTE_SIZE 1536u

typedef struct exchange_params {
    unsigned             self;
    unsigned             num_workers;
    const batch_shape_t *shape;     /* outlives the exchange */
    gpu_store_t         *gpu_store; /* the same; NULL for none */
} exchange_params_t;

typedef struct exchange_times {
    stopwatch_t transfer;   /* in calls that send, receive and progress */
    stopwatch_t wait;       /* until something arrives */
    uint64_t    bytes_sent; /* batches with their columns */
    uint64_t    bytes_received;
    uint64_t    batches_sent;
    uint64_t    batches_received;
} exchange_times_t;

typedef struct exchange exchange_t;

/* Create the pool and its batches. */
int  exchange_create(const exchange_params_t *params, exchange_t **exchange_p);
void exchange_destroy(exchange_t *exchange);

/* What the others need for exchange_connect(); valid until destroy. */
int exchange_address(exchange_t *exchange, const void **address_p,
                     size_t *length_p);
int exchange_connect(exchange_t *exchange, unsigned peer, const void *address,
                     size_t length);

/* An empty batch for another worker, or NULL when all of its are under way. */
batch_t *exchange_batch_get(exchange_t *exchange, unsigned target);

/* Send it; it comes back by itself. */
int exchange_post(exchange_t *exchange, batch_t *batch);

/* Tell all others that no more batches come. */
int exchange_end(exchange_t *exchange);

/* Move what can move. Also notices that a peer has gone. */
int exchange_progress(exchange_t *exchange);

/* Sleep until something may move, or the time is over. */
void exchange_wait(exchange_t *exchange, int timeout_ms);

/* The next batch that is here, or NULL. It is to be released, or held in the
 * gpu_store. */
incoming_t *exchange_incoming_get(exchange_t *exchange);
void exchange_incoming_release(exchange_t *exchange, incoming_t *incoming);

/* All that was sent has gone, and all others have ended and all of theirs was
 * got. */
bool exchange_is_over(const exchange_t *exchange);

/*
 * Notes: small messages beside the batches, for the launcher of the workers. A
 * note is at most EXCHANGE_NOTE_SIZE bytes.
 */
typedef struct exchange_note {
    struct exchange_note *next;
    unsigned              source;
    uint32_t              length;
    char                  data[EXCHANGE_NOTE_SIZE];
} exchange_note_t;

int exchange_note_send(exchange_t *exchange, unsigned target, const void *data,
                       size_t length);
/* The oldest note, to be freed, or NULL. */
exchange_note_t *exchange_note_get(exchange_t *exchange);
/* Notes that were sent and are not there yet. */
unsigned exchange_notes_pending(const exchange_t *exchange);

/* True when the failure was that another worker went away. */
bool exchange_lost_peer(const exchange_t *exchange);

/* The pool's invariants. */
int exchange_check(exchange_t *exchange);

/* What was moved and how; how many peers use which wire. */
void exchange_times_get(const exchange_t *exchange, exchange_times_t *times_p);
void exchange_stats_get(exchange_t *exchange, pool_stats_t *stats_p,
                        ucxpool_degraded_t *degraded_to_p);
unsigned exchange_count_wire(const exchange_t *exchange, ucxpool_wire_t wire);

#endif
