/*
 * Connects channels to their peers, and ends channels.
 *
 * The messages of the handshake may arrive in any order:
 *
 *   HELLO   identity of the sender, its memory, and the channel to connect
 *   READY   answer to HELLO: whether the sender can read the peer's memory
 *   GO      answer to READY: the peer may send
 *
 * One side begins the handshake (core/remote.h). The other side sends HELLO
 * after it has received the first HELLO. A side is open when it has received
 * HELLO, READY and GO. HELLO is repeated until READY arrives, because a peer
 * may have no room to keep a HELLO for a channel that it has not created yet.
 */
#ifndef WIREUP_WIREUP_H
#define WIREUP_WIREUP_H

#include "bootstrap/address.h"
#include "core/channel.h"
#include "core/local.h"
#include "core/pool.h"

#include <stdint.h>

/* --- early HELLOs ------------------------------------------------------------
 * Match HELLOs to channels, and keep HELLOs that arrive before their channel is
 * created. Any process that can reach UCX's ports can send HELLOs, so only a
 * few are kept, for a short time. No HELLO is lost, because a peer repeats
 * it. */

/* A HELLO that arrived early. */
typedef struct wireup_early {
    base_list_t   link;
    uint64_t      deadline; /* time to drop the HELLO if it is not repeated */
    core_way_t    way;
    proto_hello_t hello;
    ipc_file_t    files[];
} wireup_early_t;

void wireup_match_destroy_all(ucxpool_t *pool);

/* --- the handshake -------------------------------------------------------- */

/* Start the handshake with a known peer: send HELLO, or wait for the peer's
 * HELLO. Handles a HELLO that has arrived early. */
ucxpool_status_t wireup_hello_start(ucxpool_channel_t *channel);

/* Repeat HELLOs that have not been answered, and drop early HELLOs that were
 * not repeated. */
unsigned wireup_hello_progress(ucxpool_t *pool);

/* Handle a HELLO from any sender. If the HELLO arrived over a connection within
 * the host, takes over the connection. */
void wireup_hello_received(ucxpool_t *pool, const proto_hello_t *hello,
                           const void *files, const core_way_t *way);

/* Handle the peer's HELLO that has arrived over the channel's connection within
 * the host. */
void wireup_hello_answered(ucxpool_channel_t   *channel,
                           const proto_hello_t *hello, const void *files);

/* Resend all handshake messages later. Called when the connection failed during
 * the handshake, or the peer had no room for the HELLO. */
void wireup_hello_unanswered(ucxpool_channel_t *channel);

void wireup_hello_ready(ucxpool_channel_t *channel, const proto_ready_t *ready,
                        const void *text, size_t text_size);
void wireup_hello_go(ucxpool_channel_t *channel, ucp_ep_h reply_ep);

/* --- the peer's process and memory ---------------------------------------- */

/*
 * Describes a pool's memory in a HELLO, and maps the peer's memory into this
 * process.
 *
 *     host    region 0 | region 1 | ... | ring
 *     GPU     ipc_cuda_t (3 entries) | region 0 | region 1 | ... | ring
 *
 * Each entry is an ipc_file_t. For a GPU, an ipc_cuda_t with the size of three
 * entries describes how all regions are shared. A region's entry then contains
 * only a size and, if regions are files, a descriptor.
 */

/* Watch the peer's process, to detect its exit. Returns false if there is no
 * such process, or it cannot be watched. */
bool wireup_process_watch_start(ucxpool_channel_t *channel,
                                const ipc_host_t  *host);
/* Like wireup_process_watch_start(), for the process at the other end of a
 * socket, in any PID namespace. */
bool wireup_process_watch_socket(ucxpool_channel_t *channel, int socket_fd);
void wireup_process_watch_stop(ucxpool_channel_t *channel);

/* If a check is due, check whether a process that is watched without a
 * descriptor has exited. */
