#include "tools/shuffle/exchange.h"

#include "common/error.h"
#include "common/pool.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

/* For each target, one batch is being filled and two are being sent. */
#define EXCHANGE_BATCHES_PER_PEER 3u
/* Batches to receive into: one is written while the others are received. */
#define EXCHANGE_INCOMING_MIN 3u
#define EXCHANGE_INCOMING_MAX 8u

/* Shares of the pool, in percent. The rest is the caller's share, in which
 * batches are sent and received in place. */
#define POOL_SEND_SHARE 20
#define POOL_RECV_SHARE 10
#define POOL_USER_SHARE (100 - POOL_SEND_SHARE - POOL_RECV_SHARE)
/* Additional memory for packing. */
#define POOL_SPARE (8 * MIB)

#define POOL_TEXT(_number)  POOL_TEXT_(_number)
#define POOL_TEXT_(_number) #_number

typedef enum exchange_kind {
    EXCHANGE_BATCH = 1,
    EXCHANGE_END   = 2
} exchange_kind_t;

/* The metadata of each message. */
typedef struct exchange_header {
    uint32_t kind;
    uint32_t source;
    uint64_t count; /* batch: its records; end: the batches sent */
} exchange_header_t;

typedef struct exchange_peer {
    exchange_t        *exchange;
    ucxpool_channel_t *channel;
    batch_list_t       list;
    unsigned           pending; /* sends that have not ended */
    uint64_t           num_sent;
    uint64_t           num_received;
    uint64_t           num_expected; /* valid after has_ended */
    bool               has_ended;
} exchange_peer_t;

struct exchange {
    unsigned          self;
    unsigned          num_workers;
    size_t            batch_size;
    ucxpool_t        *pool;
    void             *address;
    size_t            address_length;
    char             *memory;         /* of all batches */
    bool              is_pool_memory; /* it is released with the pool */
    exchange_peer_t  *peers;
    batch_list_t      list; /* to receive into */
    batch_t          *ready;
    batch_t         **ready_end;
    unsigned          num_receiving;
    bool              failed; /* an error has been kept */
    bool              lost_peer;
    exchange_report_t report;
};

/* --- time --------------------------------------------------------------- */

