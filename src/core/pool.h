/*
 * The pool as the transfers see it: what all files of this layer share.
 *
 * One lock guards everything here but the blocks. It is recursive, because UCX
 * calls handlers from inside its own functions, and because a caller who
 * progresses a borrowed worker reaches them with no lock held.
 *
 *     ucxpool
 *       channels.open       --> channel: endpoint, ring, credits
 *                                 sends[]    sends on their way
 *                                 receives[] receives in progress
 *       channels.events     --> channels and listeners that have something to
 *                               tell
 *       requests.runnable   --> requests that can go on
 *       requests.stalled    --> sends whose wire has no room
 *       requests.completed  --> ended requests whose callback is to be called
 *       requests.to_tell    --> ended requests whose completion is to be told
 *       windows             --> memory that peers read and write
 *       xfer                --> messages, and what sends and receives wait for
 */
#ifndef CORE_POOL_H
#define CORE_POOL_H

#include "base/config.h"
#include "base/list.h"
#include "base/lock.h"
#include "block/comm.h"
#include "block/pool.h"
#include "core/link.h"
#include "core/stats.h"
#include "mem/reg_verbs.h"
#include "ucx/child.h"
#include "ucx/context.h"
#include "ucx/peer_timeout.h"

#include <ucxpool/transfer.h>

#include <pthread.h>
#include <ucp/api/ucp.h>

#define CORE_ID_SIZE   16u
#define CORE_NAME_SIZE 32u

/* Rooms that messages outside of rings have. */
#define CORE_CONTROL_SIZES 3u

/* core/domains.h */
typedef struct core_domains {
    pthread_mutex_t    lock; /* of the list */
    base_list_t        list;
    uint64_t           num_domains; /* in the list; atomic */
    mem_verbs_counts_t counts;
} core_domains_t;

/* Where messages lie on their way. */
typedef struct core_pool_memory {
    mem_regions_t regions;
    block_pool_t *blocks;
    block_comm_t *comm;
    /* Where UCX does not know the GPU's memory: pinned blocks for its wire.
     * Elsewhere the same blocks. */
    mem_regions_t pinned_regions;
    block_pool_t *ucx_blocks;
} core_pool_memory_t;

/* Sleeping and waking; pool/sleep.c. */
typedef struct core_wakeup {
    int                 epoll_fd;  /* the others hang from it */
    int                 worker_fd; /* -1: no UCP_FEATURE_WAKEUP */
    int                 timer_fd;
    int                 event_fd;
    uint64_t            timer_moment; /* what the timer is set to */
    struct epoll_event *ready;        /* sources that are about to be called */
    int                 num_ready;
    ucx_child_t         child; /* what a forked one loses */
    ucx_tcp_watch_t     tcp_watch;
    bool                is_armed;     /* the peers were told */
    bool                is_ucx_armed; /* UCX's worker: its descriptor tells of
                                         all that is to come */
    bool            is_woken;         /* event_fd is readable; atomic */
    bool            has_many;         /* several threads have armed the pool */
    bool            was_armed;
    pthread_t       armed_by;     /* the last one; valid if was_armed */
    uint64_t        num_events;   /* see core_event_count(); atomic */
    uint64_t        num_seen;     /* of them, when the event loop looked last */
    bool            tells_events; /* it was asked to tell some; atomic */
    bool            tells_ends;   /* of requests, by completions; atomic */
    pthread_cond_t  leader_woke;
    pthread_mutex_t leader_lock; /* of num_wakes; taken after the pool's */
    bool            has_leader;  /* a thread sleeps on the descriptors; others
                                    that wait sleep on leader_woke */
    uint64_t num_wakes;          /* of leaders */
    uint64_t spin_ns; /* that a wait polls now: SPIN at most; atomic */
    /* See pool/nap.h; atomic. */
    const char *waiter;     /* base_lock_me of the thread that waited last */
    uint64_t    num_polls;  /* of other threads since */
    uint64_t    polled_at;  /* when the last one was */
    uint64_t    num_known;  /* of them, when the waiter looked last */
    unsigned    num_naps;   /* threads that leave the pool to them */
    uint64_t    nap_events; /* num_events when the last one began */
} core_wakeup_t;

