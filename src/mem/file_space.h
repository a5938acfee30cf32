/*
 * Which parts of a file are taken. A part is taken where the first free one is
 * that is long enough, so that the file stays short.
 *
 *     | taken | free  | taken | free | taken |
 *     0                                      end
 */
#ifndef MEM_FILE_SPACE_H
#define MEM_FILE_SPACE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mem_file_part {
    size_t offset;
    size_t size;
} mem_file_part_t;

/* All zero: nothing is taken. */
typedef struct mem_file_space {
    mem_file_part_t *free_parts; /* by offset; none touches another, or end */
    size_t           num_free;
    size_t           max_free; /* that there is room for, > num_taken */
    size_t           num_taken;
    size_t           end; /* all behind it is free */
} mem_file_space_t;

/* With what was taken. */
void mem_file_space_cleanup(mem_file_space_t *space);

/* False: no memory for the books, or no number for the offset. */
bool mem_file_space_take(mem_file_space_t *space, size_t size,
                         size_t *offset_p);

/* Give back a part that was taken as a whole. */
void mem_file_space_give(mem_file_space_t *space, size_t offset, size_t size);

#endif
