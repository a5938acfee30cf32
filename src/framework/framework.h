/*
 * Uses of an allocation by streams other than the stream for which it was
 * allocated. Frameworks report these uses while the memory is allocated. A free
 * waits for these streams. The tests also call these functions.
 */
#ifndef FRAMEWORK_FRAMEWORK_H
#define FRAMEWORK_FRAMEWORK_H

#include <ucxpool/framework.h>

#include <stdbool.h>
#include <stddef.h>

/* The streams that use an allocation. */
typedef struct framework_use {
    struct framework_use *next; /* next use in the bucket */
    void                 *address;
    size_t                num_streams;
    size_t                room;
    void                 *streams[];
} framework_use_t;

/* Record that work in the stream uses an allocation. `address` is the
 * allocation's first byte. Recording the same use again has no effect. */
void framework_uses_add(void *address, void *stream);

/*
 * Remove the uses of an allocation; the caller frees *use_p with free().
 *
 * use_p  [out] NULL if none are recorded.
 *
 * Returns false if a use, even of another allocation, could not be recorded for
 * lack of memory. In this case, any stream may use the allocation.
 */
bool framework_uses_take(const void *address, framework_use_t **use_p);

#endif
