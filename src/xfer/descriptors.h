/*
 * What a pool sleeps on: an epoll, in which are UCX's descriptor, if its
 * context has one, a timer, and an event for who wakes it. Sources
 * (xfer/source.h) come and go.
 */
#ifndef XFER_DESCRIPTORS_H
#define XFER_DESCRIPTORS_H

#include "xfer/pool.h"

/* UCXPOOL_ERR_IO and others of the system's. */
ucxpool_status_t xfer_descriptors_init(ucxpool_t *pool);
void             xfer_descriptors_cleanup(ucxpool_t *pool);

#endif
