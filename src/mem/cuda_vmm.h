/*
 * Virtual memory of a GPU: what all that map it do in the same way.
 */
#ifndef MEM_CUDA_VMM_H
#define MEM_CUDA_VMM_H

#include "mem/cuda_device.h"
#include "mem/region.h"

/* Let the device read and write what is mapped in a range. The driver takes
 * some time for each allocation in it, and more for each call. */
CUresult mem_cuda_access_set(const mem_cuda_device_t *device,
                             CUdeviceptr address, size_t size);

/* Give back a range in which nothing is mapped. */
void mem_cuda_range_free(const mem_cuda_driver_t *driver, CUdeviceptr address,
                         size_t size);

#endif
