#include "perf/copy_end.h"
#include "common/clock.h"
#include "perf/error.h"
#include "perf/shared_words.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The other process may take so long to let go of our memory. */
#define CLOSE_NS UINT64_C(2000000000)

typedef struct copy_end {
    end_t           end; /* first: an end_t * is a copy_end_t * */
    gpu_t          *gpu;
    shared_words_t *words;
    void           *peer; /* the other end's arena, as it is mapped here */
    CUstream        streams[WORK_MAX_OUTSTANDING];
    bool            copying[WORK_MAX_OUTSTANDING];
    bool            expecting[WORK_MAX_OUTSTANDING];
    uint32_t        seen[WORK_MAX_OUTSTANDING]; /* of the other's words */
} copy_end_t;

/* What one process tells the other. */
typedef struct offer {
    CUipcMemHandle handle;
    uint32_t       is_mapped;
    char           reason[JOB_REASON_SIZE];
} offer_t;

static int fail(copy_end_t *copy)
{
    char name[SIDE_NAME_SIZE];

    copy->end.failed = true;
    return perf_error("%s: %s", side_name(copy->end.side, name),
                      copy->gpu->error);
}

static int start_copy(copy_end_t *copy, unsigned slot, void *target,
                      const void *source, size_t length)
{
    CUresult result;

    result = copy->gpu->driver.cuMemcpyAsync(
        gpu_address(target), gpu_address(source), length, copy->streams[slot]);
    if (result != CUDA_SUCCESS) {
        gpu_fail(copy->gpu, result, "a copy of %zu bytes", length);
        return fail(copy);
    }
    return 0;
}

static void started(copy_end_t *copy, unsigned slot)
{
    copy->copying[slot] = true;
    copy->end.slots[slot].pending++;
}

/* Where bytes of ours lie at the other end, which is laid out as this one. */
static void *at_peer(const copy_end_t *copy, const void *address)
{
    const buffers_t *buffers = &copy->end.buffers;

    return (char *)copy->peer +
           ((const char *)address - (const char *)buffers->arena) -
           buffers->shift;
}

static int copy_send(end_t *end, unsigned slot)
{
    copy_end_t              *copy     = (copy_end_t *)end;
    const ucxpool_segment_t *segments = buffers_segments(&end->buffers, slot);

    for (size_t i = 0; i < end->buffers.num_segments; i++) {
        if (start_copy(copy, slot, at_peer(copy, segments[i].address),
                       segments[i].address, segments[i].length) != 0) {
            return -1;
        }
    }
    started(copy, slot);
    return 0;
}

static int copy_expect(end_t *end, unsigned slot)
{
    ((copy_end_t *)end)->expecting[slot] = true;
    return 0;
}

static int copy_reply(end_t *end, unsigned slot)
{
    copy_end_t *copy    = (copy_end_t *)end;
    uint32_t   *replied = &copy->words->replied[slot];

    if (!end->work.echo) {
        shared_words_write(replied, *replied + 1);
        return 0;
    }
    if (start_copy(copy, slot,
                   at_peer(copy, buffers_reply(&end->buffers, slot)),
                   buffers_segments(&end->buffers, slot)->address,
                   end->buffers.size) != 0) {
        return -1;
    }
    started(copy, slot);
    return 0;
}

/* Has a copy of ours ended? Then tell. */
static void poll_copy(copy_end_t *copy, unsigned slot)
{
    CUresult  result = copy->gpu->driver.cuStreamQuery(copy->streams[slot]);
    uint32_t *word   = copy->end.is_sender ? &copy->words->sent[slot]
                                           : &copy->words->replied[slot];

    if (result == CUDA_ERROR_NOT_READY) {
        return;
    }
    if (result != CUDA_SUCCESS) {
        gpu_fail(copy->gpu, result, "a copy failed");
        fail(copy);
        return;
    }
    copy->copying[slot] = false;
    copy->end.slots[slot].pending--;
    shared_words_write(word, *word + 1);
}

static void poll_peer(copy_end_t *copy, unsigned slot)
{
    end_slot_t *at   = &copy->end.slots[slot];
    uint32_t   *word = copy->end.is_sender ? &copy->words->replied[slot]
                                           : &copy->words->sent[slot];

    if (!copy->end.is_sender && !copy->expecting[slot]) {
        return;
    }
    if (shared_words_read(word) == copy->seen[slot]) {
        return;
    }
    copy->seen[slot]++;
    if (copy->end.is_sender) {
        at->replied = true;
    } else {
        copy->expecting[slot] = false;
        at->arrived           = true;
    }
}

