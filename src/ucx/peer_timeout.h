/*
 * The time in which UCX detects that a peer has failed: the settings that
 * determine it, the time that they guarantee, and the values that the pool
 * sets.
 *
 * A process that ends closes its TCP connections, which its peers detect at
 * once. These settings are for silent failures: of a host, of a link, and of
 * any process whose connection is handled by the network card.
 *
 * busy: an operation to the peer is in flight.
 * idle: no operation is in flight. UCX sends a probe every KEEPALIVE_INTERVAL,
 *       which makes the connection busy.
 *
 *     kind  settings               busy at most
 *     RC    TIMEOUT, RETRY_COUNT   4 x timeout x (count + 1): a card may take
 *                                  up to four times the timeout for each try
 *     UD    TIMEOUT                4/3 x timeout: UCX checks it three times
 *                                  per timeout
 *     TCP   USER_TIMEOUT (1.22)    USER_TIMEOUT, or the time from the kernel's
 *                                  tcp_retries2 or from ucx_tcp_watch,
 *                                  whichever is shortest. TCP's own keepalive
 *                                  (KEEPIDLE and others) does not help: it
 *                                  sends nothing while data, such as UCX's
 *                                  probe, is unacknowledged
 */
#ifndef UCX_PEER_TIMEOUT_H
#define UCX_PEER_TIMEOUT_H

#include "base/list.h"

#include <ucxpool/status.h>

#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

/* --- the arithmetic, which does not call UCX ------------------------------ */

typedef enum ucx_peer_timeout_kind {
    UCX_PEER_TIMEOUT_RC,
    UCX_PEER_TIMEOUT_UD,
    UCX_PEER_TIMEOUT_TCP
} ucx_peer_timeout_kind_t;

typedef struct ucx_peer_timeout_transport {
    const char             *name;   /* "rc_verbs" */
    const char             *prefix; /* prefix of its settings: "RC_VERBS_" */
    const char             *family; /* prefix of its family: "RC_"; TCP: "" */
    ucx_peer_timeout_kind_t kind;
} ucx_peer_timeout_transport_t;

#define UCX_PEER_TIMEOUT_NUM_TRANSPORTS 6u

extern const ucx_peer_timeout_transport_t
    ucx_peer_timeout_transports[UCX_PEER_TIMEOUT_NUM_TRANSPORTS];

/* A time that is unknown or infinite. */
#define UCX_PEER_TIMEOUT_NEVER UINT64_MAX

/* Values of the settings. */
typedef struct ucx_peer_timeout {
    uint64_t keepalive_ns; /* KEEPALIVE_INTERVAL, for all transports */
    uint64_t timeout_ns;   /* TIMEOUT, USER_TIMEOUT */
    uint64_t count;        /* RETRY_COUNT */
} ucx_peer_timeout_t;

/* Returns the values that detect a failed peer within time_ns, idle or busy.
 * Not for TCP. */
ucx_peer_timeout_t ucx_peer_timeout_choose(ucx_peer_timeout_kind_t kind,
                                           uint64_t                time_ns);

/* Returns how long the kernel retransmits with this net.ipv4.tcp_retries2. */
uint64_t ucx_peer_timeout_kernel(unsigned tcp_retries2);

/* Return the longest detection time if the connection is busy or idle. tcp_ns
 * is the time after which the kernel, UCX or the pool closes an unanswered TCP
 * connection. */
uint64_t ucx_peer_timeout_busy(ucx_peer_timeout_kind_t   kind,
                               const ucx_peer_timeout_t *timeout,
                               uint64_t                  tcp_ns);
uint64_t ucx_peer_timeout_idle(ucx_peer_timeout_kind_t   kind,
                               const ucx_peer_timeout_t *timeout,
                               uint64_t                  tcp_ns);

/* A setting of a transport, and its member of ucx_peer_timeout_t. */
typedef struct ucx_peer_timeout_setting {
    const char *name;   /* without the prefix: "RETRY_COUNT" */
    size_t      offset; /* of a uint64_t in ucx_peer_timeout_t */
    bool        is_time;
} ucx_peer_timeout_setting_t;

#define UCX_PEER_TIMEOUT_MAX_SETTINGS 2u

uint64_t *ucx_peer_timeout_value(ucx_peer_timeout_t               *timeout,
                                 const ucx_peer_timeout_setting_t *setting);

/* List the settings of a kind, without KEEPALIVE_INTERVAL. Returns their
 * number. */
unsigned ucx_peer_timeout_settings(
    ucx_peer_timeout_kind_t    kind,
    ucx_peer_timeout_setting_t settings[UCX_PEER_TIMEOUT_MAX_SETTINGS]);

