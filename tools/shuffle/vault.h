/*
 * The vault: the partitions of a worker in the memory of its GPU.
 *
 *     own batches  ----------- copy in ---.
 *                                         v
 *     exchange -> arrival (received  -> held, oldest first -> stage -> files
 *                 into the vault)                   copy out
 *
 * Its memory has a fixed number of places for messages. All are on one shelf:
 * the exchange receives into them, what has arrived stays where it is, and so
 * does what comes from the worker itself. Only when few places are left is the
 * oldest one brought out, to be written; the others are when the worker has
 * nothing else to do.
 *
 * Two stages in pinned memory: while one is written, the next message is on
 * its way.
 *
 * A message with a record that is too large for a place is none of the vault's:
 * it is in host memory, and to be written at once.
 *
 * Functions that return an int return -1 with a complaint.
 */
#ifndef SHUFFLE_VAULT_H
#define SHUFFLE_VAULT_H

#include "tools/shuffle/device.h"
#include "tools/shuffle/shelf.h"

#include <stdint.h>

typedef struct vault vault_t;

typedef struct vault_params {
    int                  gpu;  /* or -1; see device_open() */
    unsigned             turn; /* among the workers of this host */
    unsigned             num_workers;
    const batch_shape_t *shape; /* outlives the vault */
    size_t               most;  /* bytes to hold; 0: half of what is free,
                                   shared among the workers of the GPU */
    uint64_t num_bytes;         /* of the inputs: no more is needed */
} vault_params_t;

typedef struct vault_stats {
    uint64_t size;     /* bytes of all places */
    uint64_t held;     /* bytes of messages that were held */
    uint64_t held_max; /* at one time */
    int32_t  gpu;
} vault_stats_t;

/* The least that `most` can be. */
size_t vault_least_size(const batch_shape_t *shape);

int  vault_create(const vault_params_t *params, vault_t **vault_p);
void vault_destroy(vault_t *vault);

device_t *vault_device(vault_t *vault);
shelf_t  *vault_shelf(vault_t *vault);

/* Hold a batch. It may be filled again then; its memory is pinned. The shelf
 * has an idle arrival. */
int vault_hold_batch(vault_t *vault, batch_t *batch);

/* Hold an arrival from the shelf, which has its message. */
void vault_hold(vault_t *vault, arrival_t *arrival);

/* Whether something is held and few places are left. */
bool vault_is_full(const vault_t *vault);

/* Bytes of the oldest message; something is held. */
size_t vault_oldest_size(const vault_t *vault);

/*
 * Bring out the oldest message, and find its chunks. They are valid until the
 * next call, and the arrival is to be given back to the shelf. Returns 1, 0
 * when nothing is held, -1.
 */
int vault_bring(vault_t *vault, arrival_t **arrival_p);

void vault_stats_get(const vault_t *vault, vault_stats_t *stats_p);

#endif
