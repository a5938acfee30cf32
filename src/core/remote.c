#include "core/remote.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "core/proto.h"
#include "ucx/context.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* --- addresses ------------------------------------------------------------ */

#define ADDRESS_MAGIC 0x70786375u /* "ucxp" */

static uint32_t checksum_of(const void *address, size_t length)
{
    return base_crc32c_of_record(address, length,
                                 offsetof(core_blob_t, checksum));
}

static void set_checksum(core_blob_t *address)
{
    address->checksum =
        checksum_of(address, sizeof(*address) + address->worker_length);
}

ucxpool_status_t core_blob_create(ucxpool_t *pool, uint64_t pair,
                                  core_blob_t **address_p, size_t *length_p)
{
    ucp_address_t *worker;
    size_t         worker_length;
    core_blob_t   *address;
    ucs_status_t   status;

    status = ucp_worker_get_address(pool->ucx.worker, &worker, &worker_length);
    if (status != UCS_OK) {
        return base_error(ucx_status(status),
                          "UCX cannot return the address of its worker: %s",
                          ucs_status_string(status));
    }
    address = calloc(1, sizeof(*address) + worker_length);
    if (address == NULL) {
        ucp_worker_release_address(pool->ucx.worker, worker);
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for an address");
    }
    address->magic         = ADDRESS_MAGIC;
    address->version       = PROTO_VERSION;
    address->am_id         = (uint16_t)pool->config.am_id;
    address->pair          = pair;
    address->worker_length = (uint32_t)worker_length;
    if (pool->wireup.fd_export != NULL) {
        address->net_namespace = ipc_net_namespace();
    }
    ipc_host_fill(&address->host);
    memcpy(address->id, pool->id, sizeof(address->id));
    memcpy(address->key, pool->key, sizeof(address->key));
    memcpy(address->worker, worker, worker_length);
    ucp_worker_release_address(pool->ucx.worker, worker);
    set_checksum(address);
    *address_p = address;
    *length_p  = sizeof(*address) + worker_length;
    return UCXPOOL_OK;
}

void core_blob_set_turn(core_blob_t *address, core_blob_turn_t turn)
{
    address->turn = turn;
    set_checksum(address);
}

static ucxpool_status_t damaged(const char *what)
{
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "the address is damaged (%s); pass the bytes of "
                      "ucxpool_address_get() unchanged",
                      what);
}

ucxpool_status_t core_blob_check(const void *data, size_t length,
                                 core_blob_t *head_p)
{
    if (length < sizeof(*head_p)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%zu bytes are too few for an address of a pool",
                          length);
    }
    memcpy(head_p, data, sizeof(*head_p));
    if (head_p->magic != ADDRESS_MAGIC) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "this is not an address of a pool; it must come from "
                          "ucxpool_address_get()");
    }
    if (head_p->checksum != checksum_of(data, length)) {
        return damaged("its checksum is wrong");
    }
    if (head_p->version != PROTO_VERSION) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "the peer uses protocol version %u, this pool uses "
                          "%u; use the same version of libucxpool on both "
                          "sides",
                          head_p->version, PROTO_VERSION);
    }
    if ((head_p->worker_length != length - sizeof(*head_p)) ||
        (head_p->worker_length == 0)) {
        return damaged("its length is wrong");
    }
    if (head_p->reserved != 0) {
        return damaged("its reserved bytes are not 0");
    }
    return UCXPOOL_OK;
}

/* --- remotes -------------------------------------------------------------- */

/*
 * UCX pairs the endpoints of two workers in the order of their creation. So
 * endpoints are created until UCX returns the endpoint over which a HELLO has
 * arrived. The other endpoints, at most this many, belong to HELLOs that have
 * not arrived yet.
 */
#define OVERTAKEN_MAX 16

/* The maximum of num_awaited for one peer. Without this limit, a peer that
 * connects repeatedly but never creates its endpoints would make the pool
 * prepare more and more endpoints. */
