/*
 * Fetching the descriptors of a peer's memory from the peer, where the system
 * does not let us take them; wireup/fd_export.h is its side. The handshake of
 * the channel waits meanwhile.
 *
 * There is no time limit, as there is none on the rest of the handshake: a peer
 * that makes no progress cannot say READY either. Its end is seen, by the
 * watch and by the socket.
 */
#ifndef WIREUP_FD_IMPORT_H
#define WIREUP_FD_IMPORT_H

#include "core/channel.h"

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

/* The channel goes no further. */
void wireup_fd_import_stop(ucxpool_channel_t *channel);

unsigned wireup_fd_import_progress(ucxpool_t *pool);

/* When it wants to be called though nothing happens. */
uint64_t wireup_fd_import_deadline(const ucxpool_t *pool);

#endif
