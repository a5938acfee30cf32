/*
 * Listeners create a channel for each client that they accept. Only the pool
 * and the port of a listener may be read without the pool's lock.
 */
#ifndef WIREUP_LISTENER_H
#define WIREUP_LISTENER_H

#include "bootstrap/address.h"
#include "core/channel.h"
#include "core/pool.h"

#include <stdint.h>

/*
 * Listen on the addresses in `where`. The socket is created first, because this
 * may fail. Then UCX opens the network devices of the addresses.
 *
 * Returns the same errors as ucxpool_listener_create().
 */
ucxpool_status_t wireup_listener_create(ucxpool_t               *pool,
                                        const bootstrap_where_t *where,
                                        ucxpool_listener_t     **listener_p);
void             wireup_listener_destroy(ucxpool_listener_t *listener);
void             wireup_listener_destroy_all(ucxpool_t *pool);

ucxpool_t *wireup_listener_pool(const ucxpool_listener_t *listener);
uint16_t   wireup_listener_port(const ucxpool_listener_t *listener);

/*
 * Create a channel for the next authenticated client.
 *
 * params  Parameters that core_channel_params_check() has checked.
 *
 * Returns the same errors as ucxpool_listener_accept().
 */
ucxpool_status_t wireup_listener_accept(ucxpool_listener_t *listener,
                                        const ucxpool_channel_params_t *params,
                                        ucxpool_channel_t **channel_p);

unsigned wireup_listener_progress(ucxpool_t *pool);

/* Returns the earliest deadline of all listeners. */
uint64_t wireup_listener_deadline(ucxpool_t *pool);

/* Make all listeners send the pool's new address to clients. Called when the
 * address has changed. */
ucxpool_status_t wireup_listeners_renew(ucxpool_t *pool);

/* Returns true if clients have received the address, but have not been accepted
 * yet. */
bool wireup_listeners_have_callers(ucxpool_t *pool);

#endif
