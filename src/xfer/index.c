#include "xfer/index.h"

#include "base/error.h"

#include <openssl/rand.h>
#include <stdlib.h>

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

ucxpool_status_t xfer_index_init(xfer_index_t *index, unsigned num_kinds)
{
    base_list_t *lists = malloc(sizeof(*lists) * num_kinds * SIZE_MIN);

    *index = (xfer_index_t){.num_kinds = num_kinds};
    if (lists == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for an index");
    }
    set_lists(index, lists, SIZE_MIN);
    if (RAND_bytes((unsigned char *)&index->factor, sizeof(index->factor)) !=
        1) {
        xfer_index_cleanup(index);
        return base_error(UCXPOOL_ERR_IO, "no random numbers are available");
    }
    index->factor |= 1;
    return UCXPOOL_OK;
}

void xfer_index_cleanup(xfer_index_t *index)
{
    free(index->lists);
    index->lists = NULL;
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
