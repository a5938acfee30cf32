/*
 * The networks that a pool's UCX uses. UCX's TCP transport listens on all these
 * networks, and does not check the secret of connecting processes. So UCX
 * starts on loopback only, and other networks are added when the pool first
 * needs them.
 */
#ifndef CORE_NETWORK_H
#define CORE_NETWORK_H

#include "core/pool.h"

/*
 * Watch UCX's worker; the pool's epoll must exist.
 *
 * UCXPOOL_ERR_IO, UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t core_network_watch(ucxpool_t *pool);

/*
 * Let UCX use the network device `device`, or all devices if it is NULL. Does
 * nothing if UCX is not limited to certain devices, or already uses the
 * requested ones. Otherwise UCX's context and worker are replaced, and the
 * pool's addresses change: *moved_p is set, even after an error. All
 * registrations are released first and then repeated.
 *
 * has_callers  Some clients of listeners have received the address, but have
 *              not been accepted yet. UCX then counts as in use.
 *
 * UCXPOOL_ERR_UNSUPPORTED  UCX is in use: the pool has endpoints, connecting
 *                          channels or windows registered with UCX, or its
 *                          address was exported
 * others                   those of ucx_context_init() and ucx_reg_regions().
 *                          UCX keeps its devices if it can register the memory
 *                          again. Otherwise the pool has no usable UCX until a
 *                          restart succeeds: only channels on the `map` wire
 *                          work, and core_network_check() fails
 */
ucxpool_status_t core_network_open(ucxpool_t *pool, const char *device,
                                   bool has_callers, bool *moved_p);

/* Get the names of the network devices that core_network_open() adds for
 * `device`, separated by commas. */
void core_network_added(const ucxpool_t *pool, const char *device,
                        char names_p[UCX_DEVICES_SIZE]);

/* If an earlier attempt to restart UCX has failed, try again with the same
 * devices. Same errors as core_network_open(). */
ucxpool_status_t core_network_restart(ucxpool_t *pool, bool has_callers,
                                      bool *moved_p);

/* Returns UCXPOOL_ERR_UNSUPPORTED if an attempt to restart UCX has failed, so
 * that no endpoint can be created. */
ucxpool_status_t core_network_check(const ucxpool_t *pool);

#endif
