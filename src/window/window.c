/*
 * Windows and their grants: the owner's side.
 */
#include "window/window.h"

#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "core/control.h"
#include "copy/engine.h"
#include "window/service.h"
#include "window/way.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALL_ACCESS ((unsigned)(UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE))

/* --- windows -------------------------------------------------------------- */

static ucxpool_status_t check_memory(const ucxpool_t *pool, void *address,
                                     size_t length)
{
    const ucxpool_segment_t segment = {address, length};
    const copy_memory_t     memory  = copy_memory_of_segments(&segment, 1);
    unsigned                types;

    if ((length == 0) || ((uintptr_t)address > UINTPTR_MAX - length)) {
        return base_error(
            UCXPOOL_ERR_INVALID_PARAM,
            "cannot create a window of %zu bytes at %p: the length is 0, "
            "or the range exceeds the address space",
            length, address);
    }
    return copy_engine_memtypes(pool->engine, &memory, &types);
}

/* Duplicate the caller's descriptor, so that the caller may close its own. */
static ucxpool_status_t keep_file(ucxpool_window_t              *window,
                                  const ucxpool_window_params_t *params)
{
    window->fd = -1;
    if ((params == NULL) ||
        !(params->field_mask & UCXPOOL_WINDOW_PARAM_FIELD_FD)) {
        return UCXPOOL_OK;
    }
    window->fd = fcntl(params->fd, F_DUPFD_CLOEXEC, 0);
    if (window->fd >= 0) {
        return UCXPOOL_OK;
    }
    return (errno == EBADF)
               ? base_error(UCXPOOL_ERR_INVALID_PARAM,
                            "the window's file descriptor %d is not open; "
                            "set fd to the file that the memory maps",
                            params->fd)
               : base_error_errno(errno,
                                  "cannot duplicate the window's file "
                                  "descriptor %d",
                                  params->fd);
}

static ucxpool_status_t share(ucxpool_window_t              *window,
                              const ucxpool_window_params_t *params)
{
    const ucxpool_t    *pool   = window->pool;
    ucxpool_status_t    status = keep_file(window, params);
    const window_way_t *way;

    window_for_each_way(way, pool->windows->reach) {
        if ((status == UCXPOOL_OK) && (way->share != NULL)) {
            status = way->share(window);
        }
    }
    return status;
}

/* Undo share(). Called when no peer has access to the window or can get
 * access. */
static void unshare(ucxpool_window_t *window)
{
    const window_way_t *way;

    window_for_each_way(way, WINDOW_REACH_ANY) {
        if (way->unshare != NULL) {
            way->unshare(window);
        }
    }
}

static void discard(ucxpool_window_t *window)
{
    unshare(window);
    free(window->parts);
    if (window->fd >= 0) {
        close(window->fd);
    }
    OPENSSL_cleanse(window->key, sizeof(window->key));
    free(window);
}

ucxpool_status_t window_create(ucxpool_t *pool, void *address, size_t length,
                               const ucxpool_window_params_t *params,
                               ucxpool_window_t             **window_p)
{
    uint64_t          fields = (params == NULL) ? 0 : params->field_mask;
    ucxpool_window_t *window;
    ucxpool_status_t  status;

    if (pool->closing) {
        return base_error(UCXPOOL_ERR_CLOSED, "the pool is being destroyed");
    }
    status = check_memory(pool, address, length);
    if (status != UCXPOOL_OK) {
        return status;
    }
    window = calloc(1, sizeof(*window));
    if (window == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a window");
    }
    status = base_random(window->key, sizeof(window->key));
    if (status != UCXPOOL_OK) {
        free(window);
        return status;
    }
    if ((fields & UCXPOOL_WINDOW_PARAM_FIELD_NAME) && (params->name != NULL)) {
        snprintf(window->name, sizeof(window->name), "%s", params->name);
    }
    window->pool    = pool;
    window->number  = ++pool->windows->next_number;
    window->address = address;
    window->length  = length;
    base_list_init(&window->grants);
    status = share(window, params);
    if (status != UCXPOOL_OK) {
        discard(window);
        return status;
    }
    base_list_add_tail(&pool->windows->all, &window->link);
    *window_p = window;
    return UCXPOOL_OK;
}

