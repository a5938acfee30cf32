/*
 * How soon UCX notices that a peer is gone: which of its settings say so, what
 * they promise, and what they are set to.
 *
 * A process that ends closes its TCP connections, which its peers see at once.
 * What follows is for what ends without a word: a host, a link, and any process
 * where the network card does the work.
 *
 * busy: something is on its way to the peer.
 * idle: nothing is. UCX sends a probe each KEEPALIVE_INTERVAL: then it is busy.
 *
 *     kind  settings               busy at most
 *     RC    TIMEOUT, RETRY_COUNT   4 x timeout x (count + 1): a card may take
 *                                  up to four times the time-out for each try
 *     UD    TIMEOUT                4/3 x timeout: it is looked at each third
 *     TCP   USER_TIMEOUT (1.22)    that; or what the kernel's tcp_retries2 or
 *                                  ucx_tcp_watch makes, whichever is sooner.
 *                                  TCP's own keepalive (KEEPIDLE and others)
 *                                  does not count: it is silent while
 *                                  something is unacknowledged, as UCX's
 *                                  probe is
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

/* --- the arithmetic, which calls nothing of UCX --------------------------- */

typedef enum ucx_peer_timeout_kind {
    UCX_PEER_TIMEOUT_RC,
    UCX_PEER_TIMEOUT_UD,
    UCX_PEER_TIMEOUT_TCP
} ucx_peer_timeout_kind_t;

typedef struct ucx_peer_timeout_transport {
    const char             *name;   /* "rc_verbs" */
    const char             *prefix; /* of its settings: "RC_VERBS_" */
    const char             *family; /* or for all of its kind: "RC_"; TCP: "" */
    ucx_peer_timeout_kind_t kind;
} ucx_peer_timeout_transport_t;

#define UCX_PEER_TIMEOUT_NUM_TRANSPORTS 6u

extern const ucx_peer_timeout_transport_t
    ucx_peer_timeout_transports[UCX_PEER_TIMEOUT_NUM_TRANSPORTS];

/* Not known, or never. */
#define UCX_PEER_TIMEOUT_NEVER UINT64_MAX

/* What the settings say. */
typedef struct ucx_peer_timeout {
    uint64_t keepalive_ns; /* KEEPALIVE_INTERVAL, of all transports */
    uint64_t timeout_ns;   /* TIMEOUT, USER_TIMEOUT */
    uint64_t count;        /* RETRY_COUNT */
} ucx_peer_timeout_t;

/* Settings by which a peer is noticed in this time, idle or busy, but for TCP.
 */
ucx_peer_timeout_t ucx_peer_timeout_choose(ucx_peer_timeout_kind_t kind,
                                           uint64_t                time_ns);

/* How long the kernel sends again; net.ipv4.tcp_retries2. */
uint64_t ucx_peer_timeout_kernel(unsigned tcp_retries2);

/* tcp_ns  How soon an unanswered connection is given up, by whomever. */
uint64_t ucx_peer_timeout_busy(ucx_peer_timeout_kind_t   kind,
                               const ucx_peer_timeout_t *timeout,
                               uint64_t                  tcp_ns);
uint64_t ucx_peer_timeout_idle(ucx_peer_timeout_kind_t   kind,
                               const ucx_peer_timeout_t *timeout,
                               uint64_t                  tcp_ns);

/* One setting of a transport, and its place in ucx_peer_timeout_t. */
typedef struct ucx_peer_timeout_setting {
    const char *name;   /* without the prefix: "RETRY_COUNT" */
    size_t      offset; /* of a uint64_t in ucx_peer_timeout_t */
    bool        is_time;
} ucx_peer_timeout_setting_t;

#define UCX_PEER_TIMEOUT_MAX_SETTINGS 2u

uint64_t *ucx_peer_timeout_value(ucx_peer_timeout_t               *timeout,
                                 const ucx_peer_timeout_setting_t *setting);

/* Those of a kind; returns how many. KEEPALIVE_INTERVAL is not among them. */
unsigned ucx_peer_timeout_settings(
    ucx_peer_timeout_kind_t    kind,
    ucx_peer_timeout_setting_t settings[UCX_PEER_TIMEOUT_MAX_SETTINGS]);

/* Room for what ucx_peer_timeout_format() writes. */
#define UCX_PEER_TIMEOUT_VALUE_SIZE 24

