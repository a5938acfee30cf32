/*
 * The physical pieces that a list of blocks makes.
 *
 *     indices    4 5 6    9    7 8    10     10 starts the next region
 *     ends       3 3 3    4    6 6    7
 *
 * For each block, `ends` has the number (in the list) of the first block that
 * does not belong to the same piece any more, so that what is left of a piece
 * is a subtraction.
 */
#ifndef BLOCK_PIECES_H
#define BLOCK_PIECES_H

#include "block/pool.h"

/* Fill the ends; num_blocks is 1 or more. */
void block_pieces_cut(const block_pool_t *pool, const uint32_t *indices,
                      uint32_t num_blocks, uint32_t *ends);

/* The piece from block number `first` of the list on. */
void block_pieces_get(const block_pool_t *pool, const uint32_t *indices,
                      const uint32_t *ends, uint32_t first,
                      mem_piece_t *piece_p);

/* Do the blocks have contiguous addresses of their own? They may still be
 * several pieces: of several regions. */
bool block_pieces_is_run(const uint32_t *indices, uint32_t num_blocks);

#endif
