#include "block/comm.h"

#include "base/error.h"
#include "base/list.h"
#include "base/math.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

/* --- address ranges ----------------------------------------------------------
 * A sorted table of address ranges that do not overlap, and their owners.
 *
 *     start   0x7f00..  0x7f21..  0x7f80..
 *     end     0x7f10..  0x7f22..  0x7fa0..
 *     owner   a         b         c
 *
 * Readers take no lock. They read a version before and after the lookup, and
 * retry if a writer was active in between (a sequence lock). A reader that
 * conflicts with writers several times in a row takes the writers' lock, so it
 * always finishes.
 */

/* Maximum number of lookups without the lock. After that, a reader takes the
 * lock. */
#define MAX_LOOKS 4

typedef struct range {
    _Atomic uintptr_t start;
    _Atomic uintptr_t end;
    _Atomic uintptr_t owner;
} range_t;

typedef struct ranges {
    pthread_mutex_t  lock;    /* of writers */
    _Atomic uint64_t version; /* odd while a writer changes the table */
    _Atomic size_t   num;
    _Atomic size_t   last; /* range that the last lookup found */
    size_t           max;
    range_t          ranges[];
} ranges_t;

/*
 * The table is read with acquire order and written with release order. If a
 * reader sees a value from a writer, it therefore also sees the odd version
 * that the writer stored before. Relaxed order would need fences, which
 * ThreadSanitizer does not support.
 */
static uintptr_t get(const _Atomic uintptr_t *field)
{
    return atomic_load_explicit(field, memory_order_acquire);
}

static void set(_Atomic uintptr_t *field, uintptr_t value)
{
    atomic_store_explicit(field, value, memory_order_release);
}

static void copy_range(range_t *to, const range_t *from)
{
    set(&to->start, get(&from->start));
    set(&to->end, get(&from->end));
    set(&to->owner, get(&from->owner));
}

/* Create a table. max_ranges may be 0. The table never grows, so it never moves
 * while readers use it. */
static ucxpool_status_t ranges_create(size_t max_ranges, ranges_t **ranges_p)
{
    ranges_t *ranges;

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

static void ranges_destroy(ranges_t *ranges)
{
    pthread_mutex_destroy(&ranges->lock);
    free(ranges);
}

/* Returns the number of ranges that start at or before an address. */
static size_t num_up_to(const ranges_t *ranges, uintptr_t address)
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

static bool contains(const ranges_t *ranges, size_t index, uintptr_t address)
{
    return (index < atomic_load_explicit(&ranges->num, memory_order_acquire)) &&
           (get(&ranges->ranges[index].start) <= address) &&
           (get(&ranges->ranges[index].end) > address);
}

/* Find the owner of an address. The lookup may race with a writer; the caller
 * then discards the result. */
static uintptr_t look_up(ranges_t *ranges, uintptr_t address)
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

/* Returns the owner of the range that contains the address, or NULL. */
static void *ranges_find(ranges_t *ranges, const void *address)
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

static void begin_change(ranges_t *ranges)
{
    pthread_mutex_lock(&ranges->lock);
    atomic_fetch_add_explicit(&ranges->version, 1, memory_order_relaxed);
}

static void end_change(ranges_t *ranges)
{
    atomic_fetch_add_explicit(&ranges->version, 1, memory_order_release);
    pthread_mutex_unlock(&ranges->lock);
}

/* Insert a range. It must not overlap another range, and `owner` must not be
 * NULL. */
static void ranges_insert(ranges_t *ranges, const void *start, size_t size,
                          void *owner)
{
    size_t index;
    size_t num;

    begin_change(ranges);
    num   = atomic_load_explicit(&ranges->num, memory_order_relaxed);
    index = num_up_to(ranges, (uintptr_t)start);
    assert(num < ranges->max);
    for (size_t i = num; i > index; i--) {
        copy_range(&ranges->ranges[i], &ranges->ranges[i - 1]);
    }
    set(&ranges->ranges[index].start, (uintptr_t)start);
    set(&ranges->ranges[index].end, (uintptr_t)start + size);
    set(&ranges->ranges[index].owner, (uintptr_t)owner);
    atomic_store_explicit(&ranges->num, num + 1, memory_order_release);
    end_change(ranges);
}

/* Remove the range that starts at `start` and return its owner. Returns NULL if
 * there is no such range. If two threads remove the same range, one of them
 * gets NULL. */
static void *ranges_remove(ranges_t *ranges, const void *start)
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
            copy_range(&ranges->ranges[index - 1], &ranges->ranges[index]);
        }
        atomic_store_explicit(&ranges->num, num - 1, memory_order_release);
    }
    end_change(ranges);
    return (void *)owner;
}

