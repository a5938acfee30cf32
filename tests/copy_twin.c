#include "copy_twin.h"

#include "base/math.h"

#include <string.h>

static void twin_copy(uint64_t stream, uint64_t address, uint64_t size,
                      bool gather)
{
    void *in_stream = (void *)(uintptr_t)stream;
    void *in_list   = (void *)(uintptr_t)address;

    if (size > 0) {
        memcpy(gather ? in_stream : in_list, gather ? in_list : in_stream,
               size);
    }
}

typedef struct twin_piece {
    uint64_t address;
    uint64_t length;
    uint64_t offset;
} twin_piece_t;

static twin_piece_t twin_entry(const void *list, mem_copy_form_t form,
                               uint32_t length, size_t i)
{
    const mem_copy_segment_t *segments = list;
    const mem_copy_exact_t   *exact    = list;

    switch (form) {
    case MEM_COPY_UNIFORM:
        return (twin_piece_t){((const uint64_t *)list)[i], length, 0};
    case MEM_COPY_SEGMENTS:
        return (twin_piece_t){segments[i].address, segments[i].length, 0};
    default:
        return (twin_piece_t){exact[i].address, exact[i].length,
                              exact[i].offset};
    }
}

static void twin_tile(const mem_copy_tile_t *tile, const void *list,
                      mem_copy_form_t form, uint32_t length, bool gather)
{
    uint64_t align = (form == MEM_COPY_EXACT) ? 1 : MEM_COPY_UNIT;
    uint64_t done  = 0;

    if (tile->count == 1) {
        twin_copy(tile->stream, tile->origin, tile->size, gather);
        return;
    }
    for (uint32_t i = 0; (i < tile->count) && (done < tile->size); i++) {
        twin_piece_t entry =
            twin_entry(list, form, length, (size_t)tile->first + i);
        uint64_t skip   = (i == 0) ? tile->origin : 0;
        uint64_t left   = tile->size - done;
        uint64_t stream = (form == MEM_COPY_EXACT)
                              ? tile->stream + entry.offset + skip
                              : tile->stream + done;
        uint64_t size   = base_min(entry.length - skip, left);

        twin_copy(stream, entry.address + skip, size, gather);
        done += base_align_up(size, align);
    }
}

void copy_twin(size_t num_tiles, const mem_copy_tile_t *tiles, const void *list,
               mem_copy_form_t form, uint32_t length, bool gather)
{
    for (size_t i = 0; i < num_tiles; i++) {
        twin_tile(&tiles[i], list, form, length, gather);
    }
}
