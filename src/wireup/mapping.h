/*
 * The description of a pool's memory in a HELLO, and the peer's memory mapped
 * into this process.
 *
 *     host    region 0 | region 1 | ... | ring
 *     GPU     how (3 entries) | region 0 | region 1 | ... | ring
 *
 * Each entry is an ipc_file_t. For a GPU, "how" is one ipc_cuda_t for all
 * regions. Of a region's entry, only the size is used, and the descriptor if
 * regions are files.
 */
#ifndef WIREUP_MAPPING_H
#define WIREUP_MAPPING_H

#include "core/channel.h"

/* Returns false if there is no such process, or it cannot be watched. */
bool wireup_process_watch_start(ucxpool_channel_t *channel,
                                const ipc_host_t  *host);
void wireup_process_watch_stop(ucxpool_channel_t *channel);

/* Check a process without a descriptor, if the check is due. */
unsigned wireup_process_watch_look(ucxpool_channel_t *channel);

/* The kind of memory that the pool offers to peers. */
ucxpool_memory_kind_t wireup_mapping_kind(const ucxpool_t *pool);

/* Entries in the HELLO; 0: the pool's memory is not offered. */
uint32_t wireup_mapping_num_files(const ucxpool_channel_t *channel);

/* Fill the entries. An entry that cannot be filled stays 0, which no peer can
 * use. Entries in a message are not aligned. */
void wireup_mapping_fill(ucxpool_channel_t *channel, void *files);

/* Can this process read memory of the peer's kind? If not,
 * channel->peer.we_reason has the reason. */
bool wireup_mapping_fits(ucxpool_channel_t   *channel,
                         const proto_hello_t *hello);

/* PROTO_HELLO_PUSH and PROTO_HELLO_PUSH_NEAR, according to UCXPOOL_MAP_WAY. */
uint32_t wireup_mapping_push_flags(const ucxpool_t *pool);

/* Own descriptors of these files, in the order of the entries: regions that are
 * files, and the ring. -1: none. */
uint32_t wireup_mapping_num_fds(const ucxpool_channel_t *channel);
int      wireup_mapping_fd(const ucxpool_channel_t *channel, uint32_t index);

/* The number of descriptors for a peer's HELLO; 0: it announces no regions. */
uint32_t wireup_mapping_num_fds_of(const proto_hello_t *hello,
                                   const ipc_file_t    *files);

typedef enum wireup_mapping_result {
    WIREUP_MAPPING_DONE,
    WIREUP_MAPPING_IMPOSSIBLE,
    WIREUP_MAPPING_FORBIDDEN /* taking descriptors is not permitted */
} wireup_mapping_result_t;

/*
 * Map the peer's regions and ring. The reason of a failure is in
 * channel->peer.we_reason; call wireup_mapping_close() before another try.
 *
 * fds  wireup_mapping_num_fds_of() descriptors that the peer has sent; owned by
 *      the caller. NULL: they are taken from the peer's process.
 */
wireup_mapping_result_t wireup_mapping_open(ucxpool_channel_t   *channel,
                                            const proto_hello_t *hello,
                                            const ipc_file_t    *files,
                                            const int           *fds);
void                    wireup_mapping_close(ucxpool_channel_t *channel);

#endif
