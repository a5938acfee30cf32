/*
 * The pool: a fixed set of physical blocks, mapped once, registered once, and
 * the transfers that go through them.
 *
 * Threads. Every function of this library may be called from any thread at
 * any time, with these exceptions: ucxpool_destroy() must be the last call on
 * its pool, a handle must not be used while another thread releases it, and a
 * pool over a borrowed worker (see worker below) shares that worker's rules.
 * Calls on one pool take turns; the copies of one pool are made by the threads
 * that call ucxpool_progress(), ucxpool_wait() or ucxpool_request_wait().
 * Threads that should copy at the same time use a pool each. Getting and
 * putting blocks is free of locks.
 *
 * Progress. Nothing moves but inside ucxpool_progress() and the functions that
 * wait: there is no hidden thread.
 *
 * Fork. A pool belongs to the process that created it. A child may not use it;
 * ucxpool_destroy() does nothing there. A forked child loses the pool's
 * connections at once, UCX's included, so that peers notice its parent's end
 * though it lives on; a program that is started does not inherit them.
 */
#ifndef UCXPOOL_POOL_H
#define UCXPOOL_POOL_H

#include <ucxpool/config.h>
#include <ucxpool/status.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct ucxpool ucxpool_t;

/* UCX's handles, declared here so that this header needs no UCX header. */
struct ucp_context;
struct ucp_worker;
struct ucp_ep;

/* Where the blocks lie. */
typedef enum ucxpool_memory_kind {
    UCXPOOL_MEMORY_HOST = 0, /* memfd pages of this machine */
    UCXPOOL_MEMORY_CUDA = 1  /* memory of one GPU; see CUDA_BACKING */
} ucxpool_memory_kind_t;

typedef enum ucxpool_params_field {
    UCXPOOL_PARAM_FIELD_CONFIG      = 1u << 0,
    UCXPOOL_PARAM_FIELD_CONTEXT     = 1u << 1,
    UCXPOOL_PARAM_FIELD_WORKER      = 1u << 2,
    UCXPOOL_PARAM_FIELD_MEMORY_KIND = 1u << 3,
    UCXPOOL_PARAM_FIELD_NAME        = 1u << 4,
    UCXPOOL_PARAM_FIELD_DEVICE      = 1u << 5
} ucxpool_params_field_t;

/* Only the fields named in field_mask are read. */
typedef struct ucxpool_params {
    uint64_t field_mask;
    /* Settings; default: ucxpool_config_read(). Copied. */
    const ucxpool_config_t *config;
    /*
     * A UCX context of the caller's, made with UCP_FEATURE_AM and
     * UCP_FEATURE_RMA (and UCP_FEATURE_WAKEUP where ucxpool_wait() should
     * sleep and ucxpool_event_fd() be used). Borrowed until destroy. UCX does
     * not tell a context's features: one without AM is refused, and one without
     * RMA where that is seen (a UCX that checks parameters, as distributions
     * build it; or one built for release, if the context has the transport
     * `self`). What passes unseen fails over RDMA only, in mid-transfer.
     * Default: the pool makes its own.
     */
    struct ucp_context *context;
    /*
     * A UCX worker of that context. Borrowed until destroy; the pool installs
     * handlers for the active-message ids AM_ID and AM_ID + 1 (a setting).
     * Pools that share a worker need an AM_ID each, two apart or more. The
     * caller may progress the worker by itself, but must not do so while
     * another thread is inside a call on this pool.
     * Default: the pool makes its own.
     */
    struct ucp_worker    *worker;
    ucxpool_memory_kind_t memory_kind;
    /* Name for logs and statistics; at most 31 bytes are kept. */
    const char *name;
    /*
     * UCXPOOL_MEMORY_CUDA: the GPU, as the CUDA driver counts them in this
     * process. Default: that of the calling thread's current context, or 0
     * where it has none. The pool uses the GPU's primary context, and leaves
     * the thread's current one as it finds it.
     */
    int device;
} ucxpool_params_t;

/*
 * Create a pool: take the memory, map it, register it, verify it.
 *
 * params      NULL for all defaults.
 * pool_p [out] The pool, owned by the caller; untouched after an error.
 *
 * UCXPOOL_ERR_INVALID_PARAM  a setting does not fit another or this machine, or
 *                            another pool has these ids of the borrowed worker
 * UCXPOOL_ERR_NO_MEMORY      the blocks do not fit in memory (the detail tells
 *                            how much was asked, and which key to lower),
 *                            or there is none for UCX's thread
 * UCXPOOL_ERR_LIMIT          too few descriptors are left (ulimit -n)
 * UCXPOOL_ERR_UNSUPPORTED    the memory kind is not built in, or the borrowed
 *                            context lacks a feature
 * UCXPOOL_ERR_IO             UCX or the system failed
 *
 * After an error nothing is left behind. Takes all memory of COMM_SIZE from
 * the system; what is not used is not resident (/proc/PID/smaps_rollup).
 */
ucxpool_status_t ucxpool_create(const ucxpool_params_t *params,
                                ucxpool_t             **pool_p);

/* What a pool became that could not have what it asked for. */
typedef enum ucxpool_degraded {
    UCXPOOL_DEGRADED_NONE   = 0,
    UCXPOOL_DEGRADED_FEWER  = 1, /* fewer blocks */
    UCXPOOL_DEGRADED_PINNED = 2  /* on a GPU: pinned host memory, in place of
                                    the GPU's */
} ucxpool_degraded_t;