#define AWAITED_MAX 16u

/* The maximum number of prepared endpoints of a pool, for all its peers
 * together. AWAITED_MAX alone does not limit a peer that uses many
 * identities. */
#define PREPARED_MAX 64u

/* The time that the record of a pool is kept if the pool has connected, but was
 * not accepted. */
#define KEEP_NS UINT64_C(10000000000)

/*
 * Returns true if the blob describes the pool of this record. All blobs of a
 * pool are identical, except for the per-connection fields. The id alone is not
 * a proof, because each peer of the pool knows the id and could use it to
 * redirect this pool's connections.
 */
static bool is_of(const core_remote_t *remote, const core_blob_t *head,
                  const void *blob)
{
    core_blob_t wanted = *head;

    wanted.pair     = remote->blob.pair;
    wanted.turn     = remote->blob.turn;
    wanted.checksum = remote->blob.checksum; /* covers these fields, too */
    return (memcmp(&remote->blob, &wanted, sizeof(wanted)) == 0) &&
           (memcmp(remote->blob.worker, (const uint8_t *)blob + sizeof(*head),
                   head->worker_length) == 0);
}

static core_remote_t *find(ucxpool_t *pool, const core_blob_t *head,
                           const void *blob)
{
    core_remote_t *remote;

    base_list_find(remote, &pool->channels.remotes, core_remote_t, link,
                   is_of(remote, head, blob));
    return remote;
}

static void destroy(core_remote_t *remote)
{
    base_list_del(&remote->link);
    free(remote);
}

/* Returns true if the record has no channels, no pairs and no idle endpoints.
 * The pool that it describes may have connected to a listener. */
static bool is_unused(const core_remote_t *remote)
{
    return (remote->refs == 0) && (remote->num_pairs == 0) &&
           base_list_is_empty(&remote->idle);
}

static void destroy_if_unused(core_remote_t *remote)
{
    if (is_unused(remote) && (remote->kept_until <= base_clock_now())) {
        destroy(remote);
    }
}

/* Free the records of pools that were kept, but were not used in time. */
static void destroy_unused(ucxpool_t *pool)
{
    core_remote_t *remote, *next;

    base_list_for_each_safe(remote, next, &pool->channels.remotes,
                            core_remote_t, link) {
        destroy_if_unused(remote);
    }
}

/* If too many pools have connected and have no channel, free the record of the
 * pool that connected first. The listener's answer asked that pool to begin.
 * When that pool is accepted, the turn is decided again. */
static void bound_called(ucxpool_t *pool)
{
    unsigned       num    = 0;
    core_remote_t *oldest = NULL;
    core_remote_t *remote;

    base_list_for_each(remote, &pool->channels.remotes, core_remote_t, link) {
        if (is_unused(remote)) {
            num++;
            if ((oldest == NULL) || (remote->kept_until < oldest->kept_until)) {
                oldest = remote;
            }
        }
    }
    if (num > CORE_CALLED_MAX) {
        destroy(oldest);
    }
}

static core_remote_t *create(ucxpool_t *pool, const void *blob, size_t size)
{
    core_remote_t *remote = calloc(1, offsetof(core_remote_t, blob) + size);

    destroy_unused(pool);
    if (remote != NULL) {
        remote->pool = pool;
        memcpy(&remote->blob, blob, size);
        base_list_init(&remote->idle);
        base_list_init(&remote->mappings);
        base_list_add_head(&pool->channels.remotes, &remote->link);
    }
    return remote;
}

core_remote_t *core_remote_get(ucxpool_t *pool, const void *blob)
{
    core_blob_t    head;
    core_remote_t *remote;

    memcpy(&head, blob, sizeof(head));
    remote = find(pool, &head, blob);
    if (remote == NULL) {
        remote = create(pool, blob, sizeof(head) + head.worker_length);
    }
    if (remote != NULL) {
        remote->refs++;
    }
    return remote;
}

