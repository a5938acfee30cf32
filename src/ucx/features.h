/*
 * What a borrowed context of UCX was made for. UCX does not tell, and takes
 * registrations and handlers of a context that lacks the features for them;
 * then a card of RDMA refuses a peer in mid-transfer.
 */
#ifndef UCX_FEATURES_H
#define UCX_FEATURES_H

#include <ucxpool/status.h>

#include <ucp/api/ucp.h>

/*
 * Refuse a context that is seen to lack UCP_FEATURE_AM or UCP_FEATURE_RMA. A
 * worker is made of it for a moment, with an endpoint to itself:
 *
 * AM   Its longest header is 0 bytes (UCX 1.22; others refuse handlers).
 * RMA  A get of no bytes is refused, where UCX is built to check parameters,
 *      as distributions do. A build for release prints of an endpoint how it
 *      puts short data, and does not without that feature; this is relied on
 *      where it goes over the transport `self`, and where the same is printed
 *      of a context that has the feature.
 *
 * UCXPOOL_ERR_UNSUPPORTED  it does
 */
ucxpool_status_t ucx_features_check(ucp_context_h context);

#endif
