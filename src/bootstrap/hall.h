/*
 * Behind the door: the connections whose handshake goes on, each in a slot, and
 * the queue of those that are proven. The door (bootstrap/door.h) owns the
 * sockets that lead here and the epoll that tells of events; the index of a
 * slot is what an event carries.
 */
#ifndef BOOTSTRAP_HALL_H
#define BOOTSTRAP_HALL_H

#include "bootstrap/door.h"

typedef struct xfer_hall xfer_hall_t;

/* NULL: no memory. The epoll outlives the hall. */
xfer_hall_t *xfer_hall_create(const xfer_door_params_t *params, int epoll_fd);
void         xfer_hall_destroy(xfer_hall_t *hall);

/* A newcomer, whose fd now belongs to the hall. The one that was here longest
 * makes place if there is none. */
void xfer_hall_enter(xfer_hall_t *hall, int fd, const xfer_address_t *peer);

/* Something happened to the connection in this slot. */
void xfer_hall_progress(xfer_hall_t *hall, uint32_t index);

/* Hang up on those whose time is over; returns how many. */
unsigned xfer_hall_end_late(xfer_hall_t *hall);

/* When the next one's time is over. */
uint64_t xfer_hall_deadline(const xfer_hall_t *hall);

/* Proven peers that wait to be taken. */
size_t xfer_hall_num_waiting(const xfer_hall_t *hall);

ucxpool_status_t xfer_hall_take(xfer_hall_t *hall, xfer_door_peer_t *peer_p);
void xfer_hall_get_stats(const xfer_hall_t *hall, xfer_door_stats_t *stats_p);

/* Log a warning, unless there was one just before. */
void xfer_hall_warn(xfer_hall_t *hall, const char *who, const char *what);

#endif