void core_remote_put(core_remote_t *remote)
{
    remote->kept_until = 0;
    remote->refs--;
    destroy_if_unused(remote);
}

/* --- turns ---------------------------------------------------------------- */

bool core_remote_is_self(const core_remote_t *remote)
{
    return memcmp(remote->blob.id, remote->pool->id, CORE_ID_SIZE) == 0;
}

static core_turn_t turn_of_smaller(const core_remote_t *remote)
{
    return (memcmp(remote->pool->id, remote->blob.id, CORE_ID_SIZE) < 0)
               ? CORE_TURN_OURS
               : CORE_TURN_THEIRS;
}

static void decide(core_remote_t *remote, core_turn_t turn)
{
    ucxpool_channel_t *channel;

    remote->turn       = turn;
    remote->decided_at = base_clock_now();
    if (turn == CORE_TURN_OURS) {
        base_list_for_each(channel, &remote->pool->channels.open,
                           ucxpool_channel_t, link) {
            if (channel->conn.remote == remote) {
                core_channel_hasten_hello(channel);
            }
        }
    }
}

/*
 * Settle a conflict between the listener's answer and the decision of this
 * side. If this side decided after it had connected, both sides connected at
 * the same time, and each asked the other to begin. Neither has begun, and both
 * find this out from the answers. If this side decided before it connected, the
 * other pool has forgotten this pool and has decided again.
 */
static core_turn_t settle(const core_remote_t     *remote,
                          const ucxpool_channel_t *channel, core_turn_t answer)
{
    return (remote->decided_at >= channel->wireup.called_at)
               ? turn_of_smaller(remote)
               : answer;
}

void core_remote_set_turn(core_remote_t *remote, ucxpool_channel_t *channel,
                          core_blob_turn_t answer)
{
    core_turn_t turn =
        (answer == CORE_BLOB_CALLERS) ? CORE_TURN_OURS : CORE_TURN_THEIRS;

    if (core_remote_is_self(remote)) {
        return;
    }
    if (remote->turn == CORE_TURN_UNKNOWN) {
        decide(remote,
               channel->wireup.via_listener ? turn : turn_of_smaller(remote));
    } else if (channel->wireup.begins && (answer != CORE_BLOB_NO_TURN) &&
               (remote->turn != turn)) {
        decide(remote, settle(remote, channel, turn));
    }
}

bool core_remote_is_our_turn(const ucxpool_channel_t *channel)
{
    const core_remote_t *remote = channel->conn.remote;

    if (channel->conn.by_ep) {
        return true;
    }
    return core_remote_is_self(remote) ? channel->wireup.begins
                                       : (remote->turn == CORE_TURN_OURS);
}

/* --- endpoints ------------------------------------------------------------ */

static bool is_usable(const core_endpoint_t *endpoint)
{
    return (endpoint->step == CORE_ENDPOINT_OPEN) &&
           !core_endpoint_has_failed(endpoint);
}

/* Take the idle endpoint with the handle `ep`. If `ep` is NULL, take any idle
 * endpoint whose peer is known to exist. */
static core_endpoint_t *take_idle(core_remote_t *remote, ucp_ep_h ep)
{
    core_endpoint_t *endpoint;

    base_list_for_each(endpoint, &remote->idle, core_endpoint_t, idle_link) {
        if (is_usable(endpoint) &&
            ((ep == NULL) ? endpoint->is_sure : (endpoint->ep == ep))) {
            base_list_del(&endpoint->idle_link);
            endpoint->is_prepared = false;
            return endpoint;
        }
    }
    return NULL;
}

static bool is_in_use(const ucxpool_t *pool, ucp_ep_h ep)
{
    core_endpoint_t *endpoint;

    base_list_find(endpoint, &pool->channels.endpoints, core_endpoint_t, link,
                   endpoint->ep == ep);
    return endpoint != NULL;
}

/* Request that the next ucxpool_progress() closes the idle endpoints that have
 * failed, and frees those that are closed. */
