/*
 * What the functions for array libraries share.
 */
#ifndef FRAMEWORK_FRAMEWORK_H
#define FRAMEWORK_FRAMEWORK_H

#include <ucxpool/framework.h>

#include <stdbool.h>
#include <stddef.h>

/* --- pools ------------------------------------------------------------------
 * One for each device, for all frameworks of the process; made when it is first
 * asked for, and never destroyed.
 */

/* The device's pool, NULL where there is none yet, or no such device. */
ucxpool_t *framework_pools_find(int device);

/* Call for each pool that there is. */
void framework_pools_each(void (*call)(ucxpool_t *pool, void *arg), void *arg);

/* --- uses -------------------------------------------------------------------
 * Of memory by other streams than that which it was allocated for: told while
 * it is live, waited for when it is freed.
 */

/* The streams that use one allocation. */
typedef struct framework_use {
    struct framework_use *next; /* in its bucket */
    void                 *address;
    size_t                num_streams;
    size_t                room;
    void                 *streams[];
} framework_use_t;

/* Work in the stream uses what lies at the address, the first byte of an
 * allocation; told again, it is still one use. */
void framework_uses_add(void *address, void *stream);

/*
 * Take the uses of an allocation out; the caller frees them with free().
 *
 * use_p [out]  NULL where none is known. Still any stream may use it where this
 *              returns false: a use could not be noted, for want of memory.
 */
bool framework_uses_take(const void *address, framework_use_t **use_p);

#endif
