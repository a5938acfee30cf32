/*
 * Copies between a peer's GPU memory, mapped here, and our own, by one kernel
 * from scattered pieces to scattered pieces (copy/tiles.h, COPY_PAIRS).
 */
#include "base/error.h"
#include "core/wire.h"
#include "window/window.h"

#include <stdio.h>
#include <string.h>

/* Bytes of one launch: some, so that the lists of one are filled while others
 * are copied; the copy engine, which takes a long piece, wants it longer. */
#define LAUNCHES   8u
#define LAUNCH_MIN ((uint64_t)1 << 20)
#define LAUNCH_MAX ((uint64_t)16 << 20)
#define LONG_MAX   ((uint64_t)128 << 20)

/* --- the memory ----------------------------------------------------------- */

void window_device_share(ucxpool_window_t *window)
{
    const copy_engine_t *engine = window->pool->engine;
    copy_pointer_t       pointer;

    if (!copy_engine_is_launched(engine) ||
        (copy_pointer_query(engine->device->driver, (uintptr_t)window->address,
                            &pointer) != UCXPOOL_OK) ||
        (pointer.place != COPY_MEMTYPE_DEVICE) ||
        (ipc_cuda_fill_memory(engine->device, window->address, window->length,
                              &window->cuda.share,
                              &window->cuda.offset) != UCXPOOL_OK)) {
        window->cuda.share.way = 0;
    }
}

static bool no(ucxpool_remote_t *remote, const char *reason)
{
    snprintf(remote->way_reason, sizeof(remote->way_reason), "%s", reason);
    return false;
}

bool window_device_map(ucxpool_remote_t            *remote,
                       const proto_window_opened_t *opened,
                       const proto_window_cuda_t   *cuda)
{
    const ucxpool_channel_t *channel = remote->channel;
    const copy_engine_t     *engine  = channel->pool->engine;

    if ((channel->wire->id != UCXPOOL_WIRE_MAP) ||
        !copy_engine_is_launched(engine)) {
        return no(remote, channel->wire_reason);
    }
    if ((cuda->offset > cuda->share.size) ||
        (opened->length > cuda->share.size - cuda->offset) ||
        (cuda->share.way != IPC_CUDA_IPC)) {
        return no(remote, "the owner's window goes beyond its allocation");
    }
    if (ipc_cuda_map(engine->device, &cuda->share, NULL, 1, &remote->mapping) !=
        UCXPOOL_OK) {
        return no(remote, ucxpool_error_detail());
    }
    remote->share   = cuda->share;
    remote->address = (uintptr_t)remote->mapping + cuda->offset;
    snprintf(remote->way_reason, sizeof(remote->way_reason), "%s",
             channel->wire_reason);
    return true;
}

void window_device_unmap(ucxpool_remote_t *remote)
{
    if (remote->share.way != 0) {
        ipc_cuda_unmap(remote->channel->pool->engine->device, &remote->share, 1,
                       remote->mapping);
        remote->share.way = 0;
    }
}

bool window_device_fits(const window_operation_t *operation)
{
    return !operation->request->stream.has_host_segments;
}

/* --- launches ------------------------------------------------------------- */

static bool has_more(const window_operation_t *operation)
{
    return operation->next_place != operation->places.count;
}

static void end_if_over(window_operation_t *operation)
{
    const char *detail = operation->request->detail;

    if (operation->num_jobs != 0) {
        return;
    }
    if (operation->end != UCXPOOL_OK) {
        window_operation_end(operation, operation->end, detail);
    } else if (!has_more(operation)) {
        window_operation_end(operation, UCXPOOL_OK, NULL);
    }
}

static void fail(window_operation_t *operation, ucxpool_status_t status)
{
    if (operation->end == UCXPOOL_OK) {
        operation->end = status;
        core_request_set_detail(operation->request, ucxpool_error_detail());
    }
}

static void job_done(copy_job_t *copy, ucxpool_status_t status)
{
    window_job_t       *job       = base_container_of(copy, window_job_t, copy);
    window_operation_t *operation = job->operation;

    job->operation = NULL;
    operation->num_jobs--;
    if (status != UCXPOOL_OK) {
        fail(operation, status);
    }
    if ((operation->end == UCXPOOL_OK) && has_more(operation)) {
        status = window_device_copy(operation);
        if ((status != UCXPOOL_INPROGRESS) && (status != UCXPOOL_ERR_BUSY)) {
            fail(operation, status);
        }
    }
    end_if_over(operation);
}

static window_job_t *free_job(window_operation_t *operation)
{
    for (unsigned i = 0; i < WINDOW_JOBS; i++) {
        if (operation->jobs[i].operation == NULL) {
            return &operation->jobs[i];
        }
    }
    return NULL;
}

static uint64_t launch_size(const window_operation_t *operation)
{
    return base_max(LAUNCH_MIN,
                    base_min(LAUNCH_MAX, operation->size / LAUNCHES));
}

/* Pairs for one launch: short ones of so many bytes, or a long one alone.
 * Returns how many. */
static size_t fill(window_operation_t *operation, copy_pair_t *pairs,
                   size_t max_pairs, uint64_t *size_p)
{
    uint64_t       address = operation->remote->address;
    uint64_t       room    = launch_size(operation);
    uint64_t       size    = 0;
    size_t         num     = 0;
    window_piece_t piece;

    while ((num < max_pairs) && (size < room) &&
           window_operation_next(operation, (num == 0) ? LONG_MAX : room - size,
                                 &piece)) {
        if (piece.length == 0) {
            continue;
        }
        pairs[num++] = (copy_pair_t){(uintptr_t)piece.ours,
                                     address + piece.offset, piece.length};
        size += piece.length;
    }
    *size_p = size;
    return num;
}

static ucxpool_status_t launch(window_operation_t *operation, window_job_t *job)
{
    copy_engine_t   *engine = operation->remote->channel->pool->engine;
    copy_pair_t     *pairs;
    size_t           max_pairs;
    size_t           num;
    uint64_t         size;
    ucxpool_status_t status;

    status = copy_engine_pairs_get(engine, &job->copy, &pairs, &max_pairs);
    if (status != UCXPOOL_OK) {
        return status;
    }
    num            = fill(operation, pairs, max_pairs, &size);
    job->copy.done = job_done;
    status         = copy_engine_pairs_start(engine, &job->copy, num, size,
                                             operation->is_write);
    if (status == UCXPOOL_INPROGRESS) {
        job->operation = operation;
        operation->num_jobs++;
    }
    return status;
}

ucxpool_status_t window_device_copy(window_operation_t *operation)
{
    ucxpool_status_t status = UCXPOOL_ERR_BUSY;
    window_job_t    *job;

    if (operation->request->stream.marker != NULL) {
        return UCXPOOL_ERR_BUSY;
    }
    while ((operation->end == UCXPOOL_OK) && has_more(operation) &&
           ((job = free_job(operation)) != NULL)) {
        status = launch(operation, job);
        if (status != UCXPOOL_INPROGRESS) {
            return status;
        }
    }
    return status;
}