typedef struct ucxpool_attr {
    const char           *name;
    ucxpool_memory_kind_t memory_kind;
    int                   device;     /* the GPU; -1 on the host */
    size_t                block_size; /* bytes of a block, and of a region */
    size_t                region_size;
    size_t                num_regions;
    ucxpool_degraded_t    degraded_to;
    const char           *degraded_why; /* the first failure; else "" */
} ucxpool_attr_t;

/* What a pool is. attr_size is sizeof(*attr_p), see ucxpool.h. */
void ucxpool_query(const ucxpool_t *pool, ucxpool_attr_t *attr_p,
                   size_t attr_size);

/*
 * Destroy a pool with all its channels and listeners. Peers are told; requests
 * still in progress end with UCXPOOL_ERR_CANCELED (their callbacks are called
 * from here). Memory that a peer has mapped stays valid for that peer. Waits
 * at most CLOSE_TIMEOUT for peers, and up to 2 s more for UCX to close
 * endpoints by force. NULL is allowed.
 *
 * Windows are revoked and waited for as by ucxpool_window_destroy(), within the
 * same CLOSE_TIMEOUT: window.h says what a peer may still do to their memory
 * after that.
 *
 * Requests, messages and remotes (window.h) of the pool that the caller did not
 * free are freed, and registrations in protection domains (verbs.h)
 * deregistered.
 */
void ucxpool_destroy(ucxpool_t *pool);

/*
 * Move everything that can move, without waiting. Completion callbacks are
 * called from here, with no lock held: they may post, cancel and free.
 *
 * Returns how many things moved; 0 when there was nothing to do.
 */
unsigned ucxpool_progress(ucxpool_t *pool);

/* Wait for ever, where a function takes a timeout in nanoseconds. */
#define UCXPOOL_FOREVER UINT64_MAX

/*
 * Progress until something moved, or the time is over. Sleeps in between. A
 * program that uses events (event.h) is not kept waiting while there are some.
 * What another thread moves ends the wait where it has ended a request, brought
 * a message or changed a channel. A request that ended before the call does
 * not: several threads wait for one by ucxpool_request_wait().
 *
 * timeout_ns  Nanoseconds, or UCXPOOL_FOREVER.
 *
 * UCXPOOL_OK          something moved, or there is an event
 * UCXPOOL_INPROGRESS  nothing did
 */
ucxpool_status_t ucxpool_wait(ucxpool_t *pool, uint64_t timeout_ns);

/*
 * A descriptor for poll(), select() or epoll that becomes readable when
 * ucxpool_progress() has something to do. Belongs to the pool. Before each
 * sleep call ucxpool_arm():
 *
 *     while (!done) {
 *         look at what there is: requests, ucxpool_event_get() (event.h)
 *         while (ucxpool_arm(pool) == UCXPOOL_ERR_BUSY) {
 *             ucxpool_progress(pool);
 *         }
 *         poll(&(struct pollfd){fd, POLLIN, 0}, 1, -1);
 *         ucxpool_progress(pool);
 *     }
 *
 * What arrives while the pool is armed makes the descriptor readable, so that
 * the loop looks again; examples/event_loop.c is such a loop with epoll.
 *
 * Several threads. The descriptor is for one event loop: one thread at a time
 * arms, polls and progresses, and it must be the one that sees to what the loop
 * is for. Beside it other threads may post, cancel, query and free, and may
 * call ucxpool_progress(): each makes the descriptor readable, so that the loop
 * looks again. They must not arm, nor wait in ucxpool_wait(),
 * ucxpool_request_wait() or ucxpool_channel_wait(): arming takes back what
 * another thread has not seen yet, and the loop may sleep on though its
 * request has ended. Threads that wait for different things call the waiting
 * functions, all of them, and are all woken; or have a pool each.
 *
 * UCXPOOL_ERR_UNSUPPORTED  the borrowed context lacks UCP_FEATURE_WAKEUP
 */
ucxpool_status_t ucxpool_event_fd(ucxpool_t *pool, int *fd_p);

/*
 * Ask for the event descriptor to become readable at the next event. For the
 * thread of the event loop only; see ucxpool_event_fd().
 *
 * UCXPOOL_OK               sleep; if something has arrived since the first
 *                          ucxpool_progress() after the last sleep, or there is
 *                          an event that ucxpool_event_get() would tell, the
 *                          descriptor is readable already
 * UCXPOOL_ERR_BUSY         events are pending: progress, then arm again
 * UCXPOOL_ERR_UNSUPPORTED  as for ucxpool_event_fd()
 */
ucxpool_status_t ucxpool_arm(ucxpool_t *pool);

/*
 * Verify the pool's invariants: for each kind of block,
 * free + held + quarantined == total, and each block is where the counts say.
 * Meant for tests and for a doubtful moment: it takes time, and is right only
 * while no other thread uses the pool.
 *
 * UCXPOOL_OK            all hold
 * UCXPOOL_ERR_PROTOCOL  one does not; the detail tells which
 */
ucxpool_status_t ucxpool_check(ucxpool_t *pool);

/*
 * Send one message through every region to a second pool in this process and
 * compare what arrives, over the `ucx` wire.
 *
 * UCXPOOL_OK            every byte arrived
 * UCXPOOL_ERR_CHECKSUM  bytes differ; the detail tells where
 * others                as for the transfers it makes
 */
ucxpool_status_t ucxpool_self_test(ucxpool_t *pool);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
