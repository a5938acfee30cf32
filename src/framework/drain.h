/*
 * A stream of our own on each GPU, that waits for others: what is freed in it
 * is free when all of them have come so far, and none of them has to wait.
 */
#ifndef FRAMEWORK_DRAIN_H
#define FRAMEWORK_DRAIN_H

#include <ucxpool/status.h>

#include <stddef.h>

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
