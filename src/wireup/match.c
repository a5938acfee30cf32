#include "wireup/match.h"

#include "base/clock.h"
#include "ipc/socket.h"

#include <stdlib.h>
#include <string.h>

/* HELLOs that are kept, and for how long: several times what lies between two
 * of the same sender. */
#define EARLY_MAX 256u
#define KEEP_NS   (10 * CORE_HELLO_NS)

/* Has this very channel said it? A pool may connect to itself. */
static bool is_of(const ucxpool_channel_t *channel, const proto_hello_t *hello)
{
    return (hello->channel == channel->number) &&
           (hello->channel_key == channel->key);
}

/* By endpoint where the channel is made of one, otherwise by address. */
static bool fits(const ucxpool_channel_t *channel, const proto_hello_t *hello,
                 ucp_ep_h reply_ep)
{
    const core_peer_t *peer = &channel->peer;

    if (is_of(channel, hello)) {
        return false;
    }
    if (hello->flags & PROTO_HELLO_BY_EP) {
        return channel->conn.by_ep && (channel->conn.endpoint != NULL) &&
               (channel->conn.endpoint->ep == reply_ep);
    }
    return (channel->conn.remote != NULL) && (hello->pair == channel->pair) &&
           (memcmp(hello->from_id, peer->id, CORE_ID_SIZE) == 0) &&
           (memcmp(hello->from_key, peer->key, CORE_ID_SIZE) == 0);
}

/* Has this HELLO met its channel before? */
static bool is_repeated(const ucxpool_channel_t *channel,
                        const proto_hello_t     *hello)
{
    return (channel->handshake & CORE_HELLO_RECEIVED) &&
           (channel->peer.channel == hello->channel) &&
           (channel->peer.channel_key == hello->channel_key);
}

ucxpool_channel_t *wireup_match_find(ucxpool_t           *pool,
                                     const proto_hello_t *hello,
                                     ucp_ep_h             reply_ep)
{
    ucxpool_channel_t *channel;

    base_list_for_each(channel, &pool->channels.open, ucxpool_channel_t, link) {
        if (is_repeated(channel, hello) ||
            (!(channel->handshake & CORE_HELLO_RECEIVED) &&
             (channel->closing.step <= CORE_CLOSE_GOODBYE) &&
             fits(channel, hello, reply_ep))) {
            return channel;
        }
    }
    return NULL;
}

/* That is known of a channel that has called a listener, which says HELLO. */
static bool is_over(ucxpool_t *pool, const proto_hello_t *hello)
{
    ucxpool_channel_t *channel;

    if (!(hello->flags & PROTO_HELLO_CALLED)) {
        return false;
    }
    base_list_for_each(channel, &pool->channels.open, ucxpool_channel_t, link) {
        if ((channel->conn.remote == NULL) && channel->begins &&
            (channel->pair == hello->pair)) {
            return false; /* the listener's answer is quicker than its proof */
        }
    }
    return true;
}

static void let_go(ucxpool_t *pool, wireup_early_t *early)
{
    base_list_del(&early->link);
    pool->wireup.num_early--;
    core_way_close(&early->way);
    free(early);
}

/* Are both of the same channel of the same pool? */
static bool is_same(const wireup_early_t *early, const proto_hello_t *hello)
{
    return (early->hello.channel_key == hello->channel_key) &&
           (early->hello.channel == hello->channel) &&
           (memcmp(early->hello.from_id, hello->from_id, CORE_ID_SIZE) == 0);
}

/* Room for one more. */
static void make_room(ucxpool_t *pool, const proto_hello_t *hello)
{
    wireup_early_t *early;

    base_list_for_each(early, &pool->wireup.early, wireup_early_t, link) {
        if (is_same(early, hello)) {
            let_go(pool, early);
            return;
        }
    }
    if (pool->wireup.num_early == EARLY_MAX) {
        pool->stats.handshakes_refused++;
        let_go(pool, base_list_head(&pool->wireup.early, wireup_early_t, link));
    }
}

static void keep(ucxpool_t *pool, const proto_hello_t *hello, const void *files,
                 const core_way_t *way)
{
    size_t          size = hello->num_files * sizeof(ipc_file_t);
    wireup_early_t *early;

    make_room(pool, hello);
    early = malloc(sizeof(*early) + size);
    if (early == NULL) {
        pool->stats.handshakes_refused++;
        core_way_close(way);
        return;
    }
    early->deadline = base_clock_deadline(KEEP_NS);
    early->hello    = *hello;
    early->way      = *way;
    if (size != 0) {
        memcpy(early->files, files, size);
    }
    base_list_add_tail(&pool->wireup.early, &early->link);
    pool->wireup.num_early++;
    pool->wireup.next_hello =
        base_min(pool->wireup.next_hello, early->deadline);
}

void wireup_match_put_aside(ucxpool_t *pool, const proto_hello_t *hello,
                            const void *files, const core_way_t *way)
{
    if (is_over(pool, hello)) {
        core_way_close(way);
    } else {
        keep(pool, hello, files, way);
    }
}

wireup_early_t *wireup_match_take(ucxpool_channel_t *channel)
{
    ucxpool_t      *pool = channel->pool;
    wireup_early_t *early;

    base_list_for_each(early, &pool->wireup.early, wireup_early_t, link) {
        if (fits(channel, &early->hello, early->way.reply_ep)) {
            base_list_del(&early->link);
            pool->wireup.num_early--;
            return early;
        }
    }
    return NULL;
}

uint64_t wireup_match_expire(ucxpool_t *pool, uint64_t now)
{
    wireup_early_t *early;

    while (!base_list_is_empty(&pool->wireup.early)) {
        early = base_list_head(&pool->wireup.early, wireup_early_t, link);
        if (early->deadline > now) {
            return early->deadline;
        }
        pool->stats.handshakes_refused++;
        let_go(pool, early);
    }
    return BASE_CLOCK_FOREVER;
}

void wireup_match_destroy_all(ucxpool_t *pool)
{
    while (!base_list_is_empty(&pool->wireup.early)) {
        let_go(pool, base_list_head(&pool->wireup.early, wireup_early_t, link));
    }
}
