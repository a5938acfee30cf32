#include "block/comm.h"
#include "base/error.h"
#include "base/list.h"
#include "base/math.h"
#include "block/pieces.h"
#include "block/ranges.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A buffer's state: how many operations are in flight, and whether it has been
 * freed. In one word, so that the last of both knows that it is the last. */
#define FREED ((uint64_t)1 << 63)

struct block_comm_buffer {
    base_list_t      link; /* in the list of all buffers */
    _Atomic uint64_t state;
    char            *address;
    size_t           size;
    bool             is_stitched;
    uint32_t         num_blocks;
    uint32_t        *ends; /* after the indices; see pieces.h */
    uint32_t         indices[];
};

typedef _Atomic(block_comm_buffer_t *) owner_t;

struct block_comm {
    block_pool_t        *pool;
    const mem_regions_t *regions;
    size_t               block_size;
    size_t               home_size;  /* bytes of all regions */
    size_t               max_blocks; /* of the user's share */
    block_ranges_t      *stitched;
    pthread_mutex_t      lock;     /* of the list, and of becoming freed */
    base_list_t          buffers;  /* freed but busy ones included */
    owner_t              owners[]; /* of each block; NULL: no buffer's */
};

ucxpool_status_t block_comm_create(block_pool_t *pool, block_comm_t **comm_p)
{
    uint32_t              num_blocks = block_pool_num_blocks(pool);
    ucxpool_share_stats_t stats;
    block_comm_t         *comm;
    ucxpool_status_t      status;

    comm = calloc(1, sizeof(*comm) + num_blocks * sizeof(comm->owners[0]));
    if (comm == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for the owners of %u blocks", num_blocks);
    }
    block_pool_stats(pool, UCXPOOL_SHARE_USER, &stats);
    /* One block is always a run; so a stitched buffer has two at least. */
    status = block_ranges_create(stats.total / 2, &comm->stitched);
    if (status != UCXPOOL_OK) {
        goto err_free_comm;
    }

    comm->pool       = pool;
    comm->regions    = block_pool_regions(pool);
    comm->block_size = block_pool_block_size(pool);
    comm->home_size  = num_blocks * comm->block_size;
    comm->max_blocks = stats.total;
    /* Cannot fail: a mutex without attributes needs no resources. */
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

/* The mapping goes first: its blocks are somebody else's next. */
static void release_buffer(block_comm_t *comm, block_comm_buffer_t *buffer,
                           void (*give_back)(block_pool_t   *pool,
                                             ucxpool_share_t share,
                                             uint32_t        index))
{
    if (buffer->is_stitched) {
        comm->regions->kind->unstitch(comm->regions, buffer->address,
                                      buffer->size);
    }
    for (uint32_t i = 0; i < buffer->num_blocks; i++) {
        give_back(comm->pool, UCXPOOL_SHARE_USER, buffer->indices[i]);
    }
    free(buffer);
}

void block_comm_destroy(block_comm_t *comm)
{
    block_comm_buffer_t *buffer;
    block_comm_buffer_t *next;

    if (comm == NULL) {
        return;
    }
    base_list_for_each_safe(buffer, next, &comm->buffers, block_comm_buffer_t,
                            link) {
        release_buffer(comm, buffer,
                       is_freed(buffer) ? block_pool_release : block_pool_put);
    }
    block_ranges_destroy(comm->stitched);
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
        return base_error(UCXPOOL_ERR_NO_BLOCKS,
                          "no %u free blocks lie side by side, and blocks of "
                          "BLOCK_SIZE (%zu bytes) on pages of %zu cannot be "
                          "mapped so: %s",
                          buffer->num_blocks, comm->block_size,
                          comm->regions->page_size,
                          mem_regions_are_on_gpu(comm->regions)
                              ? "set CUDA_BACKING=vmm with regions of one "
                                "block (REGION_SIZE=auto)"
                              : "raise BLOCK_SIZE, or set HUGE_PAGES=n");
    }
    pieces = calloc(buffer->num_blocks, sizeof(*pieces));
    if (pieces == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for a list of %u blocks",
                          buffer->num_blocks);
    }
    for (uint32_t i = 0; i < buffer->num_blocks; i = buffer->ends[i]) {
        block_pieces_get(comm->pool, buffer->indices, buffer->ends, i,
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
    ucxpool_share_stats_t stats;

    block_pool_stats(comm->pool, UCXPOOL_SHARE_USER, &stats);
    return base_error(UCXPOOL_ERR_NO_BLOCKS,
                      "a buffer of %zu bytes needs %zu blocks of %zu bytes; "
                      "%llu of the user's %llu are free: raise COMM_SIZE, or "
                      "lower SEND_SHARE and RECV_SHARE",
                      length, num_blocks, comm->block_size,
                      (unsigned long long)stats.free,
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
        block_ranges_insert(comm->stitched, buffer->address, buffer->size,
                            buffer);
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
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "a buffer of 0 bytes: ask for 1 or more");
    }
    num_blocks = (length - 1) / comm->block_size + 1;
    if (num_blocks > comm->max_blocks) {
        return too_few_blocks(comm, length, num_blocks);
    }
    buffer = create_buffer(comm, num_blocks);
    if (buffer == NULL) {
        return UCXPOOL_ERR_NO_MEMORY;
    }
    if (block_pool_get_n(comm->pool, UCXPOOL_SHARE_USER, num_blocks,
                         buffer->indices) != UCXPOOL_OK) {
        status = too_few_blocks(comm, length, num_blocks);
        goto err_free_buffer;
    }
    block_pieces_cut(comm->pool, buffer->indices, buffer->num_blocks,
                     buffer->ends);
    buffer->address = block_pool_address(comm->pool, buffer->indices[0]);
    if (!block_pieces_is_run(buffer->indices, buffer->num_blocks)) {
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
        block_pool_put(comm->pool, UCXPOOL_SHARE_USER, buffer->indices[i]);
    }
err_free_buffer:
    free(buffer);
    return status;
}

/* The buffer that has an address of the regions' own, or NULL. */
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

/* Take the buffer that starts at an address out of the tables: from here on
 * nobody finds it. NULL when none starts there. */
static block_comm_buffer_t *withdraw(block_comm_t *comm, const void *address)
{
    block_comm_buffer_t *buffer = find_home(comm, address);

    if ((buffer != NULL) && (buffer->address != address)) {
        return NULL;
    }
    if (buffer == NULL) {
        buffer = block_ranges_remove(comm->stitched, address);
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
                          "no buffer starts at %p: free each buffer once, by "
                          "the address it was allocated with",
                          address);
    }
    /* Under the lock, so that a last drop finds the blocks quarantined. */
    is_busy = atomic_fetch_or(&buffer->state, FREED) != 0;
    if (is_busy) {
        for (uint32_t i = 0; i < buffer->num_blocks; i++) {
            block_pool_quarantine(comm->pool, UCXPOOL_SHARE_USER,
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
        buffer = block_ranges_find(comm->stitched, address);
        if (buffer == NULL) {
            return false;
        }
    }
    offset = (size_t)((const char *)address - buffer->address);
    first  = (uint32_t)(offset / comm->block_size);
    inside = offset % comm->block_size;
    block_pieces_get(comm->pool, buffer->indices, buffer->ends, first, piece_p);
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

    /* A buffer that is freed and not busy is gone. */
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
