/*
 * A queue pair of a real RDMA device, and operations on it, one at a time, for
 * tests of the pool's keys.
 */
#ifndef TESTS_RDMA_END_H
#define TESTS_RDMA_END_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_pd;

typedef struct rdma_end {
    struct ibv_context *context;
    struct ibv_pd      *pd;
    struct ibv_cq      *cq;
    struct ibv_qp      *qp;
} rdma_end_t;

/* Does this machine have a device with an active port? */
bool rdma_is_there(void);

/* The name of the device; "" if there is no device. */
const char *rdma_device_name(void);

/* Open the device, with a domain and a queue pair. */
void rdma_open(rdma_end_t *end);
void rdma_close(rdma_end_t *end);

/* Connect to the end of another process, which does the same. */
void rdma_connect(rdma_end_t *end, int talk);

/* Write to, or read from, the peer's memory, and wait; returns the
 * ibv_wc_status. */
int rdma_write(rdma_end_t *end, uint64_t address, uint32_t length,
               uint32_t lkey, uint64_t remote_address, uint32_t rkey);
int rdma_read(rdma_end_t *end, uint64_t address, uint32_t length, uint32_t lkey,
              uint64_t remote_address, uint32_t rkey);

#ifdef __cplusplus
}
#endif

#endif
