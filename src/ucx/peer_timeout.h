/*
 * How soon UCX notices that a peer is gone: which of its settings say so, and
 * what they promise. Pure arithmetic; nothing of UCX is called.
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
 *                                  tcp_watch.h makes, whichever is sooner.
 *                                  TCP's own keepalive (KEEPIDLE and others)
 *                                  does not count: it is silent while
 *                                  something is unacknowledged, as UCX's
 *                                  probe is
 */
#ifndef UCX_PEER_TIMEOUT_H
#define UCX_PEER_TIMEOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum xfer_notice_kind {
    XFER_NOTICE_RC,
    XFER_NOTICE_UD,
    XFER_NOTICE_TCP
} xfer_notice_kind_t;

typedef struct xfer_notice_transport {
    const char        *name;   /* "rc_verbs" */
    const char        *prefix; /* of its settings: "RC_VERBS_" */
    const char        *family; /* or for all of its kind: "RC_"; TCP: "" */
    xfer_notice_kind_t kind;
} xfer_notice_transport_t;

#define XFER_NOTICE_NUM_TRANSPORTS 6u

extern const xfer_notice_transport_t
    xfer_notice_transports[XFER_NOTICE_NUM_TRANSPORTS];

/* Not known, or never. */
#define XFER_NOTICE_NEVER UINT64_MAX

/* What the settings say. */
typedef struct xfer_notice {
    uint64_t keepalive_ns; /* KEEPALIVE_INTERVAL, of all transports */
    uint64_t timeout_ns;   /* TIMEOUT, USER_TIMEOUT */
    uint64_t count;        /* RETRY_COUNT */
} xfer_notice_t;

/* Settings by which a peer is noticed in this time, idle or busy, but for TCP.
 */
xfer_notice_t xfer_notice_choose(xfer_notice_kind_t kind, uint64_t time_ns);

/* How long the kernel sends again; net.ipv4.tcp_retries2. */
uint64_t xfer_notice_kernel(unsigned tcp_retries2);

/* tcp_ns  How soon an unanswered connection is given up, by whomever. */
uint64_t xfer_notice_busy(xfer_notice_kind_t kind, const xfer_notice_t *notice,
                          uint64_t tcp_ns);
uint64_t xfer_notice_idle(xfer_notice_kind_t kind, const xfer_notice_t *notice,
                          uint64_t tcp_ns);

/* One setting of a transport, and its place in xfer_notice_t. */
typedef struct xfer_notice_setting {
    const char *name;   /* without the prefix: "RETRY_COUNT" */
    size_t      offset; /* of a uint64_t in xfer_notice_t */
    bool        is_time;
} xfer_notice_setting_t;

#define XFER_NOTICE_MAX_SETTINGS 2u

uint64_t *xfer_notice_value(xfer_notice_t               *notice,
                            const xfer_notice_setting_t *setting);

/* Those of a kind; returns how many. KEEPALIVE_INTERVAL is not among them. */
unsigned
xfer_notice_settings(xfer_notice_kind_t    kind,
                     xfer_notice_setting_t settings[XFER_NOTICE_MAX_SETTINGS]);

/* Room for what xfer_notice_format() writes. */
#define XFER_NOTICE_VALUE_SIZE 24

/* A value as UCX reads it. Times are whole microseconds. */
void xfer_notice_format(uint64_t value, bool is_time,
                        char text[XFER_NOTICE_VALUE_SIZE]);
/* And as it writes it; false when it is neither that nor "inf", which is
 * XFER_NOTICE_NEVER. */
bool xfer_notice_parse(const char *text, bool is_time, uint64_t *value_p);

#endif