unsigned wireup_process_watch_look(ucxpool_channel_t *channel);

/* Returns the kind of memory that the channel's HELLO offers. */
ucxpool_memory_kind_t wireup_mapping_kind(const ucxpool_channel_t *channel);

/* Returns the number of entries in the HELLO, or 0 if the pool does not offer
 * its memory. */
uint32_t wireup_mapping_num_files(const ucxpool_channel_t *channel);

/* Write the HELLO's entries to `files`, which need not be aligned. If an entry
 * cannot be filled, peers cannot use it. */
void wireup_mapping_fill(ucxpool_channel_t *channel, void *files);

/* Returns the flags PROTO_HELLO_PUSH and PROTO_HELLO_PUSH_NEAR according to
 * UCXPOOL_MAP_WAY. */
uint32_t wireup_mapping_push_flags(const ucxpool_t *pool);

/* Return the number of this pool's descriptors for the entries, and one of
 * these descriptors. Their order is that of the entries: regions that are
 * files, then the ring. A descriptor may be -1: none. */
uint32_t wireup_mapping_num_fds(const ucxpool_channel_t *channel);
int      wireup_mapping_fd(const ucxpool_channel_t *channel, uint32_t index);

/* Returns the number of descriptors for a peer's HELLO, or 0 if the HELLO
 * announces no regions. */
uint32_t wireup_mapping_num_fds_of(const proto_hello_t *hello,
                                   const ipc_file_t    *files);

typedef enum wireup_mapping_result {
    WIREUP_MAPPING_DONE,
    WIREUP_MAPPING_IMPOSSIBLE,
    WIREUP_MAPPING_FORBIDDEN /* taking descriptors is not permitted */
} wireup_mapping_result_t;

/*
 * Map the peer's regions and the peer's ring. The peer must have at least one
 * region. Regions that another channel to the same pool has mapped are not
 * mapped again. After a failure, channel->peer.local_reason has the reason, and
 * wireup_mapping_close() must be called before another try.
 *
 * fds  The wireup_mapping_num_fds_of() descriptors that the peer has sent;
 *      owned by the caller. NULL: take them from the peer's process.
 */
wireup_mapping_result_t wireup_mapping_open(ucxpool_channel_t   *channel,
                                            const proto_hello_t *hello,
                                            const ipc_file_t    *files,
                                            const int           *fds);
void                    wireup_mapping_close(ucxpool_channel_t *channel);

/* --- connecting by address, by endpoint, or through a listener ------------ */

/* Check an address blob of unknown origin, and connect the channel to it. */
ucxpool_status_t wireup_connect_address(ucxpool_channel_t *channel,
                                        const void *address, size_t length);
ucxpool_status_t wireup_connect_ep(ucxpool_channel_t *channel, ucp_ep_h ep);

/* Start to connect to a listener. wireup_connect_progress() does the remaining
 * steps. */
ucxpool_status_t wireup_connect_listener(ucxpool_channel_t       *channel,
                                         const bootstrap_where_t *where);

/* Stop connecting a channel that its listener has not accepted yet. */
void wireup_connect_stop(ucxpool_channel_t *channel);

/* Make progress on the channels that their listeners have not accepted yet. */
unsigned wireup_connect_progress(ucxpool_t *pool);

/* Returns the earliest time at which a channel that its listener has not
 * accepted yet needs progress even without an event. */
uint64_t wireup_connect_deadline(ucxpool_t *pool);

/* --- networks ------------------------------------------------------------- */

/* Selects the networks that UCX opens for a pool. These are the networks of the
 * addresses on which the pool listens and from which it connects. When the
 * pool's address is exported, UCX opens all networks. */

/* Watch UCX's worker; the pool's epoll must exist. UCXPOOL_ERR_IO,
 * UCXPOOL_ERR_NO_MEMORY */
ucxpool_status_t wireup_network_watch(ucxpool_t *pool);

