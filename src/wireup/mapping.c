#include "wireup/wireup.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "copy/engine.h"
#include "core/memory.h"
#include "core/remote.h"
#include "ipc/socket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the peer's process --------------------------------------------------- */

/* The interval between checks of a process that is watched without a
 * descriptor. */
#define LOOK_NS UINT64_C(50000000)

void wireup_process_watch_stop(ucxpool_channel_t *channel)
{
    core_peer_t *peer = &channel->peer;
    int          fd   = peer->watch.fd;

    peer->next_check = BASE_CLOCK_FOREVER;
    if (fd >= 0) {
        core_source_remove(&peer->watch);
        close(fd);
    }
}

static void process_ended(ucxpool_channel_t *channel)
{
    wireup_process_watch_stop(channel);
    channel->peer.has_ended = true;
}

/* Handle a readable pidfd: the peer's process has ended. */
static unsigned watch_ready(core_source_t *source)
{
    process_ended(base_container_of(source, ucxpool_channel_t, peer.watch));
    return 1;
}

/* Watch a pidfd, and take ownership of it. */
static bool watch_add(ucxpool_channel_t *channel, int fd)
{
    if (core_source_add(&channel->peer.watch, channel->pool, fd, watch_ready) !=
        UCXPOOL_OK) {
        close(fd);
        return false;
    }
    return true;
}

bool wireup_process_watch_socket(ucxpool_channel_t *channel, int socket_fd)
{
    int fd;

    return (ipc_socket_watch(socket_fd, &fd) == 0) && watch_add(channel, fd);
}

bool wireup_process_watch_start(ucxpool_channel_t *channel,
                                const ipc_host_t  *host)
{
    core_peer_t *peer = &channel->peer;
    int          fd   = ipc_watch(host);

    if (fd < 0) {
        peer->next_check = 0;
        return ipc_host_is_alive(host);
    }
    return watch_add(channel, fd);
}

unsigned wireup_process_watch_look(ucxpool_channel_t *channel)
{
    core_peer_t *peer = &channel->peer;

    if (base_clock_now() < peer->next_check) {
        return 0;
    }
    if (ipc_host_is_reaped(&peer->host)) {
        process_ended(channel);
        return 1;
    }
    peer->next_check = base_clock_deadline(LOOK_NS);
    return 0;
}

/* --- the peer's memory ---------------------------------------------------- */

/* The number of entries that the ipc_cuda_t of a GPU's regions occupies. */
#define HOW_FILES ((uint32_t)(sizeof(ipc_cuda_t) / sizeof(ipc_file_t)))

static_assert(HOW_FILES * sizeof(ipc_file_t) == sizeof(ipc_cuda_t),
              "an ipc_cuda_t must fill whole entries");

/* Returns the regions that the channel's HELLO offers. */
static const mem_regions_t *offered(const ucxpool_channel_t *channel)
{
    const ucxpool_t *pool = channel->pool;

    return channel->wireup.offers_pinned
               ? block_pool_regions(core_memory_host_blocks(pool))
               : &pool->memory.regions;
}

ucxpool_memory_kind_t wireup_mapping_kind(const ucxpool_channel_t *channel)
{
    return mem_regions_are_on_gpu(offered(channel)) ? UCXPOOL_MEMORY_CUDA
                                                    : UCXPOOL_MEMORY_HOST;
}

/* Returns the number of entries in a HELLO before the entries of the
 * regions. */
static uint32_t num_before(uint32_t memory_kind)
{
    return (memory_kind == UCXPOOL_MEMORY_CUDA) ? HOW_FILES : 0;
}

uint32_t wireup_mapping_num_files(const ucxpool_channel_t *channel)
{
    uint32_t count = num_before(wireup_mapping_kind(channel)) +
                     offered(channel)->num_regions + 1;

    return ((channel->ring.mine != NULL) && (count <= PROTO_FILES_MAX)) ? count
                                                                        : 0;
}

