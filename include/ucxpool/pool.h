/*
 * A pool is a fixed set of physical blocks and the transfers that use them. The
 * blocks are mapped once and registered once.
 *
 * Threads. Every function of this library may be called from any thread at any
 * time, with three exceptions. ucxpool_destroy() must be the last call on its
 * pool. A handle must not be used while another thread releases it. If a pool
 * has a borrowed worker (see worker below), the calls on the pool must follow
 * the threading rules of this worker. Calls on one pool are serialized by the
 * pool's lock. Data is copied by the threads that call ucxpool_progress(),
 * ucxpool_wait() or ucxpool_request_wait(). For parallel copies, use one pool
 * per thread. Getting and putting blocks is lock-free.
 *
 * Progress. The library has no thread of its own. Transfers advance only inside
 * ucxpool_progress() and the functions that wait.
 *
 * Fork. A pool belongs to the process that created it. A forked child must not
 * use it; ucxpool_destroy() does nothing in a child. In the child, the library
 * closes the pool's connections, including UCX's connections. Peers therefore
 * detect that the parent has exited even if the child is still running. A
 * program started by exec() does not inherit the connections.
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

typedef struct ucxpool_pool ucxpool_t;

/* UCX handles. They are declared here so that this header need not include a
 * UCX header. */
struct ucp_context;
struct ucp_worker;
struct ucp_ep;

/* The memory that the blocks are allocated from. */
typedef enum ucxpool_memory_kind {
    UCXPOOL_MEMORY_HOST = 0, /* host memory, in memfd files */
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
    /*
     * Settings, which the library copies. Default: the settings that
     * ucxpool_config_read() returns.
     */
    const ucxpool_config_t *config;
    /*
     * A UCX context of the caller, created with UCP_FEATURE_AM and
     * UCP_FEATURE_RMA. ucxpool_event_fd(), and sleeping in ucxpool_wait(), also
     * need UCP_FEATURE_WAKEUP. The pool uses the context until
     * ucxpool_destroy().
     *
     * UCX cannot report the features of a context. A context without AM is
     * always rejected. A context without RMA is rejected if the library can
     * detect that RMA is missing. It can if UCX was built with parameter
     * checks, as in the packages of Linux distributions, or if the context has
     * the transport `self`. Otherwise the pool is created, and RDMA transfers
     * fail after they have started.
     * Default: the pool creates its own context.
     */
    struct ucp_context *context;
    /*
     * A UCX worker of that context. The pool uses the worker until
     * ucxpool_destroy(). The pool installs handlers for the active-message ids
     * AM_ID (a setting) and AM_ID + 1. Pools that share a worker need different
     * values of AM_ID, at least two apart. The caller may progress the worker,
     * but not while another thread is inside a call on this pool.
     * Default: the pool creates its own worker.
     */
    struct ucp_worker    *worker;
    ucxpool_memory_kind_t memory_kind;
    /*
     * Name in the log and in statistics; at most 31 bytes are kept. Default:
     * "ucxpool", "ucxpool-2" and so on: the first name up to "ucxpool-64" that
     * no other pool of the process has by default. Later names are used only
     * once.
     */
    const char *name;
    /*
     * For UCXPOOL_MEMORY_CUDA: the number of the GPU in this process, as
     * assigned by the CUDA driver. Default: the GPU of the calling thread's
     * current context, or GPU 0 if there is no current context. The pool uses
     * the GPU's primary context and leaves the thread's current context
     * unchanged.
     */
    int device;
} ucxpool_params_t;

/*
 * Create a pool: allocate the memory, map it, register it and verify the
 * registration.
 *
 * params      NULL for all defaults.
 * pool_p [out] The pool, owned by the caller; unchanged after an error.
 *
 * UCXPOOL_ERR_INVALID_PARAM  a setting contradicts another setting or does not
 *                            suit this machine, or another pool uses the same
 *                            message ids (AM_ID) on the borrowed worker
 * UCXPOOL_ERR_NO_MEMORY      the blocks do not fit in memory (the detail
 *                            contains the requested size and the setting to
 *                            lower), or a memory limit prevents UCX from
 *                            starting its thread
 * UCXPOOL_ERR_LIMIT          too few file descriptors are left (ulimit -n)
 * UCXPOOL_ERR_UNSUPPORTED    the memory kind is not built in, or the borrowed
 *                            context lacks a feature
 * UCXPOOL_ERR_IO             UCX or the system failed
 *
 * After an error all resources have been released. On success the pool has
 * allocated the memory of all its blocks. The total size of the blocks may be
 * less than COMM_SIZE (see degraded_to). Pages that have not been used yet do
 * not count as resident memory of the process (/proc/PID/smaps_rollup).
 */
ucxpool_status_t ucxpool_create(const ucxpool_params_t *params,
                                ucxpool_t             **pool_p);

/* How the library reduced a pool that could not get all requested memory. */
typedef enum ucxpool_degraded {
    UCXPOOL_DEGRADED_NONE   = 0,
    UCXPOOL_DEGRADED_FEWER  = 1, /* fewer blocks */
    UCXPOOL_DEGRADED_PINNED = 2  /* on a GPU: pinned host memory instead of
                                    GPU memory */
} ucxpool_degraded_t;

typedef struct ucxpool_attr {
    const char           *name;
    ucxpool_memory_kind_t memory_kind;
    int                   device;     /* the GPU; -1 on the host */
    size_t                block_size; /* in bytes */
    size_t                region_size;
    size_t                num_regions;
    ucxpool_degraded_t    degraded_to;
    const char           *degraded_why; /* the first failure, or "" */
} ucxpool_attr_t;

