/*
 * Descriptor passing: a pool sends the descriptors of its memory to peers that
 * the system does not allow to take these descriptors themselves.
 *
 *     peer                              owner
 *     connects                 ->       a socket of its id
 *     IMPORT, from number 0 on  ->
 *                              <-       GIVEN, 64 descriptors at most
 *     IMPORT, from 64 on        ->       ...
 *
 * A caller names a channel by its key. It receives descriptors if the kernel
 * reports that it belongs to the same user, and that it is the process whose
 * HELLO has arrived for the channel. If the caller connects before its HELLO
 * has arrived, it waits for the HELLO.
 *
 * The descriptors of files that contain a window are sent in the same way. The
 * importer also names its grant.
 *
 * A caller that sends HELLO instead of IMPORT is the peer of a channel. The
 * channel then takes over the connection (core/local.h).
 *
 * Resources are bounded. At most WIREUP_FD_EXPORT_MAX callers are connected at
 * a time; more callers wait in the system's queue. A caller is disconnected
 * after HANDSHAKE_TIMEOUT, which restarts with each message sent to it. No call
 * blocks: progress does all the work.
 */
#ifndef WIREUP_FD_PASSING_H
#define WIREUP_FD_PASSING_H

#include "core/channel.h"

/* --- export --------------------------------------------------------------- */

#define WIREUP_FD_EXPORT_MAX 64u

typedef struct wireup_fd_export wireup_fd_export_t;

/*
 * Create the pool's socket. If this fails, logs the reason and continues
 * without a socket. With UCXPOOL_WIRE=ucx, no socket is needed.
 *
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t wireup_fd_export_create(ucxpool_t *pool);
bool             wireup_fd_export_is_open(const ucxpool_t *pool);
void             wireup_fd_export_destroy(ucxpool_t *pool);

unsigned wireup_fd_export_progress(ucxpool_t *pool);

/* Returns true if callers are connected. Connected callers need progress. */
bool wireup_fd_export_is_busy(const ucxpool_t *pool);

/* Returns the time at which the export needs progress even without an event. */
uint64_t wireup_fd_export_deadline(const ucxpool_t *pool);

/* --- import -----------------------------------------------------------------
 * The channel's handshake waits for the import. As in the rest of the
 * handshake, there is no time limit: a peer without progress could not send
 * READY either. The watch of the peer's process and the socket detect the end
 * of the peer.
 */

/* Called when the import is done. The caller of the callback owns the
 * descriptors. If fds is NULL, the import failed, and
 * channel->peer.local_reason has the reason. */
typedef void (*wireup_fd_import_cb_t)(ucxpool_channel_t   *channel,
                                      const proto_hello_t *hello,
                                      const ipc_file_t *files, const int *fds);

/*
 * Start an import. Returns false if out of memory; the reason is in
 * channel->peer.local_reason.
 *
 * num_fds  Number of descriptors, from wireup_mapping_num_fds_of().
 * done     Called from progress.
 */
bool wireup_fd_import_start(ucxpool_channel_t   *channel,
                            const proto_hello_t *hello, const ipc_file_t *files,
                            uint32_t num_fds, wireup_fd_import_cb_t done);

/*
 * Request the files of a window that is being imported. Progress calls
 * window_remote_files_received() with the result, unless the channel ends
 * first. Returns false if out of memory.
 */
bool wireup_fd_import_window(ucxpool_channel_t *channel, uint64_t remote,
                             uint64_t grant, uint32_t num_fds);

/* Stop the imports of a channel. */
void wireup_fd_import_stop(ucxpool_channel_t *channel);

unsigned wireup_fd_import_progress(ucxpool_t *pool);

/* Returns the time at which imports need progress even without an event. */
uint64_t wireup_fd_import_deadline(const ucxpool_t *pool);

#endif
