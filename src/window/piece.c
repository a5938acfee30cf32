/*
 * The pieces of an operation. A piece ends where a place or a segment of the
 * local memory ends.
 */
#include "window/window.h"

static ucxpool_place_t place(const ucxpool_places_t *places, size_t i)
{
    return (places->places != NULL)
               ? places->places[i]
               : (ucxpool_place_t){places->offsets[i], places->length};
}

/* Advance to the next place that is not empty. window_operation_next() returns
 * no piece after the end of the local memory, so empty places at the end must
 * be skipped here. */
static void leave_place(window_operation_t *operation)
{
    do {
        operation->next_place++;
    } while ((operation->next_place != operation->places.count) &&
             (place(&operation->places, operation->next_place).length == 0));
    operation->place_offset = 0;
}

bool window_operation_next(window_operation_t *operation, uint64_t max_length,
                           window_piece_t *piece_p)
{
    const copy_memory_t *memory = &operation->request->data.memory;
    ucxpool_place_t      at;
    uint64_t             room;
    uint64_t             length;

    if ((operation->next_place == operation->places.count) ||
        (operation->next_memory == memory->num)) {
        return false;
    }
    at     = place(&operation->places, operation->next_place);
    room   = copy_memory_length(memory, operation->next_memory);
    length = base_min(at.length - operation->place_offset,
                      room - operation->memory_offset);
    length = base_min(length, max_length);

    piece_p->offset = at.offset + operation->place_offset;
    piece_p->ours =
        (char *)copy_memory_address(memory, operation->next_memory) +
        operation->memory_offset;
    piece_p->length = length;

    operation->place_offset += length;
    operation->memory_offset += length;
    if (operation->place_offset == at.length) {
        leave_place(operation);
    }
    if (operation->memory_offset == room) {
        operation->next_memory++;
        operation->memory_offset = 0;
    }
    return true;
}
