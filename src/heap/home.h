/*
 * The home: addresses that every physical chunk has for as long as it exists.
 *
 *     slot 0            slot 1            slot 2            slot 3
 *     | one chunk      || 2M | 2M | - |...|| -              || one chunk      |
 *
 * A slot is as long as a large chunk (HEAP_CHUNK), and is backed by one of
 * these, or by pages: small chunks of 2 MiB, any of which may be missing.
 *
 * Which of the two? The driver takes as long to map 2 MiB as to map 2 GiB, so
 * that long ranges are made of large chunks; but a chunk is mapped elsewhere
 * only as a whole, so that one live byte keeps all of it from being stitched.
 * So a slot that an allocation covers wholly becomes one chunk, and one in
 * which an allocation ends becomes pages; see also heap_home_recut().
 */
#ifndef HEAP_HOME_H
#define HEAP_HOME_H

#include "heap/range.h"
#include "mem/vmm.h"

/* Pages of a slot, at most: a bit each. */
#define HEAP_SLOT_PAGES 64

typedef struct heap_slot {
    mem_chunk_t   chunk;  /* 0: pages */
    mem_chunk_t  *pages;  /* of each page; NULL: none yet */
    uint64_t      backed; /* a bit for each page that there is memory for */
    heap_range_t *first;  /* the range that the slot's first byte lies in */
} heap_slot_t;

typedef struct heap_home {
    mem_vmm_t   *vmm;
    char        *address;   /* of offset 0 */
    uint64_t     size;      /* of the home alone */
    uint64_t     slot_size; /* a power of two, HEAP_PAGE or more */
    heap_slot_t *slots;
    size_t       num_slots;
    uint64_t     reserved; /* bytes that there is memory for */
    uint64_t     num_chunks;
    uint64_t     num_pages;
} heap_home_t;

/*
 * address    Where `size` bytes are reserved, a multiple of slot_size both.
 *
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t heap_home_init(heap_home_t *home, mem_vmm_t *vmm,
                                void *address, uint64_t size,
                                uint64_t slot_size);
/* Destroys what there is; no work may be running in it. */
void heap_home_cleanup(heap_home_t *home);

/*
 * Take memory for whole pages of the home that have none. After an error there
 * is none.
 *
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t heap_home_back(heap_home_t *home, uint64_t offset,
                                uint64_t size);

/*
 * Give it back: whole slots where they are one chunk. Nothing of it may be
 * mapped elsewhere, and no work be running in it. *done_p bytes from the start
 * of the range have been given back, after an error too.
 */
ucxpool_status_t heap_home_release(heap_home_t *home, uint64_t offset,
                                   uint64_t size, uint64_t *done_p);

/*
 * Back a slot that is one chunk by pages instead. As for heap_home_release().
 * After an error there is no memory in it, or (*is_kept_p) it is as it was.
 */
ucxpool_status_t heap_home_recut(heap_home_t *home, size_t slot,
                                 bool *is_kept_p);

static inline heap_slot_t *heap_home_slot(const heap_home_t *home,
                                          uint64_t           offset)
{
    return &home->slots[offset / home->slot_size];
}

/* How much of a slot is one physical allocation, from that page on? */
static inline uint64_t heap_home_grain(const heap_home_t *home, uint64_t offset)
{
    return (heap_home_slot(home, offset)->chunk != 0) ? home->slot_size
                                                      : HEAP_PAGE;
}

/* What is mapped at a page (or, of a slot with one chunk, at its start). */
mem_chunk_t heap_home_chunk(const heap_home_t *home, uint64_t offset);

#endif
