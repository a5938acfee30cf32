#include "xfer/posted.h"

#include "xfer/state.h"

/* Returns true if the receive is in the index. A receive that was posted when
 * no other waited has order 0 and is not in the index. Until it is removed, it
 * is the oldest, and is checked first. */
static bool is_indexed(const ucxpool_request_t *request)
{
    return (request->order != 0) && (request->mask == UINT64_MAX);
}

/* Returns the index list of a key. channel: NULL for receives from any
 * channel. */
static base_list_t *list_of(const struct xfer_pool  *xfer,
                            const ucxpool_channel_t *channel, uint64_t tag)
{
    return xfer_index_list(&xfer->posted_index, 0, channel, tag);
}

static void add_exact(struct xfer_pool *xfer, ucxpool_request_t *request)
{
    base_list_add_tail(list_of(xfer, request->channel, request->tag),
                       &request->run_link);
}

static void grow(ucxpool_t *pool)
{
    struct xfer_pool  *xfer = pool->xfer;
    ucxpool_request_t *request;

    if (!xfer_index_grow(&xfer->posted_index, pool)) {
        return;
    }
    base_list_for_each(request, &xfer->posted, ucxpool_request_t, link) {
        if (is_indexed(request)) {
            add_exact(xfer, request);
        }
    }
}

void xfer_posted_add(ucxpool_request_t *request)
{
    struct xfer_pool *xfer = request->pool->xfer;

    request->order = base_list_is_empty(&xfer->posted) ? 0 : ++xfer->num_posted;
    if (is_indexed(request)) {
        if (xfer_index_is_full(&xfer->posted_index)) {
            grow(request->pool);
        }
        add_exact(xfer, request);
        xfer->posted_index.num++;
    } else if (request->order != 0) {
        base_list_add_tail(&xfer->posted_masked, &request->run_link);
    }
    base_list_add_tail(&xfer->posted, &request->link);
}

void xfer_posted_remove(ucxpool_request_t *request)
{
    base_list_del(&request->link);
    base_list_del(&request->run_link);
    if (is_indexed(request)) {
        request->pool->xfer->posted_index.num--;
    }
}

static bool takes(const ucxpool_request_t *request,
                  const ucxpool_channel_t *channel, uint64_t tag)
{
    return (request->any_channel || (request->channel == channel)) &&
           (((request->tag ^ tag) & request->mask) == 0);
}

/* Returns the oldest indexed receive for a tag. channel: NULL for receives from
 * any channel. */
static ucxpool_request_t *find_exact(const struct xfer_pool  *xfer,
                                     const ucxpool_channel_t *channel,
                                     uint64_t                 tag)
{
    ucxpool_request_t *request;

    base_list_for_each(request, list_of(xfer, channel, tag), ucxpool_request_t,
                       run_link) {
        if ((request->channel == channel) && (request->tag == tag)) {
            return request;
        }
    }
    return NULL;
}

static ucxpool_request_t *older(ucxpool_request_t *one,
                                ucxpool_request_t *other)
{
    if ((one == NULL) || (other == NULL)) {
        return (one == NULL) ? other : one;
    }
    return (one->order < other->order) ? one : other;
}

ucxpool_request_t *xfer_posted_find(const ucxpool_channel_t *channel,
                                    uint64_t                 tag)
{
    const struct xfer_pool *xfer = channel->pool->xfer;
    ucxpool_request_t      *found;
    ucxpool_request_t      *request;

    if (base_list_is_empty(&xfer->posted)) {
        return NULL;
    }
    request = base_list_head(&xfer->posted, ucxpool_request_t, link);
    if (takes(request, channel, tag)) {
        return request;
    }
    found = older(find_exact(xfer, channel, tag), find_exact(xfer, NULL, tag));
    base_list_for_each(request, &xfer->posted_masked, ucxpool_request_t,
                       run_link) {
        if ((found != NULL) && (found->order < request->order)) {
            break;
        }
        if (takes(request, channel, tag)) {
            return request;
        }
    }
    return found;
}

void xfer_posted_abort(ucxpool_channel_t *channel, ucxpool_status_t status,
                       const char *detail)
{
    ucxpool_request_t *request;
    ucxpool_request_t *next;

    base_list_for_each_safe(request, next, &channel->pool->xfer->posted,
                            ucxpool_request_t, link) {
        if (request->channel == channel) {
            core_request_end(request, status, detail);
            core_request_reuse(request);
        }
    }
}
