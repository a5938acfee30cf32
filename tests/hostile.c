#include "hostile.h"

#include "core/stats.h"
#include "wire/wire.h"
#include "xfer/send.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A check without libcheck, which fuzz targets do not link. */
#define require(_condition) \
    do { \
        if (!(_condition)) { \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, \
                    #_condition, ucxpool_error_detail()); \
            abort(); \
        } \
    } while (0)

hostile_t hostile;

void hostile_init(const char *settings)
{
    memset(&hostile, 0, sizeof(hostile));
    pair_init(&hostile.pair, settings, settings);
    hostile.victim  = hostile.pair.to_b;
    hostile.channel = hostile.pair.to_a;
    hostile_post();
}

void hostile_cleanup(void)
{
    pair_cleanup(&hostile.pair);
}

void hostile_post(void)
{
    require(ucxpool_recv_buffer(hostile.pair.a, hostile.victim, hostile.target,
                                HOSTILE_SIZE, 1, UINT64_MAX, NULL,
                                &hostile.recv) == UCXPOOL_OK);
    require(ucxpool_send_buffer(hostile.victim, hostile.source, HOSTILE_SIZE, 2,
                                NULL, &hostile.send) == UCXPOOL_OK);
}

void hostile_let_peer_read(void)
{
    unsigned idle = 0;

    while (idle < 3) {
        idle = (ucxpool_progress(hostile.pair.a) == 0) ? idle + 1 : 0;
    }
}

void hostile_post_message(proto_type_t type, proto_fixed_t *fixed,
                          const void *data, size_t data_size)
{
    ucxpool_channel_t *channel    = hostile.channel;
    size_t             fixed_size = proto_fixed_size(type);
    void              *at;
    void              *data_at;

    fixed->head.type    = (uint8_t)type;
    fixed->head.version = PROTO_VERSION;
    fixed->head.channel = hostile.victim->number;
    fixed->head.key     = hostile.victim->key;
    if (!core_ring_reserve(&channel->ring, fixed_size, data_size, &at,
                           &data_at)) {
        hostile_let_peer_read();
        if (!core_ring_reserve(&channel->ring, fixed_size, data_size, &at,
                               &data_at)) {
            return; /* the victim no longer reads */
        }
    }
    memcpy(at, fixed, fixed_size);
    if (data_size != 0) {
        memcpy(data_at, data, data_size);
    }
    core_ring_commit(&channel->ring);
}

void hostile_write_word(uint64_t place, uint64_t word)
{
    core_ring_page_t *page = hostile.channel->ring.mine;
    void             *at   = page->entries + place % CORE_RING_SIZE;

    __atomic_store_n((uint64_t *)at, word, __ATOMIC_SEQ_CST);
}

proto_desc_t hostile_desc(uint64_t message, uint64_t sequence)
{
    return (proto_desc_t){
        .message      = message,
        .sequence     = sequence,
        .tag          = 1,
        .payload_size = HOSTILE_SIZE,
        .num_runs     = 1,
    };
}

uint64_t hostile_receive(uint64_t message)
{
    const core_numbers_t *receives = &hostile.victim->requests.receives;

    for (uint32_t i = 0; i < receives->size; i++) {
        const ucxpool_request_t *request = receives->slots[i].request;

        if ((request != NULL) && (request->recv->message == message)) {
            return request->recv->receive;
        }
    }
    return 0;
}

uint64_t hostile_send(void)
{
    return (hostile.send == NULL) ? 0 : hostile.send->send->message;
}

bool hostile_is_over(void)
{
    ucxpool_channel_attr_t attr;

    ucxpool_channel_query(hostile.victim, &attr, sizeof(attr));
    return attr.state > UCXPOOL_CHANNEL_OPEN;
}

static void finish(ucxpool_request_t **request)
{
    require((*request == NULL) || pair_ended(*request));
    if (*request != NULL) {
        (void)pair_end_of(*request); /* an error has a detail */
    }
    ucxpool_request_release(*request);
    *request = NULL;
}

void hostile_check(void)
{
    core_stats_t stats;

    finish(&hostile.recv);
    finish(&hostile.send);
    core_stats_get(hostile.pair.a, &stats);
    for (int i = 0; i < BLOCK_SHARE_LAST; i++) {
        require(stats.blocks[i].free == stats.blocks[i].total);
    }
    require(ucxpool_check(hostile.pair.a) == UCXPOOL_OK);
}
