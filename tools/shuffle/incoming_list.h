/*
 * A list: memory for a fixed number of incoming. Each lies there, idle, or is
 * with whoever took it.
 */
#ifndef SHUFFLE_INCOMING_LIST_H
#define SHUFFLE_INCOMING_LIST_H

#include "tools/shuffle/incoming.h"

typedef struct incoming_list {
    incoming_t **all;
    unsigned     num;
    unsigned     num_idle;
    incoming_t  *idle;
} incoming_list_t;

/*
 * memory: num places of batch_memory_size() bytes, rounded up by
 * store_round(); borrowed. Returns -1 with an error; clean it up then as
 * well.
 */
int  incoming_list_init(incoming_list_t *list, const batch_shape_t *shape,
                        char *memory, unsigned num);
void incoming_list_cleanup(incoming_list_t *list);

/* One that is idle, or NULL. It stays on the list until it is taken. */
incoming_t *incoming_list_peek(const incoming_list_t *list);
incoming_t *incoming_list_get(incoming_list_t *list);

/* It is idle again. */
void incoming_list_put(incoming_list_t *list, incoming_t *incoming);

#endif
