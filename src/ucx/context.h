/*
 * A pool's UCX context and worker, which the pool creates or borrows. Also the
 * settings of UCX, the watch over its TCP connections, and the pool's
 * descriptors in child processes.
 */
#ifndef UCX_CONTEXT_H
#define UCX_CONTEXT_H

#include "base/list.h"

#include <ucxpool/status.h>

#include <locale.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

/* --- settings ------------------------------------------------------------- */

/*
 * UCX settings for contexts that the pool creates. Settings in the environment
 * take precedence, and so does UCX_TLS in a ucx.conf file. A
 * UCX_TCP_TX_SEG_SIZE in a ucx.conf is overridden, because it cannot be read
 * from a configuration.
 */

/* Buffer size for names of devices, separated by commas; "": all devices. */
#define UCX_DEVICES_SIZE 512

/* Modify the settings. for_gpu: the pool's blocks are GPU memory. */
void ucx_tune(ucp_config_t *config, bool for_gpu);

/*
 * Limit UCX to these devices, because TCP listens on each device that it uses.
 * Sets no limit and returns false if the user has chosen devices
 * (UCX_NET_DEVICES), or if UCX may not use TCP.
 */
bool ucx_tune_devices(ucp_config_t *config, const char *devices);

/* Write the names of the devices that TCP connections from other hosts cannot
 * reach: the loopback and RDMA devices. Writes "" if there is no loopback
 * device. */
void ucx_tune_local_devices(char *devices, size_t size);

/* Write the names of the devices that UCX's TCP transport may use and that
 * `devices` does not contain. Returns false if the system cannot list its
 * devices. */
bool ucx_tune_other_devices(const char *devices, char *others, size_t size);

/* Returns true if `devices` contains the network device `name`. If `name` is
 * NULL, returns true if `devices` contains all devices that UCX's TCP may
 * use. */
bool ucx_tune_has_device(const char *devices, const char *name);

/* Returns the current value of a setting ("UCX_TLS"), from the environment or a
 * ucx.conf. Returns NULL if the setting does not exist or no memory is left.
 * The caller frees the value. */
char *ucx_tune_read(const ucp_config_t *config, const char *name);

/* --- failed peers --------------------------------------------------------- */

/*
 * Failed peers are detected by two means: UCX settings that determine how soon
 * UCX reports a failure, and a watch over UCX's TCP connections.
 * docs/internals/connecting.md lists the times.
 *
 * A process that exits closes its TCP connections, which its peers detect at
 * once. Some failures close no connection: a host or link failure, and the exit
 * of a process whose connections are handled by the network card.
 */

/* --- failed peers: UCX's settings --------------------------------------------
 * If no operation is in flight, UCX sends a probe every KEEPALIVE_INTERVAL. The
 * pool sets this interval to 1/4 of PEER_TIMEOUT. An operation or a probe fails
 * within 1/2 of PEER_TIMEOUT. The remaining 1/4 is for the progress of UCX and
 * of the pool.
 *
 *     RC    TIMEOUT, RETRY_COUNT   fails within 4 x timeout x (count + 1): a
 *                                  card may take up to four times the timeout
 *                                  for each try
 *     UD    TIMEOUT                fails within 4/3 x timeout: UCX checks it
 *                                  three times per timeout
 *     TCP   none                   the watch below. TCP's own keepalive does
 *                                  not help: it sends no probes while data,
 *                                  such as UCX's probe, is unacknowledged
 */

/*
 * Make UCX detect a failed peer within time_ns (BASE_CLOCK_FOREVER: the
 * settings are not changed). Settings in the environment take precedence, and
 * so does a KEEPALIVE_INTERVAL in a ucx.conf.
 *
 * has_rdma  RDMA transports may exist. The function then creates a temporary
 *           context. UCX up to 1.13 warns about settings of transports that it
 *           does not use, and lists the transports that it uses only in printed
 *           text.
 */
void ucx_peer_timeout_tune(ucp_config_t *config, uint64_t time_ns,
                           bool has_rdma);

/* --- failed peers: TCP connections -------------------------------------------
 * The watch checks UCX's TCP connections several times within PEER_TIMEOUT. If
 * the kernel of a peer's host has stopped answering, the peer has failed. The
 * watch then ends the connection, so that UCX reports the failure. Without the
 * watch, the kernel would retransmit unacknowledged data for 15 minutes.
 * TCP_USER_TIMEOUT would also end connections to peers that are only slow to
 * read. If the peer's process is busy or stopped, its host's kernel still
 * acknowledges each try.
 *
 * A try is a retransmitted segment, or a probe of a closed TCP window.
 */

