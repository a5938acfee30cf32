/*
 * Memory that several streams use is free when all of them have come so far:
 * which these are, and a stream that waits for them.
 */
#ifndef FRAMEWORK_DRAIN_H
#define FRAMEWORK_DRAIN_H

#include <ucxpool/status.h>

#include <stdbool.h>
#include <stddef.h>

/* --- uses -------------------------------------------------------------------
 * Uses of memory by other streams than that which it was allocated for: told
 * while it is live, waited for when it is freed.
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

/* --- the stream that waits --------------------------------------------------
 * A stream of our own on each GPU, that waits for others: what is freed in it
 * is free when all of them have come so far, and none of them has to wait.
 */

/*
 * Let the GPU's stream wait for what is now in a stream and in some more.
 *
 * drain_p [out]  The GPU's stream.
 *
 * Errors are those of the driver; the stream may then wait for some of them.
 */
ucxpool_status_t framework_drain_wait(int device, void *stream,
                                      void *const *streams, size_t num_streams,
                                      void **drain_p);

/* Wait here for all work on the GPU. */
void framework_drain_synchronize(int device);

#endif
