/*
 * Selects the networks that UCX opens for a pool: those of the addresses on
 * which the pool listens and from which it connects, and all networks when the
 * pool's address is exported.
 */
#ifndef WIREUP_NETWORK_H
#define WIREUP_NETWORK_H

#include "bootstrap/address.h"
#include "core/pool.h"

/*
 * Open the networks of the addresses on which the pool listens, or all networks
 * because the pool's address is exported. Listeners then send the pool's new
 * address to their clients. If UCX is lost, it is restarted first. If the
 * restart fails, peers can still use `map` if the addresses need no device, or
 * if the address is exported. Both functions return the same errors as
 * core_network_open().
 */
ucxpool_status_t wireup_network_listen(ucxpool_t               *pool,
                                       const bootstrap_where_t *where);
ucxpool_status_t wireup_network_share(ucxpool_t *pool);

/*
 * Open the networks of the routes to a listener's addresses. Logs a warning for
 * each address whose device UCX cannot use. Returns false if there are routes
 * but UCX can use none of them, so that only the `map` wire is available.
 */
bool wireup_network_connect(ucxpool_t *pool, const bootstrap_where_t *where);

#endif
