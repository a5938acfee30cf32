/*
 * A heap on memory that tracks its users (vmm_double.h), and short functions
 * that use it and require success.
 */
#ifndef TESTS_HEAP_FIXTURE_H
#define TESTS_HEAP_FIXTURE_H

#include "heap/heap.h"
#include "vmm_double.h"

#include <stdbool.h>
#include <stddef.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* Streams. */
#define A ((void *)0x10)
#define B ((void *)0x20)

extern mem_vmm_t *vmm;
extern heap_t    *heap;

/* Create the heap, with chunks of 8 MiB. */
void start_with(bool has_streams, size_t limit, size_t stitch_size);
void stop(void);

char        *get(size_t size, void *stream);
void         put(void *address, void *stream);
heap_stats_t stats(void);

#endif
