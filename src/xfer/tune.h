/*
 * Settings of UCX for the contexts that the pool makes by itself. What the
 * environment says of them counts more, and what a ucx.conf says of UCX_TLS;
 * what it says of UCX_TCP_TX_SEG_SIZE cannot be read from a configuration.
 */
#ifndef XFER_TUNE_H
#define XFER_TUNE_H

#include <ucp/api/ucp.h>

void xfer_tune(ucp_config_t *config);

#endif