/* Query a pool. attr_size is sizeof(*attr_p), see ucxpool.h. */
void ucxpool_query(const ucxpool_t *pool, ucxpool_attr_t *attr_p,
                   size_t attr_size);

/*
 * Destroy a pool with all its channels and listeners. Peers are notified.
 * Requests in progress end with UCXPOOL_ERR_CANCELED, and their callbacks are
 * called by this function. Memory that a peer has mapped stays valid for that
 * peer. Waits at most CLOSE_TIMEOUT for peers, and then at most 2 s for UCX to
 * close the remaining endpoints by force. If the pool is on a GPU, also waits
 * for its GPU copies in flight. NULL is allowed.
 *
 * Also revokes the pool's windows, as ucxpool_window_destroy() does, and waits
 * for their peers within the same CLOSE_TIMEOUT. window.h describes how a peer
 * may still access the memory of a window afterwards.
 *
 * Releases the pool's requests, messages and remote windows (window.h) that the
 * caller did not release. Deregisters the pool from protection domains
 * (verbs.h).
 */
void ucxpool_destroy(ucxpool_t *pool);

/*
 * Advance all transfers as far as possible without waiting. Calls completion
 * callbacks, with no lock held, so that a callback may post, cancel and release
 * requests.
 *
 * Returns the number of events and steps processed; 0 if there was nothing to
 * do.
 */
unsigned ucxpool_progress(ucxpool_t *pool);

/* Infinite timeout, for functions that take a timeout in nanoseconds. */
#define UCXPOOL_FOREVER UINT64_MAX

/*
 * Make progress until a transfer or a channel has advanced, or the timeout
 * expires. Sleeps while there is nothing to do. If the program uses events
 * (event.h), the function returns at once while an event is pending.
 *
 * The wait also ends if progress by another thread ends a request, receives a
 * message or changes the state of a channel. A request that ended before the
 * call does not end the wait. If several threads wait for requests, each should
 * call ucxpool_request_wait().
 *
 * timeout_ns  Nanoseconds, or UCXPOOL_FOREVER.
 *
 * UCXPOOL_OK          a transfer or a channel advanced, or an event is pending
 * UCXPOOL_INPROGRESS  the timeout expired
 */
ucxpool_status_t ucxpool_wait(ucxpool_t *pool, uint64_t timeout_ns);

/*
 * Get a file descriptor for poll(), select() or epoll that becomes readable
 * when ucxpool_progress() has something to do. The descriptor belongs to the
 * pool. Call ucxpool_arm() before each sleep:
 *
 *     while (!done) {
 *         handle ended requests, and the events of ucxpool_event_get()
 *         while (ucxpool_arm(pool) == UCXPOOL_ERR_BUSY) {
 *             ucxpool_progress(pool);
 *         }
 *         poll(&(struct pollfd){fd, POLLIN, 0}, 1, -1);
 *         ucxpool_progress(pool);
 *     }
 *
 * Anything that arrives while the pool is being armed makes the descriptor
 * readable, so that poll() returns at once. examples/event_loop.c is such a
 * loop with epoll.
 *
 * Several threads. The descriptor is for one event loop: only one thread at a
 * time may arm the pool, poll the descriptor and call ucxpool_progress(). The
 * same thread must handle the ended requests and the events. Other threads may
 * post, cancel, query and release requests, and may call ucxpool_progress(). A
 * post, a cancel or a call of ucxpool_progress() makes the descriptor readable,
 * so that the loop runs again. Other threads must not call ucxpool_arm(),
 * ucxpool_wait(), ucxpool_request_wait() or ucxpool_channel_wait(). If another
 * thread armed the pool, it could clear notifications that the event loop has
 * not seen. The loop might then sleep although its request has ended. If
 * several threads must wait, let all of them call the waiting functions, which
 * wake every waiting thread, or use one pool per thread.
 *
 * UCXPOOL_ERR_UNSUPPORTED  the borrowed context lacks UCP_FEATURE_WAKEUP
 */
ucxpool_status_t ucxpool_event_fd(ucxpool_t *pool, int *fd_p);

/*
 * Make the event descriptor become readable at the next event. Call this
 * function only in the thread of the event loop; see ucxpool_event_fd().
 *
 * UCXPOOL_OK               the caller may sleep. The descriptor is already
 *                          readable if an event is pending
 *                          (ucxpool_event_get()). It is also readable if a
 *                          notification has arrived since the loop woke up and
 *                          first called ucxpool_progress(). The sleep then ends
 *                          at once
 * UCXPOOL_ERR_BUSY         the pool has work to do: call ucxpool_progress(),
 *                          then arm again
 * UCXPOOL_ERR_UNSUPPORTED  as for ucxpool_event_fd()
 */
ucxpool_status_t ucxpool_arm(ucxpool_t *pool);

/*
 * Verify the pool's invariants: for each share of the blocks, free + held +
 * quarantined == total, and the states of the blocks match these counts. This
 * function is for tests and debugging. It is slow, and its result is reliable
 * only while no other thread uses the pool.
 *
 * UCXPOOL_OK            all invariants hold
 * UCXPOOL_ERR_PROTOCOL  an invariant is violated; the detail names it
 */
ucxpool_status_t ucxpool_check(ucxpool_t *pool);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
