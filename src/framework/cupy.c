/*
 * CuPy's functions.
 */
#include <config.h>

#include "framework/alloc.h"

static void *stream_of(void *const *stream_p)
{
    return stream_p == NULL ? NULL : *stream_p;
}

void *ucxpool_cupy_malloc(void *stream_p, size_t size, int device)
{
    void *address;

    (void)framework_alloc(device, size, stream_of(stream_p), &address);
    return address;
}

void ucxpool_cupy_free(void *stream_p, void *address, int device)
{
    framework_free(device, address, stream_of(stream_p));
}
