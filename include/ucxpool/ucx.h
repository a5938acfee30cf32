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
    UCXPOOL_DOMAIN_KNOWN = 1u << 0,
    /* carries bytes between hosts */
    UCXPOOL_DOMAIN_NETWORK = 1u << 1,
    /* takes memory of the kind that UCX is given by this pool */
    UCXPOOL_DOMAIN_REGISTERS = 1u << 2,
    /* moves nothing that it has not registered */
    UCXPOOL_DOMAIN_NEEDS_KEYS = 1u << 3,
    /* a pool with a region that it has not registered is not created */
    UCXPOOL_DOMAIN_NEEDED = 1u << 4
} ucxpool_domain_flags_t;

/* A memory domain: a part of UCX that registers memory, such as one network
 * card. */
typedef struct ucxpool_domain {
    char     name[64];      /* "mlx5_0", "tcp" */
    char     component[32]; /* of UCX: "ib", "tcp" */
    uint32_t flags;         /* set of ucxpool_domain_flags_t */
    uint32_t num_regions;   /* that it has registered: their keys say so */
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

/*
 * How soon UCX notices that a peer is gone, with one transport. A process that
 * ends closes its TCP connections, which its peers see at once; and on one host
 * the `map` wire sees its end at once. These are times for what ends without a
 * word: a host, a link, and any process where a network card does the work.
 * They count while somebody makes progress; UINT64_MAX: not known, or never.
 *
 *   idle  nothing is on its way to the peer
 *   busy  something is
 *
 * docs/design.md has the arithmetic.
 */
typedef struct ucxpool_peer_timeout {
    char transport[16]; /* "tcp", "rc_verbs" */
    /* In a context that the pool makes: PEER_TIMEOUT, where the transport and
     * the environment allow. */
    uint64_t idle_ns;
    uint64_t busy_ns;
    /* In a context that the caller brings, if it has UCX's settings as they are
     * (defaults, environment, ucx.conf). The context itself does not tell. Over
     * TCP it must have UCP_FEATURE_WAKEUP. */
    uint64_t borrowed_idle_ns;
    uint64_t borrowed_busy_ns;
    /* What makes the difference, as variables of the environment with blanks
     * between them. (From UCX 1.17 on, ucp_config_modify() takes the same names
     * without UCX_.) */
    char settings[192];
} ucxpool_peer_timeout_t;

/*
 * The transports of this machine whose settings are known.
 *
 * config          NULL: as ucxpool_config_read() has it. Used for PEER_TIMEOUT.
 * timeouts [out]  At most max_timeouts are written. NULL is allowed with 0.
 * num_p [out]     How many there are.
 *
 * Starts UCX for a moment.
 *
 * UCXPOOL_ERR_INVALID_PARAM  without config: as for ucxpool_config_read()
 * others                     UCX does not start
 */
ucxpool_status_t ucxpool_peer_timeouts_query(const ucxpool_config_t *config,
                                             ucxpool_peer_timeout_t *timeouts,
                                             size_t  max_timeouts,
                                             size_t *num_p);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
