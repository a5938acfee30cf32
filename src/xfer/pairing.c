#include "xfer/pairing.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* HELLOs that are kept, and for how long: several times what lies between two
 * of the same sender. */
#define EARLY_MAX 256u
#define KEEP_NS   (10 * XFER_HELLO_NS)

/* By endpoint where the channel is made of one, otherwise by address. */
static bool fits(const ucxpool_channel_t *channel, const proto_hello_t *hello,
                 ucp_ep_h reply_ep)
{
    const xfer_peer_t *peer = &channel->peer;

    if (hello->flags & PROTO_HELLO_BY_EP) {
        return !channel->own_ep && (channel->ep == reply_ep);
    }
    return channel->own_ep && (hello->pair == channel->pair) &&
           (memcmp(hello->from_id, peer->id, XFER_ID_SIZE) == 0) &&
           (memcmp(hello->from_key, peer->key, XFER_ID_SIZE) == 0);
}

/* Has this HELLO met its channel before? */
static bool is_repeated(const ucxpool_channel_t *channel,
                        const proto_hello_t     *hello)
{
    return (channel->handshake & XFER_HELLO_RECEIVED) &&
           (channel->peer.channel == hello->channel) &&
           (channel->peer.channel_key == hello->channel_key);
}

ucxpool_channel_t *xfer_pairing_find(ucxpool_t           *pool,
                                     const proto_hello_t *hello,
                                     ucp_ep_h             reply_ep)
{
    ucxpool_channel_t *channel;

    base_list_for_each(channel, &pool->channels, ucxpool_channel_t, link) {
        if (is_repeated(channel, hello) ||
            ((channel->handshake & XFER_HELLO_SENT) &&
             !(channel->handshake & XFER_HELLO_RECEIVED) && !channel->closing &&
             fits(channel, hello, reply_ep))) {
            return channel;
        }
    }
    return NULL;
}

static void let_go(ucxpool_t *pool, xfer_early_t *early)
{
    base_list_del(&early->link);
    pool->num_hellos--;
    free(early);
}

/* Are both of the same channel of the same pool? */
static bool is_same(const xfer_early_t *early, const proto_hello_t *hello)
{
    return (early->hello.channel_key == hello->channel_key) &&
           (early->hello.channel == hello->channel) &&
           (memcmp(early->hello.from_id, hello->from_id, XFER_ID_SIZE) == 0);
}

/* Room for one more. */
static void make_room(ucxpool_t *pool, const proto_hello_t *hello)
{
    xfer_early_t *early;

    base_list_for_each(early, &pool->hellos, xfer_early_t, link) {
        if (is_same(early, hello)) {
            let_go(pool, early);
            return;
        }
    }
    if (pool->num_hellos == EARLY_MAX) {
        pool->stats.handshakes_refused++;
        let_go(pool, base_list_head(&pool->hellos, xfer_early_t, link));
    }
}

void xfer_pairing_keep(ucxpool_t *pool, const proto_hello_t *hello,
                       const void *files, ucp_ep_h reply_ep)
{
    size_t        size = hello->num_files * sizeof(mem_share_file_t);
    xfer_early_t *early;

    make_room(pool, hello);
    early = malloc(sizeof(*early) + size);
    if (early == NULL) {
        pool->stats.handshakes_refused++;
        return;
    }
    early->deadline = base_clock_deadline(KEEP_NS);
    early->hello    = *hello;
    early->reply_ep = reply_ep;
    if (size != 0) {
        memcpy(early->files, files, size);
    }
    base_list_add_tail(&pool->hellos, &early->link);
    pool->num_hellos++;
    pool->next_hello = base_min(pool->next_hello, early->deadline);
}

xfer_early_t *xfer_pairing_take(ucxpool_channel_t *channel)
{
    ucxpool_t    *pool = channel->pool;
    xfer_early_t *early;

    base_list_for_each(early, &pool->hellos, xfer_early_t, link) {
        if (fits(channel, &early->hello, early->reply_ep)) {
            base_list_del(&early->link);
            pool->num_hellos--;
            return early;
        }
    }
    return NULL;
}

uint64_t xfer_pairing_expire(ucxpool_t *pool, uint64_t now)
{
    xfer_early_t *early;

    while (!base_list_is_empty(&pool->hellos)) {
        early = base_list_head(&pool->hellos, xfer_early_t, link);
        if (early->deadline > now) {
            return early->deadline;
        }
        pool->stats.handshakes_refused++;
        let_go(pool, early);
    }
    return BASE_CLOCK_FOREVER;
}

void xfer_pairing_destroy_all(ucxpool_t *pool)
{
    while (!base_list_is_empty(&pool->hellos)) {
        let_go(pool, base_list_head(&pool->hellos, xfer_early_t, link));
    }
}
