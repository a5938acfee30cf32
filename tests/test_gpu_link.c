/*
 * Long transfers of several peers over one GPU's link: the parent's pool has a
 * channel to each of two pools of the child, on another GPU, and has transfers
 * in flight to both.
 */
#include "core/channel.h"
#include "core/pool.h"
#include "core/request.h"
#include "segments.h"
#include "slow.h"
#include "test.h"
#include "two_gpu.h"
#include "xfer/send.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define PEERS    2u
#define TAG      UINT64_C(5)
#define ALL_BITS UINT64_MAX
#define PIECE    ((size_t)4096)
#define NUM      ((size_t)1600)
#define SIZE     (NUM * PIECE)
/* Transfers per peer. The link takes five at a time for all peers together. */
#define DEPTH_MAX 6u
#define DEPTH_MIN 5u

/* The parent's access to the child's memory; SENDS are pushed. */
typedef enum work { WRITES, READS, SENDS, NUM_WORKS } work_t;

typedef struct peer {
    ucxpool_t               *pool; /* of this process */
    ucxpool_channel_t       *channel;
    ucxpool_window_t        *window; /* the child's */
    ucxpool_remote_window_t *remote; /* the parent's */
    uint8_t                 *memory;
    ucxpool_segment_t        pieces[NUM];
    ucxpool_place_t          places[NUM];
    uint8_t bytes[SIZE]; /* the expected content of the memory */
} peer_t;

static two_t    two;
static peer_t   peers[PEERS];
static unsigned depth;

static void init_peer(unsigned number)
{
    peer_t *peer = &peers[number];

    peer->memory = gpu_alloc(SIZE);
    for (size_t i = 0; i < NUM; i++) {
        peer->pieces[i] =
            (ucxpool_segment_t){peer->memory + i * 7 % NUM * PIECE, PIECE};
        peer->places[i] = (ucxpool_place_t){i * 7 % NUM * PIECE, PIECE};
    }
    pair_fill_of(peer->bytes, SIZE, two.is_child, number);
    gpu_write(peer->memory, peer->bytes, SIZE);
}

/* Progress all pools of this side. */
static void progress(void)
{
    for (unsigned i = 0; i < PEERS; i++) {
        ucxpool_progress(peers[i].pool);
    }
}

/* Both sides progress all their pools until both get here. */
static void meet(void)
{
    uint64_t late = pair_deadline();
    char     byte;

    two_say(&two);
    while (recv(two.talk, &byte, 1, MSG_DONTWAIT) != 1) {
        progress();
        two_check(!pair_is_late(late));
    }
}

static void await_open(ucxpool_channel_t *channel)
{
    two_ok(ucxpool_channel_wait(channel, UCXPOOL_FOREVER));
    two_check(channel->peer.pushes);
}

/* The child's second pool has a channel, too. */
static void connect_second(const char *settings)
{
    peers[0].pool    = two.pool;
    peers[0].channel = two.channel;
    peers[1].pool =
        two.is_child ? pair_pool_on(gpu->ordinal, settings) : two.pool;
    peers[1].channel = two_create_channel(&two, peers[1].pool);
    await_open(peers[1].channel);
}

static void share(peer_t *peer)
{
    two_ok(ucxpool_window_create(peer->pool, peer->memory, SIZE, NULL,
                                 &peer->window));
    two_export(&two, peer->window);
}

static void import(peer_t *peer)
{
    two_t                        of_peer = two;
    ucxpool_remote_window_attr_t attr;

    of_peer.pool    = peer->pool;
    of_peer.channel = peer->channel;
    peer->remote    = two_import(&of_peer);
    attr            = two_import_ended(&of_peer, peer->remote);
    ck_assert_msg(attr.way == UCXPOOL_WAY_CUDA, "%s", attr.way_reason);
}

static bool begin(void)
{
    /* Receive blocks for more messages than the link takes at a time. */
    const char *settings = "WIRE=map MAP_WAY=push COMM_SIZE=48m";

    depth = slow_is() ? DEPTH_MIN : DEPTH_MAX;
    setenv("CUDA_STAND_IN", "run=late,devices=2", 1);
    if (!two_gpu_start_apart(&two, settings, settings, true)) {
        return false;
    }
    connect_second(settings);
    for (unsigned i = 0; i < PEERS; i++) {
        init_peer(i);
    }
    for (unsigned i = 0; i < PEERS; i++) {
        if (two.is_child) {
            share(&peers[i]);
        } else {
            import(&peers[i]);
        }
        meet();
    }
    return true;
}

static void require_idle(const core_link_t *link)
{
    two_check(base_list_is_empty(&link->queue));
    two_check(link->num_jobs == 0);
    two_check(link->size == 0);
}

static void finish(void)
{
    two_settle(&two);
    require_idle(&two.pool->links[CORE_LINK_OUT]);
    require_idle(&two.pool->links[CORE_LINK_IN]);
    for (unsigned i = 0; i < PEERS; i++) {
        if (two.is_child) {
            ucxpool_window_destroy(peers[i].window);
        } else {
            ucxpool_remote_window_release(peers[i].remote);
        }
    }
    if (two.is_child) {
        ucxpool_destroy(peers[1].pool);
    }
    for (unsigned i = 0; i < PEERS; i++) {
        gpu_free(peers[i].memory);
    }
    two_gpu_stop(&two);
}

