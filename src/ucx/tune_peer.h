/*
 * Settings of UCX by which it notices in time that a peer is gone (see
 * ucx/peer_timeout.h), for the contexts that the pool makes; and what they are
 * in a context that somebody else makes.
 */
#ifndef UCX_TUNE_PEER_H
#define UCX_TUNE_PEER_H

#include "ucx/peer_timeout.h"

#include <ucxpool/status.h>

#include <ucp/api/ucp.h>

/*
 * Make UCX notice within time_ns (UCX_PEER_TIMEOUT_NEVER: leave it as it is).
 * What the environment sets is left as it is, and KEEPALIVE_INTERVAL also where
 * a ucx.conf does.
 *
 * has_rdma  There may be transports that need it. A context is made for a
 *           moment then: UCX up to 1.13 warns of settings of transports that it
 *           does not use, and tells which it uses only in print.
 */
void ucx_tune_peer(ucp_config_t *config, uint64_t time_ns, bool has_rdma);

/* What UCX would do on this machine. */
typedef struct ucx_tune_peer_facts {
    const ucx_peer_timeout_transport_t *transport;
    bool               is_known; /* UCX has told what `now` is */
    ucx_peer_timeout_t now; /* from defaults, the environment and a ucx.conf */
    ucx_peer_timeout_t own; /* in a context that the pool makes */
    /* What makes the difference: "UCX_A=1 UCX_B=2". */
    char settings[192];
} ucx_tune_peer_facts_t;

/*
 * For each transport that a context of the pool has and that is known here.
 *
 * UCXPOOL_ERR_*  UCX does not start: as ucx_status() translates
 */
ucxpool_status_t ucx_tune_peer_query(
    uint64_t              time_ns,
    ucx_tune_peer_facts_t facts[UCX_PEER_TIMEOUT_NUM_TRANSPORTS],
    unsigned             *num_p);

/* --- what both are made of ------------------------------------------------ */

/* KEEPALIVE_INTERVAL as UCX has it, where nobody has set it. */
#define UCX_TUNE_PEER_KEEPALIVE_NS UINT64_C(20000000000)

uint64_t ucx_tune_peer_keepalive(const ucp_config_t *config);

/* Does the environment set it, for this transport or its family; or, where
 * UCX tells these not apart, for another of the family? */
bool ucx_tune_peer_is_set(const ucx_peer_timeout_transport_t *transport,
                          const ucx_peer_timeout_setting_t   *setting);

/* What UCX prints of a context that is made for a moment, to be freed; NULL: it
 * does not start. */
char *ucx_tune_peer_print(const ucp_config_t *config, ucs_status_t *status_p);

/* Is this transport among what was printed? */
bool ucx_tune_peer_has(const char *printed, const char *name);

/* Of this machine's kernel (net.ipv4.NAME); fallback where it does not tell. */
unsigned ucx_tune_peer_kernel(const char *name, unsigned fallback);

#endif
