/*
 * The listening socket of a door.
 */
#ifndef BOOTSTRAP_LISTEN_H
#define BOOTSTRAP_LISTEN_H

#include "bootstrap/where.h"

/*
 * Listen on the first address of `where` that works, without blocking.
 *
 * only_loopback  Refuse addresses that other machines can reach.
 * fd_p           To be closed by the caller.
 * address_p      What the socket is bound to, the port being the real one.
 *
 * UCXPOOL_ERR_PERMISSION      only_loopback, and it is not; or a reserved port
 * UCXPOOL_ERR_ADDRESS_IN_USE  the port is taken
 * UCXPOOL_ERR_IO, UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t xfer_listen_open(const xfer_where_t *where, bool only_loopback,
                                  int *fd_p, xfer_address_t *address_p);

/*
 * Take one connection: non-blocking, without delay of small messages.
 * Returns its fd, or -1 with errno; EAGAIN: nobody is there. Connections that
 * broke before they were taken are passed over.
 */
int xfer_listen_accept(int fd, xfer_address_t *peer_p);

#endif
