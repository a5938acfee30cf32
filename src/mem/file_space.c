#include <config.h>

#include "mem/file_space.h"
#include "base/math.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void mem_file_space_cleanup(mem_file_space_t *space)
{
    free(space->free_parts);
    memset(space, 0, sizeof(*space));
}

/*
 * Each free part lies before a taken one, so that there are never more of them
 * than taken ones. Room for them is made when one is taken, because giving back
 * must not fail.
 */
static bool room_make(mem_file_space_t *space)
{
    mem_file_part_t *parts;
    size_t           max = 2 * space->max_free + 16;

    if (space->num_taken + 1 < space->max_free) {
        return true;
    }
    parts = realloc(space->free_parts, max * sizeof(*parts));
    if (parts == NULL) {
        return false;
    }
    space->free_parts = parts;
    space->max_free   = max;
    return true;
}

static void part_remove(mem_file_space_t *space, size_t index)
{
    mem_file_part_t *part = &space->free_parts[index];

    space->num_free--;
    memmove(part, part + 1, (space->num_free - index) * sizeof(*part));
}

static void part_insert(mem_file_space_t *space, size_t index, size_t offset,
                        size_t size)
{
    mem_file_part_t *part = &space->free_parts[index];

    assert(space->num_free < space->max_free);
    memmove(part + 1, part, (space->num_free - index) * sizeof(*part));
    part->offset = offset;
    part->size   = size;
    space->num_free++;
}

bool mem_file_space_take(mem_file_space_t *space, size_t size, size_t *offset_p)
{
    size_t end;

    assert(size != 0);
    if (!room_make(space) || !base_add(space->end, size, &end)) {
        return false;
    }
    for (size_t i = 0; i < space->num_free; i++) {
        mem_file_part_t *part = &space->free_parts[i];

        if (part->size < size) {
            continue;
        }
        *offset_p = part->offset;
        part->offset += size;
        part->size -= size;
        if (part->size == 0) {
            part_remove(space, i);
        }
        space->num_taken++;
        return true;
    }
    *offset_p  = space->end;
    space->end = end;
    space->num_taken++;
    return true;
}

/* Index of the first free part behind an offset. */
static size_t index_behind(const mem_file_space_t *space, size_t offset)
{
    size_t low = 0, high = space->num_free, middle;

    while (low < high) {
        middle = (low + high) / 2;
        if (space->free_parts[middle].offset <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Join what touches the part at an index, and cut off what lies at the end. */
static void part_join(mem_file_space_t *space, size_t index)
{
    mem_file_part_t *part = &space->free_parts[index];

    if ((index + 1 < space->num_free) &&
        (part->offset + part->size == part[1].offset)) {
        part->size += part[1].size;
        part_remove(space, index + 1);
    }
    if ((index > 0) && (part[-1].offset + part[-1].size == part->offset)) {
        part[-1].size += part->size;
        part_remove(space, index);
        part--;
    }
    if (part->offset + part->size == space->end) {
        space->end = part->offset;
        space->num_free--;
    }
}

void mem_file_space_give(mem_file_space_t *space, size_t offset, size_t size)
{
    size_t                 index  = index_behind(space, offset);
    const mem_file_part_t *behind = &space->free_parts[index];

    assert((size <= space->end) && (offset <= space->end - size));
    assert((index == 0) || (behind[-1].offset + behind[-1].size <= offset));
    assert((index == space->num_free) || (offset + size <= behind->offset));
    (void)behind;
    part_insert(space, index, offset, size);
    part_join(space, index);
    assert(space->num_taken > 0);
    space->num_taken--;
}
