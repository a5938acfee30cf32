#include <config.h>

#include "heap/home.h"

#include "base/error.h"
#include "base/math.h"

#include <assert.h>
#include <stdlib.h>

ucxpool_status_t heap_home_init(heap_home_t *home, mem_vmm_t *vmm,
                                void *address, uint64_t size,
                                uint64_t slot_size)
{
    assert((size % slot_size == 0) && (slot_size >= HEAP_PAGE));
    assert(slot_size / HEAP_PAGE <= HEAP_SLOT_PAGES);
    *home       = (heap_home_t){.vmm       = vmm,
                                .address   = address,
                                .size      = size,
                                .slot_size = slot_size,
                                .num_slots = size / slot_size};
    home->slots = calloc(home->num_slots, sizeof(home->slots[0]));
    if (home->slots == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no host memory (%zu bytes) for the heap's table of "
                          "chunks",
                          home->num_slots * sizeof(home->slots[0]));
    }
    return UCXPOOL_OK;
}

static size_t page_of(const heap_home_t *home, uint64_t offset)
{
    return (offset % home->slot_size) / HEAP_PAGE;
}

mem_chunk_t heap_home_chunk(const heap_home_t *home, uint64_t offset)
{
    const heap_slot_t *slot = heap_home_slot(home, offset);

    return (slot->chunk != 0) ? slot->chunk
                              : slot->pages[page_of(home, offset)];
}

static uint64_t all_pages(const heap_home_t *home)
{
    uint64_t num = home->slot_size / HEAP_PAGE;

    return (num == 64) ? UINT64_MAX : (UINT64_C(1) << num) - 1;
}

/* A range that is a whole slot becomes one chunk. */
static bool is_chunk(const heap_home_t *home, uint64_t offset, uint64_t size)
{
    return (home->slot_size > HEAP_PAGE) && (offset % home->slot_size == 0) &&
           (size >= home->slot_size);
}

/* Note that `size` bytes from there on are one physical allocation. */
static void note(heap_home_t *home, uint64_t offset, uint64_t size,
                 mem_chunk_t chunk)
{
    heap_slot_t *slot = heap_home_slot(home, offset);
    size_t       page = page_of(home, offset);

    if (size > HEAP_PAGE) {
        slot->chunk  = chunk;
        slot->backed = all_pages(home);
        home->num_chunks++;
    } else {
        slot->pages[page] = chunk;
        slot->backed |= UINT64_C(1) << page;
        home->num_pages++;
    }
    home->reserved += size;
}

static void forget(heap_home_t *home, uint64_t offset, uint64_t size)
{
    heap_slot_t *slot = heap_home_slot(home, offset);
    size_t       page = page_of(home, offset);

    if (slot->chunk != 0) {
        slot->chunk  = 0;
        slot->backed = 0;
        home->num_chunks--;
    } else {
        slot->pages[page] = 0;
        slot->backed &= ~(UINT64_C(1) << page);
        home->num_pages--;
    }
    home->reserved -= size;
}

/* A chunk or a page, created and mapped, not yet allowed. */
static ucxpool_status_t add(heap_home_t *home, uint64_t offset, uint64_t size)
{
    const mem_vmm_calls_t *calls = home->vmm->calls;
    heap_slot_t           *slot  = heap_home_slot(home, offset);
    mem_chunk_t            chunk;
    ucxpool_status_t       status;

    if ((size == HEAP_PAGE) && (slot->pages == NULL)) {
        slot->pages =
            calloc(home->slot_size / HEAP_PAGE, sizeof(slot->pages[0]));
        if (slot->pages == NULL) {
            return base_error(UCXPOOL_ERR_NO_MEMORY,
                              "no host memory for the heap's table of pages");
        }
    }
    status = calls->chunk_create(home->vmm, size, &chunk);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = calls->map(home->vmm, home->address + offset, chunk, size);
    if (status != UCXPOOL_OK) {
        calls->chunk_destroy(home->vmm, chunk, size);
        return status;
    }
    note(home, offset, size, chunk);
    return UCXPOOL_OK;
}

/* The reverse. A chunk that cannot be unmapped stays as it is. */
static ucxpool_status_t drop(heap_home_t *home, uint64_t offset, uint64_t size)
{
    mem_chunk_t      chunk = heap_home_chunk(home, offset);
    ucxpool_status_t status;

    status = home->vmm->calls->unmap(home->vmm, home->address + offset, size);
    if (status == UCXPOOL_OK) {
        forget(home, offset, size);
        home->vmm->calls->chunk_destroy(home->vmm, chunk, size);
    }
    return status;
}

static ucxpool_status_t back(heap_home_t *home, uint64_t offset, uint64_t size,
                             bool as_pages)
{
    ucxpool_status_t status = UCXPOOL_OK;
    uint64_t         done, length, undone;

    for (done = 0; (done < size) && (status == UCXPOOL_OK); done += length) {
        length = (!as_pages && is_chunk(home, offset + done, size - done))
                     ? home->slot_size
                     : HEAP_PAGE;
        status = add(home, offset + done, length);
        if (status != UCXPOOL_OK) {
            break;
        }
    }
    if (status == UCXPOOL_OK) {
        status =
            home->vmm->calls->allow(home->vmm, home->address + offset, size);
    }
    if (status != UCXPOOL_OK) {
        heap_home_release(home, offset, done, &undone);
    }
    return status;
}

ucxpool_status_t heap_home_back(heap_home_t *home, uint64_t offset,
                                uint64_t size)
{
    assert((offset % HEAP_PAGE == 0) && (size % HEAP_PAGE == 0));
    return back(home, offset, size, false);
}

ucxpool_status_t heap_home_release(heap_home_t *home, uint64_t offset,
                                   uint64_t size, uint64_t *done_p)
{
    uint64_t done, length;

    for (done = 0; done < size; done += length) {
        ucxpool_status_t status;

        length = heap_home_grain(home, offset + done);
        assert((offset + done) % length == 0);
        status = drop(home, offset + done, length);
        if (status != UCXPOOL_OK) {
            *done_p = done;
            return status;
        }
    }
    *done_p = done;
    return UCXPOOL_OK;
}

ucxpool_status_t heap_home_recut(heap_home_t *home, size_t slot,
                                 bool *is_kept_p)
{
    uint64_t         offset = slot * home->slot_size;
    ucxpool_status_t status;

    assert(home->slots[slot].chunk != 0);
    status     = drop(home, offset, home->slot_size);
    *is_kept_p = status != UCXPOOL_OK;
    if (status != UCXPOOL_OK) {
        return status;
    }
    return back(home, offset, home->slot_size, true);
}

void heap_home_cleanup(heap_home_t *home)
{
    for (size_t i = 0; i < home->num_slots; i++) {
        heap_slot_t *slot   = &home->slots[i];
        uint64_t     offset = i * home->slot_size;

        if (slot->chunk != 0) {
            (void)drop(home, offset, home->slot_size);
        }
        for (size_t page = 0; slot->backed >> page != 0; page++) {
            if ((slot->backed >> page) & 1) {
                (void)drop(home, offset + page * HEAP_PAGE, HEAP_PAGE);
            }
            if (page == 63) {
                break;
            }
        }
        free(slot->pages);
    }
    free(home->slots);
    home->slots = NULL;
}
