/*
 * The listeners of a pool, whose channels connect.h makes.
 */
#ifndef WIREUP_LISTENER_H
#define WIREUP_LISTENER_H

#include "core/pool.h"

unsigned wireup_listener_progress(ucxpool_t *pool);

/* When the next of them wants to be called. */
uint64_t wireup_listener_deadline(ucxpool_t *pool);

void wireup_listener_destroy_all(ucxpool_t *pool);

#endif
