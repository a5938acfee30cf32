/*
 * Uses of memory by other streams than that which it was allocated for: told
 * while it is live, waited for when it is freed.
 */
#ifndef FRAMEWORK_USES_H
#define FRAMEWORK_USES_H

#include <stdbool.h>
#include <stddef.h>

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
