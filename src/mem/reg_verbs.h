/*
 * Registration of regions with verbs: one verbs memory region per region, in
 * one protection domain, registered once.
 *
 *     host memory, pinned or not   ibv_reg_mr
 *     GPU memory                   ibv_reg_dmabuf_mr, if the CUDA driver can
 *                                  export the memory as a file. Otherwise
 *                                  ibv_reg_mr, which needs a kernel module that
 *                                  supports GPU addresses (nvidia-peermem)
 *
 * The registration of the first GPU region determines which of these two
 * functions is used for all GPU regions.
 *
 * libibverbs is looked up by name at registration. It is already loaded then,
 * because it created the caller's protection domain. The same binary runs on
 * machines with and without libibverbs. Builds without its headers use
 * reg_verbs_none.c, in which registration returns UCXPOOL_ERR_UNSUPPORTED.
 */
#ifndef MEM_REG_VERBS_H
#define MEM_REG_VERBS_H

#include "base/config.h"
#include "mem/region.h"

struct ibv_pd;

/* Names the variable that selects a library to load, instead of the libibverbs
 * that is already loaded. */
#define MEM_VERBS_LIBRARY_VARIABLE BASE_VARIABLE_VERBS_LIBRARY

/* How a region was registered. */
typedef enum mem_verbs_way {
    MEM_VERBS_HOST,   /* host memory */
    MEM_VERBS_DMABUF, /* GPU memory, by dmabuf */
    MEM_VERBS_PEER,   /* GPU memory, by address */
    MEM_VERBS_WAYS
} mem_verbs_way_t;

/* Totals of all registrations that share this struct. The members are
 * atomic. */
typedef struct mem_verbs_counts {
    uint64_t num_regions[MEM_VERBS_WAYS];
    uint64_t bytes[MEM_VERBS_WAYS];
    uint64_t num_calls; /* registrations of regions so far */
    uint64_t ns;        /* total time of these registrations */
} mem_verbs_counts_t;

typedef struct mem_verbs mem_verbs_t;

/*
 * Register every region.
 *
 * regions, counts  Must outlive the registration.
 * access           Set of IBV_ACCESS_*.
 *
 * After an error no region is registered. The detail gives the region, the
 * system's error text and what to change.
 *
 * UCXPOOL_ERR_INVALID_PARAM  flags that conflict, or that regions do not
 *                            support; or the device rejected the flags
 * UCXPOOL_ERR_UNSUPPORTED    no libibverbs, or the device does not support this
 *                            memory
 * UCXPOOL_ERR_NO_MEMORY      over the limit of locked memory, or no memory in
 *                            the device, in BAR1, or for the bookkeeping
 * UCXPOOL_ERR_LIMIT          over the region limit of the device or control
 *                            group
 * UCXPOOL_ERR_PERMISSION     not permitted by the system
 * UCXPOOL_ERR_IO             other error
 */
ucxpool_status_t mem_verbs_create(const mem_regions_t *regions,
                                  struct ibv_pd *pd, int access,
                                  mem_verbs_counts_t *counts,
                                  mem_verbs_t       **verbs_p);

/*
 * Deregister all registered regions, in reverse order.
 *
 * UCXPOOL_ERR_IO  memory windows are bound to some regions, which stay
 *                 registered; the others are deregistered. The caller may call
 *                 this function again
 */
ucxpool_status_t mem_verbs_deregister(mem_verbs_t *verbs);

/* Free the object. Regions that are still registered stay registered. NULL is
 * allowed. */
void mem_verbs_destroy(mem_verbs_t *verbs);

/* Get the keys of a region. Returns false if the region is not registered. */
bool mem_verbs_keys(const mem_verbs_t *verbs, uint32_t region, uint32_t *lkey_p,
                    uint32_t *rkey_p);

#endif
