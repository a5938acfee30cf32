/*
 * A classic pool, in simulation: one arena, best fit, neighbours that are free
 * become one. No memory is behind it.
 *
 *     arena   | live |  free  | live | live |   free          |
 *     blocks   <----> <------> ...       doubly linked, in order of addresses
 *
 * An allocation takes the smallest free block that is long enough, of equals
 * the first, and cuts off what it does not need. RMM's pool and its likes
 * decide so; their lists for each stream are left out: what is freed is free
 * for every stream, so that they can only need more memory than this one.
 */
#ifndef REPLAY_BEST_FIT_H
#define REPLAY_BEST_FIT_H

#include <stddef.h>
#include <stdint.h>

#define BEST_FIT_ALIGNMENT ((uint64_t)256)

typedef struct best_fit       best_fit_t;
typedef struct best_fit_block best_fit_block_t;

/* NULL: there is no memory for its own needs. */
best_fit_t *best_fit_create(uint64_t capacity);
/* With all of its blocks. */
void best_fit_destroy(best_fit_t *pool);

/* 0; or 1, no free block is long enough; or -1, no memory for its own needs.
 * size is not 0. */
int best_fit_alloc(best_fit_t *pool, uint64_t size, best_fit_block_t **block_p);
void best_fit_free(best_fit_t *pool, best_fit_block_t *block);

/* Where a block begins in the arena, and how long it is. */
uint64_t best_fit_offset(const best_fit_block_t *block);
uint64_t best_fit_size(const best_fit_block_t *block);

/* How far the arena was ever used: what it would hold of a machine's memory
 * if it grew as needed. */
uint64_t best_fit_top(const best_fit_t *pool);

/* Are the blocks side by side, from the arena's begin to its end, no two free
 * ones together, and all free ones found by their size? */
int best_fit_is_sane(const best_fit_t *pool);

#endif
