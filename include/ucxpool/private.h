/*
 * Functions that ucxpool_info and libucxpool-framework need beyond the API.
 * This header is not installed, and the functions are exported under the
 * version UCXPOOL_PRIVATE, so they may change with every release. ucxpool_info
 * and libucxpool-framework are always from the same build as the library.
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

/* Set the result of ucxpool_error_detail() in the calling thread, log it, and
 * return the status. */
ucxpool_status_t ucxpool_error_set(ucxpool_status_t status, const char *format,
                                   ...) __attribute__((format(printf, 2, 3)));

/* The level at which the calling thread's errors are logged. */
typedef enum ucxpool_error_level {
    UCXPOOL_ERROR_LEVEL_WARN  = 2, /* no caller can see the errors */
    UCXPOOL_ERROR_LEVEL_INFO  = 3, /* the caller handles them: default */
    UCXPOOL_ERROR_LEVEL_DEBUG = 4  /* the caller expects errors */
} ucxpool_error_level_t;

/* Set the level for the calling thread. Returns the previous level, which the
 * caller restores afterwards. */
ucxpool_error_level_t ucxpool_error_set_level(ucxpool_error_level_t level);

/* --- streams ----------------------------------------------------------------
 */

/*
 * Make one of the library's streams on a GPU wait for all work that is now in
 * `stream` and in the streams of an array. Memory that is freed in the returned
 * stream can be reused after all of that work. The streams of the caller do not
 * wait.
 *
 * stream_p [out]  The library's stream, which exists until the process ends.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such GPU
 * others                     the driver failed; the stream may then wait for a
 *                            part of the work
 */
ucxpool_status_t ucxpool_device_join_streams(int device, void *stream,
                                             void *const *streams,
                                             size_t       num_streams,
                                             void       **stream_p);

/* Wait for all work on a GPU. */
void ucxpool_device_synchronize(int device);

/* --- forks ------------------------------------------------------------------
 */

/* Returns true in a forked child of the process that owns the pool. */
bool ucxpool_is_foreign(const ucxpool_t *pool);

/* --- memory domains ---------------------------------------------------------
 */

/* Properties of a memory domain of UCX. */
typedef enum ucxpool_domain_flags {
    /* UCX has reported the properties below; if this flag is clear, the flags
     * below mean nothing */
    UCXPOOL_DOMAIN_KNOWN = 1u << 0,
    /* can transfer data between hosts */
    UCXPOOL_DOMAIN_NETWORK = 1u << 1,
    /* can register memory of the kind that this pool passes to UCX */
    UCXPOOL_DOMAIN_REGISTERS = 1u << 2,
    /* can only transfer memory that it has registered */
    UCXPOOL_DOMAIN_NEEDS_KEYS = 1u << 3,
    /* must register every region, or ucxpool_create() fails */
    UCXPOOL_DOMAIN_NEEDED = 1u << 4
} ucxpool_domain_flags_t;

/* A memory domain: a part of UCX that registers memory, such as one network
 * card. */
typedef struct ucxpool_domain {
    char     name[64];      /* "mlx5_0", "tcp" */
    char     component[32]; /* of UCX: "ib", "tcp" */
    uint32_t flags;         /* set of ucxpool_domain_flags_t */
    uint32_t num_regions;   /* regions registered, according to the keys */
} ucxpool_domain_t;

/*
 * List the memory domains of the pool's UCX context, and the regions that each
 * has registered.
 *
 * ucp_mem_map() succeeds as soon as one domain has registered a region, even if
 * a network card has refused it. The first send would then fail. Therefore
 * ucxpool_create() inspects the remote key that UCX packs for each region, and
 * fails if a needed domain is missing. A domain is needed if it belongs to a
 * network that can register such memory and can transfer only registered
 * memory. For GPU memory it is enough that one network has registered the first
 * region, because UCX may leave out network cards that are far from the GPU.
 * Every domain that has registered the first region must have registered all
 * regions.
 *
 * domains [out]  Array of max_domains; as many as fit are written. May be NULL
 *                if max_domains is 0.
 *
 * Returns the number of domains, or 0 if the library cannot read the keys of
 * this UCX or the names of its domains. In that case ucxpool_create() has
 * verified only that the keys exist.
 */
size_t ucxpool_domains_query(ucxpool_t *pool, ucxpool_domain_t *domains,
                             size_t max_domains);

/* --- peer timeouts ----------------------------------------------------------
 */

/*
 * How soon UCX detects the loss of a peer, for one transport. When a process
 * ends, its TCP connections close, and its peers detect this at once. On one
 * host the `map` wire also detects the end of a process at once. The times
 * below apply to failures without such a signal: of a host, of a link, and of
 * any process whose transport runs on a network card. They apply while a thread
 * progresses the pool. UINT64_MAX: unknown, or never.
 *
 *   idle  no data is in flight to the peer
 *   busy  data is in flight
 *
 * docs/internals/connecting.md explains the calculation.
 */
