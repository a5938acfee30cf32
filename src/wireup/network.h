/*
 * Which of UCX's networks a pool opens: those of the addresses that it listens
 * on and connects from, and all when its address is handed out.
 */
#ifndef WIREUP_NETWORK_H
#define WIREUP_NETWORK_H

#include "bootstrap/address.h"
#include "core/pool.h"

/*
 * The pool listens on one of these addresses; its address goes to peers
 * anywhere. As core_network_open(). Listeners tell their clients the new
 * address. Restarts UCX first if it is lost; if that fails, and the addresses
 * need no device, or the address is handed out, peers can still use `map`.
 */
ucxpool_status_t wireup_network_listen(ucxpool_t               *pool,
                                       const bootstrap_where_t *where);
ucxpool_status_t wireup_network_share(ucxpool_t *pool);

/*
 * The same for the addresses of a listener that the pool connects to. Logs a
 * warning for each address whose device UCX cannot use. False: UCX can use none
 * of them, and only the `map` wire is left.
 */
bool wireup_network_connect(ucxpool_t *pool, const bootstrap_where_t *where);

#endif
