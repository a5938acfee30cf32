/*
 * What a pool sleeps on: an epoll of UCX's descriptor, if its context has one,
 * of a timer, and of an eventfd by which other threads wake the sleeper.
 * Sources (core/source.h) are added and removed later.
 */
#ifndef POOL_DESCRIPTORS_H
#define POOL_DESCRIPTORS_H

#include "core/pool.h"

/* UCXPOOL_ERR_IO and others of the system's. */
ucxpool_status_t pool_descriptors_init(ucxpool_t *pool);
void             pool_descriptors_cleanup(ucxpool_t *pool);

#endif