static void put_entry(void *files, uint32_t index, const ipc_file_t *file)
{
    memcpy((uint8_t *)files + index * sizeof(*file), file, sizeof(*file));
}

static void fill_file(void *files, uint32_t index, int fd)
{
    ipc_file_t file = {.fd = -1};

    if (ipc_file_fill(fd, &file) != UCXPOOL_OK) {
        base_warn("cannot offer file %u of the pool's memory to a peer", index);
    }
    put_entry(files, index, &file);
}

/* Write the ipc_cuda_t that describes how the regions are shared, and the entry
 * of each region. */
static void fill_gpu(mem_regions_t *regions, void *files)
{
    ipc_cuda_t share;
    ipc_file_t file;

    for (uint32_t i = 0; i < regions->num_regions; i++) {
        if (ipc_cuda_fill(regions, i, &share) != UCXPOOL_OK) {
            base_warn("cannot offer region %u of the pool's GPU memory to a "
                      "peer",
                      i);
            memset(&share, 0, sizeof(share));
        }
        file = (ipc_file_t){.size = share.size, .fd = share.fd};
        put_entry(files, HOW_FILES + i, &file);
    }
    memcpy(files, &share, sizeof(share));
}

void wireup_mapping_fill(ucxpool_channel_t *channel, void *files)
{
    const mem_regions_t *regions = offered(channel);
    uint32_t             index   = 0;

    if (wireup_mapping_kind(channel) == UCXPOOL_MEMORY_CUDA) {
        fill_gpu(&channel->pool->memory.regions, files);
        index = HOW_FILES + regions->num_regions;
    } else {
        for (; index < regions->num_regions; index++) {
            fill_file(files, index, regions->regions[index].fd);
        }
    }
    fill_file(files, index, channel->ring.fd);
}

uint32_t wireup_mapping_num_fds(const ucxpool_channel_t *channel)
{
    const mem_regions_t *regions = offered(channel);

    return 1 + (regions->kind->shares_by_fd ? regions->num_regions : 0);
}

int wireup_mapping_fd(const ucxpool_channel_t *channel, uint32_t index)
{
    return (index + 1 == wireup_mapping_num_fds(channel))
               ? channel->ring.fd
               : offered(channel)->regions[index].fd;
}

uint32_t wireup_mapping_num_fds_of(const proto_hello_t *hello,
                                   const ipc_file_t    *files)
{
    uint32_t   before = num_before(hello->memory_kind);
    ipc_cuda_t how;

    if (hello->num_files < before + 2) {
        return 0;
    }
    if (before != 0) {
        memcpy(&how, files, sizeof(how));
        if (how.way != IPC_CUDA_FILE) {
            return 1;
        }
    }
    return hello->num_files - before;
}

/* A peer's memory that is being mapped. */
typedef struct attempt {
    ucxpool_channel_t   *channel;
    const proto_hello_t *hello;
    const ipc_file_t    *files; /* the HELLO's entries of the regions */
    const int           *fds;   /* sent by the peer; NULL: not sent */
    uint32_t             num_regions;
    core_mapping_t      *mapping;
} attempt_t;

static wireup_mapping_result_t no(const attempt_t *attempt, const char *reason)
{
    core_peer_t *peer = &attempt->channel->peer;

    snprintf(peer->local_reason, sizeof(peer->local_reason), "%s", reason);
    return WIREUP_MAPPING_IMPOSSIBLE;
}

/* Returns FORBIDDEN if the mapping could succeed with descriptors that the peer
 * sends, else IMPOSSIBLE. */
static wireup_mapping_result_t failed(const attempt_t *attempt,
                                      ucxpool_status_t status)
{
    return ((attempt->fds == NULL) && ((status == UCXPOOL_ERR_PERMISSION) ||
                                       (status == UCXPOOL_ERR_UNSUPPORTED)))
               ? WIREUP_MAPPING_FORBIDDEN
               : WIREUP_MAPPING_IMPOSSIBLE;
}

