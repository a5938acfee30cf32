/* Checks whether file descriptors and memory are available. UCX aborts on an
 * assertion if it cannot get a descriptor, or memory for its thread. The
 * library therefore checks both before it calls UCX. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <ucxpool/status.h>

#include <stdbool.h>

/* Number of descriptors that one UCX endpoint needs: a socket per network, and
 * the peer's sockets. Unauthenticated connections to a listener cannot use
 * these descriptors. */
#define BASE_LIMITS_DESCRIPTORS 8u

/* Returns true if the process can open `count` more files (at most 64). The
 * check opens files, so other threads can open fewer files until it returns. */
bool base_limits_has(unsigned count);

/*
 * Check the resources for a UCX context and a worker.
 *
 * UCXPOOL_ERR_LIMIT      too few descriptors
 * UCXPOOL_ERR_NO_MEMORY  no memory for a thread
 */
ucxpool_status_t base_limits_check_ucx(void);

/* Check the descriptors for a pool with a listener and its first connection.
 * Returns UCXPOOL_ERR_LIMIT if there are too few. */
ucxpool_status_t base_limits_check_pool(void);

/* Check the descriptors for an endpoint. Returns UCXPOOL_ERR_LIMIT if there are
 * too few. */
ucxpool_status_t base_limits_check_endpoint(void);

#endif
