/*
 * A stream of our own on each GPU, that waits for others: what is freed in it
 * is free when all of them have come so far, and none of them has to wait.
 */
#ifndef MEM_CUDA_JOIN_H
#define MEM_CUDA_JOIN_H

#include <ucxpool/status.h>

#include <stddef.h>

/*
 * Let the GPU's stream wait for what is now in a stream and in some more.
 *
 * stream_p [out]  The GPU's stream; it lives until the process ends.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such device
 * others                     the driver's; the stream may then wait for some
 */
ucxpool_status_t mem_cuda_join(int device, void *stream, void *const *streams,
                               size_t num_streams, void **stream_p);

/* Wait here for all work on the GPU. */
void mem_cuda_synchronize(int device);

#endif
