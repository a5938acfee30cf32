/*
 * Marks in memory, by which it is seen that no two allocations share any: a
 * word that belongs to the allocation at its begin, its end, and in each page
 * of 2 MiB.
 */
#ifndef REPLAY_MARKS_H
#define REPLAY_MARKS_H

#include "replay/device.h"

#include <stdint.h>

/* 0, or -1 after having said what is wrong. On a GPU in the stream's order,
 * and waited for. */
int marks_write(device_t *device, void *address, uint64_t size, uint64_t word,
                void *stream);

/* Are all of them there? */
int marks_check(device_t *device, void *address, uint64_t size, uint64_t word,
                void *stream);

#endif