static wireup_mapping_result_t map_file(const attempt_t  *attempt,
                                        const ipc_file_t *file, int given,
                                        const void **address_p)
{
    core_peer_t     *peer = &attempt->channel->peer;
    ucxpool_status_t status;

    status = ipc_map(&attempt->hello->host, file, given, address_p,
                     peer->local_reason, sizeof(peer->local_reason));
    return (status == UCXPOOL_OK) ? WIREUP_MAPPING_DONE
                                  : failed(attempt, status);
}

/* Let our GPU, if there is one, read the peer's regions. If this fails, the CPU
 * copies data for the GPU, which is slower. */
static void try_pin(const ucxpool_channel_t *channel, core_mapping_t *mapping)
{
    ucxpool_t       *pool = channel->pool;
    base_log_level_t level;

    if (copy_engine_memory_kind(pool->engine) == UCXPOOL_MEMORY_HOST) {
        return;
    }
    level = base_error_log_at(BASE_LOG_DEBUG);
    mapping->is_pinned =
        core_memory_pin_peers(pool, mapping->regions, mapping->region_sizes,
                              mapping->num_regions) == UCXPOOL_OK;
    if (!mapping->is_pinned) {
        snprintf(mapping->unpinned, sizeof(mapping->unpinned),
                 "through host memory, which the CPU copies for the GPU: %s",
                 ucxpool_error_detail());
        base_warn("%s: the CPU copies received data for the GPU, which is "
                  "slower: %s",
                  channel->name, ucxpool_error_detail());
    }
    base_error_log_at(level);
}

static wireup_mapping_result_t open_host(const attempt_t *attempt)
{
    core_mapping_t         *mapping = attempt->mapping;
    const void             *address;
    wireup_mapping_result_t result;

    for (uint32_t i = 0; i < attempt->num_regions; i++) {
        result =
            map_file(attempt, &attempt->files[i],
                     (attempt->fds == NULL) ? -1 : attempt->fds[i], &address);
        if (result != WIREUP_MAPPING_DONE) {
            return result;
        }
        mapping->regions[i]      = address;
        mapping->region_sizes[i] = attempt->files[i].size;
        mapping->num_regions     = i + 1;
    }
    try_pin(attempt->channel, mapping);
    return WIREUP_MAPPING_DONE;
}

/* Import the descriptors of the peer's regions into this process. */
static ucxpool_status_t import_all(const attempt_t  *attempt,
                                   const ipc_cuda_t *how, int *fds)
{
    ipc_cuda_t       share = *how;
    ucxpool_status_t status;

    for (uint32_t i = 0; i < attempt->num_regions; i++) {
        share.fd = attempt->files[i].fd;
        status   = ipc_cuda_import(&attempt->hello->host, &share, &fds[i]);
        if (status != UCXPOOL_OK) {
            ipc_close_all(fds, i);
            return status;
        }
    }
    return UCXPOOL_OK;
}

uint32_t wireup_mapping_push_flags(const ucxpool_t *pool)
{
    switch (pool->config.map_way) {
    case BASE_MAP_WAY_AUTO:
        return PROTO_HELLO_PUSH;
    case BASE_MAP_WAY_PUSH:
        return PROTO_HELLO_PUSH | PROTO_HELLO_PUSH_NEAR;
    default:
        return 0;
    }
}

/* Returns true if the channel pushes: the sender's GPU writes to blocks of the
 * receiver. Both sides compute the same result. */
static bool is_pushed(const attempt_t *attempt)
{
    const ucxpool_t *pool = attempt->channel->pool;
    uint32_t both = attempt->hello->flags & wireup_mapping_push_flags(pool);
    bool     near = core_channel_shares_gpu(attempt->channel);

    return (both & (near ? PROTO_HELLO_PUSH_NEAR : PROTO_HELLO_PUSH)) != 0;
}

