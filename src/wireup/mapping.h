/*
 * Describes a pool's memory in a HELLO, and maps the peer's memory into this
 * process.
 *
 *     host    region 0 | region 1 | ... | ring
 *     GPU     ipc_cuda_t (3 entries) | region 0 | region 1 | ... | ring
 *
 * Each entry is an ipc_file_t. For a GPU, one ipc_cuda_t takes the place of
 * three entries and describes how all regions are shared. A region's entry then
 * contains only a size and, if regions are files, a descriptor.
 */
#ifndef WIREUP_MAPPING_H
#define WIREUP_MAPPING_H

#include "core/channel.h"

/* Watch the peer's process for its end. Returns false if there is no such
 * process, or it cannot be watched. */
bool wireup_process_watch_start(ucxpool_channel_t *channel,
                                const ipc_host_t  *host);
void wireup_process_watch_stop(ucxpool_channel_t *channel);

/* Check, if a check is due, whether a process that is watched without a
 * descriptor has ended. */
unsigned wireup_process_watch_look(ucxpool_channel_t *channel);

/* Returns the kind of memory that the pool offers to peers. */
ucxpool_memory_kind_t wireup_mapping_kind(const ucxpool_t *pool);

/* Returns the number of entries in the HELLO, or 0 if the pool does not offer
 * its memory. */
uint32_t wireup_mapping_num_files(const ucxpool_channel_t *channel);

/* Fill the entries. Peers cannot use an entry that could not be filled. Entries
 * in a message are not aligned. */
void wireup_mapping_fill(ucxpool_channel_t *channel, void *files);

/* Returns true if this process can read memory of the peer's kind. Otherwise
 * channel->peer.local_reason has the reason. */
bool wireup_mapping_fits(ucxpool_channel_t   *channel,
                         const proto_hello_t *hello);

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
 * Map the peer's regions and ring. After a failure, channel->peer.local_reason
 * has the reason, and wireup_mapping_close() must be called before another try.
 *
 * fds  The wireup_mapping_num_fds_of() descriptors that the peer has sent;
 *      owned by the caller. NULL: take them from the peer's process.
 */
wireup_mapping_result_t wireup_mapping_open(ucxpool_channel_t   *channel,
                                            const proto_hello_t *hello,
                                            const ipc_file_t    *files,
                                            const int           *fds);
void                    wireup_mapping_close(ucxpool_channel_t *channel);

#endif
