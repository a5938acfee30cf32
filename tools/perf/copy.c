/*
 * The sides that use the GPU's copy engine. The sender copies into the
 * receiver's memory, which the sender has mapped by a CUDA IPC handle. This
 * measures the limit of the link.
 */
#include "common/error.h"
#include "perf/lane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct copy_end {
    end_t    end; /* first: an end_t * is a copy_end_t * */
    gpu_t   *gpu;
    void    *peer; /* sender: the receiver's arena as mapped here */
    CUstream streams[WORK_MAX_OUTSTANDING]; /* of the sender */
} copy_end_t;

static int fail(copy_end_t *copy)
{
    return end_fail(&copy->end, "the GPU's copies", copy->gpu->error);
}

static int copy_send(end_t *end, unsigned slot)
{
    copy_end_t              *copy     = (copy_end_t *)end;
    const ucxpool_segment_t *segments = buffers_segments(&end->buffers, slot);

    for (size_t i = 0; i < end->buffers.num_segments; i++) {
        const char *target =
            (const char *)copy->peer +
            buffers_peer_offset(&end->buffers, segments[i].address);

        if (gpu_check(copy->gpu,
                      copy->gpu->driver.cuMemcpyAsync(
                          gpu_address(target), gpu_address(segments[i].address),
                          segments[i].length, copy->streams[slot]),
                      "cannot copy %zu bytes", segments[i].length) != 0) {
            return fail(copy);
        }
    }
    end->slots[slot].pending++;
    return 0;
}

static void copy_progress(end_t *end)
{
    copy_end_t *copy = (copy_end_t *)end;

    for (unsigned slot = 0; slot < end->work.outstanding; slot++) {
        CUresult result;

        if (end->slots[slot].pending == 0) {
            continue;
        }
        result = copy->gpu->driver.cuStreamQuery(copy->streams[slot]);
        if (result == CUDA_SUCCESS) {
            end->slots[slot].pending--;
            end->slots[slot].replied = true;
        } else if (result != CUDA_ERROR_NOT_READY) {
            gpu_check(copy->gpu, result, "a copy failed");
            fail(copy);
        }
    }
}

static void copy_end_destroy(end_t *end)
{
    copy_end_t *copy = (copy_end_t *)end;

    for (unsigned slot = 0; slot < end->work.outstanding; slot++) {
        if (copy->streams[slot] != NULL) {
            gpu_wait(copy->gpu, copy->streams[slot]);
            copy->gpu->driver.cuStreamDestroy(copy->streams[slot]);
        }
    }
    gpu_unmap(copy->gpu, copy->peer);
    buffers_cleanup(&end->buffers);
    free(copy);
}

static const end_ops_t copy_ops = {copy_send, end_no_part, end_no_part,
                                   copy_progress, copy_end_destroy};

static int create_streams(copy_end_t *copy)
{
    for (unsigned slot = 0; slot < copy->end.work.outstanding; slot++) {
        if (gpu_check(copy->gpu,
                      copy->gpu->driver.cuStreamCreate(&copy->streams[slot],
                                                       CU_STREAM_NON_BLOCKING),
                      "cuStreamCreate") != 0) {
            copy->streams[slot] = NULL;
            return fail(copy);
        }
    }
    return 0;
}

/* Map the receiver's memory. The receiver learns whether that succeeded. */
static int connect_ends(copy_end_t *copy, control_t *control, char *reason)
{
    CUipcMemHandle handle;

    if (!copy->end.is_sender) {
        if (gpu_share(copy->gpu, copy->end.buffers.arena, &handle) != 0) {
            return fail(copy);
        }
        return (control_send(control, &handle, sizeof(handle)) != 0) ||
                       (control_recv(control, reason, JOB_REASON_SIZE) != 0)
                   ? -1
                   : 0;
    }
    if ((create_streams(copy) != 0) ||
        (control_recv(control, &handle, sizeof(handle)) != 0)) {
        return -1;
    }
    if (gpu_map(copy->gpu, &handle, &copy->peer) != 0) {
        snprintf(reason, JOB_REASON_SIZE, "%.*s", JOB_REASON_SIZE - 1,
                 copy->gpu->error);
    }
    return control_send(control, reason, JOB_REASON_SIZE);
}

int copy_end_create(const end_params_t *params, control_t *control,
                    char *reason, end_t **end_p)
{
    copy_end_t *copy;
    int         status;

    if (control->is_remote) {
        snprintf(reason, JOB_REASON_SIZE,
                 "the GPU copies only between processes that ucxpool_perf "
                 "forks on one host");
        return 0;
    }
    copy = tool_calloc(1, sizeof(*copy));
    end_init(&copy->end, &copy_ops, params);
    copy->gpu = &params->memory->gpu;
    memset(reason, 0, JOB_REASON_SIZE);
    status = (end_init_buffers(&copy->end, NULL) != 0) ||
                     (connect_ends(copy, control, reason) != 0)
                 ? -1
                 : 0;
    if ((status != 0) || (reason[0] != '\0')) {
        copy_end_destroy(&copy->end);
    } else {
        *end_p = &copy->end;
    }
    return status;
}