stopwatch_t stopwatch_start(void)
{
    struct timespec cpu;
    stopwatch_t     start;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    start.wall_ns = clock_now();
    start.cpu_ns  = (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
    return start;
}

void stopwatch_stop(stopwatch_t *total, const stopwatch_t *start)
{
    stopwatch_t now = stopwatch_start();

    total->wall_ns += now.wall_ns - start->wall_ns;
    total->cpu_ns += now.cpu_ns - start->cpu_ns;
}

void stopwatch_add(stopwatch_t *total, const stopwatch_t *other)
{
    total->wall_ns += other->wall_ns;
    total->cpu_ns += other->cpu_ns;
}

/* --- the pool ----------------------------------------------------------- */

/* Create the pool with settings that suit this tool, unless the user has set
 * them. */
static int exchange_create_pool(exchange_t *exchange, size_t memory_size)
{
    /* The size is in whole large pages. Every worker maps the pools of all
     * others, and mapping 4 KiB pages would take longer than the transfer. */
    size_t size = (memory_size / POOL_USER_SHARE * 100 + POOL_SPARE) / MIB;
    char   comm_size[32];
    char   name[32];
    /* If the user has set a block size, the best region size is a different
     * one. */
    bool sizes  = getenv("UCXPOOL_BLOCK_SIZE") == NULL;
    bool region = sizes && (getenv("UCXPOOL_COMM_SIZE") == NULL);
    const setting_change_t changes[] = {
        {"SEND_SHARE", POOL_TEXT(POOL_SEND_SHARE)},
        {"RECV_SHARE", POOL_TEXT(POOL_RECV_SHARE)},
        /* The main process prints one error for all workers. */
        {"LOG_LEVEL", "error"},
        /* After a failure, a worker must not delay the others. */
        {"CLOSE_TIMEOUT", "300ms"},
        /* Packing short columns costs less than one operation per column. */
        {"INPLACE_MIN", "32k"},
        {"REGION_SIZE", region ? comm_size : NULL},
        {"COMM_SIZE", sizes ? comm_size : NULL},
        {"BLOCK_SIZE", sizes ? "1m" : NULL},
        {NULL, NULL},
    };
    const ucxpool_params_t params = {.field_mask = UCXPOOL_PARAM_FIELD_NAME,
                                     .name       = name};

    snprintf(comm_size, sizeof(comm_size), "%zum", (size / 2 + 1) * 2);
    snprintf(name, sizeof(name), "worker-%u", exchange->self);
    return settings_create_pool(changes, true, &params, &exchange->pool) ==
                   UCXPOOL_OK
               ? 0
               : keep_error("cannot create the pool of worker %u: %s",
                            exchange->self, ucxpool_error_detail());
}

/* Returns true if the pool has room. Called first, because a failed allocation
 * is logged. */
static bool pool_has_room(ucxpool_t *pool, size_t size)
{
    uint64_t block_size = pool_stat(pool, "block_size_bytes");

    return (block_size != 0) && (pool_stat(pool, "blocks_user_free") >=
                                 (size + block_size - 1) / block_size);
}

/* --- making it ---------------------------------------------------------- */

/* Allocate the memory of all batches, in the pool if possible. */
static void exchange_init_memory(exchange_t *exchange, size_t size)
{
    void *address;

    exchange->is_pool_memory =
        pool_has_room(exchange->pool, size) &&
        (ucxpool_comm_alloc(exchange->pool, size, &address) == UCXPOOL_OK);
    exchange->memory =
        exchange->is_pool_memory ? address : tool_calloc(1, size);
}

static void exchange_init_peer(exchange_t *exchange, unsigned index,
                               char *memory)
{
    exchange_peer_t *peer = &exchange->peers[index];

    peer->exchange = exchange;
    batch_list_init(&peer->list, memory, EXCHANGE_BATCHES_PER_PEER,
                    exchange->batch_size);
    for (unsigned i = 0; i < EXCHANGE_BATCHES_PER_PEER; i++) {
        peer->list.all[i].owner = peer;
        peer->list.all[i].peer  = index;
    }
}

static int exchange_init(exchange_t *exchange)
{
    size_t   place = batch_memory_size(exchange->batch_size);
    unsigned peers = exchange->num_workers - 1;
    unsigned num   = 2 * peers;
    size_t   size;
    char    *memory;

    num  = num < EXCHANGE_INCOMING_MIN ? EXCHANGE_INCOMING_MIN : num;
    num  = num > EXCHANGE_INCOMING_MAX ? EXCHANGE_INCOMING_MAX : num;
    size = (EXCHANGE_BATCHES_PER_PEER * (size_t)peers + num) * place;
    if (exchange_create_pool(exchange, size) != 0) {
        return -1;
    }
    exchange_init_memory(exchange, size);
    memory = exchange->memory;
    for (unsigned i = 0; i < exchange->num_workers; i++) {
        if (i != exchange->self) {
            exchange_init_peer(exchange, i, memory);
            memory += EXCHANGE_BATCHES_PER_PEER * place;
        }
    }
    batch_list_init(&exchange->list, memory, num, exchange->batch_size);
    return 0;
}

exchange_t *exchange_create(unsigned self, unsigned num_workers,
                            size_t batch_size)
{
    exchange_t *exchange = tool_calloc(1, sizeof(*exchange));

    exchange->self        = self;
    exchange->num_workers = num_workers;
    exchange->batch_size  = batch_size;
    exchange->ready_end   = &exchange->ready;
    exchange->peers       = tool_calloc(num_workers, sizeof(*exchange->peers));
    if (exchange_init(exchange) != 0) {
        exchange_destroy(exchange);
        return NULL;
    }
    return exchange;
}

void exchange_destroy(exchange_t *exchange)
{
    if (exchange == NULL) {
        return;
    }
    /* Do not report requests that end from now on as failures. */
    exchange->failed = true;
    ucxpool_address_release(exchange->address);
    /* Registered memory is released with the pool, because peers may still read
     * it. */
    ucxpool_destroy(exchange->pool);
    if (!exchange->is_pool_memory) {
        free(exchange->memory);
    }
    batch_list_cleanup(&exchange->list);
    for (unsigned i = 0; i < exchange->num_workers; i++) {
        batch_list_cleanup(&exchange->peers[i].list);
    }
    free(exchange->peers);
    free(exchange);
}

int exchange_address(exchange_t *exchange, const void **address_p,
                     size_t *length_p)
{
    if (ucxpool_address_get(exchange->pool, &exchange->address,
                            &exchange->address_length) != UCXPOOL_OK) {
        return keep_error("cannot get the pool's address: %s",
                          ucxpool_error_detail());
    }
    *address_p = exchange->address;
    *length_p  = exchange->address_length;
    return 0;
}

/* --- failures ----------------------------------------------------------- */

/* Returns true if a status means that the peer has ended. */
static bool exchange_is_loss(ucxpool_status_t status)
{
    return (status == UCXPOOL_ERR_PEER_LOST) ||
           (status == UCXPOOL_ERR_CLOSED) || (status == UCXPOOL_ERR_CANCELED);
}

/* Keep a failure and its error. Only the first is kept, because later ones are
 * its consequences. */
static void exchange_fail(exchange_t *exchange, ucxpool_status_t status,
                          unsigned peer, const char *what, const char *detail)
{
    if (exchange->failed) {
        return;
    }
    exchange->failed    = true;
    exchange->lost_peer = exchange_is_loss(status);
    keep_error("%s worker %u: %s: %s", what, peer,
               ucxpool_status_string(status), detail);
}

static void exchange_fail_request(exchange_t        *exchange,
                                  ucxpool_request_t *request, unsigned peer,
                                  const char *what)
{
    ucxpool_request_attr_t attr;

    ucxpool_request_query(request, &attr, sizeof(attr));
    exchange_fail(exchange, attr.status, peer, what, attr.detail);
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
        return keep_error("cannot create a channel to worker %u: %s", peer,
                          ucxpool_error_detail());
    }
    return 0;
}

