/*
 * A shelf: memory for a fixed number of arrivals. Each lies there, idle, or is
 * with whoever took it.
 */
#ifndef SHUFFLE_SHELF_H
#define SHUFFLE_SHELF_H

#include "tools/shuffle/arrival.h"

typedef struct shelf {
    arrival_t **all;
    unsigned    num;
    unsigned    num_idle;
    arrival_t  *idle;
} shelf_t;

/*
 * memory: num places of batch_memory_size() bytes, rounded up by
 * store_round(); borrowed. Returns -1 with a complaint; clean it up then as
 * well.
 */
int  shelf_init(shelf_t *shelf, const batch_shape_t *shape, char *memory,
                unsigned num);
void shelf_cleanup(shelf_t *shelf);

/* An idle arrival, or NULL. It stays on the shelf until it is taken. */
arrival_t *shelf_look(const shelf_t *shelf);
arrival_t *shelf_take(shelf_t *shelf);

/* It is idle again. */
void shelf_give(shelf_t *shelf, arrival_t *arrival);

#endif
