/*
 * Descriptors and memory that are still free. UCX ends the process by an
 * assertion where it gets no descriptor, or no memory for its thread, so these
 * are checked before UCX is called.
 */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <ucxpool/status.h>

#include <stdbool.h>

/* Descriptors that strangers at a listener do not get: one endpoint of UCX
 * needs them, for a socket for each network and those of the peer. */
#define BASE_LIMITS_DESCRIPTORS 8u

/* Can the process open `count` more files now (64 at most)? They are opened to
 * find out, so other threads find fewer for a moment. */
bool base_limits_has(unsigned count);

/*
 * Are there enough for a context and a worker of UCX?
 *
 * UCXPOOL_ERR_LIMIT      too few descriptors
 * UCXPOOL_ERR_NO_MEMORY  no memory for a thread
 */
ucxpool_status_t base_limits_check_ucx(void);

/* Are there enough for a pool that has its memory, with a listener and its
 * first caller? UCXPOOL_ERR_LIMIT: there are not. */
ucxpool_status_t base_limits_check_pool(void);

/* Are there enough for an endpoint? UCXPOOL_ERR_LIMIT: there are not. */
ucxpool_status_t base_limits_check_endpoint(void);

#endif