/* --- the pieces of a list of blocks ------------------------------------------
 * The physically contiguous pieces of a list of blocks.
 *
 *     indices    4 5 6    9    7 8    10     10 starts the next region
 *     ends       3 3 3    4    6 6    7
 *
 * For each block, `ends` holds the position in the list of the first block
 * after the block's piece. A subtraction thus gives the length of the rest of
 * the piece.
 */

/* Returns true if the two blocks are adjacent in the same region. */
static bool is_joined(const block_pool_t *pool, uint32_t index, uint32_t next)
{
    mem_piece_t piece;

    block_pool_locate(pool, next, &piece);
    return (next == index + 1) && (piece.offset != 0);
}

/* Fill in the ends. num_blocks must be at least 1. */
static void pieces_cut(const block_pool_t *pool, const uint32_t *indices,
                       uint32_t num_blocks, uint32_t *ends)
{
    uint32_t end = num_blocks;

    for (uint32_t i = num_blocks - 1; i > 0; i--) {
        ends[i] = end;
        if (!is_joined(pool, indices[i - 1], indices[i])) {
            end = i;
        }
    }
    ends[0] = end;
}

/* Get the piece that starts at position `first` of the list. */
static void pieces_get(const block_pool_t *pool, const uint32_t *indices,
                       const uint32_t *ends, uint32_t first,
                       mem_piece_t *piece_p)
{
    block_pool_locate(pool, indices[first], piece_p);
    piece_p->length *= ends[first] - first;
}

/* Returns true if the addresses of the blocks are contiguous without stitching.
 * The blocks may still be several pieces, in several regions. */
static bool pieces_is_run(const uint32_t *indices, uint32_t num_blocks)
{
    for (uint32_t i = 1; i < num_blocks; i++) {
        if (indices[i] != indices[0] + i) {
            return false;
        }
    }
    return true;
}

/* --- buffers -------------------------------------------------------------- */

/* A buffer's state: the number of operations in flight, and whether it is
 * freed. They share one word, so that either the last drop or the free releases
 * the blocks, but not both. */
#define FREED ((uint64_t)1 << 63)

struct block_comm_buffer {
    base_list_t      link; /* in the list of all buffers */
    _Atomic uint64_t state;
    char            *address;
    size_t           size;
    bool             is_stitched;
    uint32_t         num_blocks;
    uint32_t        *ends; /* stored after the indices */
    uint32_t         indices[];
};

typedef _Atomic(block_comm_buffer_t *) owner_t;

struct block_comm {
    block_pool_t        *pool;
    const mem_regions_t *regions;
    size_t               block_size;
    size_t               home_size;  /* total size of all regions */
    size_t               max_blocks; /* of the user's share */
    ranges_t            *stitched;
    pthread_mutex_t      lock;     /* to change the list or free a buffer */
    base_list_t          buffers;  /* including freed but busy buffers */
    owner_t              owners[]; /* one per block; NULL: no buffer */
};