typedef struct core_channels {
    base_list_t         open;
    base_list_t         gone;  /* that nobody refers to any more */
    ucxpool_channel_t **table; /* by number; NULL where free */
    uint32_t            table_size;
    uint32_t            count;
    uint32_t            num_read;       /* whose rings are, in this round */
    base_list_t         remotes;        /* pools there were channels to */
    base_list_t         endpoints;      /* of UCX */
    bool                endpoint_ended; /* one of theirs has; atomic */
    base_list_t         events;         /* to be told; see core/wakeup.h */
} core_channels_t;

/* How channels come about. */
typedef struct core_wireup {
    base_list_t early; /* HELLOs of channels not created here yet */
    uint32_t    num_early;
    bool        is_shared;    /* its address was handed out, and must stay */
    bool        is_stale;     /* listeners could not be given the new address */
    uint64_t    next_hello;   /* when HELLOs want looking after */
    uint64_t    next_warning; /* about one of a stranger */
    base_list_t listeners;
    base_list_t clients;                 /* channels that call a listener */
    struct wireup_fd_export *fd_export;  /* NULL: there is no socket */
    base_list_t              fd_imports; /* of peers' descriptors */
    bool was_forbidden;                  /* taking them; said in the log once */
} core_wireup_t;

typedef struct core_requests {
    base_list_t all; /* that a caller may hold */
    base_list_t runnable;
    base_list_t stalled; /* no room in their wire; tried again */
    base_list_t completed;
    base_list_t to_tell; /* ended, with a completion that was not told yet */
    base_list_t deadlines;
    uint64_t    next_deadline;
} core_requests_t;

/* Free lists. */
typedef struct core_free {
    base_list_t plans;                        /* of requests */
    base_list_t controls[CORE_CONTROL_SIZES]; /* by their room */
} core_free_t;

struct window_pool;
struct wire_pool;
struct xfer_pool;

struct ucxpool {
    base_config_t config;
    char          name[CORE_NAME_SIZE];
    uint8_t       id[CORE_ID_SIZE];  /* names the pool */
    uint8_t       key[CORE_ID_SIZE]; /* shown by a peer that has our address */
    base_own_lock_t     lock;
    ucx_context_t       ucx;
    core_pool_memory_t  memory;
    struct copy_engine *engine;
    struct heap        *heap; /* NULL until its first allocation; atomic */
    core_domains_t      domains;
    core_wakeup_t       wakeup;
    core_channels_t     channels;
    core_wireup_t       wireup;
    core_requests_t     requests;
    struct wire_pool   *wire;                  /* wire/rndv.h */
    struct xfer_pool   *xfer;                  /* xfer/state.h */
    struct window_pool *windows;               /* window/window.h */
    core_link_t         links[CORE_NUM_LINKS]; /* of its GPU */
    core_free_t         free;

    const struct core_dispatch *dispatch; /* of what arrives */

    bool     needs_registration; /* RDMA: no transfer of foreign memory */
    uint64_t drain_ns;           /* see core_request_drain() */
    uint64_t announce_ns;        /* how long a short send waits for a credit */
    bool     closing;            /* being destroyed: nothing more is posted */
    unsigned num_operations;     /* of UCX, that will call back */
    /* The pool is destroyed, but UCX still has operations of it, because its
     * worker is the caller's: the last one calls this. */
    void (*finish)(ucxpool_t *pool);
    unsigned     progress_count;
    core_stats_t stats;
};

void core_lock(ucxpool_t *pool);
void core_unlock(ucxpool_t *pool);

/* The same after something was posted or changed: wakes those who sleep. */
void core_unlock_posted(ucxpool_t *pool);

/* Make the event descriptor readable, until the pool is armed again. Needs no
 * lock. */
void core_wake(ucxpool_t *pool);

/* One of UCX's operations has called back, and everything that belonged to it
 * has been let go: the pool may be gone after this. */
void core_pool_end_operation(ucxpool_t *pool);

/* May the log tell of what strangers cause? Once in a while it may. */
bool core_pool_may_warn(ucxpool_t *pool);

/* The same when somebody was turned away, who is counted. */
bool core_pool_turn_away(ucxpool_t *pool);

/* A heap allocation made by a transfer: counted. */
void *core_alloc(ucxpool_t *pool, size_t size);

#endif