static ucxpool_request_t *post(const peer_t *peer, work_t work)
{
    ucxpool_places_t   places = ucxpool_places(peer->places, NUM);
    ucxpool_data_t     data   = ucxpool_data_segments(peer->pieces, NUM);
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    if (work == WRITES) {
        status = ucxpool_remote_window_write(peer->remote, &places, &data, NULL,
                                             &request);
    } else if (work == READS) {
        status = ucxpool_remote_window_read(peer->remote, &places, &data, NULL,
                                            &request);
    } else {
        status = ucxpool_send(peer->channel, &data, TAG, NULL, &request);
    }
    two_ok(status);
    return request;
}

static ucxpool_request_t *post_recv(const peer_t *peer)
{
    ucxpool_request_t *request;

    two_ok(recv_segments(peer->pool, peer->channel, peer->pieces, NUM, TAG,
                         ALL_BITS, NULL, &request));
    return request;
}

static ucxpool_status_t wait_for(ucxpool_request_t *request)
{
    uint64_t         late = pair_deadline();
    ucxpool_status_t status;

    while ((status = ucxpool_request_test(request)) == UCXPOOL_INPROGRESS) {
        progress();
        two_check(!pair_is_late(late));
    }
    ucxpool_request_release(request);
    return status;
}

static void check_memory(const peer_t *peer, const uint8_t *right)
{
    static uint8_t bytes[SIZE];

    gpu_read(bytes, peer->memory, SIZE);
    two_check(memcmp(bytes, right, SIZE) == 0);
}

/* The content of this side's memory after the transfers. */
static void check_all(work_t work)
{
    static uint8_t others[SIZE];

    for (unsigned i = 0; i < PEERS; i++) {
        bool changes = two.is_child != (work == READS);

        pair_fill_of(others, SIZE, !two.is_child, i);
        check_memory(&peers[i], changes ? others : peers[i].bytes);
    }
}

/* Progress until transfers are queued for the link. Returns false if all of
 * them completed first: on a real GPU, or if a busy machine delays this
 * process. */
static bool await_line(work_t work, const ucxpool_request_t *last)
{
    const core_link_t *link =
        &two.pool->links[(work == READS) ? CORE_LINK_IN : CORE_LINK_OUT];

    while (link->queue.next == link->queue.prev) {
        if (pair_ended(last)) {
            return false;
        }
        progress();
    }
    return true;
}

/* Run all transfers of this side and check their statuses. The parent queues
 * them. is_canceled: cancel one of each pair; the last of these waits for the
 * link. */
static void run_all(work_t work, bool is_canceled)
{
    ucxpool_request_t *requests[DEPTH_MAX][PEERS];
    bool               must_wait = false;

    for (unsigned i = 0; i < depth; i++) {
        for (unsigned j = 0; j < PEERS; j++) {
            requests[i][j] =
                two.is_child ? post_recv(&peers[j]) : post(&peers[j], work);
        }
    }
    if (!two.is_child) {
        must_wait = await_line(work, requests[depth - 1][(depth - 1) % PEERS]);
    }
    if (is_canceled) {
        for (unsigned i = 0; i < depth; i++) {
            ucxpool_request_cancel(requests[i][i % PEERS]);
        }
    }
    for (unsigned i = 0; i < depth; i++) {
        for (unsigned j = 0; j < PEERS; j++) {
            ucxpool_status_t status  = wait_for(requests[i][j]);
            bool             is_this = is_canceled && (j == i % PEERS);

            two_check((status == UCXPOOL_OK) ||
                      (is_this && (status == UCXPOOL_ERR_CANCELED)));
            two_check(!is_this || !must_wait || (i + 1 < depth) ||
                      (status != UCXPOOL_OK));
        }
    }
}

TEST_SETTINGS(.before_fork = pair_warm_up, .timeout = 120,
              .only_if = cuda_is_present);

TEST_EACH(transfers_of_two_peers_take_turns, NUM_WORKS)
{
    if (!begin()) {
        return;
    }
    /* The child need not take part in reads and writes. */
    if (!two.is_child || (_i == SENDS)) {
        run_all((work_t)_i, false);
    }
    meet();
    check_all((work_t)_i);
    meet();
    finish();
}

/* The message is posted before its sender knows whether to push it, or after
 * that and before the peer has sent GO. */
TEST_EACH(transfer_posted_before_the_channel_opens_is_queued, 2)
{
    ucxpool_request_t *request;
    peer_t            *peer = &peers[1];

    if (!begin()) {
        return;
    }
    ucxpool_channel_close(peer->channel);
    peer->channel = two_create_channel(&two, peer->pool);
    if (two.is_child) {
        request = post_recv(peer);
        await_open(peer->channel);
    } else {
        while ((_i == 1) && !(peer->channel->wireup.handshake & CORE_GO_SENT)) {
            progress();
        }
        request = post(peer, SENDS);
        two_check((request->send->push.link == NULL) ||
                  pair_is_open(peer->channel));
        await_open(peer->channel);
        two_check(request->send->push.link ==
                  &peer->pool->links[CORE_LINK_OUT]);
    }
    two_ok(wait_for(request));
    meet();
    finish();
}

/* Canceled transfers that hold the link or wait for it block no other. */
TEST_EACH(canceled_transfer_passes_its_turn_on, SENDS)
{
    if (!begin()) {
        return;
    }
    if (!two.is_child) {
        run_all((work_t)_i, true);
    }
    meet();
    finish();
}