static wireup_mapping_result_t map_gpu(const attempt_t  *attempt,
                                       const ipc_cuda_t *how, const int *fds)
{
    const ucxpool_t *pool    = attempt->channel->pool;
    core_mapping_t  *mapping = attempt->mapping;
    const void      *address;

    if (ipc_cuda_map(pool->engine->device, how, fds, attempt->num_regions,
                     mapping->is_written, &address) != UCXPOOL_OK) {
        return no(attempt, ucxpool_error_detail());
    }
    for (uint32_t i = 0; i < attempt->num_regions; i++) {
        mapping->regions[i]      = (const uint8_t *)address + i * how->size;
        mapping->region_sizes[i] = how->size;
    }
    mapping->gpu         = *how;
    mapping->num_regions = attempt->num_regions;
    return WIREUP_MAPPING_DONE;
}

static wireup_mapping_result_t open_gpu(const attempt_t  *attempt,
                                        const ipc_cuda_t *how)
{
    int                     fds[PROTO_FILES_MAX];
    wireup_mapping_result_t result;
    ucxpool_status_t        status;

    if ((how->way == IPC_CUDA_IPC) &&
        !ipc_host_is_visible(&attempt->hello->host)) {
        return no(attempt, "CUDA's IPC handles are not used between PID "
                           "namespaces; set UCXPOOL_CUDA_BACKING=vmm");
    }
    if ((how->way == IPC_CUDA_IPC) &&
        (attempt->hello->host.pid == (uint32_t)getpid())) {
        return no(attempt, "both pools are in one process, and CUDA cannot "
                           "open an IPC handle in the process that created "
                           "it");
    }
    if ((how->way != IPC_CUDA_FILE) || (attempt->fds != NULL)) {
        return map_gpu(attempt, how, attempt->fds);
    }
    status = import_all(attempt, how, fds);
    if (status != UCXPOOL_OK) {
        no(attempt, ucxpool_error_detail());
        return failed(attempt, status);
    }
    result = map_gpu(attempt, how, fds);
    ipc_close_all(fds, attempt->num_regions);
    return result;
}

/* Returns an existing mapping of the same memory, made for another channel to
 * the same pool. NULL: none. */
static core_mapping_t *mapping_find(const attempt_t *attempt, bool is_written)
{
    const core_remote_t *remote    = attempt->channel->conn.remote;
    uint32_t             num_files = attempt->hello->num_files - 1;
    core_mapping_t      *mapping;

    if (remote == NULL) {
        return NULL;
    }
    base_list_for_each(mapping, &remote->mappings, core_mapping_t, link) {
        if ((mapping->num_files == num_files) &&
            (mapping->is_written == is_written) &&
            ipc_host_is_same(&mapping->host, &attempt->hello->host) &&
            (memcmp(mapping->files, attempt->files,
                    num_files * sizeof(ipc_file_t)) == 0)) {
            return mapping;
        }
    }
    return NULL;
}

/* Unmap the regions after their last use. */
static void mapping_destroy(core_mapping_t *mapping, ucxpool_t *pool)
{
    base_list_del(&mapping->link);
    if (mapping->is_pinned) {
        core_memory_unpin_peers(pool, mapping->regions, mapping->region_sizes,
                                mapping->num_regions);
    }
    if (mapping->gpu.way != 0) {
        ipc_cuda_unmap(pool->engine->device, &mapping->gpu,
                       mapping->num_regions, mapping->regions[0]);
    } else {
        for (uint32_t i = 0; i < mapping->num_regions; i++) {
            ipc_unmap(mapping->regions[i], mapping->region_sizes[i]);
        }
    }
    free(mapping->regions);
    free(mapping->region_sizes);
    free(mapping);
}

