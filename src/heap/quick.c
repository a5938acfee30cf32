#include <config.h>

#include "heap/quick.h"

#include "heap/index.h"

#include <assert.h>
#include <string.h>

static_assert(HEAP_QUICK_SIZES == 64, "a bit each");

static unsigned bin_of(uint64_t size)
{
    /* Powers of two, and sizes that lie close together, in bins of their own.
     * The multiplier is 2^64 divided by the golden ratio. */
    return (unsigned)((size / HEAP_UNIT * UINT64_C(0x9E3779B97F4A7C15)) >> 58);
}

heap_range_t *heap_quick_take(heap_quick_t *quick, uint64_t size,
                              uint64_t asked)
{
    unsigned          number = bin_of(size);
    heap_quick_bin_t *bin    = &quick->bins[number];
    heap_range_t     *range;

    if ((bin->count == 0) || (bin->size != size)) {
        return NULL;
    }
    range = bin->ranges[--bin->count];
    if (bin->count == 0) {
        quick->used &= ~(UINT64_C(1) << number);
    }
    heap_range_set_asked(range, asked);
    heap_range_become(range, HEAP_LIVE);
    return range;
}

static unsigned empty(heap_quick_t *quick, unsigned number, heap_range_t **gone)
{
    heap_quick_bin_t *bin   = &quick->bins[number];
    unsigned          count = bin->count;

    memcpy(gone, bin->ranges, count * sizeof(gone[0]));
    bin->count = 0;
    quick->used &= ~(UINT64_C(1) << number);
    return count;
}

unsigned heap_quick_put(heap_quick_t *quick, heap_range_t *range,
                        heap_range_t **gone)
{
    unsigned          number   = bin_of(range->size);
    heap_quick_bin_t *bin      = &quick->bins[number];
    unsigned          num_gone = 0;

    if ((bin->count == HEAP_QUICK_DEPTH) ||
        ((bin->count > 0) && (bin->size != range->size))) {
        num_gone = empty(quick, number, gone);
    }
    bin->size                 = range->size;
    bin->ranges[bin->count++] = range;
    quick->used |= UINT64_C(1) << number;
    return num_gone;
}

unsigned heap_quick_empty(heap_quick_t *quick, heap_range_t **gone)
{
    if (quick->used == 0) {
        return 0;
    }
    return empty(quick, (unsigned)__builtin_ctzll(quick->used), gone);
}
