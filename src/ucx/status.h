/* Translates UCX's statuses to ucxpool_status_t, for the whole library. */
#ifndef UCX_STATUS_H
#define UCX_STATUS_H

#include <ucxpool/status.h>

#include <ucs/type/status.h>

/*
 * Every status for a failed peer (its process, its host, the network to it)
 * becomes UCXPOOL_ERR_PEER_LOST, regardless of the code that UCX uses on a
 * transport. An unknown status becomes UCXPOOL_ERR_IO. The caller reports the
 * text of ucs_status_string().
 */
ucxpool_status_t ucx_status(ucs_status_t status);

#endif
