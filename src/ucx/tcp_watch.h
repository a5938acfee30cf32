/*
 * UCX's TCP connections, looked at several times within PEER_TIMEOUT: a peer
 * whose kernel has stopped to answer is gone, and its connection is ended, so
 * that UCX tells of it. Left alone, the kernel tries for 15 minutes what is
 * unacknowledged; TCP_USER_TIMEOUT would end connections to peers as well that
 * only are slow to read. The kernel of a peer that is busy or stopped answers.
 *
 * A try is a segment that is sent again, or a probe of a closed window.
 */
#ifndef UCX_TCP_WATCH_H
#define UCX_TCP_WATCH_H

#include "base/list.h"

#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>

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
