#include "xfer/state.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "xfer/recv.h"
#include "xfer/send.h"

#include <stdlib.h>

/* --- index ---------------------------------------------------------------- */

#define SIZE_MIN 64u

static void set_lists(xfer_index_t *index, base_list_t *lists, uint32_t size)
{
    for (size_t i = 0; i < (size_t)index->num_kinds * size; i++) {
        base_list_init(&lists[i]);
    }
    free(index->lists);
    index->lists = lists;
    index->size  = size;
}

/* Free the lists. Also valid for a zeroed index. */
static void index_cleanup(xfer_index_t *index)
{
    free(index->lists);
    index->lists = NULL;
}

/* UCXPOOL_ERR_NO_MEMORY; UCXPOOL_ERR_IO: libcrypto fails */
static ucxpool_status_t index_init(xfer_index_t *index, unsigned num_kinds)
{
    base_list_t     *lists = malloc(sizeof(*lists) * num_kinds * SIZE_MIN);
    ucxpool_status_t status;

    *index = (xfer_index_t){.num_kinds = num_kinds};
    if (lists == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for an index");
    }
    set_lists(index, lists, SIZE_MIN);
    status = base_random(&index->factor, sizeof(index->factor));
    if (status != UCXPOOL_OK) {
        index_cleanup(index);
        return status;
    }
    index->factor |= 1;
    return UCXPOOL_OK;
}

bool xfer_index_grow(xfer_index_t *index, ucxpool_t *pool)
{
    uint32_t     size = 2 * index->size;
    base_list_t *lists;

    if (!xfer_index_is_full(index)) {
        return false;
    }
    lists = core_alloc(pool, sizeof(*lists) * index->num_kinds * size);
    if (lists == NULL) {
        return false;
    }
    set_lists(index, lists, size);
    return true;
}

/* --- pools and channels --------------------------------------------------- */

static void init_lists(base_list_t *const *lists, size_t num)
{
    for (size_t i = 0; i < num; i++) {
        base_list_init(lists[i]);
    }
}

static void destroy(struct xfer_pool *xfer)
{
    index_cleanup(&xfer->index);
    index_cleanup(&xfer->posted_index);
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
    ucxpool_status_t status = index_init(&xfer->index, XFER_NUM_KEYS);

    if (status == UCXPOOL_OK) {
        status = index_init(&xfer->posted_index, 1);
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