static void set_ends(ucxpool_t *pool)
{
    __atomic_store_n(&pool->channels.endpoint_ended, true, __ATOMIC_RELEASE);
}

static void put_idle(core_remote_t *remote, core_endpoint_t *endpoint)
{
    base_list_add_head(&remote->idle, &endpoint->idle_link);
    set_ends(remote->pool); /* the endpoint may have failed */
}

/* Create endpoints until UCX returns the handle `ep`. If `ep` is NULL, create
 * one endpoint. */
static ucxpool_status_t make(core_remote_t *remote, ucp_ep_h ep,
                             core_endpoint_t **endpoint_p)
{
    ucxpool_status_t status;

    for (int i = 0;; i++) {
        status =
            core_endpoint_create(remote->pool, remote->blob.worker, endpoint_p);
        if ((status != UCXPOOL_OK) || (ep == NULL) || (*endpoint_p)->ep == ep ||
            (i == OVERTAKEN_MAX)) {
            return status;
        }
        put_idle(remote, *endpoint_p);
    }
}

/* Check that a new endpoint can reach the peer. */
static ucxpool_status_t check_devices(const ucxpool_channel_t *channel)
{
    ucxpool_status_t status = core_endpoint_check(channel->pool);

    if ((status == UCXPOOL_OK) && channel->conn.lacks_device) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "UCX has only %.30s, and could not add a device for "
                          "the peer's host; connect to it before opening other "
                          "channels, or set UCX_NET_DEVICES",
                          channel->pool->ucx.devices);
    }
    return status;
}

