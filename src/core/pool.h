/*
 * The struct of a pool: the data that all files of this layer share.
 *
 * One lock guards the data here, except the blocks, the members that have their
 * own lock, and atomic members. UCX's handlers always take the lock, because
 * UCX also calls them for an application that progresses a borrowed worker
 * without the lock. UCX may also call a handler inside a function that the
 * library calls with the lock held, so the lock is recursive.
 *
 *     ucxpool
 *       channels.open       --> channel: endpoint, ring, credits
 *                                 sends[]    sends in flight
 *                                 receives[] receives in progress
 *       channels.events     --> channels and listeners with events to report
 *       requests.runnable   --> requests that can continue
 *       requests.stalled    --> sends whose wire has no room
 *       requests.completed  --> ended requests whose callback is due
 *       requests.to_report  --> ended requests with a completion to report
 *       windows             --> memory that peers read and write
 *       xfer                --> messages, and the waits of sends and receives
 */
#ifndef CORE_POOL_H
#define CORE_POOL_H

#include "base/config.h"
#include "base/error.h"
#include "base/list.h"
#include "base/lock.h"
#include "block/comm.h"
#include "block/pool.h"
#include "core/stats.h"
#include "core/link.h"
#include "core/proto.h"
#include "mem/reg_verbs.h"
#include "ucx/context.h"

#include <ucxpool/transfer.h>

#include <pthread.h>
#include <ucp/api/ucp.h>

#define CORE_ID_SIZE   16u
#define CORE_NAME_SIZE 32u

/* The number of buffer sizes for control messages outside rings. */
#define CORE_CONTROL_SIZES 3u

/* The protection domains (verbs) in which the regions are registered. */
typedef struct core_domains {
    pthread_mutex_t    lock; /* guards the list */
    base_list_t        list;
    uint64_t           num_domains; /* in the list; atomic */
    mem_verbs_counts_t counts;
} core_domains_t;

/* The memory of the blocks. */
typedef struct core_pool_memory {
    mem_regions_t regions;
    block_pool_t *blocks;
    block_comm_t *comm;
    /* A pool whose blocks are in GPU memory may also have blocks in pinned host
     * memory. pinned_blocks: NULL if it has none. */
    mem_regions_t    pinned_regions;
    block_pool_t    *pinned_blocks;
    ucxpool_status_t pin_status; /* result of creating pinned_blocks; an error
                                    is final */
    char     pin_reason[BASE_ERROR_SIZE];
    uint64_t pinnable; /* bytes of peers' memory that may still be pinned */
    /* Blocks for the `ucx` wire: pinned_blocks if UCX does not support the
     * GPU's memory, otherwise `blocks`. */
    block_pool_t *ucx_blocks;
} core_pool_memory_t;

/* Sleep and wakeup; pool/sleep.c. */
typedef struct core_wakeup {
    int                 epoll_fd;  /* contains the other descriptors */
    int                 worker_fd; /* -1: UCX has no UCP_FEATURE_WAKEUP */
    int                 timer_fd;
    int                 event_fd;
    uint64_t            timer_moment; /* expiration of the timer */
    struct epoll_event *ready;        /* sources whose functions will be
                                         called */
    int             num_ready;
    ucx_child_t     child; /* resources that a forked child loses */
    ucx_tcp_watch_t tcp_watch;
    bool            is_armed; /* the pool is armed, and its rings show
                                 this to the peers */
    bool is_ucx_armed;        /* UCX's worker is armed: its descriptor
                                 reports every new event */
    bool      is_woken;       /* event_fd is readable; atomic */
    bool      has_many;       /* several threads have armed the pool */
    bool      was_armed;
    pthread_t armed_by;           /* last thread that armed; valid if
                                     was_armed */
    uint64_t num_events;          /* see core_event_count(); atomic */
    uint64_t num_seen;            /* num_events at the event loop's last
                                     check */
    bool            polls_events; /* the application polls for events; atomic */
    bool            polls_completions; /* it polls for completions; atomic */
    pthread_cond_t  leader_woke;
    pthread_mutex_t leader_lock; /* guards num_wakes; taken after the pool's */
    bool            has_leader;  /* a thread sleeps on the descriptors; other
                                    waiting threads sleep on leader_woke */
    uint64_t num_wakes;          /* broadcasts of leader_woke */
    uint64_t spin_ns; /* current polling time of a wait, at most SPIN; atomic */
    /* For naps: see pool/sleep.c. Atomic. */
    const char *waiter;  /* base_lock_me of the last thread that waited for
                            any event */
    uint64_t num_polls;  /* polls by threads other than `waiter` */
    uint64_t polled_at;  /* time of the last poll */
    uint64_t num_known;  /* num_polls at the waiter's last check */
    unsigned num_naps;   /* threads that nap now */
    uint64_t nap_events; /* num_events at the start of the last nap */
} core_wakeup_t;