void window_free(ucxpool_window_t *window)
{
    base_list_del(&window->link);
    discard(window);
}

ucxpool_status_t window_export(const ucxpool_window_t *window, unsigned access,
                               void *blob)
{
    window_blob_t filled = {
        .magic   = WINDOW_BLOB_MAGIC,
        .version = PROTO_VERSION,
        .access  = (uint16_t)access,
        .window  = window->number,
        .length  = window->length,
    };

    if ((access == 0) || ((access & ~ALL_ACCESS) != 0)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "access %#x is not UCXPOOL_WINDOW_READ, "
                          "UCXPOOL_WINDOW_WRITE or both",
                          access);
    }
    if (window->is_revoked) {
        return base_error(UCXPOOL_ERR_CANCELED, "the window has been revoked");
    }
    memcpy(filled.pool, window->pool->id, sizeof(filled.pool));
    memcpy(filled.key, window->key[access - 1], sizeof(filled.key));
    filled.checksum = window_blob_checksum(&filled);
    memcpy(blob, &filled, sizeof(filled));
    return UCXPOOL_OK;
}

/* Free the window if it is destroyed and has no grants. */
static void free_if_over(ucxpool_window_t *window)
{
    if (window->is_destroyed && window_is_free(window)) {
        window_free(window);
    }
}

static void send_revoke(const window_grant_t *grant)
{
    const proto_fixed_t revoke = {.window_revoke.remote = grant->remote};

    /* If the channel has ended, window_grants_release() releases the grant. */
    if (core_channel_is_live(grant->channel)) {
        core_control_send(grant->channel, PROTO_WINDOW_REVOKE, &revoke, NULL);
    }
}

/* Unshare the window if it is revoked and has no grants: no peer can access its
 * memory any more. */
static void unshare_if_over(ucxpool_window_t *window)
{
    if (window->is_revoked && window_is_free(window)) {
        unshare(window);
    }
}

static void revoke_grants(ucxpool_window_t *window)
{
    window_grant_t *grant;

    window->is_revoked = true;
    base_list_for_each(grant, &window->grants, window_grant_t, link) {
        window_served_cancel(grant->channel, grant);
        core_ring_withdraw(&grant->channel->ring);
        send_revoke(grant);
    }
}

/* Returns true if the importer may still be accessing the memory. Called after
 * the window was revoked or the channel has ended. */
static bool may_touch(const window_grant_t *grant)
{
    const ucxpool_channel_t *channel = grant->channel;
    const window_way_t      *way;

    window_for_each_way(way, channel->wire->reach) {
        if ((way->may_touch != NULL) && way->may_touch(grant)) {
            return true;
        }
    }
    return false;
}

void window_revoke(ucxpool_window_t *window)
{
    window_grant_t *grant, *next;

    if (!window->is_revoked) {
        revoke_grants(window);
    }
    base_list_for_each_safe(grant, next, &window->grants, window_grant_t,
                            link) {
        if (!grant->is_released && !may_touch(grant)) {
            window_grant_release(grant);
        }
    }
    unshare_if_over(window);
}

void window_revoke_all(ucxpool_t *pool)
{
    ucxpool_window_t *window, *next;

    base_list_for_each_safe(window, next, &pool->windows->all, ucxpool_window_t,
                            link) {
        if (!window->is_destroyed) {
            window_revoke(window);
        }
    }
}

bool window_is_free(const ucxpool_window_t *window)
{
    return base_list_is_empty(&window->grants);
}

bool window_all_are_free(const ucxpool_t *pool)
{
    const ucxpool_window_t *window;

    base_list_find(window, &pool->windows->all, const ucxpool_window_t, link,
                   !window->is_destroyed && !window_is_free(window));
    return window == NULL;
}

