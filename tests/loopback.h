/*
 * A listener and its clients in one process on loopback, progressed by the
 * test.
 */
#ifndef TESTS_LOOPBACK_H
#define TESTS_LOOPBACK_H

#include "bootstrap/listener.h"
#include "bootstrap/client.h"

/* The blobs that a listener and a client exchange in these tests. */
#define LOOPBACK_LISTENER_BLOB "the blob of the listener"
#define LOOPBACK_CLIENT_BLOB   "what the client brings"

/* Authenticated peers that may wait in its queue. */
#define LOOPBACK_QUEUE 12

/* Time limit for a handshake, on both sides. Under valgrind it takes a second
 * of processor time, and a busy machine may give a tenth of that. */
#define LOOPBACK_TIMEOUT_NS 60000000000u

/* A secret made from this text. */
base_secret_t *loopback_secret(const char *text);

/* Parameters of a listener on a free port of 127.0.0.1. */
bootstrap_listener_params_t loopback_params(const base_secret_t *secret);

bootstrap_listener_t *loopback_listener(const base_secret_t *secret);
bootstrap_client_t   *loopback_client(const bootstrap_listener_t *listener,
                                      const base_secret_t        *secret);

/* Progress both until the client is done; returns its status. Progresses no
 * other listener; NULL: no listener. */
ucxpool_status_t loopback_meet(bootstrap_listener_t *listener,
                               bootstrap_client_t   *client);

/* Progress the listener until it is idle. */
void loopback_settle(bootstrap_listener_t *listener);

/* Wait until the fd is readable; fails the test on a timeout. */
void loopback_wait(int fd);

/* A plain connection of a stranger to the listener; blocking. */
int loopback_stranger(const bootstrap_listener_t *listener);

/* Progress the listener until the stranger's end is readable or closed. Returns
 * the bytes read, 0 at the end. */
size_t loopback_read(bootstrap_listener_t *listener, int fd, void *bytes_p,
                     size_t length);

#endif
