/*
 * Handing out the descriptors of a pool's memory, to peers whom the system does
 * not let take them (wireup/fd_import.h is their side):
 *
 *     peer                              owner
 *     connects                 ->       a socket of its id
 *     IMPORT, from number 0 on  ->
 *                              <-       GIVEN, 64 descriptors at most
 *     IMPORT, from 64 on        ->       ...
 *
 * A caller is given them when the kernel says that it is of our user, and the
 * very process whose HELLO has come for the channel that it names by its key. A
 * caller may be quicker than its HELLO, and waits for it.
 *
 * A caller that says HELLO in place of IMPORT is the other end of a channel,
 * and the connection becomes the channel's (core/local.h).
 *
 * What a caller can do is bounded: there are WIREUP_FD_EXPORT_MAX at a time,
 * each for HANDSHAKE_TIMEOUT, and again for each message that it is given; the
 * others wait in the system's queue. Nothing here waits: all is done by
 * progress.
 */
#ifndef WIREUP_FD_EXPORT_H
#define WIREUP_FD_EXPORT_H

#include "core/channel.h"

#define WIREUP_FD_EXPORT_MAX 64u

typedef struct wireup_fd_export wireup_fd_export_t;

/*
 * A pool that can have no socket goes without one, and says so; with
 * UCXPOOL_WIRE=ucx it needs none.
 *
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t wireup_fd_export_create(ucxpool_t *pool);
bool             wireup_fd_export_is_open(const ucxpool_t *pool);
void             wireup_fd_export_destroy(ucxpool_t *pool);

unsigned wireup_fd_export_progress(ucxpool_t *pool);

/* Are there callers to be looked after? */
bool wireup_fd_export_is_busy(const ucxpool_t *pool);

/* When it wants to be called though nothing happens. */
uint64_t wireup_fd_export_deadline(const ucxpool_t *pool);

#endif