/* A value as UCX reads it. Times are whole microseconds. */
void ucx_peer_timeout_format(uint64_t value, bool is_time,
                             char text[UCX_PEER_TIMEOUT_VALUE_SIZE]);
/* And as it writes it; false when it is neither that nor "inf", which is
 * UCX_PEER_TIMEOUT_NEVER. */
bool ucx_peer_timeout_parse(const char *text, bool is_time, uint64_t *value_p);

/* --- in the contexts that the pool makes, and in those of others ---------- */

/*
 * Make UCX notice within time_ns (UCX_PEER_TIMEOUT_NEVER: leave it as it is).
 * What the environment sets is left as it is, and KEEPALIVE_INTERVAL also where
 * a ucx.conf does.
 *
 * has_rdma  There may be transports that need it. A context is made for a
 *           moment then: UCX up to 1.13 warns of settings of transports that it
 *           does not use, and tells which it uses only in print.
 */
void ucx_peer_timeout_tune(ucp_config_t *config, uint64_t time_ns,
                           bool has_rdma);

/* What UCX would do on this machine. */
typedef struct ucx_peer_timeout_facts {
    const ucx_peer_timeout_transport_t *transport;
    bool               is_known; /* UCX has told what `now` is */
    ucx_peer_timeout_t now; /* from defaults, the environment and a ucx.conf */
    ucx_peer_timeout_t own; /* in a context that the pool makes */
    /* What makes the difference: "UCX_A=1 UCX_B=2". */
    char settings[192];
} ucx_peer_timeout_facts_t;

/*
 * For each transport that a context of the pool has and that is known here.
 *
 * UCXPOOL_ERR_*  UCX does not start: as ucx_status() translates
 */
ucxpool_status_t ucx_peer_timeout_query(
    uint64_t                 time_ns,
    ucx_peer_timeout_facts_t facts[UCX_PEER_TIMEOUT_NUM_TRANSPORTS],
    unsigned                *num_p);

/* Of this machine's kernel (net.ipv4.NAME); fallback where it does not tell. */
unsigned ucx_peer_timeout_sysctl(const char *name, unsigned fallback);

/* --- TCP connections ---------------------------------------------------------
 * UCX's TCP connections, looked at several times within PEER_TIMEOUT: a peer
 * whose kernel has stopped to answer is gone, and its connection is ended, so
 * that UCX tells of it. Left alone, the kernel tries for 15 minutes what is
 * unacknowledged; TCP_USER_TIMEOUT would end connections to peers as well that
 * only are slow to read. The kernel of a peer that is busy or stopped answers.
 *
 * A try is a segment that is sent again, or a probe of a closed window.
 */

typedef struct ucx_tcp_watch {
    base_list_t suspects;  /* connections with a try that was not answered */
    const char *name;      /* of the pool, for the log */
    int         worker_fd; /* -1: UCX's connections cannot be found */
    uint64_t    timeout_ns;
    uint64_t    next_look;
} ucx_tcp_watch_t;

/*
 * name        Of the pool; lives as long as the watch.
 * worker_fd   The event descriptor of UCX's worker; -1: it has none.
 * timeout_ns  PEER_TIMEOUT; BASE_CLOCK_FOREVER: that is left to the kernel.
 */
void ucx_tcp_watch_init(ucx_tcp_watch_t *watch, const char *name, int worker_fd,
                        uint64_t timeout_ns);
void ucx_tcp_watch_cleanup(ucx_tcp_watch_t *watch);

/* How soon one that is gone is noticed while something is on its way;
 * UINT64_MAX: that is left to the kernel. */
uint64_t ucx_tcp_watch_detection_time(uint64_t timeout_ns);

/* Look, if it is time. Returns how many connections were ended. */
unsigned ucx_tcp_watch_progress(ucx_tcp_watch_t *watch);

/* When it is time; BASE_CLOCK_FOREVER: never. */
uint64_t ucx_tcp_watch_deadline(const ucx_tcp_watch_t *watch);

/* For the tests: one connection as the kernel describes it, at a moment.
 * True: its peer is gone. */
bool ucx_tcp_watch_judge(ucx_tcp_watch_t *watch, int fd,
                         const struct tcp_info *info, uint64_t now);

#endif
