/*
 * What the pool knows of the UCX below it. A pool can be created without any of
 * this.
 */
#ifndef UCXPOOL_UCX_H
#define UCXPOOL_UCX_H

#include <ucxpool/pool.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* What a memory domain of UCX is. */
typedef enum ucxpool_domain_flags {
    /* UCX has told what follows; else this is the only flag that is not there
     * for certain */
    UCXPOOL_DOMAIN_KNOWN      = 1u << 0,
    /* carries bytes between hosts */
    UCXPOOL_DOMAIN_NETWORK    = 1u << 1,
    /* takes memory of the kind that UCX is given by this pool */
    UCXPOOL_DOMAIN_REGISTERS  = 1u << 2,
    /* moves nothing that it has not registered */
    UCXPOOL_DOMAIN_NEEDS_KEYS = 1u << 3,
    /* a pool with a region that it has not registered is not created */
    UCXPOOL_DOMAIN_NEEDED     = 1u << 4
} ucxpool_domain_flags_t;

/* A memory domain: a part of UCX that registers memory, such as one network
 * card. */
typedef struct ucxpool_domain {
    char     name[64];      /* "mlx5_0", "tcp"                               */
    char     component[32]; /* of UCX: "ib", "tcp"                           */
    uint32_t flags;         /* set of ucxpool_domain_flags_t                 */
    uint32_t num_regions;   /* that it has registered: their keys say so     */
} ucxpool_domain_t;

/*
 * The memory domains of the pool's UCX context, and what each has registered.
 *
 * ucp_mem_map() says OK as soon as one domain has taken a region, though a
 * network card may have refused it, which the first send would show. So
 * ucxpool_create() looks into the remote key that UCX packs for each region,
 * and fails where a domain is missing that is needed: a network that takes such
 * memory and moves nothing else. On memory of a GPU one network is enough for
 * the first region, because UCX may leave others out that are far from the GPU;
 * what has the first region must have all.
 *
 * domains [out]  At most max_domains are written. NULL is allowed with 0.
 *
 * Returns how many there are: 0 where this UCX's keys or the names of its
 * domains cannot be read, and nothing was verified but that there are keys.
 */
size_t ucxpool_domains_query(ucxpool_t *pool, ucxpool_domain_t *domains,
                             size_t max_domains);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
