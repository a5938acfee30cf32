/*
 * Listeners: callers are admitted as channels. Only the pool and the port of a
 * listener may be read without the pool's lock.
 */
#ifndef WIREUP_LISTENER_H
#define WIREUP_LISTENER_H

#include "bootstrap/address.h"
#include "core/channel.h"
#include "core/pool.h"

#include <stdint.h>

/*
 * Listen at an address. UCX gets the network devices of the address after the
 * socket, which may be refused.
 *
 * As ucxpool_listener_create().
 */
ucxpool_status_t wireup_listener_create(ucxpool_t               *pool,
                                        const bootstrap_where_t *where,
                                        ucxpool_listener_t     **listener_p);
void             wireup_listener_destroy(ucxpool_listener_t *listener);
void             wireup_listener_destroy_all(ucxpool_t *pool);

ucxpool_t *wireup_listener_pool(const ucxpool_listener_t *listener);
uint16_t   wireup_listener_port(const ucxpool_listener_t *listener);

/*
 * Make a channel of the next caller that has proven itself.
 *
 * params  Checked by core_channel_params_check().
 *
 * As ucxpool_listener_accept().
 */
ucxpool_status_t wireup_listener_accept(ucxpool_listener_t *listener,
                                        const ucxpool_channel_params_t *params,
                                        ucxpool_channel_t **channel_p);

unsigned wireup_listener_progress(ucxpool_t *pool);

/* The earliest deadline of all listeners. */
uint64_t wireup_listener_deadline(ucxpool_t *pool);

/* The pool's address has changed: send callers the new one. */
ucxpool_status_t wireup_listeners_renew(ucxpool_t *pool);

/* Were peers told the address that are not accepted yet? */
bool wireup_listeners_have_callers(ucxpool_t *pool);

#endif
