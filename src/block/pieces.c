#include "block/pieces.h"

/* Do blocks that follow each other in a list lie side by side in one region? */
static bool is_joined(const block_pool_t *pool, uint32_t index, uint32_t next)
{
    mem_piece_t piece;

    block_pool_locate(pool, next, &piece);
    return (next == index + 1) && (piece.offset != 0);
}

void block_pieces_cut(const block_pool_t *pool, const uint32_t *indices,
                      uint32_t num_blocks, uint32_t *ends)
{
    uint32_t end = num_blocks;

    for (uint32_t i = num_blocks - 1; i > 0; i--) {
        ends[i] = end;
        if (!is_joined(pool, indices[i - 1], indices[i])) {
            end = i;
        }
    }
    ends[0] = end;
}

void block_pieces_get(const block_pool_t *pool, const uint32_t *indices,
                      const uint32_t *ends, uint32_t first,
                      mem_piece_t *piece_p)
{
    block_pool_locate(pool, indices[first], piece_p);
    piece_p->length *= ends[first] - first;
}

bool block_pieces_is_run(const uint32_t *indices, uint32_t num_blocks)
{
    for (uint32_t i = 1; i < num_blocks; i++) {
        if (indices[i] != indices[0] + i) {
            return false;
        }
    }
    return true;
}
