/*
 * The pool of a worker: the caller's settings, and defaults that fit this tool
 * where the environment has none.
 */
#ifndef SHUFFLE_POOL_H
#define SHUFFLE_POOL_H

#include "tools/shuffle/device.h"

#include <ucxpool/ucxpool.h>

#include <stddef.h>

/* Check the settings without making anything. Returns -1 with an error. */
int pool_check_settings(void);

/*
 * Create a pool with about memory_size bytes for the caller's own buffers.
 *
 * device  Whose memory it is to be; NULL: the host's.
 *
 * Returns -1 with an error.
 */
int pool_create(unsigned worker, const device_t *device, size_t memory_size,
                ucxpool_t **pool_p);

#endif