/*
 * wireup_network_listen() opens the networks of the addresses on which the pool
 * listens. wireup_network_share() opens all networks; it is called when the
 * pool's address is exported. Listeners then send the pool's new address to
 * their clients. If UCX must not be used (is_lost in ucx/context.h), both
 * functions restart it first. If the restart fails, peers can use only `map`.
 * wireup_network_listen() then succeeds only if no address needs a device;
 * wireup_network_share() always succeeds. Otherwise both return
 * UCXPOOL_ERR_UNSUPPORTED if UCX is in use, and the errors of
 * ucx_context_init() and ucx_reg_regions().
 */
ucxpool_status_t wireup_network_listen(ucxpool_t               *pool,
                                       const bootstrap_where_t *where);
ucxpool_status_t wireup_network_share(ucxpool_t *pool);

/*
 * Open the networks of the routes to a listener's addresses. Logs a warning for
 * each address whose device UCX cannot use. Returns false if UCX cannot use any
 * of the routes; then only the `map` wire is available. Returns true if there
 * are no routes.
 */
bool wireup_network_connect(ucxpool_t *pool, const bootstrap_where_t *where);

/* --- listeners ------------------------------------------------------------ */

/*
 * Listeners create a channel for each client that they accept. Only the pool
 * and the port of a listener may be read without the pool's lock.
 */

/*
 * Listen on the addresses in `where`. The listening socket is created first,
 * because its creation may fail. Then UCX opens the network devices of the
 * addresses.
 *
 * Returns the same errors as ucxpool_listener_create().
 */
ucxpool_status_t wireup_listener_create(ucxpool_t               *pool,
                                        const bootstrap_where_t *where,
                                        ucxpool_listener_t     **listener_p);
void             wireup_listener_destroy(ucxpool_listener_t *listener);
void             wireup_listener_destroy_all(ucxpool_t *pool);

ucxpool_t *wireup_listener_pool(const ucxpool_listener_t *listener);
uint16_t   wireup_listener_port(const ucxpool_listener_t *listener);

/*
 * Create a channel for the next authenticated client.
 *
 * params  Parameters that core_channel_params_check() has checked.
 *
 * Returns the same errors as ucxpool_listener_accept().
 */
ucxpool_status_t wireup_listener_accept(ucxpool_listener_t *listener,
                                        const ucxpool_channel_params_t *params,
                                        ucxpool_channel_t **channel_p);

unsigned wireup_listener_progress(ucxpool_t *pool);

/* Returns the earliest deadline of all listeners. */
uint64_t wireup_listener_deadline(ucxpool_t *pool);

/* Make all listeners send the pool's new address to clients. Called when the
 * address has changed. */
ucxpool_status_t wireup_listeners_renew(ucxpool_t *pool);

/* Returns true if clients have received the address, but have not been accepted
 * yet. */
bool wireup_listeners_have_callers(ucxpool_t *pool);

/* --- descriptor passing --------------------------------------------------- */

/*
 * Descriptor passing: a pool sends the descriptors of its memory to peers that
 * are not permitted to take them.
 *
 *     peer                              owner
 *     connects                 ->       the socket of its id
 *     IMPORT, from number 0 on  ->
 *                              <-       GIVEN, 64 descriptors at most
 *     IMPORT, from 64 on        ->       ...
 *
 * A caller identifies a channel by the channel's key. The owner sends
 * descriptors if the kernel reports that the caller belongs to the same user,
 * and that the caller is the process that sent the channel's HELLO. If the
 * caller connects before its HELLO has arrived, it waits for the HELLO.
 *
 * IMPORT and GIVEN also transfer the descriptors of files that contain a
 * window. IMPORT then also identifies the grant. A window in a GPU's virtual
 * memory may have tens of thousands of files. So each message has at most 32 of
 * their descriptors, or fewer if the owner or the importer has few free
 * descriptors. The owner opens the files of one message and closes them when
 * they are sent. The importer maps and closes them before it requests the next
 * files.
 *
 * A caller that sends HELLO instead of IMPORT is the peer of a channel. The
 * channel then takes over the connection (core/local.h).
 *
 * Resources are bounded. At most WIREUP_FD_EXPORT_MAX callers are connected at
 * a time; more callers wait in the listen backlog. A caller is disconnected
 * after HANDSHAKE_TIMEOUT, which restarts with each message sent to it. No call
 * blocks: progress does all the work.
 */

