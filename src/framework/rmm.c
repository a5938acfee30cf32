/*
 * RMM's functions. Exceptions pass through the one that may throw.
 */
#include <config.h>

#include "framework/alloc.h"
#include "framework/throw.h"

void *ucxpool_rmm_alloc(size_t size, void *stream, void *pool)
{
    void *address;

    if (framework_alloc_from(pool, size, stream, &address) != UCXPOOL_OK) {
        framework_throw();
    }
    return address;
}

void ucxpool_rmm_free(void *address, size_t size, void *stream, void *pool)
{
    (void)size;
    if (pool == NULL) {
        framework_free(0, address, stream);
    } else {
        framework_free_to(pool, address, stream);
    }
}
