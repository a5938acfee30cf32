/* A window is destroyed while several peers read it. Each peer has a pool of
 * its own. */
#include "core/pool.h"
#include "pair.h"
#include "rounds.h"
#include "test.h"

#include <string.h>

static const char *const ways[] = {
    "WIRE=map",
    "WIRE=map WINDOW_WAY=messages",
    "WIRE=ucx",
};
#define NUM_WAYS ((int)(sizeof(ways) / sizeof(ways[0])))

#define NUM_PEERS   3
#define SIZE        ((size_t)600000)
#define MILLISECOND UINT64_C(1000000)

static ucxpool_t *owner;
static uint8_t    memory[SIZE];
static uint8_t    blob[UCXPOOL_WINDOW_BLOB_SIZE];

typedef struct peer {
    ucxpool_t         *pool;
    ucxpool_channel_t *to_owner;
    ucxpool_channel_t *of_owner;
    unsigned           num_reads; /* reads of this window; atomic */
    uint8_t            bytes[SIZE];
} peer_t;

static peer_t peers[NUM_PEERS];

/* The window's content, how many peers have ended their reads, and whether all
 * have. The last two are atomic. */
static int      value;
static unsigned num_done;
static bool     all_are_done;

static void progress_all(void)
{
    ucxpool_progress(owner);
    for (int i = 0; i < NUM_PEERS; i++) {
        ucxpool_progress(peers[i].pool);
    }
}

static void begin(const char *settings)
{
    owner = pair_pool(settings);
    /* On a loaded machine each pool may be slow. */
    owner->drain_ns = UCXPOOL_FOREVER;
    for (int i = 0; i < NUM_PEERS; i++) {
        peer_t *peer = &peers[i];

        peer->pool           = pair_pool(settings);
        peer->pool->drain_ns = UCXPOOL_FOREVER;
        peer->to_owner       = pair_meet(peer->pool, owner);
        peer->of_owner       = pair_meet(owner, peer->pool);
        while (!pair_is_open(peer->to_owner) || !pair_is_open(peer->of_owner)) {
            ucxpool_progress(owner);
            ucxpool_progress(peer->pool);
        }
    }
}

static bool all_are_whole(void)
{
    bool are_whole = pair_is_whole(owner);

    for (int i = 0; i < NUM_PEERS; i++) {
        are_whole = are_whole && pair_is_whole(peers[i].pool);
    }
    return are_whole;
}

static void end(void)
{
    uint64_t late = pair_deadline();

    while (!all_are_whole()) {
        ck_assert(!pair_is_late(late));
        progress_all();
    }
    ucxpool_destroy(owner);
    for (int i = 0; i < NUM_PEERS; i++) {
        ucxpool_destroy(peers[i].pool);
    }
}

static ucxpool_status_t read_all(peer_t *peer, ucxpool_remote_window_t *remote)
{
    static const uint64_t start;
    ucxpool_places_t      places = ucxpool_places_even(&start, 1, SIZE);
    ucxpool_data_t        data   = ucxpool_data_buffer(peer->bytes, SIZE);
    ucxpool_request_t    *request;
    ucxpool_status_t      status;

    status = ucxpool_remote_window_read(remote, &places, &data, NULL, &request);
    if (status == UCXPOOL_OK) {
        status = ucxpool_request_wait(request, UCXPOOL_FOREVER);
        ucxpool_request_release(request);
    }
    return status;
}

/* Is the whole window unchanged? */
static bool is_right(const peer_t *peer)
{
    return pair_is_all(peer->bytes, SIZE, value);
}

/* Reads until a read fails, and then progresses as long as another peer needs
 * it. */
static void *read_while_it_exists(void *arg)
{
    peer_t                  *peer = arg;
    ucxpool_remote_window_t *remote;
    ucxpool_status_t         status;

    assert_ok(ucxpool_remote_window_import(peer->to_owner, blob, sizeof(blob),
                                           &remote));
    while ((status = read_all(peer, remote)) == UCXPOOL_OK) {
        ck_assert(is_right(peer));
        __atomic_add_fetch(&peer->num_reads, 1, __ATOMIC_RELAXED);
    }
    ck_assert((status == UCXPOOL_ERR_CANCELED) ||
              (status == UCXPOOL_ERR_REFUSED));
    __atomic_add_fetch(&num_done, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&all_are_done, __ATOMIC_ACQUIRE)) {
        ucxpool_wait(peer->pool, MILLISECOND);
    }
    ucxpool_remote_window_release(remote);
    return NULL;
}

static bool all_have_read(void)
{
    bool have_all = true;

    for (int i = 0; i < NUM_PEERS; i++) {
        have_all = have_all &&
                   (__atomic_load_n(&peers[i].num_reads, __ATOMIC_RELAXED) > 0);
    }
    return have_all;
}

/* All peers read a window of this value, and then it is destroyed. */
static void show_and_destroy(int new_value)
{
    ucxpool_window_t *window;

    value = new_value;
    memset(memory, value, SIZE);
    assert_ok(ucxpool_window_create(owner, memory, SIZE, NULL, &window));
    assert_ok(ucxpool_window_export(window, UCXPOOL_WINDOW_READ, blob));
    num_done     = 0;
    all_are_done = false;
    for (int i = 0; i < NUM_PEERS; i++) {
        peers[i].num_reads = 0;
        test_thread(read_while_it_exists, &peers[i]);
    }
    while (!all_have_read()) {
        ucxpool_wait(owner, MILLISECOND);
    }
    pair_destroy_window(window);
    /* Any byte read from now on is wrong. */
    memset(memory, 0, SIZE);
    /* Transfers that UCX has begun complete only while the owner makes
     * progress. */
    while (__atomic_load_n(&num_done, __ATOMIC_ACQUIRE) < NUM_PEERS) {
        ucxpool_wait(owner, MILLISECOND);
    }
    __atomic_store_n(&all_are_done, true, __ATOMIC_RELEASE);
    test_join(NUM_PEERS);
}

TEST_SETTINGS(.timeout = 120);

TEST_EACH(a_window_is_destroyed_while_three_peers_read_it, NUM_WAYS)
{
    begin(ways[_i]);
    for (unsigned i = 0; i < rounds(20); i++) {
        show_and_destroy(1 + (int)i % 255);
    }
    end();
}
