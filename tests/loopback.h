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

/* The number of authenticated peers that may wait in the listener's queue. */
#define LOOPBACK_QUEUE 12

/* Time limit for a handshake, on both sides. Under valgrind, a handshake takes
 * a second of CPU time, and a process on a busy machine may get only a
 * tenth of a CPU. */
#define LOOPBACK_TIMEOUT_NS 60000000000u

/* Returns a secret made from this text. */
base_secret_t *loopback_secret(const char *text);

/* Returns the parameters of a listener on a free port of 127.0.0.1. */
bootstrap_listener_params_t loopback_params(const base_secret_t *secret);

bootstrap_listener_t *loopback_listener(const base_secret_t *secret);
bootstrap_client_t   *loopback_client(const bootstrap_listener_t *listener,
                                      const base_secret_t        *secret);

/* Progress the listener (NULL: none) and the client until the client is done.
 * Returns the client's status. */
ucxpool_status_t loopback_meet(bootstrap_listener_t *listener,
                               bootstrap_client_t   *client);

/* Progress the listener until it is idle. */
void loopback_settle(bootstrap_listener_t *listener);

/* Wait until the fd is readable; fails the test on a timeout. */
void loopback_wait(int fd);

/* Open a plain connection of a stranger to the port, or to the listener. Its
 * descriptor is blocking. */
int loopback_connect(uint16_t port);
int loopback_stranger(const bootstrap_listener_t *listener);

/* Returns a socket that is bound to a free port and does not listen. */
int loopback_bind(uint16_t *port_p);

/* Progress the listener until the stranger's end is readable or closed. Returns
 * the number of bytes read, or 0 if the connection is closed. */
size_t loopback_read(bootstrap_listener_t *listener, int fd, void *bytes_p,
                     size_t length);

/* Fork a child that has copies of all descriptors until it is ended. */
typedef struct loopback_child {
    pid_t pid;
    int   fds[2]; /* a pipe */
} loopback_child_t;

void loopback_fork(loopback_child_t *child);
void loopback_end_child(loopback_child_t *child);

#endif
