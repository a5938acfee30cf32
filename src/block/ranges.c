#include "block/ranges.h"
#include "base/error.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* How often a reader looks without the lock. */
#define MAX_LOOKS 4

typedef struct range {
    _Atomic uintptr_t start;
    _Atomic uintptr_t end;
    _Atomic uintptr_t owner;
} range_t;

struct block_ranges {
    pthread_mutex_t  lock;    /* of writers */
    _Atomic uint64_t version; /* odd while a writer changes the table */
    _Atomic size_t   num;
    _Atomic size_t   last; /* found last: the likeliest to be next */
    size_t           max;
    range_t          ranges[];
};

/*
 * The table is read and written with acquire and release, not relaxed: who
 * reads anything that a writer wrote then also sees the odd version that the
 * writer stored before. That spares fences, which ThreadSanitizer does not
 * know.
 */
static uintptr_t get(const _Atomic uintptr_t *field)
{
    return atomic_load_explicit(field, memory_order_acquire);
}

static void set(_Atomic uintptr_t *field, uintptr_t value)
{
    atomic_store_explicit(field, value, memory_order_release);
}

static void copy(range_t *to, const range_t *from)
{
    set(&to->start, get(&from->start));
    set(&to->end, get(&from->end));
    set(&to->owner, get(&from->owner));
}

ucxpool_status_t block_ranges_create(size_t           max_ranges,
                                     block_ranges_t **ranges_p)
{
    block_ranges_t *ranges;

    ranges = calloc(1, sizeof(*ranges) + max_ranges * sizeof(range_t));
    if (ranges == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for a table of %zu address ranges",
                          max_ranges);
    }
    /* Cannot fail: a mutex without attributes needs no resources. */
    (void)pthread_mutex_init(&ranges->lock, NULL);
    ranges->max = max_ranges;
    *ranges_p   = ranges;
    return UCXPOOL_OK;
}

void block_ranges_destroy(block_ranges_t *ranges)
{
    pthread_mutex_destroy(&ranges->lock);
    free(ranges);
}

/* How many ranges start at or before an address. */
static size_t num_up_to(const block_ranges_t *ranges, uintptr_t address)
{
    size_t low  = 0;
    size_t high = atomic_load_explicit(&ranges->num, memory_order_acquire);

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (get(&ranges->ranges[middle].start) <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool contains(const block_ranges_t *ranges, size_t index,
                     uintptr_t address)
{
    return (index < atomic_load_explicit(&ranges->num, memory_order_acquire)) &&
           (get(&ranges->ranges[index].start) <= address) &&
           (get(&ranges->ranges[index].end) > address);
}

/* May be called while a writer is at work; the answer is then worthless. */
static uintptr_t look_up(block_ranges_t *ranges, uintptr_t address)
{
    size_t last = atomic_load_explicit(&ranges->last, memory_order_relaxed);
    size_t index;

    if (contains(ranges, last, address)) {
        return get(&ranges->ranges[last].owner);
    }
    index = num_up_to(ranges, address);
    if ((index == 0) || !contains(ranges, index - 1, address)) {
        return 0;
    }
    atomic_store_explicit(&ranges->last, index - 1, memory_order_relaxed);
    return get(&ranges->ranges[index - 1].owner);
}

void *block_ranges_find(block_ranges_t *ranges, const void *address)
{
    uintptr_t owner;

    if (atomic_load_explicit(&ranges->num, memory_order_acquire) == 0) {
        return NULL;
    }
    for (int i = 0; i < MAX_LOOKS; i++) {
        uint64_t before =
            atomic_load_explicit(&ranges->version, memory_order_acquire);

        owner = look_up(ranges, (uintptr_t)address);
        if (((before & 1) == 0) &&
            (atomic_load_explicit(&ranges->version, memory_order_relaxed) ==
             before)) {
            return (void *)owner;
        }
    }
    pthread_mutex_lock(&ranges->lock);
    owner = look_up(ranges, (uintptr_t)address);
    pthread_mutex_unlock(&ranges->lock);
    return (void *)owner;
}

static void begin_change(block_ranges_t *ranges)
{
    pthread_mutex_lock(&ranges->lock);
    atomic_fetch_add_explicit(&ranges->version, 1, memory_order_relaxed);
}

static void end_change(block_ranges_t *ranges)
{
    atomic_fetch_add_explicit(&ranges->version, 1, memory_order_release);
    pthread_mutex_unlock(&ranges->lock);
}

void block_ranges_insert(block_ranges_t *ranges, const void *start, size_t size,
                         void *owner)
{
    size_t index;
    size_t num;

    begin_change(ranges);
    num   = atomic_load_explicit(&ranges->num, memory_order_relaxed);
    index = num_up_to(ranges, (uintptr_t)start);
    assert(num < ranges->max);
    for (size_t i = num; i > index; i--) {
        copy(&ranges->ranges[i], &ranges->ranges[i - 1]);
    }
    set(&ranges->ranges[index].start, (uintptr_t)start);
    set(&ranges->ranges[index].end, (uintptr_t)start + size);
    set(&ranges->ranges[index].owner, (uintptr_t)owner);
    atomic_store_explicit(&ranges->num, num + 1, memory_order_release);
    end_change(ranges);
}

void *block_ranges_remove(block_ranges_t *ranges, const void *start)
{
    uintptr_t owner = 0;
    size_t    index;
    size_t    num;

    begin_change(ranges);
    num   = atomic_load_explicit(&ranges->num, memory_order_relaxed);
    index = num_up_to(ranges, (uintptr_t)start);
    if ((index > 0) &&
        (get(&ranges->ranges[index - 1].start) == (uintptr_t)start)) {
        owner = get(&ranges->ranges[index - 1].owner);
        for (; index < num; index++) {
            copy(&ranges->ranges[index - 1], &ranges->ranges[index]);
        }
        atomic_store_explicit(&ranges->num, num - 1, memory_order_release);
    }
    end_change(ranges);
    return (void *)owner;
}
