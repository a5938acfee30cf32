/*
 * A listener and its clients in one process, on loopback, driven by hand.
 */
#ifndef TESTS_LOOPBACK_H
#define TESTS_LOOPBACK_H

#include "bootstrap/listener.h"
#include "bootstrap/client.h"

/* What a listener and a client say to each other in these tests. */
#define LOOPBACK_LISTENER_BLOB "the blob of the listener"
#define LOOPBACK_CLIENT_BLOB   "what the client brings"

/* Proven peers that may wait in its queue. */
#define LOOPBACK_QUEUE 12

/* Of a handshake, at both ends. Under valgrind one takes a second of processor
 * time, of which others may leave a tenth. */
#define LOOPBACK_TIMEOUT_NS 60000000000u

/* A secret made from this text. */
base_secret_t *loopback_secret(const char *text);

/* Parameters of a listener on a free port of 127.0.0.1. */
bootstrap_listener_params_t loopback_params(const base_secret_t *secret);

bootstrap_listener_t *loopback_listener(const base_secret_t *secret);
bootstrap_client_t   *loopback_client(const bootstrap_listener_t *listener,
                                      const base_secret_t        *secret);

/* Drive both until the client is done; its answer. Other listeners than this
 * are not moved; NULL: no listener. */
ucxpool_status_t loopback_meet(bootstrap_listener_t *listener,
                               bootstrap_client_t   *client);

/* Drive the listener until it has nothing to do. */
void loopback_settle(bootstrap_listener_t *listener);

/* Wait until the fd is readable; a test that waits too long fails. */
void loopback_wait(int fd);

/* A bare connection to the listener, as a stranger opens it; blocking. */
int loopback_stranger(const bootstrap_listener_t *listener);

/* Drive the listener until the stranger's end can be read or has ended. Returns
 * bytes read, 0 at the end. */
size_t loopback_read(bootstrap_listener_t *listener, int fd, void *bytes_p,
                     size_t length);

#endif