/* --- descriptor passing: export ------------------------------------------- */

#define WIREUP_FD_EXPORT_MAX 64u

typedef struct wireup_fd_export wireup_fd_export_t;

/*
 * Create the pool's sockets. If no abstract name can be used, logs the reason
 * and continues. With UCXPOOL_WIRE=ucx, no socket is needed.
 *
 * UCXPOOL_ERR_INVALID_PARAM, UCXPOOL_ERR_PERMISSION  UCXPOOL_SOCKET_DIR cannot
 *                                                    be used
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t wireup_fd_export_create(ucxpool_t *pool);
void             wireup_fd_export_destroy(ucxpool_t *pool);

unsigned wireup_fd_export_progress(ucxpool_t *pool);

/* Returns true if callers are connected, so that progress is needed. */
bool wireup_fd_export_is_busy(const ucxpool_t *pool);

/* Returns the time at which the export needs progress even without an event. */
uint64_t wireup_fd_export_deadline(const ucxpool_t *pool);

/* --- descriptor passing: import ----------------------------------------------
 * The channel's handshake waits for the import. As in the rest of the
 * handshake, there is no timeout: a peer that makes no progress could not send
 * READY either. If the peer exits, the watch of its process or the socket
 * detects this.
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
 * first. If maps_early is true, progress calls window_remote_map_files() for
 * the files of each message, and closes them. Returns false if out of memory.
 */
bool wireup_fd_import_window(ucxpool_channel_t *channel, uint64_t remote,
                             uint64_t grant, uint32_t num_fds, bool maps_early);

/* Stop the import of the files of a remote window, if there is one. If `remote`
 * is 0, stop all imports of the channel. */
void wireup_fd_import_stop(ucxpool_channel_t *channel, uint64_t remote);

unsigned wireup_fd_import_progress(ucxpool_t *pool);

/* Returns the time at which imports need progress even without an event. */
uint64_t wireup_fd_import_deadline(const ucxpool_t *pool);

/* --- the end of a channel ------------------------------------------------- */

/*
 * A channel ends at the caller's request, or after a failure that progress
 * detects.
 */

/* Free a channel that could not be connected. */
void wireup_channel_discard(ucxpool_channel_t *channel);

/* End a channel and drop the caller's reference. wireup_channel_close() first
 * waits until sends, window operations and matched receives have ended, for at
 * most CLOSE_TIMEOUT. It cancels other receives. wireup_channel_abort() ends
 * the channel at once. */
void wireup_channel_close(ucxpool_channel_t *channel);
void wireup_channel_abort(ucxpool_channel_t *channel);

/* Make progress on one channel: detects failures, delivers messages, and
 * continues the close. Returns the number of steps done. */
unsigned wireup_channel_progress(ucxpool_channel_t *channel);

/* Returns the time at which a closing channel needs progress even without an
 * event. */
uint64_t wireup_channel_close_deadline(const ucxpool_channel_t *channel);

/* End the channels that wireup_channel_close() still keeps open for their
 * requests. */
void wireup_channel_end_drains(ucxpool_t *pool);

/* Free all channels that have no references left. */
void wireup_channel_destroy_unreferenced(ucxpool_t *pool);

/* Free all channels at once. Called when the pool and UCX's worker are
 * destroyed, with no transfer in flight. */
void wireup_channel_destroy_all(ucxpool_t *pool);

#endif