/* --- sending ------------------------------------------------------------ */

batch_t *exchange_batch_get(exchange_t *exchange, unsigned target)
{
    return batch_list_get(&exchange->peers[target].list);
}

static void exchange_sent(ucxpool_request_t *request, ucxpool_status_t status,
                          void *arg)
{
    exchange_peer_t *peer = arg;

    peer->pending--;
    if (status != UCXPOOL_OK) {
        exchange_fail_request(peer->exchange, request,
                              (unsigned)(peer - peer->exchange->peers),
                              "cannot send to");
    }
}

static void exchange_batch_sent(ucxpool_request_t *request,
                                ucxpool_status_t status, void *arg)
{
    batch_t         *batch = arg;
    exchange_peer_t *peer  = batch->owner;

    exchange_sent(request, status, peer);
    batch_list_put(&peer->list, batch);
}

static void exchange_send(exchange_t *exchange, unsigned target,
                          const exchange_header_t *header,
                          const ucxpool_data_t *data, batch_t *batch)
{
    exchange_peer_t         *peer   = &exchange->peers[target];
    ucxpool_request_params_t params = {0};
    ucxpool_status_t         status;

    params.field_mask = UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK |
                        UCXPOOL_REQUEST_PARAM_FIELD_METADATA;
    params.callback        = exchange_sent;
    params.callback_arg    = peer;
    params.metadata        = header;
    params.metadata_length = sizeof(*header);
    if (batch != NULL) {
        params.callback     = exchange_batch_sent;
        params.callback_arg = batch;
    }
    peer->pending++;
    status = ucxpool_send(peer->channel, data, header->kind, &params, NULL);
    if (status != UCXPOOL_OK) {
        peer->pending--;
        exchange_fail(exchange, status, target, "cannot send to",
                      ucxpool_error_detail());
    }
}

int exchange_post(exchange_t *exchange, batch_t *batch)
{
    exchange_peer_t         *peer   = batch->owner;
    stopwatch_t              start  = stopwatch_start();
    exchange_header_t        header = {EXCHANGE_BATCH, exchange->self,
                                       batch->num_records};
    const ucxpool_segment_t *segments;
    ucxpool_data_t           data;
    size_t                   num = batch_segments(batch, &segments);

    peer->num_sent++;
    exchange->report.batches_sent++;
    exchange->report.bytes_sent += batch_length(batch);
    data = ucxpool_data_segments(segments, num);
    exchange_send(exchange, batch->peer, &header, &data, batch);
    stopwatch_stop(&exchange->report.transfer, &start);
    return exchange->failed ? -1 : 0;
}