ucxpool_status_t block_comm_create(block_pool_t *pool, block_comm_t **comm_p)
{
    uint32_t         num_blocks = block_pool_num_blocks(pool);
    block_stats_t    stats;
    block_comm_t    *comm;
    ucxpool_status_t status;

    comm = calloc(1, sizeof(*comm) + num_blocks * sizeof(comm->owners[0]));
    if (comm == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for the owners of %u blocks", num_blocks);
    }
    block_pool_stats(pool, BLOCK_SHARE_USER, &stats);
    /* A single block is always a run, so a stitched buffer has at least two
     * blocks. */
    status = ranges_create(stats.total / 2, &comm->stitched);
    if (status != UCXPOOL_OK) {
        goto err_free_comm;
    }

    comm->pool       = pool;
    comm->regions    = block_pool_regions(pool);
    comm->block_size = block_pool_block_size(pool);
    comm->home_size  = num_blocks * comm->block_size;
    comm->max_blocks = stats.total;
    (void)pthread_mutex_init(&comm->lock, NULL);
    base_list_init(&comm->buffers);
    *comm_p = comm;
    return UCXPOOL_OK;

err_free_comm:
    free(comm);
    return status;
}

static bool is_freed(const block_comm_buffer_t *buffer)
{
    return (atomic_load(&buffer->state) & FREED) != 0;
}

/* Unmap a buffer, and then release its blocks. Another buffer may get the
 * blocks as soon as they are released. */
static void release_buffer(block_comm_t *comm, block_comm_buffer_t *buffer,
                           void (*give_back)(block_pool_t *pool,
                                             block_share_t share,
                                             uint32_t      index))
{
    if (buffer->is_stitched) {
        comm->regions->kind->unstitch(comm->regions, buffer->address,
                                      buffer->size);
    }
    for (uint32_t i = 0; i < buffer->num_blocks; i++) {
        give_back(comm->pool, BLOCK_SHARE_USER, buffer->indices[i]);
    }
    free(buffer);
}

void block_comm_destroy(block_comm_t *comm)
{
    block_comm_buffer_t *buffer, *next;

    if (comm == NULL) {
        return;
    }
    base_list_for_each_safe(buffer, next, &comm->buffers, block_comm_buffer_t,
                            link) {
        release_buffer(comm, buffer,
                       is_freed(buffer) ? block_pool_release : block_pool_put);
    }
    ranges_destroy(comm->stitched);
    pthread_mutex_destroy(&comm->lock);
    free(comm);
}

static ucxpool_status_t stitch(block_comm_t *comm, block_comm_buffer_t *buffer)
{
    mem_piece_t     *pieces;
    size_t           num_pieces = 0;
    void            *address;
    ucxpool_status_t status;

    if (comm->block_size % comm->regions->page_size != 0) {
        return base_error(
            UCXPOOL_ERR_NO_BLOCKS,
            "no %u adjacent blocks are free, and blocks of UCXPOOL_BLOCK_SIZE "
            "(%zu bytes) on pages of %zu bytes cannot be stitched: %s",
            buffer->num_blocks, comm->block_size, comm->regions->page_size,
            mem_regions_are_on_gpu(comm->regions)
                ? "set UCXPOOL_CUDA_BACKING=vmm with regions of one "
                  "block (UCXPOOL_REGION_SIZE=auto)"
                : "raise UCXPOOL_BLOCK_SIZE, or set UCXPOOL_HUGE_PAGES=n");
    }
    pieces = calloc(buffer->num_blocks, sizeof(*pieces));
    if (pieces == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for a list of %u blocks",
                          buffer->num_blocks);
    }
    for (uint32_t i = 0; i < buffer->num_blocks; i = buffer->ends[i]) {
        pieces_get(comm->pool, buffer->indices, buffer->ends, i,
                   &pieces[num_pieces++]);
    }
    status = comm->regions->kind->stitch(comm->regions, pieces, num_pieces,
                                         &address);
    if (status == UCXPOOL_OK) {
        buffer->address     = address;
        buffer->is_stitched = true;
    }
    free(pieces);
    return status;
}

