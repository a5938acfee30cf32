/*
 * Registration of regions with verbs: one memory region of verbs per region of
 * ours, in one protection domain, never repeated.
 *
 *     host memory, pinned or not   ibv_reg_mr
 *     memory of a GPU              ibv_reg_dmabuf_mr, of a file that the CUDA
 *                                  driver makes; where it makes none,
 *                                  ibv_reg_mr, if the kernel has a module that
 *                                  knows a GPU's addresses (nvidia-peermem)
 *
 * Which of the two a GPU's memory goes by is decided by the first region.
 *
 * libibverbs is loaded by name when somebody registers: it is the one that the
 * caller has its protection domain from, and so is in the process already. One
 * binary serves machines with and without it. Built without its headers, each
 * function here answers that it is not there (reg_verbs_none.c).
 */
#ifndef MEM_REG_VERBS_H
#define MEM_REG_VERBS_H

#include "base/config.h"
#include "mem/region.h"

struct ibv_pd;

/* Names another library to load, in place of the one that is in the process;
 * as UCXPOOL_CUDA_DRIVER does. */
#define MEM_VERBS_LIBRARY_VARIABLE BASE_VARIABLE_VERBS_LIBRARY

/* How a region was registered. */
typedef enum mem_verbs_way {
    MEM_VERBS_HOST,   /* memory of the host */
    MEM_VERBS_DMABUF, /* a GPU's, by a file */
    MEM_VERBS_PEER,   /* a GPU's, by its addresses */
    MEM_VERBS_WAYS
} mem_verbs_way_t;

/* What is registered, added up over all that share the counts; atomic. */
typedef struct mem_verbs_counts {
    uint64_t num_regions[MEM_VERBS_WAYS];
    uint64_t bytes[MEM_VERBS_WAYS];
    uint64_t num_calls; /* that registered a region, ever */
    uint64_t ns;        /* that these took */
} mem_verbs_counts_t;

typedef struct mem_verbs mem_verbs_t;

/*
 * Register every region.
 *
 * regions, counts  Outlive it.
 * access           Set of IBV_ACCESS_*.
 *
 * After an error no region is registered. The detail names the region, how much
 * had been registered, the system's words and what to change.
 *
 * UCXPOOL_ERR_INVALID_PARAM  flags that do not go together, or that regions
 *                            cannot have; or the device refused these
 * UCXPOOL_ERR_UNSUPPORTED    no libibverbs, or the device takes no such memory
 * UCXPOOL_ERR_NO_MEMORY      over the limit of locked memory, or no room in the
 *                            device, in BAR1, or for the bookkeeping
 * UCXPOOL_ERR_LIMIT          over the device's or the control group's number
 * UCXPOOL_ERR_PERMISSION     the system does not allow it
 * UCXPOOL_ERR_IO             another error
 */
ucxpool_status_t mem_verbs_create(const mem_regions_t *regions,
                                  struct ibv_pd *pd, int access,
                                  mem_verbs_counts_t *counts,
                                  mem_verbs_t       **verbs_p);

/*
 * Deregister every region that is registered, the last one first.
 *
 * UCXPOOL_ERR_IO  the device keeps some, because memory windows are bound to
 *                 them; the others are deregistered. May be called again
 */
ucxpool_status_t mem_verbs_deregister(mem_verbs_t *verbs);

/* Regions that the device has kept stay registered. NULL is allowed. */
void mem_verbs_destroy(mem_verbs_t *verbs);

/* The keys of a region. False when it is deregistered. */
bool mem_verbs_keys(const mem_verbs_t *verbs, uint32_t region, uint32_t *lkey_p,
                    uint32_t *rkey_p);

#endif
