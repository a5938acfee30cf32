#include <config.h>

#include "xfer/mapping.h"

#include "base/log.h"
#include "xfer/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Entries that say how a GPU's regions are shared. */
#define HOW_FILES \
    ((uint32_t)(sizeof(mem_share_cuda_t) / sizeof(mem_share_file_t)))

static_assert(HOW_FILES * sizeof(mem_share_file_t) == sizeof(mem_share_cuda_t),
              "how a GPU's regions are shared fills whole entries");

ucxpool_memory_kind_t xfer_mapping_kind(const ucxpool_t *pool)
{
    return mem_regions_are_on_gpu(&pool->regions) ? UCXPOOL_MEMORY_CUDA
                                                  : UCXPOOL_MEMORY_HOST;
}

/* Entries before the regions'. */
static uint32_t num_before(uint32_t memory_kind)
{
    return (memory_kind == UCXPOOL_MEMORY_CUDA) ? HOW_FILES : 0;
}

uint32_t xfer_mapping_num_files(const ucxpool_channel_t *channel)
{
    const ucxpool_t *pool  = channel->pool;
    uint32_t         count = num_before(xfer_mapping_kind(pool)) +
                     pool->regions.num_regions + 1;

    return ((channel->ring.mine != NULL) && (count <= PROTO_FILES_MAX)) ? count
                                                                        : 0;
}

static void put_entry(void *files, uint32_t index, const mem_share_file_t *file)
{
    memcpy((uint8_t *)files + index * sizeof(*file), file, sizeof(*file));
}

static void fill_file(void *files, uint32_t index, int fd)
{
    mem_share_file_t file = {.fd = -1};

    if (mem_share_file_fill(fd, &file) != UCXPOOL_OK) {
        base_warn("a peer is not offered file %u of our memory", index);
    }
    put_entry(files, index, &file);
}

/* How, and each region's descriptor. */
static void fill_gpu(mem_regions_t *regions, void *files)
{
    mem_share_cuda_t share;
    mem_share_file_t file;

    for (uint32_t i = 0; i < regions->num_regions; i++) {
        if (mem_share_cuda_fill(regions, i, &share) != UCXPOOL_OK) {
            base_warn("a peer is not offered region %u of our GPU memory", i);
            memset(&share, 0, sizeof(share));
        }
        file = (mem_share_file_t){.size = share.size, .fd = share.fd};
        put_entry(files, HOW_FILES + i, &file);
    }
    memcpy(files, &share, sizeof(share));
}

void xfer_mapping_fill(ucxpool_channel_t *channel, void *files)
{
    mem_regions_t *regions = &channel->pool->regions;
    uint32_t       index   = 0;

    if (xfer_mapping_kind(channel->pool) == UCXPOOL_MEMORY_CUDA) {
        fill_gpu(regions, files);
        index = HOW_FILES + regions->num_regions;
    } else {
        for (; index < regions->num_regions; index++) {
            fill_file(files, index, regions->regions[index].fd);
        }
    }
    fill_file(files, index, channel->ring.fd);
}

bool xfer_mapping_fits(ucxpool_channel_t *channel, const proto_hello_t *hello)
{
    xfer_peer_t *peer   = &channel->peer;
    bool         is_gpu = hello->memory_kind == UCXPOOL_MEMORY_CUDA;
    bool         we_are = channel->pool->engine != NULL;

    if (is_gpu == we_are) {
        return true;
    }
    snprintf(peer->we_reason, sizeof(peer->we_reason), "%s",
             is_gpu ? "it is on a GPU, and we are in host memory"
                    : "it is in host memory, and we are on a GPU");
    return false;
}

static bool no(xfer_peer_t *peer, const char *reason)
{
    snprintf(peer->we_reason, sizeof(peer->we_reason), "%s", reason);
    return false;
}

static bool open_host(xfer_peer_t *peer, const proto_hello_t *hello,
                      const mem_share_file_t *files, uint32_t num_regions)
{
    const void *address;

    for (uint32_t i = 0; i < num_regions; i++) {
        if (mem_share_map(&hello->host, &files[i], &address, peer->we_reason,
                          sizeof(peer->we_reason)) != UCXPOOL_OK) {
            return false;
        }
        peer->regions[i]      = address;
        peer->region_sizes[i] = files[i].size;
        peer->num_regions     = i + 1;
    }
    return true;
}

static void close_all(const int *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        close(fds[i]);
    }
}

