/*
 * The networks that a pool's UCX uses. Its TCP listens on each of them, and a
 * process that reaches such a port needs no secret. So UCX begins with loopback
 * alone, and others are added when the pool is used on them.
 */
#ifndef CORE_NETWORK_H
#define CORE_NETWORK_H

#include "core/pool.h"

/*
 * Watch UCX's worker, the pool's descriptors being there.
 *
 * UCXPOOL_ERR_IO, UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t core_network_watch(ucxpool_t *pool);

/*
 * Let UCX use a network device; NULL: all. Does nothing where UCX is not
 * limited, or uses these already. Otherwise UCX's context and worker are
 * replaced, and the pool's addresses are others afterwards: *moved_p, also
 * after an error. What is registered is given up first, and registered again.
 *
 * has_callers  Clients of listeners were told the address and are not accepted
 *              yet: UCX is in use.
 *
 * UCXPOOL_ERR_UNSUPPORTED  UCX is in use: the pool has endpoints, channels that
 *                          are connecting, or windows registered with UCX, or
 *                          its address was handed out
 * others                   as ucx_context_init(), ucx_reg_regions(); UCX uses
 *                          the devices that it did, if it takes the memory
 *                          again; otherwise UCX is lost: the channels on the
 *                          `map` wire work, and core_network_check() fails
 */
ucxpool_status_t core_network_open(ucxpool_t *pool, const char *device,
                                   bool has_callers, bool *moved_p);

/* The names of the network devices that core_network_open() adds for `device`,
 * with commas. */
void core_network_added(const ucxpool_t *pool, const char *device,
                        char names_p[UCX_DEVICES_SIZE]);

/*
 * Restart UCX if it is lost, with the devices that it had before. As
 * core_network_open().
 */
ucxpool_status_t core_network_restart(ucxpool_t *pool, bool has_callers,
                                      bool *moved_p);

/* UCXPOOL_ERR_UNSUPPORTED  UCX is lost: no endpoint can be made */
ucxpool_status_t core_network_check(const ucxpool_t *pool);

#endif