static void copy_progress(end_t *end)
{
    copy_end_t *copy = (copy_end_t *)end;

    for (unsigned slot = 0; slot < end->work.outstanding; slot++) {
        if (copy->copying[slot]) {
            poll_copy(copy, slot);
        }
        poll_peer(copy, slot);
    }
}

/* Memory that the other process has mapped must not be freed before it is
 * unmapped there. */
static void part(copy_end_t *copy)
{
    unsigned mine     = copy->end.is_sender ? 0 : 1;
    uint64_t deadline = clock_now() + CLOSE_NS;

    gpu_unmap(copy->gpu, copy->peer);
    if (copy->words == NULL) {
        return;
    }
    shared_words_write(&copy->words->closed[mine], 1);
    while (!copy->end.failed &&
           (shared_words_read(&copy->words->closed[1 - mine]) == 0) &&
           (clock_now() < deadline)) {
        sched_yield();
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
    part(copy);
    shared_words_destroy(copy->words);
    buffers_cleanup(&end->buffers);
    free(copy);
}

static const end_ops_t copy_ops = {
    .send     = copy_send,
    .expect   = copy_expect,
    .reply    = copy_reply,
    .progress = copy_progress,
    .destroy  = copy_end_destroy,
};

static int create_streams(copy_end_t *copy)
{
    CUresult result;

    for (unsigned slot = 0; slot < copy->end.work.outstanding; slot++) {
        result = copy->gpu->driver.cuStreamCreate(&copy->streams[slot],
                                                  CU_STREAM_NON_BLOCKING);
        if (result != CUDA_SUCCESS) {
            copy->streams[slot] = NULL;
            gpu_fail(copy->gpu, result, "cuStreamCreate");
            return fail(copy);
        }
    }
    return 0;
}

/* Each maps what the other has, and tells whether that went well. */
static int map_each_other(copy_end_t *copy, control_t *control,
                          char reason[JOB_REASON_SIZE])
{
    offer_t mine = {0}, theirs;

    if (gpu_share(copy->gpu, copy->end.buffers.arena, &mine.handle) != 0) {
        return fail(copy);
    }
    if ((control_send(control, &mine, sizeof(mine)) != 0) ||
        (control_recv(control, &theirs, sizeof(theirs)) != 0)) {
        return -1;
    }
    mine.is_mapped = gpu_map(copy->gpu, &theirs.handle, &copy->peer) == 0;
    snprintf(mine.reason, sizeof(mine.reason), "%.*s", JOB_REASON_SIZE - 1,
             mine.is_mapped ? "" : copy->gpu->error);
    if ((control_send(control, &mine, sizeof(mine)) != 0) ||
        (control_recv(control, &theirs, sizeof(theirs)) != 0)) {
        return -1;
    }
    theirs.reason[sizeof(theirs.reason) - 1] = '\0';
    if (!mine.is_mapped || !theirs.is_mapped) {
        snprintf(reason, JOB_REASON_SIZE, "%s",
                 mine.is_mapped ? theirs.reason : mine.reason);
    }
    return 0;
}

static int connect_ends(copy_end_t *copy, control_t *control,
                        char reason[JOB_REASON_SIZE])
{
    if (shared_words_create(control, copy->end.is_sender, &copy->words) != 0) {
        return -1;
    }
    if (copy->words == NULL) {
        snprintf(reason, JOB_REASON_SIZE,
                 "the two processes are not of one host and user");
        return 0;
    }
    return map_each_other(copy, control, reason);
}

int copy_end_create(control_t *control, const end_params_t *params,
                    end_t **end_p, char reason[JOB_REASON_SIZE])
{
    copy_end_t *copy = calloc(1, sizeof(*copy));
    int         status;

    if (copy == NULL) {
        return perf_error("out of memory for a side");
    }
    reason[0] = '\0';
    end_init(&copy->end, &copy_ops, params);
    copy->gpu = &params->memory->gpu;
    status    = end_init_buffers(&copy->end, params, NULL);
    if (status == 0) {
        status = create_streams(copy);
    }
    if (status == 0) {
        status = connect_ends(copy, control, reason);
    }
    if ((status != 0) || (reason[0] != '\0')) {
        copy->end.failed = copy->end.failed || (status != 0);
        copy_end_destroy(&copy->end);
        copy = NULL;
    }
    *end_p = copy == NULL ? NULL : &copy->end;
    return status;
}
