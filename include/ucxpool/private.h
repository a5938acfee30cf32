/*
 * What ucxpool_info and libucxpool-framework ask the library beyond its API:
 * not installed, and exported under the version UCXPOOL_PRIVATE, so that it may
 * change with every release. Both are always those of the library's own build.
 */
#ifndef UCXPOOL_PRIVATE_H
#define UCXPOOL_PRIVATE_H

#include <ucxpool/device.h>
#include <ucxpool/pool.h>
#include <ucxpool/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* --- errors -----------------------------------------------------------------
 */

/* Set what ucxpool_error_detail() returns in the calling thread, log it, and
 * return the status. */
ucxpool_status_t ucxpool_error_set(ucxpool_status_t status, const char *format,
                                   ...) __attribute__((format(printf, 2, 3)));

/* At which level the calling thread's errors are logged. */
typedef enum ucxpool_error_level {
    UCXPOOL_ERROR_LEVEL_WARN  = 2, /* nobody is returned them */
    UCXPOOL_ERROR_LEVEL_INFO  = 3, /* the caller decides what to do: default */
    UCXPOOL_ERROR_LEVEL_DEBUG = 4  /* the answer to a question */
} ucxpool_error_level_t;

/* Returns what it was, to be put back. */
ucxpool_error_level_t ucxpool_error_set_level(ucxpool_error_level_t level);

/* --- streams ----------------------------------------------------------------
 */

/*
 * Let a stream of the library's on a GPU wait for all that is now in a stream
 * and in some more: what is freed in it is free when they have all come so far,
 * and none of them waits.
 *
 * stream_p [out]  The library's stream. It lives until the process ends.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such GPU
 * others                     the driver's; the stream may then wait for some
 */
ucxpool_status_t ucxpool_device_join_streams(int device, void *stream,
                                             void *const *streams,
                                             size_t       num_streams,
                                             void       **stream_p);

/* Wait here for all work on a GPU. */
void ucxpool_device_synchronize(int device);

/* --- forks ------------------------------------------------------------------
 */

/* Is this process a child, forked from the one that the pool belongs to? */
bool ucxpool_is_foreign(const ucxpool_t *pool);

/* --- memory domains ---------------------------------------------------------
 */

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

/* --- peer timeouts ----------------------------------------------------------
 */

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
 * docs/internals/architecture.md has the arithmetic.
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

/* --- the budget of a GPU ----------------------------------------------------
 */

/* Where the size of BAR1 comes from. */
typedef enum ucxpool_bar1_source {
    UCXPOOL_BAR1_UNKNOWN = 0,
    UCXPOOL_BAR1_NVML    = 1, /* NVIDIA's management library */
    UCXPOOL_BAR1_KERNEL  = 2, /* the PCI resources; how much is used is not
                                 known */
    UCXPOOL_BAR1_NONE = 3     /* this GPU has none: it shares its memory with
                                 the processor */
} ucxpool_bar1_source_t;

/* No limit, or none that is known. */
#define UCXPOOL_BUDGET_NONE UINT64_MAX

/*
 * How the memory for the blocks of a pool on a GPU is reckoned:
 *
 *     limit = min(usable - others, bar1_free) - reserve
 *
 * and with COMM_SIZE=auto that is the most that comm_size can be.
 */
typedef struct ucxpool_device_budget {
    ucxpool_bar1_source_t bar1_source;
    uint64_t              bar1_size; /* bytes; 0: not known, or none */
    uint64_t              bar1_used; /* by the driver and all processes */
    uint64_t              bar1_free;
    char                  bar1_reason[224]; /* why NVML did not tell; else "" */
    int                   num_nvlinks;      /* active; -1: not known */

    /* What registrations can have of it: the preset, or a rule. */
    uint64_t usable;           /* UCXPOOL_BUDGET_NONE: not bounded */
    char     usable_from[192]; /* which, in words */
    /* What is held now, above the few MiB that a driver holds on a GPU that
     * nobody uses. By whom is not known. */
    uint64_t others;
    uint64_t reserve;         /* COMM_RESERVE */
    int      reserve_is_auto; /* 0 or 1 */
    uint64_t limit;           /* UCXPOOL_BUDGET_NONE: not bounded */

    /* What a pool takes with these settings, if it gets it. */
    ucxpool_cuda_backing_t backing;
    int                    uses_bar1; /* its blocks are in the GPU's memory */
    int                    is_registered; /* UCX is given them */
    int                    is_comm_size_auto;
    uint64_t               comm_size;
    uint64_t               block_size;
    uint64_t               region_size;
    uint64_t               num_regions;
    uint64_t               blocks_to_send;
    uint64_t               blocks_to_receive;
    uint64_t               blocks_for_the_caller;

    /* What others may take of BAR1 beside it. */
    uint64_t ucx_staging_step; /* UCX's own buffers in GPU memory grow by so
                                  much; 0: this UCX takes none */
    int has_gdr_copy;          /* the kernel module that UCX's gdr_copy needs
                                  is loaded */
    int has_rdma_device;       /* a device that memory is registered with */
} ucxpool_device_budget_t;

/*
 * The arithmetic of one GPU's budget. Nothing is allocated or registered, but
 * NVIDIA's management library is loaded and UCX started, for a moment.
 *
 * device        From 0.
 * config        Settings; NULL: as ucxpool_config_read() has them.
 * budget_p      Undefined after an error.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such GPU, budget_p is NULL, sizes that do not
 *                            fit each other, or BUDGET_FILE is wrong; without
 *                            config: as for ucxpool_config_read()
 * UCXPOOL_ERR_UNSUPPORTED    there is no GPU, as for ucxpool_device_count(), or
 *                            it has not what CUDA_BACKING asks for
 * others                     UCX does not start
 */
ucxpool_status_t ucxpool_device_budget(int                      device,
                                       const ucxpool_config_t  *config,
                                       ucxpool_device_budget_t *budget_p);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
