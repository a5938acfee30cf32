#include "core/files.h"

#include "heap/heap.h"

bool core_file_part_add(core_file_part_t *parts, unsigned max_parts,
                        unsigned *num_parts, const core_file_part_t *part)
{
    core_file_part_t *last = (*num_parts == 0) ? NULL : &parts[*num_parts - 1];

    if ((last != NULL) && (last->fd == part->fd) &&
        (last->offset + last->length == part->offset)) {
        last->length += part->length;
        return true;
    }
    if (*num_parts == max_parts) {
        return false;
    }
    parts[(*num_parts)++] = *part;
    return true;
}

static bool find_in_comm(const ucxpool_t *pool, const void *address,
                         uint64_t length, core_file_part_t *part_p)
{
    const mem_regions_t *regions = &pool->memory.regions;
    block_comm_buffer_t *buffer;
    mem_piece_t          piece;

    if ((pool->memory.comm == NULL) || !regions->kind->shares_by_fd ||
        mem_regions_are_on_gpu(regions) ||
        !block_comm_find(pool->memory.comm, address, length, &piece, &buffer)) {
        return false;
    }
    *part_p = (core_file_part_t){
        .fd     = regions->regions[piece.region].fd,
        .region = piece.region + 1,
        .offset = piece.offset,
        .length = piece.length,
    };
    return true;
}

static bool find_in_heap(const ucxpool_t *pool, const void *address,
                         uint64_t length, core_file_part_t *part_p)
{
    heap_t     *heap = __atomic_load_n(&pool->heap, __ATOMIC_ACQUIRE);
    heap_file_t file;

    if ((heap == NULL) || !heap_file(heap, address, length, &file)) {
        return false;
    }
    *part_p = (core_file_part_t){
        .fd     = file.fd,
        .offset = file.offset,
        .length = file.length,
    };
    return true;
}

bool core_files_find(ucxpool_t *pool, const void *address, uint64_t length,
                     core_file_part_t *parts, unsigned max_parts,
                     unsigned *num_parts_p)
{
    const char      *at  = address;
    unsigned         num = 0;
    core_file_part_t part;

    *num_parts_p = 0;
    for (uint64_t done = 0; done < length; done += part.length) {
        if (!find_in_comm(pool, at + done, length - done, &part) &&
            !find_in_heap(pool, at + done, length - done, &part)) {
            return true;
        }
        if (!core_file_part_add(parts, max_parts, &num, &part)) {
            return false;
        }
    }
    *num_parts_p = num;
    return true;
}