/* If the peer does not map this pool's memory, its gets and puts, and in-place
 * messages, end only when the endpoint is closed. So the channel must fail. */
bool window_abandon(const ucxpool_window_t *window)
{
    bool                  any_failed = false;
    const window_grant_t *grant;

    base_list_for_each(grant, &window->grants, const window_grant_t, link) {
        ucxpool_channel_t *channel         = grant->channel;
        bool               ends_by_channel = !channel->peer.peer_maps;

        base_warn("%s: stopped waiting for the peer of %s to release the "
                  "window %s%s%llu bytes at %p: UCXPOOL_CLOSE_TIMEOUT has "
                  "passed%s",
                  window->pool->name, channel->name, window->name,
                  (window->name[0] != '\0') ? ", " : "of ",
                  (unsigned long long)window->length, window->address,
                  ends_by_channel ? "" : "; the peer may still be copying");
        if (ends_by_channel) {
            core_channel_fail(channel, UCXPOOL_ERR_TIMED_OUT,
                              "the peer did not release a window within "
                              "UCXPOOL_CLOSE_TIMEOUT");
            any_failed = true;
        }
    }
    return any_failed;
}

void window_abandon_all(const ucxpool_t *pool)
{
    const ucxpool_window_t *window;

    base_list_for_each(window, &pool->windows->all, const ucxpool_window_t,
                       link) {
        if (!window->is_destroyed) {
            window_abandon(window);
        }
    }
}

void window_destroy(ucxpool_window_t *window)
{
    window->is_destroyed = true;
    free_if_over(window);
}

/* --- grants --------------------------------------------------------------- */

window_grant_t *window_grant_find(const ucxpool_channel_t *channel,
                                  uint64_t                 number)
{
    window_grant_t *grant;

    base_list_find(grant, &channel->windows->grants, window_grant_t,
                   channel_link, grant->number == number);
    return grant;
}

static bool is_file(const proto_window_part_t *part)
{
    return part->region == 0;
}

uint32_t window_grant_num_files(const ucxpool_channel_t *channel,
                                uint64_t                 number)
{
    const window_grant_t *grant = window_grant_find(channel, number);
    uint32_t              count = 0;

    if ((grant == NULL) || grant->window->is_revoked) {
        return 0;
    }
    for (unsigned i = 0; i < grant->window->num_parts; i++) {
        count += is_file(&grant->window->parts[i]) ? 1 : 0;
    }
    return count + grant->window->memory.num;
}

ucxpool_status_t window_grant_files(const ucxpool_channel_t *channel,
                                    uint64_t number, uint32_t first,
                                    uint32_t num, int *fds, bool *are_new_p)
{
    const ucxpool_window_t *window = window_grant_find(channel, number)->window;
    const proto_window_part_t *part;
    uint32_t                   index = 0;

    *are_new_p = window->memory.num != 0;
    if (*are_new_p) {
        return ipc_virtual_export(channel->pool->engine->device,
                                  &window->memory, first, num, fds);
    }
    for (part = window->parts; index < first + num; part++) {
        if (is_file(part) && (index++ >= first)) {
            fds[index - 1 - first] = part->file.fd;
        }
    }
    return UCXPOOL_OK;
}

static void send_refused(ucxpool_channel_t *channel, uint64_t remote,
                         ucxpool_status_t status, const char *reason)
{
    const proto_fixed_t opened = {
        .window_opened = {.remote = remote, .status = status}};

    core_control_send(channel, PROTO_WINDOW_OPENED, &opened, reason);
}

/* Returns how the importer can access the memory without messages, or why it
 * cannot. */
static window_offer_t make_offer(window_grant_t *grant)
{
    const char         *reason = grant->window->reason;
    window_offer_t      offer  = {0, reason, strlen(reason)};
    const window_way_t *way;

    window_for_each_way(way, grant->channel->wire->reach) {
        if (way->offer != NULL) {
            way->offer(grant, &offer);
        }
    }
    return offer;
}

