/*
 * Settings of UCX for the contexts that the pool makes by itself. What the
 * environment says of UCX counts more.
 */
#ifndef XFER_TUNE_H
#define XFER_TUNE_H

#include <ucp/api/ucp.h>

void xfer_tune(ucp_config_t *config);

#endif
