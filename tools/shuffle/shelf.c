#include <config.h>

#include "tools/shuffle/shelf.h"
#include "tools/shuffle/complaint.h"
#include "tools/shuffle/store.h"

#include <stdlib.h>
#include <string.h>

int shelf_init(shelf_t *shelf, const batch_shape_t *shape, char *memory,
               unsigned num)
{
    size_t     size = batch_memory_size(shape);
    arrival_t *arrival;

    memset(shelf, 0, sizeof(*shelf));
    shelf->all = calloc(num, sizeof(*shelf->all));
    if (shelf->all == NULL) {
        return complain("out of memory for %u batches", num);
    }
    for (unsigned i = 0; i < num; i++) {
        arrival = arrival_create(memory + i * store_round(size), size,
                                 shape->max_chunks);
        if (arrival == NULL) {
            return -1;
        }
        shelf->all[shelf->num++] = arrival;
        shelf_give(shelf, arrival);
    }
    return 0;
}

void shelf_cleanup(shelf_t *shelf)
{
    for (unsigned i = 0; i < shelf->num; i++) {
        arrival_destroy(shelf->all[i]);
    }
    free(shelf->all);
    memset(shelf, 0, sizeof(*shelf));
}

arrival_t *shelf_look(const shelf_t *shelf)
{
    return shelf->idle;
}

arrival_t *shelf_take(shelf_t *shelf)
{
    arrival_t *arrival = shelf->idle;

    if (arrival != NULL) {
        shelf->idle = arrival->next;
        shelf->num_idle--;
    }
    return arrival;
}

void shelf_give(shelf_t *shelf, arrival_t *arrival)
{
    arrival_reset(arrival);
    arrival->next = shelf->idle;
    shelf->idle   = arrival;
    shelf->num_idle++;
}