static void send_opened(window_grant_t *grant)
{
    const ucxpool_window_t *window = grant->window;
    window_offer_t          offer  = make_offer(grant);
    void                   *data;
    proto_fixed_t          *fixed;

    fixed = core_control_begin(grant->channel, PROTO_WINDOW_OPENED, offer.size,
                               CORE_MUST, &data);
    if (fixed == NULL) {
        return;
    }
    fixed->window_opened.remote  = grant->remote;
    fixed->window_opened.grant   = grant->number;
    fixed->window_opened.length  = window->length;
    fixed->window_opened.address = (uintptr_t)window->address;
    fixed->window_opened.flags   = offer.flags;
    memcpy(data, offer.data, offer.size);
    core_control_end(grant->channel);
}

/* Find the window of a blob. Returns NULL if the access or the key is wrong. */
static ucxpool_window_t *find(ucxpool_t *pool, const proto_window_open_t *open)
{
    ucxpool_window_t *window;

    if ((open->access == 0) || ((open->access & ~ALL_ACCESS) != 0)) {
        return NULL;
    }
    base_list_for_each(window, &pool->windows->all, ucxpool_window_t, link) {
        if (window->number == open->window) {
            return (CRYPTO_memcmp(window->key[open->access - 1], open->key,
                                  sizeof(open->key)) == 0)
                       ? window
                       : NULL;
        }
    }
    return NULL;
}

static window_grant_t *make_grant(ucxpool_channel_t         *channel,
                                  ucxpool_window_t          *window,
                                  const proto_window_open_t *open)
{
    window_grant_t *grant = core_alloc(channel->pool, sizeof(*grant));

    if (grant == NULL) {
        return NULL;
    }
    *grant = (window_grant_t){
        .window    = window,
        .channel   = channel,
        .number    = ++channel->pool->windows->next_number,
        .remote    = open->remote,
        .access    = open->access,
        .wants_key = (open->flags & PROTO_OPEN_KEY) != 0,
    };
    base_list_add_tail(&window->grants, &grant->link);
    base_list_add_tail(&channel->windows->grants, &grant->channel_link);
    channel->windows->num_grants++;
    channel->num_lent++;
    return grant;
}

void window_grant_open(ucxpool_channel_t         *channel,
                       const proto_window_open_t *open)
{
    ucxpool_window_t *window = find(channel->pool, open);
    ucxpool_status_t  status = UCXPOOL_ERR_REFUSED;
    const char       *reason;
    window_grant_t   *grant;

    if (window == NULL) {
        reason = "the peer's pool has no such window, or has destroyed it";
    } else if (window->is_revoked) {
        reason = "the window has been revoked";
    } else if (channel->windows->num_grants == PROTO_GRANTS_MAX) {
        status = UCXPOOL_ERR_LIMIT;
        reason = "too many windows are imported over one channel";
    } else if ((grant = make_grant(channel, window, open)) == NULL) {
        status = UCXPOOL_ERR_NO_MEMORY;
        reason = "the peer has no memory for an import";
    } else {
        send_opened(grant);
        return;
    }
    send_refused(channel, open->remote, status, reason);
}

void window_grant_put(window_grant_t *grant)
{
    ucxpool_window_t *window = grant->window;

    grant->num_served--;
    if (grant->is_released && (grant->num_served == 0)) {
        base_list_del(&grant->link);
        base_list_del(&grant->channel_link);
        grant->channel->windows->num_grants--;
        grant->channel->num_lent--;
        free(grant);
        unshare_if_over(window);
        free_if_over(window);
    }
}

void window_grant_release(window_grant_t *grant)
{
    grant->is_released = true;
    grant->num_served++; /* keeps the grant until the calls have returned */
    window_served_cancel(grant->channel, grant);
    window_grant_put(grant);
}

void window_grants_release(ucxpool_channel_t *channel, bool are_touched)
{
    window_grant_t *grant, *next;

    base_list_for_each_safe(grant, next, &channel->windows->grants,
                            window_grant_t, channel_link) {
        if (!grant->is_released && (are_touched || !may_touch(grant))) {
            window_grant_release(grant);
        }
    }
}
