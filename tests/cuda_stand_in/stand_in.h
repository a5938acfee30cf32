/*
 * What a test asks of the stand-in for the CUDA driver, beside the driver's own
 * functions. A test finds these by dlsym() in the loaded library; see
 * tests/cuda_fixture.h.
 *
 * The variable CUDA_STAND_IN configures it, when the first call is made:
 *
 *     devices=2,memory=256m,grain=4m,vmm=n,gdr=n,posix=n,fabric=try,memops=n,
 *     dmabuf=n,hostptr=n,peers=n,version=11040,without=cuMemMap,
 *     fail=cuMemCreate:3:2,run=late
 *
 * devices   how many (1)            memory   of each, with k, m or g (256m)
 * vmm       virtual memory (y)      gdr      GPUDirect with it (y)
 * grain     what virtual memory is said to come in multiples of (2m)
 * posix     handles that are files (y)
 * fabric    fabric handles: n (default), y, or `try`: said to be supported, but
 *           not permitted
 * dmabuf    files of memory for other drivers (y)
 * memops    stream memory operations (y)
 * hostptr   registered host memory keeps its address on the device (y)
 * peers     devices reach each other (y)
 * version   of CUDA (12040)
 * name      of every device (Stand-in GPU)
 * without   a function that this driver does not have
 * fail      the n-th call of a function (`any`: of all) gives that result
 * run       work on streams is done at once (y); n: when a test says so, or
 *           when somebody synchronizes; late: by a thread, one operation after
 *           the other
 *
 * Memory of a device is a memory file. Its address as the driver gives it has
 * no access rights: a program that touches device memory dies, as it does with
 * a GPU.
 */
#ifndef CUDA_STAND_IN_STAND_IN_H
#define CUDA_STAND_IN_STAND_IN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Read the configuration again; counts and failures start anew, and devices
 * that have failed are well. */
void stand_in_configure(const char *text);

/* Calls of a function, by its name without a version ("cuMemAlloc"), or of all
 * functions (NULL), since the last stand_in_fail() or stand_in_configure(). */
unsigned stand_in_count(const char *name);

/* Make the n-th call from now (from 1; 0: none) of a function (NULL: of any)
 * give this result, once. Counting starts anew. */
void stand_in_fail(const char *name, unsigned n, int result);

/* Has a call failed because of that? */
int stand_in_has_failed(void);

/* Do the next operations that wait on streams; how many were done. */
unsigned stand_in_step(unsigned num);

/* With which a stream was made; 0: with none. */
struct CUstream_st;
int stand_in_priority(struct CUstream_st *stream);

/* Things that somebody has made and not given back: memory, handles, mappings,
 * ranges, streams, events, modules, contexts, registrations. */
unsigned stand_in_live(void);

/* The bytes behind a device address, to be read and written by a test; NULL
 * when not all of them are mapped. */
void *stand_in_bytes(unsigned long long address, size_t size);

/* Destroy a device's primary context, whoever holds it: what a program can do
 * to others in its process. */
void stand_in_reset_context(int device);

#ifdef __cplusplus
}
#endif

#endif