typedef struct core_channels {
    base_list_t open;
    base_list_t unreferenced;  /* channels without references, to be
                                  destroyed */
    ucxpool_channel_t **table; /* indexed by number; NULL where free */
    uint32_t            table_size;
    uint32_t            count;
    uint32_t            num_read;       /* rings read in this round */
    base_list_t         remotes;        /* known peer pools */
    base_list_t         endpoints;      /* UCX endpoints */
    bool                endpoint_ended; /* an endpoint has ended; atomic */
    base_list_t         events;         /* events to report: core/wakeup.h */
    base_list_t         held;           /* channels whose peers
                                           core_control_release() will wake */
    bool holds_doorbells;
} core_channels_t;

/* Setup of channels. */
typedef struct core_wireup {
    base_list_t early; /* HELLOs for channels that do not exist yet */
    uint32_t    num_early;
    bool        is_shared;    /* the pool's address was exported and must remain
                                 valid */
    bool     is_stale;        /* listeners could not get the new address */
    uint64_t next_hello;      /* when a HELLO must be sent, or one in `early`
                                 expires */
    uint64_t    next_warning; /* earliest time of the next warning */
    base_list_t listeners;
    base_list_t clients;                 /* channels that connect to a
                                            listener */
    struct wireup_fd_export *fd_export;  /* NULL: no socket */
    base_list_t              fd_imports; /* imports of peers' descriptors */
    bool was_forbidden; /* the system forbade taking descriptors; logged once */
} core_wireup_t;

typedef struct core_requests {
    base_list_t all; /* requests that the caller may own */
    base_list_t runnable;
    base_list_t stalled; /* no room in their wire; retried */
    base_list_t completed;
    base_list_t to_report; /* ended, with a completion to report */
    base_list_t deadlines;
    uint64_t    next_deadline;
} core_requests_t;

/* Free lists. */
typedef struct core_free {
    base_list_t plans;                        /* plans for requests */
    base_list_t controls[CORE_CONTROL_SIZES]; /* one list per message size */
} core_free_t;

struct window_pool;
struct wire_pool;
struct xfer_pool;

struct ucxpool_pool {
    base_config_t       config;
    char                name[CORE_NAME_SIZE];
    uint8_t             id[CORE_ID_SIZE];  /* names the pool */
    uint8_t             key[CORE_ID_SIZE]; /* the secret part of the address */
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
    struct wire_pool   *wire;                  /* wire/wire.h */
    struct xfer_pool   *xfer;                  /* xfer/state.h */
    struct window_pool *windows;               /* window/service.h */
    core_link_t         links[CORE_NUM_LINKS]; /* of the pool's GPU */
    core_free_t         free;

    const struct core_dispatch *dispatch; /* handlers of incoming messages */

    bool needs_registration; /* only registered memory is transferred: UCX has
                                an RDMA device, or the pool is on a GPU */
    uint64_t drain_ns;       /* see core_request_drain() */
    uint64_t announce_ns;    /* how long a short send waits for a credit */
    bool     closing;        /* being destroyed: nothing can be posted */
    unsigned num_operations; /* UCX operations that will call back */
    /* If the worker is borrowed, the pool may be destroyed before UCX's
     * operations end. The last operation then calls this function. */
    void (*finish)(ucxpool_t *pool);
    unsigned       progress_count;
    core_stats_t   stats;
    core_latency_t latency;
    uint64_t       number_bit; /* see api/pool.c; 0: nothing to release */
    /* A message from a local socket, at most a HELLO. It is too long for the
     * stack of a thread. */
    struct {
        proto_hello_t hello;
        ipc_file_t    files[PROTO_FILES_MAX];
    } local_message;
};

void core_lock(ucxpool_t *pool);
void core_unlock(ucxpool_t *pool);

/* Unlock after a post or a change; wakes sleeping threads. */
void core_unlock_posted(ucxpool_t *pool);

/* Make the event descriptor readable until the pool is armed again. Needs no
 * lock. */
void core_wake(ucxpool_t *pool);

/* Count the end of a UCX operation, after all its resources were released.
 * The pool may no longer exist afterwards. */
void core_pool_end_operation(ucxpool_t *pool);

/* Returns true if a warning that a peer can cause may be logged now. Limits the
 * rate of such warnings. */
bool core_pool_may_warn(ucxpool_t *pool);

/* Count a rejected message, and return core_pool_may_warn(). */
bool core_pool_count_refused(ucxpool_t *pool);

/* Allocate memory for a transfer with malloc(), and count this in the
 * statistics. */
void *core_alloc(ucxpool_t *pool, size_t size);

#endif