ucxpool_status_t core_remote_take_endpoint(ucxpool_channel_t *channel,
                                           ucp_ep_h           reply_ep)
{
    core_remote_t   *remote   = channel->conn.remote;
    core_endpoint_t *endpoint = take_idle(remote, reply_ep);
    ucxpool_status_t status   = UCXPOOL_OK;

    if ((endpoint == NULL) && (reply_ep == NULL)) {
        status = check_devices(channel);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    if ((reply_ep != NULL) && (remote->num_awaited > 0)) {
        remote->num_awaited--;
    }
    if ((endpoint == NULL) && (reply_ep != NULL) &&
        is_in_use(remote->pool, reply_ep)) {
        reply_ep = NULL;
        endpoint = take_idle(remote, NULL);
    }
    if (endpoint == NULL) {
        status = make(remote, reply_ep, &endpoint);
    }
    if (status == UCXPOOL_OK) {
        if (channel->conn.endpoint != NULL) {
            put_idle(remote, channel->conn.endpoint);
        }
        channel->conn.endpoint = endpoint;
    }
    return status;
}

/* Count the prepared endpoints that UCX has not paired with endpoints of the
 * peer yet. */
static unsigned count_prepared(const core_remote_t *remote)
{
    unsigned         count = 0;
    core_endpoint_t *endpoint;

    base_list_for_each(endpoint, &remote->idle, core_endpoint_t, idle_link) {
        count += (endpoint->is_prepared && is_usable(endpoint)) ? 1 : 0;
    }
    return count;
}

static bool may_prepare(const ucxpool_t *pool)
{
    unsigned             count = 0;
    const core_remote_t *remote;

    base_list_for_each(remote, &pool->channels.remotes, core_remote_t, link) {
        count += count_prepared(remote);
    }
    return count < PREPARED_MAX;
}

void core_remote_prepare_endpoint(core_remote_t *remote)
{
    core_endpoint_t *endpoint;

    if (!ucx_asserts_on_answers() || remote->pool->ucx.is_lost ||
        remote->pool->needs_registration || core_remote_is_self(remote) ||
        !ipc_host_shares_network(&remote->blob.host)) {
        return;
    }
    remote->num_awaited = base_min(remote->num_awaited + 1, AWAITED_MAX);
    if ((count_prepared(remote) < remote->num_awaited) &&
        may_prepare(remote->pool) &&
        (core_endpoint_create(remote->pool, remote->blob.worker, &endpoint) ==
         UCXPOOL_OK)) {
        endpoint->is_prepared = true;
        put_idle(remote, endpoint);
    }
}

core_blob_turn_t core_remote_called(ucxpool_t *pool, const void *blob,
                                    bool by_endpoint)
{
    core_remote_t   *remote = core_remote_get(pool, blob);
    core_blob_turn_t turn;

    if (remote == NULL) {
        return CORE_BLOB_NO_TURN;
    }
    if (remote->turn == CORE_TURN_UNKNOWN) {
        decide(remote, CORE_TURN_THEIRS);
    }
    if (by_endpoint && (remote->turn == CORE_TURN_THEIRS)) {
        core_remote_prepare_endpoint(remote);
    }
    /* Keep the record for KEEP_NS, so that it still exists when the pool's
     * channel is accepted. */
    remote->kept_until = base_clock_deadline(KEEP_NS);
    remote->refs--;
    turn = (remote->turn == CORE_TURN_OURS) ? CORE_BLOB_LISTENERS
                                            : CORE_BLOB_CALLERS;
    bound_called(pool);
    return turn;
}

/* If the peer is this pool itself, the other end of the endpoint always
 * exists. */
void core_remote_keep_endpoint(ucxpool_channel_t *channel)
{
    channel->conn.endpoint->is_sure =
        channel->closing.has_begun || core_remote_is_self(channel->conn.remote);
    put_idle(channel->conn.remote, channel->conn.endpoint);
    channel->conn.endpoint = NULL;
}

/* Close and free an endpoint without a channel. */
static unsigned progress_idle(core_endpoint_t *endpoint)
{
    ucxpool_t *pool = endpoint->pool;
    unsigned   count;

    if (core_endpoint_has_failed(endpoint)) {
        core_endpoint_close(endpoint, 0);
    }
    count = core_endpoint_progress(endpoint);
    if (core_endpoint_is_over(endpoint)) {
        base_list_del(&endpoint->idle_link);
        core_endpoint_destroy(endpoint);
    } else if (endpoint->step != CORE_ENDPOINT_OPEN) {
        set_ends(pool);
    }
    return count;
}

unsigned core_remote_progress(ucxpool_t *pool)
{
    unsigned         count = 0;
    core_remote_t   *remote;
    core_remote_t   *next_remote;
    core_endpoint_t *endpoint, *next;

    __atomic_store_n(&pool->channels.endpoint_ended, false, __ATOMIC_SEQ_CST);
    base_list_for_each_safe(remote, next_remote, &pool->channels.remotes,
                            core_remote_t, link) {
        base_list_for_each_safe(endpoint, next, &remote->idle, core_endpoint_t,
                                idle_link) {
            count += progress_idle(endpoint);
        }
        destroy_if_unused(remote);
    }
    return count;
}

void core_remote_close_all(ucxpool_t *pool, uint64_t deadline)
{
    core_remote_t   *remote;
    core_endpoint_t *endpoint;

    base_list_for_each(remote, &pool->channels.remotes, core_remote_t, link) {
        base_list_for_each(endpoint, &remote->idle, core_endpoint_t,
                           idle_link) {
            core_endpoint_close(endpoint, deadline);
        }
    }
    set_ends(pool);
}

bool core_remote_has_endpoints(const ucxpool_t *pool)
{
    core_remote_t *remote;

    base_list_find(remote, &pool->channels.remotes, core_remote_t, link,
                   !base_list_is_empty(&remote->idle));
    return remote != NULL;
}

void core_remote_destroy_all(ucxpool_t *pool)
{
    core_remote_t   *remote;
    core_endpoint_t *endpoint;

    while ((remote = base_list_pop(&pool->channels.remotes, core_remote_t,
                                   link)) != NULL) {
        while ((endpoint = base_list_pop(&remote->idle, core_endpoint_t,
                                         idle_link)) != NULL) {
            core_endpoint_destroy(endpoint);
        }
        destroy(remote);
    }
}