typedef struct ucx_tcp_watch {
    base_list_t suspects;  /* connections with an unanswered try */
    const char *name;      /* of the pool, for the log */
    int         worker_fd; /* of UCX's worker; -1: UCX's connections cannot be
                              found */
    uint64_t timeout_ns;
    uint64_t next_check;
} ucx_tcp_watch_t;

/*
 * Initialize a watch.
 *
 * name        The pool's name, which must outlive the watch.
 * worker_fd   The event descriptor of UCX's worker; -1: the worker has none.
 * timeout_ns  PEER_TIMEOUT. BASE_CLOCK_FOREVER: the watch checks nothing, and
 *             only the kernel's timeout applies.
 */
void ucx_tcp_watch_init(ucx_tcp_watch_t *watch, const char *name, int worker_fd,
                        uint64_t timeout_ns);
void ucx_tcp_watch_cleanup(ucx_tcp_watch_t *watch);

/* Check the connections if a check is due. Returns the number of connections
 * that were ended. */
unsigned ucx_tcp_watch_progress(ucx_tcp_watch_t *watch);

/* Returns the time of the next check. BASE_CLOCK_FOREVER: never. */
uint64_t ucx_tcp_watch_deadline(const ucx_tcp_watch_t *watch);

/* --- child processes ------------------------------------------------------ */

/*
 * These functions keep a pool's descriptors out of child processes. A
 * connection ends when the last copy of its descriptor is closed. If a forked
 * child kept copies, peers would not notice that its parent has ended.
 *
 * Except for UCX's listening sockets, all descriptors of a pool are reachable
 * from its epoll, including those of UCX:
 *
 *     epoll_fd -> timer, event, listeners -> ..., sockets
 *              -> UCX's worker -> its interfaces -> their connections
 *
 * The kernel lists the descriptors in an epoll (/proc/self/fdinfo), so the
 * library also finds those that UCX has opened. A forked child replaces these
 * descriptors by /dev/null. It never calls shutdown(), which would end the
 * parent's connection. A spawned or executed program does not inherit them,
 * because they are close-on-exec. UCX's listening sockets are in the epoll of
 * UCX's own thread. The library finds them by comparing the open descriptors
 * before and after UCX creates them. UCX's listening sockets stay open in a
 * forked child.
 */

typedef struct ucx_child {
    base_list_t link;
    int         epoll_fd;
    bool        is_foreign; /* this process is a child of the pool's process */
    bool        is_due;     /* UCX has made connections since the last scan */
    uint64_t    next_scan;
} ucx_child_t;

/* Make forked children replace the descriptors that are reachable from
 * child->epoll_fd, until ucx_child_remove(). */
void ucx_child_add(ucx_child_t *child);
void ucx_child_remove(ucx_child_t *child);

/* Set close-on-exec for the descriptors that are in the epoll now. */
void ucx_child_close_on_exec(const ucx_child_t *child);

/*
 * Set close-on-exec for new descriptors after UCX has made a connection. A scan
 * reads all descriptors of the pool. With a thousand connections, one scan per
 * connection would take most of the CPU's time. After each scan, no scan starts
 * for eight times as long as the scan took. ucx_child_progress(), which is due
 * at ucx_child_deadline(), handles the connections made during this pause.
 */
void     ucx_child_connected(ucx_child_t *child);
void     ucx_child_progress(ucx_child_t *child);
uint64_t ucx_child_deadline(const ucx_child_t *child);

/* Record that a worker, and so UCX's thread, stays until this process ends. */
void ucx_child_keep_worker(void);

/*
 * Warn once that UCX may not connect, if this process was forked while its
 * parent had a pool, or after its parent had called ucx_child_keep_worker().
 * UCX does not restart its thread in a child process.
 */
void ucx_child_warn(void);

/* Set close-on-exec for sockets and epolls that any thread opens between the
 * two calls below. Each call to ucx_child_cloexec_begin() needs a call to
 * ucx_child_cloexec_end(). */
typedef struct ucx_child_before {
    unsigned char *is_open; /* one bit per descriptor, up to the last open
                             * one */
    size_t size;            /* of is_open, in bytes */
    bool   is_unknown;      /* if true, no descriptor counts as new */
} ucx_child_before_t;

void ucx_child_cloexec_begin(ucx_child_before_t *before);
void ucx_child_cloexec_end(ucx_child_before_t *before);