typedef struct ucxpool_peer_timeout {
    char transport[16]; /* "tcp", "rc_verbs" */
    /* In a context created by the pool. The time is PEER_TIMEOUT if the
     * transport and the environment allow it. */
    uint64_t idle_ns;
    uint64_t busy_ns;
    /* In a context of the caller, which does not report its settings. The times
     * assume that the context uses UCX's settings unchanged (defaults,
     * environment, ucx.conf) and, for TCP, that it has UCP_FEATURE_WAKEUP. */
    uint64_t borrowed_idle_ns;
    uint64_t borrowed_busy_ns;
    /* The settings that cause the difference, as environment variables
     * separated by spaces. (From UCX 1.17 on, ucp_config_modify() takes the
     * same names without UCX_.) */
    char settings[192];
} ucxpool_peer_timeout_t;

/*
 * List the transports of this machine whose settings are known.
 *
 * config          NULL: as from ucxpool_config_read(). Used for PEER_TIMEOUT.
 * timeouts [out]  Array of max_timeouts; as many as fit are written. May be
 *                 NULL if max_timeouts is 0.
 * num_p [out]     Number of transports.
 *
 * Starts UCX temporarily.
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

/* Source of the size of BAR1. */
typedef enum ucxpool_bar1_source {
    UCXPOOL_BAR1_UNKNOWN = 0,
    UCXPOOL_BAR1_NVML    = 1, /* NVIDIA's management library */
    UCXPOOL_BAR1_KERNEL  = 2, /* the PCI resources; the used part is unknown */
    UCXPOOL_BAR1_NONE    = 3  /* this GPU has no BAR1: it shares its memory with
                                 the CPU */
} ucxpool_bar1_source_t;

/* No limit, or the limit is unknown. */
#define UCXPOOL_BUDGET_NONE UINT64_MAX

/*
 * The calculation of the memory for the blocks of a pool on a GPU:
 *
 *     limit = min(usable - others, bar1_free) - reserve
 *
 * With COMM_SIZE=auto, comm_size is at most this limit.
 */
typedef struct ucxpool_device_budget {
    ucxpool_bar1_source_t bar1_source;
    uint64_t              bar1_size; /* bytes; 0: unknown, or no BAR1 */
    uint64_t              bar1_used; /* by the driver and all processes */
    uint64_t              bar1_free;
    char                  bar1_reason[224]; /* why NVML has no value; or "" */
    int                   num_nvlinks;      /* active; -1: unknown */

    /* Bytes of BAR1 that registrations can use, from a preset or a rule. */
    uint64_t usable;           /* UCXPOOL_BUDGET_NONE: unlimited */
    char     usable_from[192]; /* the preset or rule, in words */
    /* Bytes in use now, beyond the few MiB that the driver holds on an idle
     * GPU. The users are unknown. */
    uint64_t others;
    uint64_t reserve;         /* COMM_RESERVE */
    int      reserve_is_auto; /* 0 or 1 */
    uint64_t limit;           /* UCXPOOL_BUDGET_NONE: unlimited */

    /* The memory that a pool would allocate with these settings. */
    ucxpool_cuda_backing_t backing;
    int                    uses_bar1; /* its blocks are in the GPU's memory */
    int                    is_registered; /* registered with UCX */
    int                    is_comm_size_auto;
    uint64_t               comm_size;
    uint64_t               block_size;
    uint64_t               region_size;
    uint64_t               num_regions;
    uint64_t               blocks_to_send;
    uint64_t               blocks_to_receive;
    uint64_t               blocks_for_the_caller;

    /* Other users of BAR1. */
    uint64_t ucx_staging_step; /* UCX's own buffers in GPU memory grow in steps
                                  of this size; 0: UCX uses none */
    int has_gdr_copy;          /* the kernel module for UCX's gdr_copy is
                                  loaded */
    int has_rdma_device;       /* there is an RDMA device, with which memory is
                                  registered */
} ucxpool_device_budget_t;

/*
 * Calculate the budget of one GPU. Allocates and registers nothing, but
 * temporarily loads NVIDIA's management library and starts UCX.
 *
 * device        Number of the GPU, from 0.
 * config        Settings; NULL: as from ucxpool_config_read().
 * budget_p      Undefined after an error.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such GPU, budget_p is NULL, sizes that
 *                            contradict each other, or BUDGET_FILE is invalid;
 *                            without config: as for ucxpool_config_read()
 * UCXPOOL_ERR_UNSUPPORTED    there is no GPU, as for ucxpool_device_count(), or
 *                            it lacks a feature that CUDA_BACKING needs
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