int exchange_end(exchange_t *exchange)
{
    ucxpool_data_t nothing = ucxpool_data_buffer(NULL, 0);

    for (unsigned i = 0; i < exchange->num_workers; i++) {
        exchange_header_t header = {EXCHANGE_END, exchange->self,
                                    exchange->peers[i].num_sent};

        if (i != exchange->self) {
            exchange_send(exchange, i, &header, &nothing, NULL);
        }
    }
    return exchange->failed ? -1 : 0;
}

/* --- receiving ---------------------------------------------------------- */

static void exchange_batch_received(ucxpool_request_t *request,
                                    ucxpool_status_t status, void *arg)
{
    batch_t    *batch    = arg;
    exchange_t *exchange = batch->owner;

    exchange->num_receiving--;
    if (status != UCXPOOL_OK) {
        exchange_fail_request(exchange, request, batch->peer,
                              "cannot receive from");
        batch_list_put(&exchange->list, batch);
        return;
    }
    exchange->report.batches_received++;
    exchange->report.bytes_received += batch_length(batch);
    exchange->peers[batch->peer].num_received++;
    batch->next          = NULL;
    *exchange->ready_end = batch;
    exchange->ready_end  = &batch->next;
}

static void exchange_refuse(exchange_t *exchange, ucxpool_message_t *message,
                            ucxpool_status_t status, unsigned peer,
                            const char *detail)
{
    exchange_fail(exchange, status, peer, "cannot receive from", detail);
    ucxpool_message_refuse(message, kept_error());
}

static void exchange_take_batch(exchange_t              *exchange,
                                ucxpool_message_t       *message,
                                const exchange_header_t *header, size_t length)
{
    batch_t                 *batch  = batch_list_get(&exchange->list);
    ucxpool_request_params_t params = {0};
    ucxpool_data_t           data;
    ucxpool_status_t         status;

    batch->owner = exchange;
    batch->peer  = header->source;
    if (batch_prepare(batch, header->count, length) != 0) {
        exchange_refuse(exchange, message, UCXPOOL_ERR_LIMIT, header->source,
                        kept_error());
        batch_list_put(&exchange->list, batch);
        return;
    }
    data                = ucxpool_data_buffer(batch_place(batch), length);
    params.field_mask   = UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK;
    params.callback     = exchange_batch_received;
    params.callback_arg = batch;
    exchange->num_receiving++;
    status = ucxpool_message_recv(message, &data, &params, NULL);
    if (status != UCXPOOL_OK) {
        exchange->num_receiving--;
        exchange_refuse(exchange, message, status, header->source,
                        ucxpool_error_detail());
        batch_list_put(&exchange->list, batch);
    }
}

/* Receive the end of a peer's batches, a message that has only metadata. */
static void exchange_take_end(exchange_t *exchange, ucxpool_message_t *message,
                              const exchange_header_t *header)
{
    exchange_peer_t *peer    = &exchange->peers[header->source];
    ucxpool_data_t   nothing = ucxpool_data_buffer(NULL, 0);
    ucxpool_status_t status;

    peer->has_ended    = true;
    peer->num_expected = header->count;
    status             = ucxpool_message_recv(message, &nothing, NULL, NULL);
    if (status != UCXPOOL_OK) {
        exchange_refuse(exchange, message, status, header->source,
                        ucxpool_error_detail());
    }
}

/* Start to receive messages that have arrived. If no batch is idle, the
 * messages stay at their senders. */
