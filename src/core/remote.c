#include "core/remote.h"

#include "base/clock.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/*
 * UCX pairs the endpoints of two workers in the order in which they were made.
 * So many are made to come to the one that a HELLO has come over; those on the
 * way are for HELLOs that it has overtaken.
 */
#define OVERTAKEN_MAX 16

/* So long is kept who has called and is not accepted. */
#define KEEP_NS UINT64_C(10000000000)

static xfer_remote_t *find(ucxpool_t *pool, const uint8_t *id)
{
    xfer_remote_t *remote;

    base_list_for_each(remote, &pool->remotes, xfer_remote_t, link) {
        if (memcmp(remote->blob.id, id, XFER_ID_SIZE) == 0) {
            return remote;
        }
    }
    return NULL;
}

static void destroy(xfer_remote_t *remote)
{
    base_list_del(&remote->link);
    free(remote);
}

static void destroy_if_unused(xfer_remote_t *remote)
{
    if ((remote->refs == 0) && (remote->num_pairs == 0) &&
        (remote->kept_until <= base_clock_now()) &&
        base_list_is_empty(&remote->idle)) {
        destroy(remote);
    }
}

/* Those that were kept in vain. */
static void destroy_unused(ucxpool_t *pool)
{
    xfer_remote_t *remote;
    xfer_remote_t *next;

    base_list_for_each_safe(remote, next, &pool->remotes, xfer_remote_t, link) {
        destroy_if_unused(remote);
    }
}

static xfer_remote_t *create(ucxpool_t *pool, const void *blob, size_t size)
{
    xfer_remote_t *remote = calloc(1, offsetof(xfer_remote_t, blob) + size);

    destroy_unused(pool);
    if (remote != NULL) {
        remote->pool = pool;
        memcpy(&remote->blob, blob, size);
        base_list_init(&remote->idle);
        base_list_add_head(&pool->remotes, &remote->link);
    }
    return remote;
}

xfer_remote_t *xfer_remote_get(ucxpool_t *pool, const void *blob)
{
    xfer_blob_t    head;
    xfer_remote_t *remote;

    memcpy(&head, blob, sizeof(head));
    remote = find(pool, head.id);
    if (remote == NULL) {
        remote = create(pool, blob, sizeof(head) + head.worker_length);
    }
    if (remote != NULL) {
        remote->refs++;
    }
    return remote;
}

void xfer_remote_put(xfer_remote_t *remote)
{
    remote->kept_until = 0;
    remote->refs--;
    destroy_if_unused(remote);
}

/* --- whose turn it is ----------------------------------------------------- */

bool xfer_remote_is_self(const xfer_remote_t *remote)
{
    return memcmp(remote->blob.id, remote->pool->id, XFER_ID_SIZE) == 0;
}

static xfer_turn_t turn_of_smaller(const xfer_remote_t *remote)
{
    return (memcmp(remote->pool->id, remote->blob.id, XFER_ID_SIZE) < 0)
               ? XFER_TURN_OURS
               : XFER_TURN_THEIRS;
}

static void decide(xfer_remote_t *remote, xfer_turn_t turn)
{
    ucxpool_channel_t *channel;

    remote->turn       = turn;
    remote->decided_at = base_clock_now();
    if (turn == XFER_TURN_OURS) {
        base_list_for_each(channel, &remote->pool->channels, ucxpool_channel_t,
                           link) {
            if (channel->remote == remote) {
                xfer_channel_hasten_hello(channel);
            }
        }
    }
}

xfer_blob_turn_t xfer_remote_called(ucxpool_t *pool, const void *blob)
{
    xfer_remote_t *remote = xfer_remote_get(pool, blob);

    if (remote == NULL) {
        return XFER_BLOB_NO_TURN;
    }
    if (remote->turn == XFER_TURN_UNKNOWN) {
        decide(remote, XFER_TURN_THEIRS);
    }
    /* Until its channel is accepted. */
    remote->kept_until = base_clock_deadline(KEEP_NS);
    remote->refs--;
    return (remote->turn == XFER_TURN_OURS) ? XFER_BLOB_LISTENERS
                                            : XFER_BLOB_CALLERS;
}

