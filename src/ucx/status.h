/*
 * UCX's statuses as ours: the one place where they are translated.
 */
#ifndef UCX_STATUS_H
#define UCX_STATUS_H

#include <ucxpool/status.h>

#include <ucs/type/status.h>

/*
 * A status that means the peer (its process, its host, the way to it) becomes
 * UCXPOOL_ERR_PEER_LOST, whatever UCX calls it on this transport. One that is
 * not known becomes UCXPOOL_ERR_IO. The text is ucs_status_string()'s, and the
 * caller's to tell.
 */
ucxpool_status_t ucx_status(ucs_status_t status);

#endif
