/*
 * The interface between a test and the stand-in for the CUDA driver, in
 * addition to the driver's own functions. A test finds these functions by
 * dlsym() in the loaded library; see tests/cuda_fixture.h.
 *
 * The variable CUDA_STAND_IN configures it when the first call is made:
 *
 *     devices=2,memory=256m,grain=4m,vmm=n,gdr=n,posix=n,fabric=try,memops=n,
 *     dmabuf=n,hostptr=n,peers=n,version=11040,without=cuMemMap,
 *     fail=cuMemCreate:3:2,run=late,perfile=256
 *
 * devices   number of devices (1)
 * memory    size of each, with k, m or g (256m)
 * vmm       virtual memory management (y)
 * gdr       GPUDirect RDMA for virtual memory (y)
 * grain     allocation granularity of virtual memory (2m)
 * perfile   number of allocations of virtual memory in one file (1). With more
 *           than 1, as with a real driver, an allocation takes no descriptor
 * posix     file descriptor handles (y)
 * fabric    fabric handles: n (default), y, or `try`: reported as supported,
 *           but not permitted
 * dmabuf    dmabuf export for other drivers (y)
 * memops    stream memory operations (y)
 * hostptr   registered host memory has the same address on the device (y)
 * peers     devices have peer access (y)
 * version   CUDA version (12040)
 * name      name of every device (Stand-in GPU)
 * without   a function that this driver does not have
 * fail      the n-th call of a function (`any`: of all) returns that result
 * run       y: stream operations run at once (default); n: they run on request
 *           of the test or on synchronization; late: a thread runs them one
 *           after the other
 *
 * The memory of a device is in memory files. A device address has no access
 * rights: a program that accesses device memory crashes, as with a real GPU.
 */
#ifndef CUDA_STAND_IN_STAND_IN_H
#define CUDA_STAND_IN_STAND_IN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Read the configuration again. Resets counts, failure injection and failed
 * devices. */
void stand_in_configure(const char *text);

/* Number of calls of a function since the last stand_in_fail() or
 * stand_in_configure(). Its name has no version ("cuMemAlloc"); NULL: of all
 * functions. */
unsigned stand_in_count(const char *name);

/* Make the n-th call from now (from 1; 0: none) of a function (NULL: of any)
 * return this result, once. Resets the counts. */
void stand_in_fail(const char *name, unsigned n, int result);

/* Has a call failed because of stand_in_fail()? */
int stand_in_has_failed(void);

/* Run the next queued operations of streams. Returns how many were run. */
unsigned stand_in_step(unsigned num);

/* The priority with which a stream was created; 0: without one. */
struct CUstream_st;
int stand_in_priority(struct CUstream_st *stream);

/* Number of objects that were created and not released: memory, handles,
 * mappings, ranges, streams, events, modules, contexts, pushed contexts,
 * registrations. */
unsigned stand_in_live(void);

/* The bytes at a device address, for a test to read and write; NULL if not all
 * of them are mapped. */
void *stand_in_bytes(unsigned long long address, size_t size);

/* Destroy a device's primary context even if it is retained, as other code in
 * the process might do. */
void stand_in_reset_context(int device);

#ifdef __cplusplus
}
#endif

#endif