/*
 * The listener that we have called says otherwise than we had decided. If that
 * was since we called, both have called at the same moment, and each told the
 * other to begin; both learn of it in this way, and neither has begun. If it
 * was before, the other pool has forgotten us, and has decided anew.
 */
static xfer_turn_t settle(const xfer_remote_t     *remote,
                          const ucxpool_channel_t *channel, xfer_turn_t told)
{
    return (remote->decided_at >= channel->called_at) ? turn_of_smaller(remote)
                                                      : told;
}

void xfer_remote_set_turn(xfer_remote_t *remote, ucxpool_channel_t *channel,
                          xfer_blob_turn_t told)
{
    xfer_turn_t turn =
        (told == XFER_BLOB_CALLERS) ? XFER_TURN_OURS : XFER_TURN_THEIRS;

    if (xfer_remote_is_self(remote)) {
        return;
    }
    if (remote->turn == XFER_TURN_UNKNOWN) {
        decide(remote, channel->at_door ? turn : turn_of_smaller(remote));
    } else if (channel->begins && (told != XFER_BLOB_NO_TURN) &&
               (remote->turn != turn)) {
        decide(remote, settle(remote, channel, turn));
    }
}

bool xfer_remote_is_our_turn(const ucxpool_channel_t *channel)
{
    const xfer_remote_t *remote = channel->remote;

    if (channel->by_ep) {
        return true;
    }
    return xfer_remote_is_self(remote) ? channel->begins
                                       : (remote->turn == XFER_TURN_OURS);
}

/* --- endpoints ------------------------------------------------------------ */

static bool is_usable(const xfer_endpoint_t *endpoint)
{
    return (endpoint->step == XFER_ENDPOINT_OPEN) &&
           !xfer_endpoint_has_failed(endpoint);
}

/* An idle one: that of this name, or any whose other end stands. */
static xfer_endpoint_t *take_idle(xfer_remote_t *remote, ucp_ep_h ep)
{
    xfer_endpoint_t *endpoint;

    base_list_for_each(endpoint, &remote->idle, xfer_endpoint_t, idle_link) {
        if (is_usable(endpoint) &&
            ((ep == NULL) ? endpoint->is_sure : (endpoint->ep == ep))) {
            base_list_del(&endpoint->idle_link);
            return endpoint;
        }
    }
    return NULL;
}

static bool is_in_use(const ucxpool_t *pool, ucp_ep_h ep)
{
    xfer_endpoint_t *endpoint;

    base_list_for_each(endpoint, &pool->endpoints, xfer_endpoint_t, link) {
        if (endpoint->ep == ep) {
            return true;
        }
    }
    return false;
}

/* There is one to be looked at. */
static void set_ends(ucxpool_t *pool)
{
    __atomic_store_n(&pool->endpoint_ends, true, __ATOMIC_RELEASE);
}

static void put_idle(xfer_remote_t *remote, xfer_endpoint_t *endpoint)
{
    base_list_add_head(&remote->idle, &endpoint->idle_link);
}

/* New ones, until UCX gives the one of this name. */
static ucxpool_status_t make(xfer_remote_t *remote, ucp_ep_h ep,
                             xfer_endpoint_t **endpoint_p)
{
    ucxpool_status_t status;

    for (int i = 0;; i++) {
        status =
            xfer_endpoint_create(remote->pool, remote->blob.worker, endpoint_p);
        if ((status != UCXPOOL_OK) || (ep == NULL) || (*endpoint_p)->ep == ep ||
            (i == OVERTAKEN_MAX)) {
            return status;
        }
        put_idle(remote, *endpoint_p);
    }
}

