/*
 * A door and its callers in one process, on loopback, driven by hand.
 */
#ifndef TESTS_LOOPBACK_H
#define TESTS_LOOPBACK_H

#include "bootstrap/door.h"
#include "bootstrap/greet.h"

/* What a door and a caller say to each other in these tests. */
#define LOOPBACK_DOOR_BLOB   "the blob of the door"
#define LOOPBACK_CALLER_BLOB "what the caller brings"

/* Proven peers that may wait in its queue. */
#define LOOPBACK_QUEUE 12

/* A secret made from this text. */
xfer_secret_t *loopback_secret(const char *text);

/* Parameters of a door on a free port of 127.0.0.1. */
xfer_door_params_t loopback_params(const xfer_secret_t *secret);

xfer_door_t  *loopback_door(const xfer_secret_t *secret);
xfer_greet_t *loopback_caller(const xfer_door_t   *door,
                              const xfer_secret_t *secret);

/* Drive both until the caller is done; its answer. Other doors than this are
 * not moved; NULL: no door. */
ucxpool_status_t loopback_meet(xfer_door_t *door, xfer_greet_t *greet);

/* Drive the door until it has nothing to do. */
void loopback_settle(xfer_door_t *door);

/* Wait until the fd is readable; a test that waits too long fails. */
void loopback_wait(int fd);

/* A bare connection to the door, as a stranger opens it; blocking. */
int loopback_stranger(const xfer_door_t *door);

/* Drive the door until the stranger's end can be read or has ended. Returns
 * bytes read, 0 at the end. */
size_t loopback_read(xfer_door_t *door, int fd, void *bytes_p, size_t length);

#endif
