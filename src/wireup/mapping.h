/*
 * What a HELLO says of a pool's memory, and the peer's memory mapped here.
 *
 *     host    region 0 | region 1 | ... | ring
 *     GPU     how (3 entries) | region 0 | region 1 | ... | ring
 *
 * Each entry is a ipc_file_t. Of a GPU, "how" is one ipc_cuda_t for
 * all regions, and of a region's entry its size counts, and its descriptor
 * where the regions are files.
 */
#ifndef WIREUP_MAPPING_H
#define WIREUP_MAPPING_H

#include "core/channel.h"

/* False: there is no such process, or it cannot be watched. */
bool wireup_process_watch_start(ucxpool_channel_t *channel,
                                const ipc_host_t  *host);
void wireup_process_watch_stop(ucxpool_channel_t *channel);

/* Look for a process that has no descriptor, when it is time. */
unsigned wireup_process_watch_look(ucxpool_channel_t *channel);

/* What the pool says it is, for those who want to map it. */
ucxpool_memory_kind_t wireup_mapping_kind(const ucxpool_t *pool);

/* Entries of the HELLO; 0: the pool's memory is not offered. */
uint32_t wireup_mapping_num_files(const ucxpool_channel_t *channel);

/* Fill them; what cannot be asked is left as 0, and then fits no peer. Nothing
 * is aligned in a message. */
void wireup_mapping_fill(ucxpool_channel_t *channel, void *files);

/* Can memory of the peer's kind be read here at all? If not, the reason is in
 * channel->peer.we_reason. */
bool wireup_mapping_fits(ucxpool_channel_t   *channel,
                         const proto_hello_t *hello);

/* PROTO_HELLO_PUSH and PROTO_HELLO_PUSH_NEAR, by UCXPOOL_MAP_WAY. */
uint32_t wireup_mapping_push_flags(const ucxpool_t *pool);

/* Descriptors of these files, in the order of the entries: regions that are
 * files, and the ring. Of our own; -1: there is none. */
uint32_t wireup_mapping_num_fds(const ucxpool_channel_t *channel);
int      wireup_mapping_fd(const ucxpool_channel_t *channel, uint32_t index);

/* How many that are, of a peer's HELLO; 0: it announces no regions. */
uint32_t wireup_mapping_num_fds_of(const proto_hello_t *hello,
                                   const ipc_file_t    *files);

typedef enum wireup_mapping_result {
    WIREUP_MAPPING_DONE,
    WIREUP_MAPPING_IMPOSSIBLE,
    WIREUP_MAPPING_FORBIDDEN /* the system does not let us take descriptors */
} wireup_mapping_result_t;

/*
 * Map the peer's regions and ring; the reason of a failure is likewise in
 * channel->peer.we_reason. After a failure wireup_mapping_close() is due before
 * another try.
 *
 * fds  Descriptors that the peer has given, wireup_mapping_num_fds_of() of
 * them, which stay the caller's. NULL: they are taken from its process.
 */
wireup_mapping_result_t wireup_mapping_open(ucxpool_channel_t   *channel,
                                            const proto_hello_t *hello,
                                            const ipc_file_t    *files,
                                            const int           *fds);
void                    wireup_mapping_close(ucxpool_channel_t *channel);

#endif