static ucxpool_status_t too_few_blocks(const block_comm_t *comm, size_t length,
                                       size_t num_blocks)
{
    block_stats_t stats;

    block_pool_stats(comm->pool, BLOCK_SHARE_USER, &stats);
    return base_error(
        UCXPOOL_ERR_NO_BLOCKS,
        "a buffer of %zu bytes needs %zu blocks of %zu bytes, but %llu of the "
        "user share's %llu blocks are free: raise UCXPOOL_COMM_SIZE, or lower "
        "UCXPOOL_SEND_SHARE and UCXPOOL_RECV_SHARE",
        length, num_blocks, comm->block_size, (unsigned long long)stats.free,
        (unsigned long long)stats.total);
}

static void set_owner(block_comm_t *comm, const block_comm_buffer_t *buffer,
                      block_comm_buffer_t *owner)
{
    for (uint32_t i = 0; i < buffer->num_blocks; i++) {
        atomic_store_explicit(&comm->owners[buffer->indices[i]], owner,
                              memory_order_release);
    }
}

static void publish(block_comm_t *comm, block_comm_buffer_t *buffer)
{
    pthread_mutex_lock(&comm->lock);
    base_list_add_tail(&comm->buffers, &buffer->link);
    set_owner(comm, buffer, buffer);
    if (buffer->is_stitched) {
        ranges_insert(comm->stitched, buffer->address, buffer->size, buffer);
    }
    pthread_mutex_unlock(&comm->lock);
}

static block_comm_buffer_t *create_buffer(const block_comm_t *comm,
                                          size_t              num_blocks)
{
    block_comm_buffer_t *buffer;

    buffer = calloc(1, sizeof(*buffer) +
                           2 * num_blocks * sizeof(buffer->indices[0]));
    if (buffer == NULL) {
        (void)base_error(UCXPOOL_ERR_NO_MEMORY,
                         "no memory for the list of %zu blocks", num_blocks);
        return NULL;
    }
    buffer->num_blocks = (uint32_t)num_blocks;
    buffer->size       = num_blocks * comm->block_size;
    buffer->ends       = buffer->indices + num_blocks;
    return buffer;
}

ucxpool_status_t block_comm_alloc(block_comm_t *comm, size_t length,
                                  void **address_p)
{
    size_t               num_blocks;
    block_comm_buffer_t *buffer;
    ucxpool_status_t     status;

    if (length == 0) {
        return base_error(
            UCXPOOL_ERR_INVALID_PARAM,
            "cannot allocate a buffer of 0 bytes: pass 1 or more");
    }
    num_blocks = (length - 1) / comm->block_size + 1;
    if (num_blocks > comm->max_blocks) {
        return too_few_blocks(comm, length, num_blocks);
    }
    buffer = create_buffer(comm, num_blocks);
    if (buffer == NULL) {
        return UCXPOOL_ERR_NO_MEMORY;
    }
    if (block_pool_get_n(comm->pool, BLOCK_SHARE_USER, num_blocks,
                         buffer->indices) != UCXPOOL_OK) {
        status = too_few_blocks(comm, length, num_blocks);
        goto err_free_buffer;
    }
    pieces_cut(comm->pool, buffer->indices, buffer->num_blocks, buffer->ends);
    buffer->address = block_pool_address(comm->pool, buffer->indices[0]);
    if (!pieces_is_run(buffer->indices, buffer->num_blocks)) {
        status = stitch(comm, buffer);
        if (status != UCXPOOL_OK) {
            goto err_put_blocks;
        }
    }
    publish(comm, buffer);
    *address_p = buffer->address;
    return UCXPOOL_OK;

err_put_blocks:
    for (size_t i = 0; i < num_blocks; i++) {
        block_pool_put(comm->pool, BLOCK_SHARE_USER, buffer->indices[i]);
    }
err_free_buffer:
    free(buffer);
    return status;
}

