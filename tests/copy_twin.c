#include "copy_twin.h"

#include "base/math.h"

#include <string.h>

/* How a launch moves its bytes. */
typedef struct twin_mover {
    copy_twin_move_t move;
    void            *context;
    bool             gather;
} twin_mover_t;

static void twin_copy(const twin_mover_t *mover, uint64_t stream,
                      uint64_t address, uint64_t size)
{
    if ((size > 0) && (mover->gather || (address != COPY_TWIN_ZEROS))) {
        mover->move(mover->context, mover->gather ? stream : address,
                    mover->gather ? address : stream, size);
    }
}

static void twin_pad(const twin_mover_t *mover, uint64_t stream, uint64_t size)
{
    twin_copy(mover, stream, COPY_TWIN_ZEROS, size);
}

typedef struct twin_piece {
    uint64_t address;
    uint64_t length;
    uint64_t offset;
} twin_piece_t;

/* The parameters of a launch for its list. */
typedef struct twin_list {
    const void     *entries;
    const uint64_t *offsets; /* of COPY_EVEN_PLACES, from the first one */
    uint64_t        start;
    copy_form_t     form;
    uint32_t        length;
} twin_list_t;

static twin_piece_t twin_entry(const twin_list_t *list, size_t i)
{
    const uint64_t         *addresses = list->entries;
    const copy_segment_t   *segments  = list->entries;
    const copy_exact_t     *exact     = list->entries;
    const copy_pair_t      *pairs     = list->entries;
    const copy_even_pair_t *even      = list->entries;

    switch (list->form) {
    case COPY_ONE:
        return (twin_piece_t){(uintptr_t)list->entries, list->length, 0};
    case COPY_UNIFORM:
        return (twin_piece_t){addresses[i], list->length, 0};
    case COPY_EVEN_SEGMENTS:
        return (twin_piece_t){segments[i].address, list->length, 0};
    case COPY_SEGMENTS:
        return (twin_piece_t){segments[i].address, segments[i].length, 0};
    case COPY_EVEN_PAIRS:
        return (twin_piece_t){even[i].address, list->length, even[i].other};
    case COPY_EVEN_PLACES:
        return (twin_piece_t){addresses[i], list->length,
                              list->start + list->offsets[i]};
    case COPY_PAIRS:
        return (twin_piece_t){pairs[i].address, pairs[i].length,
                              pairs[i].other};
    default:
        return (twin_piece_t){(exact[i].address != 0) ? exact[i].address
                                                      : COPY_TWIN_ZEROS,
                              exact[i].length, exact[i].offset};
    }
}

/* Zeros are the same at any offset. */
static uint64_t twin_address(const twin_piece_t *entry, uint64_t skip)
{
    return entry->address + ((entry->address != COPY_TWIN_ZEROS) ? skip : 0);
}

static void twin_tile(const twin_mover_t *mover, const copy_tile_t *tile,
                      const twin_list_t *list)
{
    bool     is_exact = list->form >= COPY_EXACT;
    uint64_t align    = is_exact ? 1 : COPY_UNIT;
    uint64_t done     = 0;

    if ((tile->count == 1) && !copy_is_even(list->form)) {
        uint64_t origin = ((list->form == COPY_EXACT) && (tile->origin == 0))
                              ? COPY_TWIN_ZEROS
                              : tile->origin;

        done = tile->size - tile->padding;
        twin_copy(mover, tile->stream, origin, done);
        twin_pad(mover, tile->stream + done, tile->padding);
        return;
    }
    for (uint32_t i = 0; (i < tile->count) && (done < tile->size); i++) {
        twin_piece_t entry = twin_entry(list, (size_t)tile->first + i);
        uint64_t     skip  = (i == 0) ? tile->origin : 0;
        uint64_t     left  = tile->size - done;
        uint64_t     base  = (list->form >= COPY_EVEN_PAIRS) ? 0 : tile->stream;
        uint64_t     stream =
            is_exact ? base + entry.offset + skip : tile->stream + done;
        uint64_t size   = base_min(entry.length - skip, left);
        uint64_t padded = base_min(base_align_up(size, align), left);

        twin_copy(mover, stream, twin_address(&entry, skip), size);
        twin_pad(mover, stream + size, padded - size);
        done += padded;
    }
}

void copy_twin_by(copy_twin_move_t move, void *context, size_t num_tiles,
                  const copy_tile_t *tiles, const void *list, copy_form_t form,
                  uint32_t length, bool gather)
{
    const twin_mover_t mover = {move, context, gather};
    const twin_list_t  told  = {list, NULL, 0, form, length};

    for (size_t i = 0; i < num_tiles; i++) {
        twin_tile(&mover, &tiles[i], &told);
    }
}

void copy_twin_even_by(copy_twin_move_t move, void *context, size_t num_tiles,
                       const copy_twin_even_t *even, const void *list,
                       uint32_t length, bool gather)
{
    const twin_mover_t mover  = {move, context, gather};
    const twin_list_t  told   = {list, even->offsets, even->stream, even->form,
                                 length};
    uint32_t           stride = copy_even_stride(even->form, length);

    for (size_t i = 0; i < num_tiles; i++) {
        copy_tile_t tile = copy_tile_even(even->stream, even->stream_size,
                                          stride, even->tile_size, (uint32_t)i);

        twin_tile(&mover, &tile, &told);
    }
}

static void twin_memcpy(void *context, uint64_t target, uint64_t source,
                        uint64_t size)
{
    if (source == COPY_TWIN_ZEROS) {
        memset((void *)(uintptr_t)target, 0, size);
        return;
    }
    memcpy((void *)(uintptr_t)target, (const void *)(uintptr_t)source, size);
}

void copy_twin(size_t num_tiles, const copy_tile_t *tiles, const void *list,
               copy_form_t form, uint32_t length, bool gather)
{
    copy_twin_by(twin_memcpy, NULL, num_tiles, tiles, list, form, length,
                 gather);
}

void copy_twin_even(const copy_table_t *list, uint32_t tile_size, bool gather)
{
    const copy_twin_even_t even = {list->form, list->offsets, list->stream,
                                   copy_even_size(list), tile_size};
    size_t num_tiles = (even.stream_size + tile_size - 1) / tile_size;

    copy_twin_even_by(twin_memcpy, NULL, num_tiles, &even, list->entries,
                      list->length, gather);
}
