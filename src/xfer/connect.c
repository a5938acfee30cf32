#include "xfer/connect.h"

#include "base/error.h"
#include "base/log.h"
#include "mem/ucx_status.h"
#include "xfer/greet.h"
#include "xfer/hello.h"

#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#define ADDRESS_MAGIC 0x70786375u /* "ucxp" */

ucxpool_status_t xfer_blob_create(ucxpool_t *pool, uint64_t pair,
                                     xfer_blob_t **address_p,
                                     size_t *length_p)
{
    ucp_address_t  *worker;
    size_t          worker_length;
    xfer_blob_t *address;
    ucs_status_t    status;

    status = ucp_worker_get_address(pool->worker, &worker, &worker_length);
    if (status != UCS_OK) {
        return base_error(mem_ucx_status(status),
                          "UCX gave no address of its worker: %s",
                          ucs_status_string(status));
    }
    address = calloc(1, sizeof(*address) + worker_length);
    if (address == NULL) {
        ucp_worker_release_address(pool->worker, worker);
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for an address");
    }
    address->magic         = ADDRESS_MAGIC;
    address->version       = PROTO_VERSION;
    address->am_id         = (uint16_t)pool->config.am_id;
    address->pair          = pair;
    address->worker_length = (uint32_t)worker_length;
    memcpy(address->id, pool->id, sizeof(address->id));
    memcpy(address->key, pool->key, sizeof(address->key));
    memcpy(address->worker, worker, worker_length);
    ucp_worker_release_address(pool->worker, worker);
    *address_p = address;
    *length_p  = sizeof(*address) + worker_length;
    return UCXPOOL_OK;
}

static ucxpool_status_t check(const void *data, size_t length,
                              xfer_blob_t *head_p)
{
    if (length < sizeof(*head_p)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "an address of %zu bytes is not one of a pool",
                          length);
    }
    memcpy(head_p, data, sizeof(*head_p));
    if (head_p->magic != ADDRESS_MAGIC) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the address is not one of a pool: it must come from "
                          "ucxpool_address_get()");
    }
    if (head_p->version != PROTO_VERSION) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "the peer speaks protocol version %u, we speak %u: "
                          "use the same version of libucxpool on both sides",
                          head_p->version, PROTO_VERSION);
    }
    if ((head_p->worker_length != length - sizeof(*head_p)) ||
        (head_p->worker_length == 0)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the address is damaged: %zu bytes in place of %zu",
                          length, sizeof(*head_p) + head_p->worker_length);
    }
    return UCXPOOL_OK;
}

/* UCX tells that the endpoint has failed; the work is done later. */
static void ep_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    ucxpool_channel_t *channel = arg;

    (void)ep;
    base_debug("%s: UCX reports: %s", channel->name, ucs_status_string(status));
    xfer_channel_set_ep_failed(channel);
}

static ucxpool_status_t create_ep(ucxpool_channel_t *channel,
                                  const void        *worker_address)
{
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address         = worker_address,
        .err_mode        = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler.cb  = ep_failed,
        .err_handler.arg = channel,
    };
    ucs_status_t status;

    status = ucp_ep_create(channel->pool->worker, &params, &channel->ep);
    if (status != UCS_OK) {
        channel->ep = NULL;
        return base_error(mem_ucx_status(status),
                          "UCX made no endpoint to the peer: %s (UCX_TLS and "
                          "UCX_NET_DEVICES must leave it a transport with "
                          "failure handling, such as tcp)",
                          ucs_status_string(status));
    }
    channel->own_ep = true;
    return UCXPOOL_OK;
}

/* A pool that we have had channels to, by its address. It is remembered when
 * they are gone, because both sides must number the next one alike. */
typedef struct acquaintance {
    base_list_t link;
    uint8_t     id[XFER_ID_SIZE];
    uint64_t    num_pairs;
} acquaintance_t;

/* NULL: no memory. */
static acquaintance_t *get_acquaintance(ucxpool_t *pool, const uint8_t *id)
{
    acquaintance_t *other;

    base_list_for_each(other, &pool->acquaintances, acquaintance_t, link) {
        if (memcmp(other->id, id, XFER_ID_SIZE) == 0) {
            return other;
        }
    }
    other = calloc(1, sizeof(*other));
    if (other != NULL) {
        memcpy(other->id, id, XFER_ID_SIZE);
        base_list_add_head(&pool->acquaintances, &other->link);
    }
    return other;
}

void xfer_connect_cleanup(ucxpool_t *pool)
{
    acquaintance_t *other;

    while (!base_list_is_empty(&pool->acquaintances)) {
        other = base_list_head(&pool->acquaintances, acquaintance_t, link);
        base_list_del(&other->link);
        free(other);
    }
}

static ucxpool_status_t start(ucxpool_channel_t *channel,
                              const void        *worker_address)
{
    ucxpool_status_t status = create_ep(channel, worker_address);

    if (status == UCXPOOL_OK) {
        xfer_hello_start(channel);
    }
    return status;
}

