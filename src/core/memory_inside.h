/*
 * What the files on a pool's memory share.
 */
#ifndef CORE_MEMORY_INSIDE_H
#define CORE_MEMORY_INSIDE_H

#include "core/degrade.h"
#include "core/pool.h"

/* The whole of it for a pool on a GPU; as core_memory_init(). */
ucxpool_status_t core_memory_create_gpu(ucxpool_t              *pool,
                                        const ucxpool_params_t *params);

/* A pool that has a heap alone; device -1: of the host. */
ucxpool_status_t core_memory_create_none(ucxpool_t *pool, int device);

/* Cut the pool's regions into blocks. */
ucxpool_status_t core_memory_create_blocks(ucxpool_t *pool);
void             core_memory_destroy_blocks(ucxpool_t *pool);

void core_memory_destroy_regions(ucxpool_t *pool, mem_regions_t *regions);

/* What the pool became, in its statistics; what is less than was asked for is
 * logged, once. */
void core_memory_report(ucxpool_t *pool, const mem_regions_t *regions,
                        const core_degrade_outcome_t *taken);

#endif
