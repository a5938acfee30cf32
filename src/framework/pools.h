/*
 * One pool for each device, for all frameworks of the process; made when it is
 * first asked for, and never destroyed.
 */
#ifndef FRAMEWORK_POOLS_H
#define FRAMEWORK_POOLS_H

#include <ucxpool/framework.h>

/* The device's pool, NULL where there is none yet, or no such device. */
ucxpool_t *framework_pools_find(int device);

/* Call for each pool that there is. */
void framework_pools_each(void (*call)(ucxpool_t *pool, void *arg), void *arg);

#endif