/* Returns the buffer in the regions that contains the address, or NULL. */
static block_comm_buffer_t *find_home(block_comm_t *comm, const void *address)
{
    size_t               offset;
    block_comm_buffer_t *buffer;

    offset = (uintptr_t)address - (uintptr_t)comm->regions->address;
    if (offset >= comm->home_size) {
        return NULL;
    }
    buffer = atomic_load_explicit(&comm->owners[offset / comm->block_size],
                                  memory_order_acquire);
    return ((buffer != NULL) && !buffer->is_stitched) ? buffer : NULL;
}

/* Remove the buffer that starts at an address from the tables, so that no
 * further lookup finds it. Returns NULL if there is no such buffer. */
static block_comm_buffer_t *withdraw(block_comm_t *comm, const void *address)
{
    block_comm_buffer_t *buffer = find_home(comm, address);

    if ((buffer != NULL) && (buffer->address != address)) {
        return NULL;
    }
    if (buffer == NULL) {
        buffer = ranges_remove(comm->stitched, address);
    }
    if (buffer != NULL) {
        set_owner(comm, buffer, NULL);
    }
    return buffer;
}

ucxpool_status_t block_comm_free(block_comm_t *comm, void *address)
{
    block_comm_buffer_t *buffer;
    bool                 is_busy;

    if (address == NULL) {
        return UCXPOOL_OK;
    }
    pthread_mutex_lock(&comm->lock);
    buffer = withdraw(comm, address);
    if (buffer == NULL) {
        pthread_mutex_unlock(&comm->lock);
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "no buffer starts at %p: free each buffer once, with "
                          "its own address and the pool that allocated it",
                          address);
    }
    /* The lock is held until the blocks are quarantined, because the last drop
     * releases quarantined blocks. */
    is_busy = atomic_fetch_or(&buffer->state, FREED) != 0;
    if (is_busy) {
        for (uint32_t i = 0; i < buffer->num_blocks; i++) {
            block_pool_quarantine(comm->pool, BLOCK_SHARE_USER,
                                  buffer->indices[i]);
        }
    } else {
        base_list_del(&buffer->link);
    }
    pthread_mutex_unlock(&comm->lock);
    if (!is_busy) {
        release_buffer(comm, buffer, block_pool_put);
    }
    return UCXPOOL_OK;
}

bool block_comm_find(block_comm_t *comm, const void *address, size_t length,
                     mem_piece_t *piece_p, block_comm_buffer_t **buffer_p)
{
    block_comm_buffer_t *buffer = find_home(comm, address);
    size_t               offset;
    size_t               inside;
    uint32_t             first;

    if (buffer == NULL) {
        buffer = ranges_find(comm->stitched, address);
        if (buffer == NULL) {
            return false;
        }
    }
    offset = (size_t)((const char *)address - buffer->address);
    first  = (uint32_t)(offset / comm->block_size);
    inside = offset % comm->block_size;
    pieces_get(comm->pool, buffer->indices, buffer->ends, first, piece_p);
    piece_p->offset += inside;
    piece_p->length = base_min(piece_p->length - inside, length);
    *buffer_p       = buffer;
    return true;
}

bool block_comm_has_block(const block_comm_t *comm, uint32_t index)
{
    return (index < block_pool_num_blocks(comm->pool)) &&
           (atomic_load_explicit(&comm->owners[index], memory_order_relaxed) !=
            NULL);
}

void block_comm_hold(block_comm_buffer_t *buffer)
{
    uint64_t before =
        atomic_fetch_add_explicit(&buffer->state, 1, memory_order_relaxed);

    /* If the buffer was freed, another operation must still have been in
     * flight. */
    assert(before != FREED);
    (void)before;
}

void block_comm_drop(block_comm_t *comm, block_comm_buffer_t *buffer)
{
    uint64_t before =
        atomic_fetch_sub_explicit(&buffer->state, 1, memory_order_acq_rel);

    assert((before & ~FREED) != 0);
    if (before == (FREED | 1)) {
        pthread_mutex_lock(&comm->lock);
        base_list_del(&buffer->link);
        pthread_mutex_unlock(&comm->lock);
        release_buffer(comm, buffer, block_pool_release);
    }
}
