/*
 * A C model of the copy kernel: for the stand-in driver, and for comparison.
 */
#ifndef TESTS_COPY_TWIN_H
#define TESTS_COPY_TWIN_H

#include "copy/tiles.h"

#include <stdbool.h>

/* Copy as the kernel does with these arguments. num_tiles is the number of
 * thread blocks of the launch. */
void copy_twin(size_t num_tiles, const copy_tile_t *tiles, const void *list,
               copy_form_t form, uint32_t length, bool gather);

/* The same for a list of pieces of one length, which the kernel itself splits
 * into tiles. */
void copy_twin_even(const copy_table_t *list, uint32_t tile_size, bool gather);

/* The same functions with a function that moves the bytes, instead of memcpy().
 * The source COPY_TWIN_ZEROS means zeros. */
#define COPY_TWIN_ZEROS UINT64_MAX

typedef void (*copy_twin_move_t)(void *context, uint64_t target,
                                 uint64_t source, uint64_t size);

void copy_twin_by(copy_twin_move_t move, void *context, size_t num_tiles,
                  const copy_tile_t *tiles, const void *list, copy_form_t form,
                  uint32_t length, bool gather);

/* The fields that the kernel gets for a list of pieces of one length. */
typedef struct copy_twin_even {
    copy_form_t     form;
    const uint64_t *offsets;
    uint64_t        stream;
    uint32_t        stream_size;
    uint32_t        tile_size;
} copy_twin_even_t;

void copy_twin_even_by(copy_twin_move_t move, void *context, size_t num_tiles,
                       const copy_twin_even_t *even, const void *list,
                       uint32_t length, bool gather);

#endif