/* Both sides connect of themselves: their n-th channels are a pair. */
static ucxpool_status_t start_next(ucxpool_channel_t *channel,
                                   const void        *worker_address)
{
    acquaintance_t  *other = get_acquaintance(channel->pool, channel->peer.id);
    ucxpool_status_t status;

    if (other == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a channel");
    }
    channel->pair = other->num_pairs;
    status        = start(channel, worker_address);
    if (status == UCXPOOL_OK) {
        other->num_pairs++;
    }
    return status;
}

ucxpool_status_t xfer_connect_address(ucxpool_channel_t *channel,
                                      const void *address, size_t length)
{
    xfer_blob_t      head;
    const void      *worker;
    ucxpool_status_t status = check(address, length, &head);

    if (status != UCXPOOL_OK) {
        return status;
    }
    memcpy(channel->peer.id, head.id, sizeof(channel->peer.id));
    memcpy(channel->peer.key, head.key, sizeof(channel->peer.key));
    channel->peer.am_id = head.am_id;
    worker              = (const uint8_t *)address + sizeof(head);
    if (!channel->at_door) {
        return start_next(channel, worker);
    }
    if (head.pair != 0) {
        channel->pair = head.pair; /* who came to a listener has drawn it */
    }
    return start(channel, worker);
}

ucxpool_status_t xfer_connect_ep(ucxpool_channel_t *channel, ucp_ep_h ep)
{
    channel->ep     = ep;
    channel->own_ep = false;
    xfer_hello_start(channel);
    return UCXPOOL_OK;
}

/* A number that no other channel between the two pools has. */
static ucxpool_status_t draw_pair(ucxpool_channel_t *channel)
{
    if (RAND_bytes((unsigned char *)&channel->pair, sizeof(channel->pair)) !=
        1) {
        return base_error(UCXPOOL_ERR_IO, "no random numbers to be had");
    }
    channel->at_door = true;
    channel->pair |= UINT64_C(1) << 63;
    return UCXPOOL_OK;
}

static ucxpool_status_t start_greet(ucxpool_channel_t  *channel,
                                    const xfer_where_t *where)
{
    ucxpool_t         *pool = channel->pool;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    xfer_blob_t       *blob;
    size_t             length;
    ucxpool_status_t   status;

    status = xfer_blob_create(pool, channel->pair, &blob, &length);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = xfer_greet_connect(where, channel->secret, blob, length,
                                pool->config.handshake_timeout_ns,
                                &channel->greet);
    free(blob);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (epoll_ctl(pool->epoll_fd, EPOLL_CTL_ADD, xfer_greet_fd(channel->greet),
                  &event) != 0) {
        xfer_greet_destroy(channel->greet);
        channel->greet = NULL;
        return base_error(UCXPOOL_ERR_IO, "a descriptor cannot be watched");
    }
    base_list_add_tail(&pool->greetings, &channel->greet_link);
    return UCXPOOL_OK;
}

ucxpool_status_t xfer_connect_door(ucxpool_channel_t  *channel,
                                   const xfer_where_t *where)
{
    ucxpool_status_t status;

    status = xfer_secret_read(channel->pool->config.secret_file,
                              &channel->secret);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = draw_pair(channel);
    if (status == UCXPOOL_OK) {
        status = start_greet(channel, where);
    }
    if (status != UCXPOOL_OK) {
        xfer_secret_release(channel->secret);
        channel->secret = NULL;
    }
    return status;
}

void xfer_connect_stop(ucxpool_channel_t *channel)
{
    if (channel->greet != NULL) {
        base_list_del(&channel->greet_link);
        epoll_ctl(channel->pool->epoll_fd, EPOLL_CTL_DEL,
                  xfer_greet_fd(channel->greet), NULL);
        xfer_greet_destroy(channel->greet);
        xfer_secret_release(channel->secret);
        channel->greet  = NULL;
        channel->secret = NULL;
    }
}

/* The listener has proven itself, or not. */
static unsigned progress_greet(ucxpool_channel_t *channel)
{
    ucxpool_status_t status = xfer_greet_progress(channel->greet);
    const void      *blob;
    size_t           length;

    if (status == UCXPOOL_INPROGRESS) {
        return 0;
    }
    if (status != UCXPOOL_OK) {
        xfer_channel_fail(channel, status, "%s",
                          xfer_greet_reason(channel->greet));
        return 1;
    }
    xfer_greet_peer(channel->greet, &blob, &length);
    status = xfer_connect_address(channel, blob, length);
    if (status != UCXPOOL_OK) {
        xfer_channel_fail(channel, status, "%s", ucxpool_error_detail());
        return 1;
    }
    xfer_connect_stop(channel);
    return 1;
}

unsigned xfer_connect_progress(ucxpool_t *pool)
{
    unsigned           count = 0;
    ucxpool_channel_t *channel;
    ucxpool_channel_t *next;

    base_list_for_each_safe(channel, next, &pool->greetings, ucxpool_channel_t,
                            greet_link) {
        count += progress_greet(channel);
    }
    return count + xfer_listener_progress(pool);
}

uint64_t xfer_connect_deadline(ucxpool_t *pool)
{
    uint64_t           deadline = xfer_listener_deadline(pool);
    ucxpool_channel_t *channel;

    base_list_for_each(channel, &pool->greetings, ucxpool_channel_t,
                       greet_link) {
        deadline = base_min(deadline, xfer_greet_deadline(channel->greet));
    }
    return deadline;
}