static void exchange_take(exchange_t *exchange)
{
    ucxpool_message_t     *message;
    ucxpool_message_attr_t attr;
    exchange_header_t      header;

    while (
        (exchange->list.idle != NULL) && !exchange->failed &&
        (ucxpool_probe(exchange->pool, NULL, 0, 0, &message) == UCXPOOL_OK)) {
        ucxpool_message_query(message, &attr, sizeof(attr));
        memset(&header, 0, sizeof(header));
        if (attr.metadata_length == sizeof(header)) {
            memcpy(&header, attr.metadata, sizeof(header));
        }
        if ((header.kind == 0) || (header.source >= exchange->num_workers)) {
            exchange_refuse(exchange, message, UCXPOOL_ERR_PROTOCOL,
                            exchange->self,
                            "check that all workers have the same version");
        } else if (header.kind == EXCHANGE_BATCH) {
            exchange_take_batch(exchange, message, &header, attr.length);
        } else {
            exchange_take_end(exchange, message, &header);
        }
    }
}

batch_t *exchange_received(exchange_t *exchange)
{
    batch_t *batch = exchange->ready;

    if (batch == NULL) {
        return NULL;
    }
    exchange->ready = batch->next;
    if (exchange->ready == NULL) {
        exchange->ready_end = &exchange->ready;
    }
    batch_parse(batch);
    return batch;
}

void exchange_put(exchange_t *exchange, batch_t *batch)
{
    batch_list_put(&exchange->list, batch);
}

/* --- progress ----------------------------------------------------------- */

/* Detect the loss of a peer even if there is no request to it. */
static void exchange_watch(exchange_t *exchange)
{
    ucxpool_channel_attr_t attr;

    for (unsigned i = 0; i < exchange->num_workers; i++) {
        if (exchange->peers[i].channel == NULL) {
            continue;
        }
        ucxpool_channel_query(exchange->peers[i].channel, &attr, sizeof(attr));
        if (attr.state == UCXPOOL_CHANNEL_FAILED) {
            exchange_fail(exchange, attr.status, i, "lost", attr.reason);
        } else if ((attr.state == UCXPOOL_CHANNEL_CLOSED) &&
                   !exchange->peers[i].has_ended) {
            exchange_fail(
                exchange, UCXPOOL_ERR_CLOSED, i, "lost",
                "it closed its channel before it had sent everything");
        }
    }
}

int exchange_progress(exchange_t *exchange)
{
    stopwatch_t start = stopwatch_start();
    unsigned    moved = ucxpool_progress(exchange->pool);

    exchange_take(exchange);
    /* A progress call that does nothing counts as waiting. */
    stopwatch_stop(moved > 0 ? &exchange->report.transfer
                             : &exchange->report.wait,
                   &start);
    exchange_watch(exchange);
    return exchange->failed ? -1 : 0;
}

void exchange_wait(exchange_t *exchange, int timeout_ms)
{
    stopwatch_t   start = stopwatch_start();
    struct pollfd event = {-1, POLLIN, 0};

    /* exchange_progress() transfers pending data, and measures the time. */
    if ((ucxpool_event_fd(exchange->pool, &event.fd) == UCXPOOL_OK) &&
        (ucxpool_arm(exchange->pool) == UCXPOOL_OK)) {
        poll(&event, 1, timeout_ms);
    }
    stopwatch_stop(&exchange->report.wait, &start);
}

bool exchange_has_ended(const exchange_t *exchange)
{
    const exchange_peer_t *peer;
    bool has_ended = !exchange->failed && (exchange->num_receiving == 0) &&
                     (exchange->ready == NULL);

    for (unsigned i = 0; i < exchange->num_workers; i++) {
        peer = &exchange->peers[i];
        has_ended &= (i == exchange->self) ||
                     (peer->has_ended && (peer->pending == 0) &&
                      (peer->num_received == peer->num_expected));
    }
    return has_ended;
}

bool exchange_lost_peer(const exchange_t *exchange)
{
    return exchange->lost_peer;
}

void exchange_report(exchange_t *exchange, exchange_report_t *report_p)
{
    ucxpool_channel_attr_t channel;

    *report_p = exchange->report;
    report_p->registrations_after_start =
        pool_stat(exchange->pool, "registrations_after_start");
    for (unsigned i = 0; i < exchange->num_workers; i++) {
        if (exchange->peers[i].channel != NULL) {
            ucxpool_channel_query(exchange->peers[i].channel, &channel,
                                  sizeof(channel));
            report_p->num_map += channel.wire == UCXPOOL_WIRE_MAP;
            report_p->num_ucx += channel.wire == UCXPOOL_WIRE_UCX;
        }
    }
}
