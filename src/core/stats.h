/*
 * What a pool has done and what it holds.
 */
#ifndef CORE_STATS_H
#define CORE_STATS_H

#include "block/pool.h"
#include "heap/heap.h"

#include <ucxpool/pool.h>

/* How the bytes of a message went. */
typedef enum core_mode {
    CORE_MODE_EAGER       = 0, /* with the descriptor */
    CORE_MODE_MAP_PACKED  = 1, /* map wire, through a block */
    CORE_MODE_MAP_INPLACE = 2, /* map wire, from registered memory */
    CORE_MODE_UCX_PACKED  = 3, /* ucx wire, through a block */
    CORE_MODE_UCX_INPLACE = 4, /* ucx wire, from or to where they belong */
    CORE_MODE_MAP_PUSHED  = 5, /* map wire, into a block that was lent */
    CORE_MODE_LAST
} core_mode_t;

typedef struct core_traffic {
    uint64_t bytes;
    uint64_t fragments; /* wire operations */
} core_traffic_t;

typedef struct core_stats {
    uint64_t block_size;
    uint64_t num_regions;
    uint64_t registered_bytes;
    uint64_t registrations;             /* ucp_mem_map calls, ever */
    uint64_t registrations_after_start; /* once there was a channel */
    uint64_t domains_needed;            /* UCX's memory domains that have
                                           to register all; see ucx.h */
    uint64_t       regions_verified;    /* that they have registered */
    block_stats_t  blocks[BLOCK_SHARE_LAST];
    core_traffic_t sent[CORE_MODE_LAST];
    core_traffic_t received[CORE_MODE_LAST];
    uint64_t       messages_sent;
    uint64_t       messages_received;
    uint64_t       messages_failed;      /* requests ended in an error */
    uint64_t       messages_refused;     /* negative replies sent */
    uint64_t       copies_avoided_bytes; /* sent or received in place */
    uint64_t       blocked_ns;           /* time requests waited for blocks */
    uint64_t       channels_open;
    uint64_t       channels_failed;
    uint64_t       handshakes_refused;
    uint64_t       allocations;     /* heap allocations made by transfers */
    uint64_t       registration_ns; /* time that registrations took */
    uint64_t       budget_bytes;    /* what BAR1 lets COMM_SIZE=auto have;
                                       0: no limit, or not asked */
    uint64_t bytes_asked;           /* of blocks; less stands in
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

    /* Windows with UCX, for peers that get and put. */
    uint64_t window_registered_bytes;
    uint64_t window_registrations;
    uint64_t window_registrations_refused; /* by UCX, or WINDOW_BUDGET */
} core_stats_t;

/* Take a snapshot. */
void core_stats_get(ucxpool_t *pool, core_stats_t *stats_p);

/* The same of the heap; all is 0 before the first allocation. */
void core_heap_stats_get(ucxpool_t *pool, heap_stats_t *stats_p);

#endif
