/*
 * The GPU of a worker: its memory, pinned memory beside it, and copies between
 * the two. There is a stream for each direction; copies of one direction are
 * made one after the other.
 *
 * To be used in the worker's own process only: CUDA does not survive a fork.
 * Functions that return an int return -1 with an error.
 */
#ifndef SHUFFLE_DEVICE_H
#define SHUFFLE_DEVICE_H

#include <stddef.h>

typedef struct device device_t;

/*
 * number  As the driver counts GPUs, or -1: they are dealt out by turn, 0 to
 *         the first.
 */
int device_open(int number, unsigned turn, device_t **device_p);
/* Waits for what was started. NULL is allowed. */
void device_close(device_t *device);

int device_number(const device_t *device);
/* How many GPUs the driver has. */
unsigned device_count(const device_t *device);

/* Bytes that are free now. */
int device_free_size(device_t *device, size_t *size_p);

/* Memory of the GPU, aligned to 64. */
int  device_alloc(device_t *device, size_t size, char **address_p);
void device_free(device_t *device, char *address);

/* Pinned memory of the host, aligned to 64. */
int  device_pin(device_t *device, size_t size, char **address_p);
void device_unpin(device_t *device, char *address);

/* Start to copy from pinned memory to the GPU, or back. */
int device_copy_in(device_t *device, char *target, const char *source,
                   size_t size);
int device_copy_out(device_t *device, char *target, const char *source,
                    size_t size);

/* Wait until all copies of a direction are made. */
int device_wait_in(device_t *device);
int device_wait_out(device_t *device);

/* The stream of the copies to the GPU, to wait in. */
void *device_stream_in(const device_t *device);

#endif
