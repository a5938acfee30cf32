/*
 * The CUDA driver's results as ours: the one place where they are translated.
 */
#ifndef MEM_CUDA_STATUS_H
#define MEM_CUDA_STATUS_H

#include "mem/cuda_driver.h"

/* A result that is not known becomes UCXPOOL_ERR_IO. */
ucxpool_status_t mem_cuda_status(CUresult result);

/*
 * As base_error(): the sentence says which call failed on what; the driver's
 * name of the result, its own words, and what to change where that follows from
 * the result alone, are added.
 */
ucxpool_status_t mem_cuda_error(const mem_cuda_driver_t *driver,
                                CUresult result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* For what cannot be reported, such as a release that fails: to the log. */
void mem_cuda_ignore(const mem_cuda_driver_t *driver, CUresult result,
                     const char *what);

#endif
