/* The counters and the state of a pool. */
#ifndef CORE_STATS_H
#define CORE_STATS_H

#include "block/pool.h"
#include "heap/heap.h"

#include <ucxpool/window.h>

/* How the data of a message was transferred. */
typedef enum core_mode {
    CORE_MODE_EAGER       = 0, /* with the descriptor */
    CORE_MODE_MAP_PACKED  = 1, /* map wire, through a block */
    CORE_MODE_MAP_INPLACE = 2, /* map wire, directly from registered memory */
    CORE_MODE_UCX_PACKED  = 3, /* ucx wire, through a block */
    CORE_MODE_UCX_INPLACE = 4, /* ucx wire, directly from or to user memory */
    CORE_MODE_MAP_PUSHED  = 5, /* map wire, into a granted block */
    CORE_MODE_LAST
} core_mode_t;

typedef struct core_traffic {
    uint64_t bytes;
    uint64_t fragments; /* wire operations */
} core_traffic_t;

/* The number of values of ucxpool_way_t. */
#define CORE_NUM_WAYS ((unsigned)UCXPOOL_WAY_RMA + 1)

/* The counters of a channel. All members are of uint64_t, so that sums
 * need no list of them. */
typedef struct core_counters {
    uint64_t       messages_sent;
    uint64_t       messages_received;
    uint64_t       messages_failed;      /* requests that ended with an error */
    uint64_t       messages_refused;     /* negative replies sent */
    uint64_t       copies_avoided_bytes; /* sent or received in place */
    uint64_t       block_waits;          /* of sends, for a block */
    uint64_t       blocked_ns;           /* their duration */
    uint64_t       credit_waits; /* of a channel's first send, for a credit */
    uint64_t       credit_wait_ns;
    core_traffic_t sent[CORE_MODE_LAST];
    core_traffic_t received[CORE_MODE_LAST];
    /* Of windows, by ucxpool_way_t; fragments are reads and writes. */
    core_traffic_t read[CORE_NUM_WAYS];
    core_traffic_t written[CORE_NUM_WAYS];
} core_counters_t;

typedef struct core_stats {
    /* In a pool: what was counted without a channel, and for channels that no
     * longer exist. In a snapshot: these and all channels. */
    core_counters_t counts;
    uint64_t        block_size;
    uint64_t        num_regions;
    uint64_t        registered_bytes;
    uint64_t        registrations;             /* total ucp_mem_map calls */
    uint64_t        registrations_after_start; /* since the first channel */
    uint64_t        domains_needed; /* UCX's memory domains that must register
                                       all memory; see ucx/reg.h */
    uint64_t      regions_verified; /* registered in these domains */
    block_stats_t blocks[BLOCK_SHARE_LAST];
    uint64_t      channels_open;
    uint64_t      channels_failed;
    uint64_t      handshakes_refused;
    uint64_t      allocations;     /* heap allocations of transfers */
    uint64_t      registration_ns; /* duration of registrations */
    uint64_t      budget_bytes;    /* BAR1 limit of COMM_SIZE=auto; 0: none, or
                                      not queried */
    uint64_t bytes_asked;          /* for blocks; registered_bytes is less if
                                      the pool was degraded */
    uint64_t           blocks_asked;
    uint64_t           degradations; /* failed attempts to create the memory */
    ucxpool_degraded_t degraded_to;
    char               degraded_why[192]; /* the first failure; or "" */

    /* Registrations by ucxpool_verbs_register() in all protection domains; a
     * region in two domains counts twice. */
    uint64_t verbs_domains;
    uint64_t verbs_registrations; /* of regions, in total */
    uint64_t verbs_register_ns;   /* their duration */
    uint64_t verbs_host_regions;  /* with ibv_reg_mr */
    uint64_t verbs_host_bytes;
    uint64_t verbs_dmabuf_regions; /* GPU memory, with ibv_reg_dmabuf_mr */
    uint64_t verbs_dmabuf_bytes;
    uint64_t verbs_peer_regions; /* GPU memory, with ibv_reg_mr */
    uint64_t verbs_peer_bytes;

    /* Registrations of windows with UCX, for get and put by peers. */
    uint64_t window_registered_bytes;
    uint64_t window_registrations;
    uint64_t window_registrations_refused; /* by UCX, or WINDOW_BUDGET */
} core_stats_t;

/* Add one channel's counters to others. */
void core_counters_add(core_counters_t *to, const core_counters_t *from);

/* Take a snapshot. */
void core_stats_get(ucxpool_t *pool, core_stats_t *stats_p);

/* Take a snapshot of the heap's statistics; all are 0 before the first
 * allocation. */
void core_heap_stats_get(ucxpool_t *pool, heap_stats_t *stats_p);

#endif
