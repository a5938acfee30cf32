/*
 * Windows in virtual memory of a GPU. The peer maps the allocations that
 * contain the window. Its GPU then copies as with memory of cuMemAlloc().
 */
#include "base/error.h"
#include "ipc/virtual.h"
#include "window/window.h"

#include <stdlib.h>
#include <unistd.h>

/* --- owner ---------------------------------------------------------------- */

ucxpool_status_t window_virtual_share(ucxpool_window_t *window)
{
    ipc_virtual_part_t found[PROTO_PARTS_MAX];
    unsigned           num;
    ucxpool_status_t   status;

    status = ipc_virtual_export(window->pool->engine->device, window->address,
                                window->length, found, PROTO_PARTS_MAX, &num);
    if (status != UCXPOOL_OK) {
        return status;
    }
    window->parts = calloc(num, sizeof(window->parts[0]));
    if (window->parts == NULL) {
        ipc_virtual_close(found, num);
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for a window's %u parts", num);
    }
    for (unsigned i = 0; i < num; i++) {
        window->parts[i] = (proto_window_part_t){
            .file   = {.size = found[i].size, .fd = found[i].fd},
            .offset = found[i].offset,
            .length = found[i].length,
        };
    }
    window->num_parts  = num;
    window->is_virtual = true;
    return UCXPOOL_OK;
}

void window_virtual_unshare(ucxpool_window_t *window)
{
    if (window->is_virtual) {
        for (unsigned i = 0; i < window->num_parts; i++) {
            close(window->parts[i].file.fd);
        }
        window->is_virtual = false;
    }
}

/* --- importer ------------------------------------------------------------- */

static void close_all(const int *fds, size_t num)
{
    for (size_t i = 0; i < num; i++) {
        close(fds[i]);
    }
}

/* Returns true if the parts make up the window without a gap. Only the first
 * part may begin inside an allocation, and only the last part may end inside
 * one. */
static bool is_whole(const proto_window_part_t *parts, size_t num,
                     uint64_t length)
{
    for (size_t i = 0; i < num; i++) {
        const proto_window_part_t *part = &parts[i];
        uint64_t                   size = part->file.size;

        if ((part->region != 0) || (part->length == 0) ||
            (part->offset > size) || (part->length > size - part->offset) ||
            ((i != 0) && (part->offset != 0)) ||
            ((i + 1 != num) && (part->length != size - part->offset)) ||
            (part->length > length)) {
            return false;
        }
        length -= part->length;
    }
    return length == 0;
}

/* Take the descriptors from the owner's process. The caller closes them. */
static ucxpool_status_t take(const ucxpool_channel_t *channel,
                             const window_answer_t *answer, int *fds)
{
    ucxpool_status_t status;

    for (size_t i = 0; i < answer->num_parts; i++) {
        const ipc_cuda_t share = {.way = IPC_CUDA_FILE,
                                  .fd  = answer->parts[i].file.fd};

        status = ipc_cuda_import(&channel->peer.host, &share, &fds[i]);
        if (status != UCXPOOL_OK) {
            close_all(fds, i);
            return status;
        }
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t map_given(ucxpool_remote_window_t *remote,
                                  const window_answer_t *answer, const int *fds)
{
    ipc_virtual_part_t given[PROTO_PARTS_MAX];

    for (size_t i = 0; i < answer->num_parts; i++) {
        given[i] = (ipc_virtual_part_t){.fd   = fds[i],
                                        .size = answer->parts[i].file.size};
    }
    return ipc_virtual_map(remote->channel->pool->engine->device, given,
                           (unsigned)answer->num_parts,
                           (remote->access & UCXPOOL_WINDOW_WRITE) != 0,
                           &remote->range);
}

static ucxpool_status_t map(ucxpool_remote_window_t *remote,
                            const window_answer_t   *answer)
{
    int              fds[PROTO_PARTS_MAX];
    ucxpool_status_t status;

    if (answer->fds != NULL) {
        return map_given(remote, answer, answer->fds);
    }
    status               = take(remote->channel, answer, fds);
    remote->is_forbidden = window_is_forbidden(answer, status);
    if (status == UCXPOOL_OK) {
        status = map_given(remote, answer, fds);
        close_all(fds, answer->num_parts);
    }
    return status;
}

ucxpool_status_t window_virtual_map(ucxpool_remote_window_t *remote,
                                    const window_answer_t   *answer)
{
    ucxpool_status_t status;

    if (!is_whole(answer->parts, answer->num_parts, remote->length)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "the owner's window does not go through its "
                          "allocations");
    }
    status = map(remote, answer);
    if (status == UCXPOOL_OK) {
        remote->address = remote->range.address + answer->parts[0].offset;
    }
    return status;
}

void window_virtual_unmap(ucxpool_remote_window_t *remote)
{
    if (remote->range.size != 0) {
        ipc_virtual_unmap(remote->channel->pool->engine->device,
                          &remote->range);
    }
}