/* The function that ucx_epoll_visit() calls for each descriptor. */
typedef void ucx_epoll_visit_t(int fd, void *arg);

/* Visit each descriptor in an epoll, those in nested epolls first. Visits none
 * if epoll_fd is not an epoll. The call is safe in a signal handler, and
 * therefore in a forked child, if `visit` is safe there. */
void ucx_epoll_visit(int epoll_fd, ucx_epoll_visit_t *visit, void *arg);

/* --- active message ids --------------------------------------------------- */

/*
 * The active message ids that a pool uses on a borrowed worker. If two pools
 * set a handler for the same id, UCX replaces the first handler silently, and
 * the second pool receives the first pool's messages. Every pool of the process
 * therefore claims its ids of a worker before it sets handlers.
 */
typedef struct ucx_claim {
    base_list_t  link;
    ucp_worker_h worker;
    unsigned     first; /* the first id */
    unsigned     count;
    const char  *name; /* of the pool; must outlive the claim */
} ucx_claim_t;

/*
 * Claim the ids for the pool. The caller fills in the claim, and must keep it
 * until it is released.
 *
 * UCXPOOL_ERR_INVALID_PARAM  another pool has claimed one of these ids of this
 *                            worker
 */
ucxpool_status_t ucx_claim_take(ucx_claim_t *claim);

/* Release a claim. A claim that was not taken is allowed if its link is
 * initialized. */
void ucx_claim_release(ucx_claim_t *claim);

/* --- statuses ------------------------------------------------------------- */

/*
 * Translate a status of UCX, for the whole library. Every status for a failed
 * peer (its process, its host, the network to it) becomes
 * UCXPOOL_ERR_PEER_LOST, regardless of the code that UCX uses on a transport.
 * An unknown status becomes UCXPOOL_ERR_IO. The caller reports the text of
 * ucs_status_string().
 */
ucxpool_status_t ucx_status(ucs_status_t status);

/* --- context and worker --------------------------------------------------- */

/*
 * Returns true for UCX before 1.14. This UCX aborts the process if its answer
 * to a peer's connection request is still queued when the worker is destroyed
 * or when the peer dies.
 */
bool ucx_asserts_on_answers(void);

/*
 * A locale with a decimal point for this thread, while UCX reads settings. UCX
 * reads its own defaults, such as "1.8us" for CUDA, in the locale of the
 * thread, and fails if this locale has a decimal comma.
 */
typedef struct ucx_locale {
    locale_t ours; /* 0: out of memory, nothing was changed */
    locale_t before;
} ucx_locale_t;

void ucx_locale_begin(ucx_locale_t *locale);
void ucx_locale_end(const ucx_locale_t *locale);

typedef struct ucx_context {
    ucp_context_h context;
    ucp_worker_h  worker;
    bool          own_context;
    bool          own_worker;
    bool          keeps_worker;     /* the worker must not be destroyed */
    bool          is_lost;          /* UCX must not be used: see
                                       wireup/network.c */
    ucx_claim_t claim;              /* the active-message ids that the pool
                                     * uses on a borrowed worker */
    char devices[UCX_DEVICES_SIZE]; /* devices that the pool limited
                                     * UCX to; "": no limit */
} ucx_context_t;

typedef struct ucx_context_params {
    ucp_context_h context;  /* borrowed; NULL: create one */
    ucp_worker_h  worker;   /* borrowed; NULL: create one */
    bool          for_gpu;  /* the pool's blocks will be GPU memory */
    bool          has_rdma; /* the machine has an RDMA device */
    uint64_t      peer_timeout_ns;
    const char   *devices; /* see ucx_tune_devices() */
} ucx_context_params_t;

/* Create or borrow the context and the worker. Call this before creating the
 * pool's memory, which is registered with the context. */
ucxpool_status_t ucx_context_init(ucx_context_t              *ucx,
                                  const ucx_context_params_t *params);

/* Let the pool's own worker send its pending answers before it is destroyed.
 * Blocks for 50 ms at most. */
void ucx_context_settle_worker(ucx_context_t *ucx);

/* Destroy the pool's own worker. UCX may complete some operations only in this
 * call; UCX 1.22 does so. UCX then calls their callbacks, so the objects that
 * the callbacks use must still exist. `name` is the pool's name. */
void ucx_context_destroy_worker(ucx_context_t *ucx, const char *name);

void ucx_context_cleanup(ucx_context_t *ucx);

#endif
