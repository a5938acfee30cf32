/*
 * The inside of the exchange, for exchange.c, outbox.c and inbox.c only.
 */
#ifndef SHUFFLE_EXCHANGE_INSIDE_H
#define SHUFFLE_EXCHANGE_INSIDE_H

#include "tools/shuffle/exchange.h"
#include "tools/shuffle/incoming_list.h"
#include "tools/shuffle/store.h"

/* One being filled, two under way. */
#define EXCHANGE_BATCHES_PER_PEER 3u
/* One being written, others on their way in. */
#define EXCHANGE_ARRIVALS_MIN 3u
#define EXCHANGE_ARRIVALS_MAX 8u

typedef enum exchange_kind {
    EXCHANGE_BATCH = 1,
    EXCHANGE_END   = 2,
    EXCHANGE_NOTE  = 3
} exchange_kind_t;

/* The metadata of each message. */
typedef struct exchange_header {
    uint32_t kind;
    uint32_t source;
    uint64_t count; /* batch: chunks; end: batches that were sent */
} exchange_header_t;

typedef struct exchange_peer {
    exchange_t        *exchange;
    ucxpool_channel_t *channel;
    batch_t           *all[EXCHANGE_BATCHES_PER_PEER];
    batch_t           *idle;
    unsigned           pending; /* sends that have not ended */
    uint64_t           batches_sent;
    uint64_t           batches_received;
    uint64_t           batches_expected; /* known when it ended */
    bool               has_ended;
} exchange_peer_t;

struct exchange {
    exchange_params_t params;
    ucxpool_t        *pool;
    void             *address;
    size_t            address_length;
    device_t         *device;  /* NULL: none */
    store_t           memory;  /* of batches and incoming */
    store_t           mirrors; /* of batches, on the device */
    exchange_peer_t  *peers;
    incoming_list_t   own_list;
    incoming_list_t  *list; /* from which incoming are taken */
    incoming_t       *ready;
    incoming_t      **ready_end;
    unsigned          num_receiving;
    exchange_note_t  *notes;
    exchange_note_t **notes_end;
    unsigned          notes_pending;
    bool              failed; /* the error is there already */
    bool              lost_peer;
    exchange_times_t  times;
};

/*
 * Remember a failure and its error. Only the first counts: those that
 * follow are its consequences.
 */
void exchange_fail(exchange_t *exchange, ucxpool_status_t status, unsigned peer,
                   const char *what, const char *detail);
void exchange_fail_request(exchange_t *exchange, ucxpool_request_t *request,
                           unsigned peer, const char *what);

/* For a pool of GPU memory: what the segments are, and the stream after whose
 * work they are used. Those of a large batch are in host memory. */
void exchange_params_on_device(const exchange_t *exchange, void *stream,
                               bool is_large, ucxpool_request_params_t *params);

/* outbox.c: the batches for one peer. Returns -1 with an error. */
int exchange_peer_init(exchange_t *exchange, unsigned index);

/* inbox.c: the incoming batch. Return -1 with an error. */
unsigned exchange_num_arrivals(const exchange_params_t *params);
int      exchange_incoming_init(exchange_t *exchange);
/* Start to receive what has come. */
void exchange_take(exchange_t *exchange);

#endif