ucxpool_status_t xfer_remote_take_endpoint(ucxpool_channel_t *channel,
                                           ucp_ep_h           reply_ep)
{
    xfer_remote_t   *remote   = channel->remote;
    xfer_endpoint_t *endpoint = take_idle(remote, reply_ep);
    ucxpool_status_t status   = UCXPOOL_OK;

    if ((endpoint == NULL) && (reply_ep != NULL) &&
        is_in_use(remote->pool, reply_ep)) {
        reply_ep = NULL;
        endpoint = take_idle(remote, NULL);
    }
    if (endpoint == NULL) {
        status = make(remote, reply_ep, &endpoint);
    }
    if (status == UCXPOOL_OK) {
        channel->endpoint = endpoint;
    }
    return status;
}

/* One to this very pool is its own other end. */
void xfer_remote_keep_endpoint(ucxpool_channel_t *channel)
{
    channel->endpoint->is_sure =
        channel->has_begun || xfer_remote_is_self(channel->remote);
    put_idle(channel->remote, channel->endpoint);
    channel->endpoint = NULL;
    set_ends(channel->pool); /* it may have failed meanwhile */
}

/* The close of one that nobody uses; it is freed in the end. */
static unsigned progress_idle(xfer_endpoint_t *endpoint)
{
    ucxpool_t *pool = endpoint->pool;
    unsigned   count;

    if (xfer_endpoint_has_failed(endpoint)) {
        xfer_endpoint_close(endpoint, 0);
    }
    count = xfer_endpoint_progress(endpoint);
    if (xfer_endpoint_is_over(endpoint)) {
        base_list_del(&endpoint->idle_link);
        xfer_endpoint_destroy(endpoint);
    } else if (endpoint->step != XFER_ENDPOINT_OPEN) {
        set_ends(pool);
    }
    return count;
}

unsigned xfer_remote_progress(ucxpool_t *pool)
{
    unsigned         count = 0;
    xfer_remote_t   *remote;
    xfer_remote_t   *next_remote;
    xfer_endpoint_t *endpoint;
    xfer_endpoint_t *next;

    if (!__atomic_exchange_n(&pool->endpoint_ends, false, __ATOMIC_ACQ_REL)) {
        return 0;
    }
    base_list_for_each_safe(remote, next_remote, &pool->remotes, xfer_remote_t,
                            link) {
        base_list_for_each_safe(endpoint, next, &remote->idle, xfer_endpoint_t,
                                idle_link) {
            count += progress_idle(endpoint);
        }
        destroy_if_unused(remote);
    }
    return count;
}

void xfer_remote_close_all(ucxpool_t *pool, uint64_t deadline)
{
    xfer_remote_t   *remote;
    xfer_endpoint_t *endpoint;

    base_list_for_each(remote, &pool->remotes, xfer_remote_t, link) {
        base_list_for_each(endpoint, &remote->idle, xfer_endpoint_t,
                           idle_link) {
            xfer_endpoint_close(endpoint, deadline);
        }
    }
    set_ends(pool);
}

bool xfer_remote_has_endpoints(const ucxpool_t *pool)
{
    xfer_remote_t *remote;

    base_list_for_each(remote, &pool->remotes, xfer_remote_t, link) {
        if (!base_list_is_empty(&remote->idle)) {
            return true;
        }
    }
    return false;
}

void xfer_remote_destroy_all(ucxpool_t *pool)
{
    xfer_remote_t   *remote;
    xfer_endpoint_t *endpoint;

    while (!base_list_is_empty(&pool->remotes)) {
        remote = base_list_head(&pool->remotes, xfer_remote_t, link);
        while (!base_list_is_empty(&remote->idle)) {
            endpoint =
                base_list_head(&remote->idle, xfer_endpoint_t, idle_link);
            base_list_del(&endpoint->idle_link);
            xfer_endpoint_destroy(endpoint);
        }
        destroy(remote);
    }
}
