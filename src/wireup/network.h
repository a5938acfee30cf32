/*
 * Selects the networks that a pool's UCX opens: those of the addresses that it
 * listens on and connects from, and all networks when its address is exported.
 */
#ifndef WIREUP_NETWORK_H
#define WIREUP_NETWORK_H

#include "bootstrap/address.h"
#include "core/pool.h"

/*
 * The pool listens on these addresses, or its address is exported to peers
 * anywhere. Same errors as core_network_open(). Listeners send the new address
 * to their clients. If UCX is lost, it is restarted first. If that fails, peers
 * can still use `map` if the addresses need no device, or if the address is
 * exported.
 */
ucxpool_status_t wireup_network_listen(ucxpool_t               *pool,
                                       const bootstrap_where_t *where);
ucxpool_status_t wireup_network_share(ucxpool_t *pool);

/*
 * The same for the addresses of a listener that the pool connects to. Logs a
 * warning for each address whose device UCX cannot use. False: UCX can use no
 * address, and only the `map` wire is available.
 */
bool wireup_network_connect(ucxpool_t *pool, const bootstrap_where_t *where);

#endif
