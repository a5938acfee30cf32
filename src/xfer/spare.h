/*
 * What the system must still give when UCX asks for it. UCX ends the process
 * by an assertion where it gets no descriptor or no memory for its thread, so
 * that this is looked at before.
 */
#ifndef XFER_SPARE_H
#define XFER_SPARE_H

#include <ucxpool/status.h>

#include <stdbool.h>

/* What strangers at a door leave: for one endpoint of UCX, which takes a socket
 * for each network, and one for each that the peer opens. */
#define XFER_SPARE_DESCRIPTORS 8u

/* Can the process open so many more files now? 64 at most. Fewer for a moment
 * while this looks. */
bool xfer_spare_has(unsigned count);

/*
 * Is there what a context and a worker of UCX take?
 *
 * UCXPOOL_ERR_LIMIT      too few descriptors
 * UCXPOOL_ERR_NO_MEMORY  no memory for a thread
 */
ucxpool_status_t xfer_spare_check_ucx(void);

/* What a pool takes whose memory is there, a listener and its first caller
 * included; UCXPOOL_ERR_LIMIT. */
ucxpool_status_t xfer_spare_check_pool(void);

/* What an endpoint takes; UCXPOOL_ERR_LIMIT. */
ucxpool_status_t xfer_spare_check_endpoint(void);

#endif
