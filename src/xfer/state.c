#include "xfer/state.h"

#include "base/clock.h"
#include "base/error.h"
#include "wire/recv.h"
#include "xfer/message.h"
#include "xfer/request.h"

#include <stdlib.h>

static void init_lists(base_list_t *const *lists, size_t num)
{
    for (size_t i = 0; i < num; i++) {
        base_list_init(lists[i]);
    }
}

static void destroy(struct xfer_pool *xfer)
{
    xfer_index_cleanup(&xfer->index);
    xfer_index_cleanup(&xfer->posted_index);
    free(xfer);
}

ucxpool_status_t xfer_pool_create(ucxpool_t *pool)
{
    struct xfer_pool *xfer = calloc(1, sizeof(*xfer));

    if (xfer == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a pool");
    }
    base_list_t *const lists[] = {
        &xfer->posted,     &xfer->posted_masked, &xfer->early,
        &xfer->unexpected, &xfer->probed,        &xfer->waiters,
        &xfer->readers,    &xfer->fragments,     &xfer->free_fragments,
    };
    ucxpool_status_t status = xfer_index_init(&xfer->index, XFER_NUM_KEYS);

    if (status == UCXPOOL_OK) {
        status = xfer_index_init(&xfer->posted_index, 1);
    }
    if (status != UCXPOOL_OK) {
        destroy(xfer);
        return status;
    }

    init_lists(lists, sizeof(lists) / sizeof(lists[0]));
    xfer->next_announce = BASE_CLOCK_FOREVER;
    core_request_list_init(&xfer->sends, sizeof(struct xfer_send));
    core_request_list_init(&xfer->recvs, sizeof(struct wire_recv));
    pool->xfer = xfer;
    return UCXPOOL_OK;
}

void xfer_pool_destroy(ucxpool_t *pool)
{
    destroy(pool->xfer);
    pool->xfer = NULL;
}

ucxpool_status_t xfer_channel_create(ucxpool_channel_t *channel)
{
    struct xfer_channel *xfer = calloc(1, sizeof(*xfer));

    if (xfer == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a channel");
    }
    base_list_t *const lists[] = {
        &xfer->queue,
        &xfer->flushes,
        &xfer->packing,
        &xfer->ending,
        &xfer->sent,
        &xfer->word_waiters,
        &xfer->messages.eager.free,
        &xfer->messages.small.free,
        &xfer->messages.large.free,
    };

    init_lists(lists, sizeof(lists) / sizeof(lists[0]));
    channel->xfer = xfer;
    return UCXPOOL_OK;
}

void xfer_channel_destroy(ucxpool_channel_t *channel)
{
    if (channel->xfer != NULL) {
        free(channel->xfer->messages.early);
    }
    free(channel->xfer);
    channel->xfer = NULL;
}
