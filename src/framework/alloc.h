/*
 * What all frameworks' functions do: allocate and free, with an error told in
 * the log once.
 */
#ifndef FRAMEWORK_ALLOC_H
#define FRAMEWORK_ALLOC_H

#include <ucxpool/framework.h>

/* Of a device's pool, made where there is none. *address_p is NULL after an
 * error, and for size 0. */
ucxpool_status_t framework_alloc(int device, size_t size, void *stream,
                                 void **address_p);

/* Of a pool. */
ucxpool_status_t framework_alloc_from(ucxpool_t *pool, size_t size,
                                      void *stream, void **address_p);

/* To a pool. Nobody is returned an error, so the log is told. */
void framework_free_to(ucxpool_t *pool, void *address, void *stream);

/* NULL is allowed, and memory of a device without a pool: a child frees what
 * its parent has allocated. */
void framework_free(int device, void *address, void *stream);

/* The one name of the legacy default stream, which has two. */
void *framework_stream(void *stream);

#endif