/* The descriptors of a peer's regions, in this process. */
static ucxpool_status_t fetch_all(const proto_hello_t    *hello,
                                  const mem_share_cuda_t *how,
                                  const mem_share_file_t *files,
                                  uint32_t num_regions, int *fds)
{
    mem_share_cuda_t share = *how;
    ucxpool_status_t status;

    if (how->way != MEM_SHARE_CUDA_FILE) {
        return UCXPOOL_OK;
    }
    for (uint32_t i = 0; i < num_regions; i++) {
        share.fd = files[i].fd;
        status   = mem_share_cuda_fetch(&hello->host, &share, &fds[i]);
        if (status != UCXPOOL_OK) {
            close_all(fds, i);
            return status;
        }
    }
    return UCXPOOL_OK;
}

static bool open_gpu(ucxpool_channel_t *channel, const proto_hello_t *hello,
                     const mem_share_file_t *files, uint32_t num_regions)
{
    const mem_cuda_device_t *device = channel->pool->engine->device;
    xfer_peer_t             *peer   = &channel->peer;
    int                      fds[PROTO_FILES_MAX];
    const void              *address;
    mem_share_cuda_t         how;
    ucxpool_status_t         status;

    memcpy(&how, files, sizeof(how));
    files += HOW_FILES;
    if ((how.way == MEM_SHARE_CUDA_IPC) &&
        (hello->host.pid == (uint32_t)getpid())) {
        return no(peer, "it is in this process, where CUDA opens no IPC "
                        "handle of its own");
    }
    status = fetch_all(hello, &how, files, num_regions, fds);
    if (status == UCXPOOL_OK) {
        status = mem_share_cuda_map(device, &how, fds, num_regions, &address);
        if (how.way == MEM_SHARE_CUDA_FILE) {
            close_all(fds, num_regions);
        }
    }
    if (status != UCXPOOL_OK) {
        return no(peer, ucxpool_error_detail());
    }
    for (uint32_t i = 0; i < num_regions; i++) {
        peer->regions[i]      = (const uint8_t *)address + i * how.size;
        peer->region_sizes[i] = how.size;
    }
    peer->gpu         = how;
    peer->num_regions = num_regions;
    return true;
}

static bool open_ring(ucxpool_channel_t *channel, const proto_hello_t *hello,
                      const mem_share_file_t *file)
{
    xfer_peer_t *peer = &channel->peer;
    const void  *address;

    if (file->size != sizeof(xfer_ring_page_t)) {
        return no(peer, "its ring has another size");
    }
    if (mem_share_map(&hello->host, file, &address, peer->we_reason,
                      sizeof(peer->we_reason)) != UCXPOOL_OK) {
        return false;
    }
    xfer_ring_attach(&channel->ring, address);
    return true;
}

bool xfer_mapping_open(ucxpool_channel_t *channel, const proto_hello_t *hello,
                       const mem_share_file_t *files)
{
    xfer_peer_t *peer   = &channel->peer;
    uint32_t     before = num_before(hello->memory_kind);
    uint32_t     num_regions;
    bool         is_open;

    if (hello->num_files < before + 2) {
        return no(peer, "it announces no regions");
    }
    num_regions        = hello->num_files - before - 1;
    peer->regions      = calloc(num_regions, sizeof(peer->regions[0]));
    peer->region_sizes = calloc(num_regions, sizeof(uint64_t));
    if ((peer->regions == NULL) || (peer->region_sizes == NULL)) {
        return no(peer, "no memory");
    }
    is_open = (before != 0) ? open_gpu(channel, hello, files, num_regions)
                            : open_host(peer, hello, files, num_regions);
    return is_open &&
           open_ring(channel, hello, &files[hello->num_files - 1]);
}

void xfer_mapping_close(ucxpool_channel_t *channel)
{
    xfer_peer_t *peer = &channel->peer;

    if ((peer->num_regions != 0) && (peer->gpu.way != 0)) {
        mem_share_cuda_unmap(channel->pool->engine->device, &peer->gpu,
                             peer->num_regions, peer->regions[0]);
        peer->num_regions = 0;
    }
    for (uint32_t i = 0; i < peer->num_regions; i++) {
        mem_share_unmap(peer->regions[i], peer->region_sizes[i]);
    }
    free(peer->regions);
    free(peer->region_sizes);
    peer->regions      = NULL;
    peer->region_sizes = NULL;
    peer->num_regions  = 0;
}
