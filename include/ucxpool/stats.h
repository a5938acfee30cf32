/*
 * What a pool has done and what it holds.
 */
#ifndef UCXPOOL_STATS_H
#define UCXPOOL_STATS_H

#include <ucxpool/pool.h>

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Who blocks are for: the three shares of the pool. */
typedef enum ucxpool_share {
    UCXPOOL_SHARE_SEND = 0,
    UCXPOOL_SHARE_RECV = 1,
    UCXPOOL_SHARE_USER = 2,
    UCXPOOL_SHARE_LAST
} ucxpool_share_t;

/* total == free + held + quarantined, at any moment. */
typedef struct ucxpool_share_stats {
    uint64_t total;
    uint64_t free;
    uint64_t held;
    uint64_t quarantined;
    uint64_t high_water; /* most blocks not free at one time */
} ucxpool_share_stats_t;

/* How the bytes of a message went. */
typedef enum ucxpool_mode {
    UCXPOOL_MODE_EAGER       = 0, /* with the descriptor */
    UCXPOOL_MODE_MAP_PACKED  = 1, /* map wire, through a block */
    UCXPOOL_MODE_MAP_INPLACE = 2, /* map wire, from registered memory */
    UCXPOOL_MODE_UCX_PACKED  = 3, /* ucx wire, through a block */
    UCXPOOL_MODE_UCX_INPLACE = 4, /* ucx wire, from or to where they belong */
    UCXPOOL_MODE_LAST
} ucxpool_mode_t;

typedef struct ucxpool_traffic {
    uint64_t bytes;
    uint64_t fragments; /* wire operations */
} ucxpool_traffic_t;

/* What a pool became that could not have what it asked for. */
typedef enum ucxpool_degraded {
    UCXPOOL_DEGRADED_NONE   = 0,
    UCXPOOL_DEGRADED_FEWER  = 1, /* fewer blocks */
    UCXPOOL_DEGRADED_PINNED = 2  /* on a GPU: pinned host memory, in place of
                                    the GPU's */
} ucxpool_degraded_t;

typedef struct ucxpool_stats {
    uint64_t block_size;
    uint64_t num_regions;
    uint64_t registered_bytes;
    uint64_t registrations; /* ucp_mem_map calls, ever */
    uint64_t registrations_after_start;
    uint64_t domains_needed;                /* UCX's memory domains that have
                                               to register all; see ucx.h */
    uint64_t              regions_verified; /* that they have registered */
    ucxpool_share_stats_t blocks[UCXPOOL_SHARE_LAST];
    ucxpool_traffic_t     sent[UCXPOOL_MODE_LAST];
    ucxpool_traffic_t     received[UCXPOOL_MODE_LAST];
    uint64_t              messages_sent;
    uint64_t              messages_received;
    uint64_t              messages_failed;      /* requests ended in an error */
    uint64_t              messages_refused;     /* negative replies sent */
    uint64_t              copies_avoided_bytes; /* sent or received in place */
    uint64_t              blocked_ns; /* time requests waited for blocks */
    uint64_t              channels_open;
    uint64_t              channels_failed;
    uint64_t              handshakes_refused;
    uint64_t              allocations; /* heap allocations made by transfers */
    uint64_t              registration_ns; /* time that registrations took, at
                                              the start */
    uint64_t budget_bytes; /* what BAR1 lets COMM_SIZE=auto have;
                              0: no limit, or not asked */
    uint64_t bytes_asked;  /* of blocks; less stands in
                              registered_bytes after degradation */
    uint64_t           blocks_asked;
    uint64_t           degradations; /* attempts to create that failed */
    ucxpool_degraded_t degraded_to;
    char               degraded_why[192]; /* the first failure; else "" */

    /* By ucxpool_verbs_register(), in all protection domains together: a region
     * that is registered in two counts twice. */
    uint64_t verbs_domains;
    uint64_t verbs_registrations; /* of a region, ever */
    uint64_t verbs_register_ns;   /* that these took */
    uint64_t verbs_host_regions;  /* by ibv_reg_mr */
    uint64_t verbs_host_bytes;
    uint64_t verbs_dmabuf_regions; /* GPU, by ibv_reg_dmabuf_mr */
    uint64_t verbs_dmabuf_bytes;
    uint64_t verbs_peer_regions; /* GPU, by ibv_reg_mr */
    uint64_t verbs_peer_bytes;
} ucxpool_stats_t;

/* Take a snapshot. */
void ucxpool_stats_get(ucxpool_t *pool, ucxpool_stats_t *stats_p);

typedef enum ucxpool_stats_format {
    UCXPOOL_STATS_TEXT        = 0,
    UCXPOOL_STATS_JSON        = 1, /* one object */
    UCXPOOL_STATS_OPENMETRICS = 2  /* metric families, ends with # EOF */
} ucxpool_stats_format_t;

/* Print a snapshot. The pool's name is a label (OpenMetrics) or a field. */
void ucxpool_stats_print(ucxpool_t *pool, FILE *stream,
                         ucxpool_stats_format_t format);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
