/*
 * RDMA devices of this machine.
 */
#ifndef MEM_RDMA_H
#define MEM_RDMA_H

#include <stdbool.h>

/* Is there one: a device that memory is registered with before it sends? */
bool mem_has_rdma_device(void);

#endif