/* Create a mapping without regions. Returns NULL if out of memory. */
static core_mapping_t *mapping_create(const attempt_t *attempt, bool is_written)
{
    const proto_hello_t *hello   = attempt->hello;
    size_t               size    = (hello->num_files - 1) * sizeof(ipc_file_t);
    core_mapping_t      *mapping = calloc(1, sizeof(*mapping) + size);

    if (mapping == NULL) {
        return NULL;
    }
    base_list_init(&mapping->link);
    mapping->is_written = is_written;
    mapping->host       = hello->host;
    mapping->num_files  = hello->num_files - 1;
    mapping->regions =
        calloc(attempt->num_regions, sizeof(mapping->regions[0]));
    mapping->region_sizes = calloc(attempt->num_regions, sizeof(uint64_t));
    memcpy(mapping->files, attempt->files, size);
    if ((mapping->regions == NULL) || (mapping->region_sizes == NULL)) {
        mapping_destroy(mapping, attempt->channel->pool);
        return NULL;
    }
    return mapping;
}

/* Map the regions, unless another channel has mapped them. On a GPU, the
 * entries of the ipc_cuda_t come before the regions. */
static wireup_mapping_result_t open_regions(attempt_t *attempt, uint32_t before)
{
    core_peer_t            *peer   = &attempt->channel->peer;
    core_remote_t          *remote = attempt->channel->conn.remote;
    ipc_cuda_t              how;
    wireup_mapping_result_t result;

    memcpy(&how, attempt->files, before * sizeof(ipc_file_t));
    peer->pushes  = (before != 0) && is_pushed(attempt);
    peer->mapping = mapping_find(attempt, peer->pushes);
    if (peer->mapping != NULL) {
        peer->mapping->refs++;
        return WIREUP_MAPPING_DONE;
    }
    peer->mapping = mapping_create(attempt, peer->pushes);
    if (peer->mapping == NULL) {
        return no(attempt, "no memory");
    }
    peer->mapping->refs = 1;
    attempt->mapping    = peer->mapping;
    attempt->files += before;
    result = (before == 0) ? open_host(attempt) : open_gpu(attempt, &how);
    attempt->files -= before;
    if ((result == WIREUP_MAPPING_DONE) && (remote != NULL)) {
        base_list_add_tail(&remote->mappings, &peer->mapping->link);
    }
    return result;
}

static wireup_mapping_result_t open_ring(const attempt_t *attempt, int given)
{
    const ipc_file_t *file = &attempt->files[attempt->hello->num_files - 1];
    const void       *address;
    wireup_mapping_result_t result;

    if (attempt->channel->ring.theirs != NULL) {
        return WIREUP_MAPPING_DONE; /* mapped together with GPU memory */
    }
    if (file->size != sizeof(core_ring_page_t)) {
        return no(attempt, "the owner's ring has a different size");
    }
    result = map_file(attempt, file, given, &address);
    if (result == WIREUP_MAPPING_DONE) {
        core_ring_attach(&attempt->channel->ring, address);
    }
    return result;
}

wireup_mapping_result_t wireup_mapping_open(ucxpool_channel_t   *channel,
                                            const proto_hello_t *hello,
                                            const ipc_file_t    *files,
                                            const int           *fds)
{
    attempt_t               attempt = {channel, hello, files, fds, 0, NULL};
    uint32_t                before  = num_before(hello->memory_kind);
    uint32_t                num_fds = wireup_mapping_num_fds_of(hello, files);
    wireup_mapping_result_t result;

    attempt.num_regions = hello->num_files - before - 1;
    result              = open_regions(&attempt, before);
    if (result != WIREUP_MAPPING_DONE) {
        return result;
    }
    return open_ring(&attempt, (fds == NULL) ? -1 : fds[num_fds - 1]);
}

void wireup_mapping_close(ucxpool_channel_t *channel)
{
    core_mapping_t *mapping = channel->peer.mapping;

    channel->peer.mapping = NULL;
    channel->peer.pushes  = false;
    if ((mapping != NULL) && (--mapping->refs == 0)) {
        mapping_destroy(mapping, channel->pool);
    }
}
