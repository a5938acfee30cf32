#include <config.h>

#include "wireup/mapping.h"

#include "base/clock.h"
#include "base/log.h"
#include "copy/engine.h"
#include "core/channel.h"

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

bool wireup_process_watch_start(ucxpool_channel_t *channel,
                                const ipc_host_t  *host)
{
    core_peer_t *peer = &channel->peer;
    int          fd   = ipc_watch(host);

    if (fd < 0) {
        peer->next_check = 0;
        return ipc_host_is_alive(host);
    }
    if (core_source_add(&peer->watch, channel->pool, fd, watch_ready) !=
        UCXPOOL_OK) {
        close(fd);
        return false;
    }
    return true;
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

ucxpool_memory_kind_t wireup_mapping_kind(const ucxpool_t *pool)
{
    return mem_regions_are_on_gpu(&pool->memory.regions) ? UCXPOOL_MEMORY_CUDA
                                                         : UCXPOOL_MEMORY_HOST;
}

/* Returns the number of entries before the regions. */
static uint32_t num_before(uint32_t memory_kind)
{
    return (memory_kind == UCXPOOL_MEMORY_CUDA) ? HOW_FILES : 0;
}

uint32_t wireup_mapping_num_files(const ucxpool_channel_t *channel)
{
    const ucxpool_t *pool  = channel->pool;
    uint32_t         count = num_before(wireup_mapping_kind(pool)) +
                     pool->memory.regions.num_regions + 1;

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
    mem_regions_t *regions = &channel->pool->memory.regions;
    uint32_t       index   = 0;

    if (wireup_mapping_kind(channel->pool) == UCXPOOL_MEMORY_CUDA) {
        fill_gpu(regions, files);
        index = HOW_FILES + regions->num_regions;
    } else {
        for (; index < regions->num_regions; index++) {
            fill_file(files, index, regions->regions[index].fd);
        }
    }
    fill_file(files, index, channel->ring.fd);
}

bool wireup_mapping_fits(ucxpool_channel_t *channel, const proto_hello_t *hello)
{
    core_peer_t          *peer = &channel->peer;
    ucxpool_memory_kind_t ours = copy_engine_memory_kind(channel->pool->engine);

    if ((hello->memory_kind == UCXPOOL_MEMORY_CUDA) ==
        (ours == UCXPOOL_MEMORY_CUDA)) {
        return true;
    }
    snprintf(peer->local_reason, sizeof(peer->local_reason), "%s",
             (ours == UCXPOOL_MEMORY_HOST)
                 ? "it is GPU memory, and this pool is in host memory"
                 : "it is host memory, and this pool is on a GPU");
    return false;
}

uint32_t wireup_mapping_num_fds(const ucxpool_channel_t *channel)
{
    const mem_regions_t *regions = &channel->pool->memory.regions;

    return 1 + (regions->kind->shares_by_fd ? regions->num_regions : 0);
}

int wireup_mapping_fd(const ucxpool_channel_t *channel, uint32_t index)
{
    return (index + 1 == wireup_mapping_num_fds(channel))
               ? channel->ring.fd
               : channel->pool->memory.regions.regions[index].fd;
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
    const ipc_file_t    *files; /* of the regions */
    const int           *fds;   /* sent by the peer; or NULL */
    uint32_t             num_regions;
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

static wireup_mapping_result_t open_host(const attempt_t *attempt)
{
    core_peer_t            *peer = &attempt->channel->peer;
    const void             *address;
    wireup_mapping_result_t result;

    for (uint32_t i = 0; i < attempt->num_regions; i++) {
        result =
            map_file(attempt, &attempt->files[i],
                     (attempt->fds == NULL) ? -1 : attempt->fds[i], &address);
        if (result != WIREUP_MAPPING_DONE) {
            return result;
        }
        peer->regions[i]      = address;
        peer->region_sizes[i] = attempt->files[i].size;
        peer->num_regions     = i + 1;
    }
    return WIREUP_MAPPING_DONE;
}

static void close_all(const int *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        close(fds[i]);
    }
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
            close_all(fds, i);
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

/* Returns true if messages are pushed. Both sides compute the same result. */
static bool is_pushed(const attempt_t *attempt, const ipc_cuda_t *how)
{
    const ucxpool_t *pool = attempt->channel->pool;
    uint32_t both = attempt->hello->flags & wireup_mapping_push_flags(pool);
    bool     near = copy_engine_shares_device(pool->engine, how->uuid);

    return (both & (near ? PROTO_HELLO_PUSH_NEAR : PROTO_HELLO_PUSH)) != 0;
}

static wireup_mapping_result_t map_gpu(const attempt_t  *attempt,
                                       const ipc_cuda_t *how, const int *fds)
{
    const ucxpool_t *pool = attempt->channel->pool;
    core_peer_t     *peer = &attempt->channel->peer;
    const void      *address;

    peer->pushes = is_pushed(attempt, how);
    if (ipc_cuda_map(pool->engine->device, how, fds, attempt->num_regions,
                     peer->pushes, &address) != UCXPOOL_OK) {
        return no(attempt, ucxpool_error_detail());
    }
    for (uint32_t i = 0; i < attempt->num_regions; i++) {
        peer->regions[i]      = (const uint8_t *)address + i * how->size;
        peer->region_sizes[i] = how->size;
    }
    peer->gpu         = *how;
    peer->num_regions = attempt->num_regions;
    return WIREUP_MAPPING_DONE;
}

static wireup_mapping_result_t open_gpu(const attempt_t  *attempt,
                                        const ipc_cuda_t *how)
{
    int                     fds[PROTO_FILES_MAX];
    wireup_mapping_result_t result;
    ucxpool_status_t        status;

    if ((how->way == IPC_CUDA_IPC) &&
        (attempt->hello->host.pid == (uint32_t)getpid())) {
        return no(attempt, "it is in this process, where CUDA cannot open its "
                           "own IPC handles");
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
    close_all(fds, attempt->num_regions);
    return result;
}

/* Map the regions. On a GPU, the entries of the ipc_cuda_t come before the
 * regions. */
static wireup_mapping_result_t open_regions(attempt_t *attempt, uint32_t before)
{
    ipc_cuda_t how;

    if (before == 0) {
        return open_host(attempt);
    }
    memcpy(&how, attempt->files, sizeof(how));
    attempt->files += before;
    return open_gpu(attempt, &how);
}

static wireup_mapping_result_t open_ring(const attempt_t *attempt, int given)
{
    const ipc_file_t       *file = &attempt->files[attempt->num_regions];
    const void             *address;
    wireup_mapping_result_t result;

    if (file->size != sizeof(core_ring_page_t)) {
        return no(attempt, "its ring has a different size");
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
    attempt_t               attempt = {channel, hello, files, fds, 0};
    core_peer_t            *peer    = &channel->peer;
    uint32_t                before  = num_before(hello->memory_kind);
    uint32_t                num_fds = wireup_mapping_num_fds_of(hello, files);
    wireup_mapping_result_t result;

    if (num_fds == 0) {
        return no(&attempt, "it announces no regions");
    }
    attempt.num_regions = hello->num_files - before - 1;
    peer->regions       = calloc(attempt.num_regions, sizeof(peer->regions[0]));
    peer->region_sizes  = calloc(attempt.num_regions, sizeof(uint64_t));
    if ((peer->regions == NULL) || (peer->region_sizes == NULL)) {
        return no(&attempt, "no memory");
    }
    result = open_regions(&attempt, before);
    if (result != WIREUP_MAPPING_DONE) {
        return result;
    }
    return open_ring(&attempt, (fds == NULL) ? -1 : fds[num_fds - 1]);
}

void wireup_mapping_close(ucxpool_channel_t *channel)
{
    core_peer_t *peer = &channel->peer;

    if ((peer->num_regions != 0) && (peer->gpu.way != 0)) {
        ipc_cuda_unmap(channel->pool->engine->device, &peer->gpu,
                       peer->num_regions, peer->regions[0]);
        peer->num_regions = 0;
    }
    for (uint32_t i = 0; i < peer->num_regions; i++) {
        ipc_unmap(peer->regions[i], peer->region_sizes[i]);
    }
    free(peer->regions);
    free(peer->region_sizes);
    peer->regions      = NULL;
    peer->region_sizes = NULL;
    peer->num_regions  = 0;
}
