/*
 * Passing of descriptors: a pool gives those of its memory to peers whom the
 * system does not let take them.
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
 * The same way go those of the files that a window lies in, for the importer
 * who names its grant.
 *
 * A caller that says HELLO in place of IMPORT is the other end of a channel,
 * and the connection becomes the channel's (core/local.h).
 *
 * What a caller can do is bounded: there are WIREUP_FD_EXPORT_MAX at a time,
 * each for HANDSHAKE_TIMEOUT, and again for each message that it is given; the
 * others wait in the system's queue. Nothing here waits: all is done by
 * progress.
 */
#ifndef WIREUP_FD_PASSING_H
#define WIREUP_FD_PASSING_H

#include "core/channel.h"

/* --- export --------------------------------------------------------------- */

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

/* --- import -----------------------------------------------------------------
 * The handshake of the channel waits meanwhile. There is no time limit, as
 * there is none on the rest of the handshake: a peer that makes no progress
 * cannot say READY either. Its end is seen, by the watch and by the socket.
 */

/* The descriptors have come, which stay the caller's; or NULL: they have not,
 * and the reason is in channel->peer.we_reason. */
typedef void (*wireup_fd_import_cb_t)(ucxpool_channel_t   *channel,
                                      const proto_hello_t *hello,
                                      const ipc_file_t *files, const int *fds);

/*
 * Begin. False: there is no memory for it; the reason is in
 * channel->peer.we_reason.
 *
 * num_fds  Descriptors that there are, as wireup_mapping_num_fds_of() counts.
 * done     Called from progress.
 */
bool wireup_fd_import_start(ucxpool_channel_t   *channel,
                            const proto_hello_t *hello, const ipc_file_t *files,
                            uint32_t num_fds, wireup_fd_import_cb_t done);

/*
 * Ask for the files of a window that is imported; window_remote_given() is
 * called from progress, while the channel lives. False: there is no memory.
 */
bool wireup_fd_import_window(ucxpool_channel_t *channel, uint64_t remote,
                             uint64_t grant, uint32_t num_fds);

/* The channel goes no further. */
void wireup_fd_import_stop(ucxpool_channel_t *channel);

unsigned wireup_fd_import_progress(ucxpool_t *pool);

/* When it wants to be called though nothing happens. */
uint64_t wireup_fd_import_deadline(const ucxpool_t *pool);

#endif
