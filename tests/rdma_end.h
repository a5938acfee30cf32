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

/* Returns true if this machine has a device with an active port. */
bool rdma_is_present(void);

/* Returns the name of the device, or "" if there is no device. */
const char *rdma_device_name(void);

/* Open the device, with a domain and a queue pair. */
void rdma_open(rdma_end_t *end);
void rdma_close(rdma_end_t *end);

/* Connect to the queue pair of another process, which makes the same call.
 * `talk` is a socket to that process. */
void rdma_connect(rdma_end_t *end, int talk);

/* Write to the peer's memory, or read from it, and wait for the completion.
 * Return the ibv_wc_status. */
int rdma_write(rdma_end_t *end, uint64_t address, uint32_t length,
               uint32_t lkey, uint64_t remote_address, uint32_t rkey);
int rdma_read(rdma_end_t *end, uint64_t address, uint32_t length, uint32_t lkey,
              uint64_t remote_address, uint32_t rkey);

#ifdef __cplusplus
}
#endif

#endif