/* Buffer size for ucx_peer_timeout_format(). */
#define UCX_PEER_TIMEOUT_VALUE_SIZE 24

/* Format a value for UCX. Times are whole microseconds. */
void ucx_peer_timeout_format(uint64_t value, bool is_time,
                             char text[UCX_PEER_TIMEOUT_VALUE_SIZE]);
/* Parse a value that UCX has formatted. "inf" becomes UCX_PEER_TIMEOUT_NEVER.
 * Returns false if the text is not a value. */
bool ucx_peer_timeout_parse(const char *text, bool is_time, uint64_t *value_p);

/* --- settings of the pool's own and of borrowed contexts ------------------ */

/*
 * Make UCX detect a failed peer within time_ns (UCX_PEER_TIMEOUT_NEVER: change
 * nothing). Settings of the environment take precedence; so does a
 * KEEPALIVE_INTERVAL in a ucx.conf.
 *
 * has_rdma  RDMA transports may exist. The function then creates a temporary
 *           context. UCX up to 1.13 warns about settings of transports that it
 *           does not use, and only its printed text lists those that it uses.
 */
void ucx_peer_timeout_tune(ucp_config_t *config, uint64_t time_ns,
                           bool has_rdma);

/* The behaviour of UCX on this machine. */
typedef struct ucx_peer_timeout_facts {
    const ucx_peer_timeout_transport_t *transport;
    bool               is_known; /* UCX has returned the values of `now` */
    ucx_peer_timeout_t now; /* from defaults, the environment and ucx.conf */
    ucx_peer_timeout_t own; /* in a context that the pool creates */
    /* Settings that turn `now` into `own`: "UCX_A=1 UCX_B=2". */
    char settings[192];
} ucx_peer_timeout_facts_t;

/*
 * Fill in the facts for each known transport of a context that the pool
 * creates.
 *
 * UCXPOOL_ERR_*  UCX failed to start: see ucx_status()
 */
ucxpool_status_t ucx_peer_timeout_query(
    uint64_t                 time_ns,
    ucx_peer_timeout_facts_t facts[UCX_PEER_TIMEOUT_NUM_TRANSPORTS],
    unsigned                *num_p);

/* Reads the kernel's net.ipv4.NAME; returns fallback if it cannot be read. */
unsigned ucx_peer_timeout_sysctl(const char *name, unsigned fallback);

/* --- TCP connections ---------------------------------------------------------
 * The watch checks UCX's TCP connections several times within PEER_TIMEOUT. If
 * the kernel of a peer's host has stopped answering, the peer has failed. The
 * watch then ends the connection, so that UCX reports the failure. Without the
 * watch, the kernel would retransmit unacknowledged data for 15 minutes.
 * TCP_USER_TIMEOUT would also end connections to peers that are only slow to
 * read. The kernel of a busy or stopped peer still answers.
 *
 * In this file, a try is a retransmitted segment, or a probe of a closed
 * window.
 */

typedef struct ucx_tcp_watch {
    base_list_t suspects;  /* connections with an unanswered try */
    const char *name;      /* of the pool, for the log */
    int         worker_fd; /* -1: UCX's connections cannot be found */
    uint64_t    timeout_ns;
    uint64_t    next_check;
} ucx_tcp_watch_t;

/*
 * Initialize a watch.
 *
 * name        Of the pool; must outlive the watch.
 * worker_fd   The event descriptor of UCX's worker; -1: it has none.
 * timeout_ns  PEER_TIMEOUT; BASE_CLOCK_FOREVER: no checks, only the kernel's
 *             timeout.
 */
void ucx_tcp_watch_init(ucx_tcp_watch_t *watch, const char *name, int worker_fd,
                        uint64_t timeout_ns);
void ucx_tcp_watch_cleanup(ucx_tcp_watch_t *watch);

/* Returns the time in which the watch detects a failed peer while data is in
 * flight. UINT64_MAX: only the kernel detects the failure. */
uint64_t ucx_tcp_watch_detection_time(uint64_t timeout_ns);

/* Check the connections if a check is due. Returns the number of connections
 * that were ended. */
unsigned ucx_tcp_watch_progress(ucx_tcp_watch_t *watch);

/* Returns the time of the next check. BASE_CLOCK_FOREVER: never. */
uint64_t ucx_tcp_watch_deadline(const ucx_tcp_watch_t *watch);

/* Public for the tests: judge a connection that the kernel describes, at the
 * time `now`. Returns true if its peer has failed. */
bool ucx_tcp_watch_judge(ucx_tcp_watch_t *watch, int fd,
                         const struct tcp_info *info, uint64_t now);

#endif
