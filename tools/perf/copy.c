/*
 * The sides that use the GPU's copy engine. The sender copies into the
 * receiver's memory, which the sender has mapped by a CUDA IPC handle. A reply
 * that repeats the message is copied back in the same way. This measures the
 * limit of the link.
 */
#include "common/system.h"
#include "common/error.h"
#include "perf/lane.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Time limit for the other process to unmap this process's memory. */
#define CLOSE_NS UINT64_C(2000000000)

#define NAME_SIZE 32

/* --- words shared by the two processes ------------------------------------ */

/* Each process reports completed copies to the other in these words. Each word
 * has one writer. */
typedef struct words {
    uint32_t sent[WORK_MAX_OUTSTANDING];    /* messages copied, by slot */
    uint32_t replied[WORK_MAX_OUTSTANDING]; /* replies, by slot */
    uint32_t closed[2];                     /* set by sender and receiver */
} words_t;

/* Write a word. A reader that sees the new value also sees earlier writes. */
static void words_write(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static uint32_t words_read(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void words_destroy(words_t *words)
{
    if (words != NULL) {
        munmap(words, sizeof(*words));
    }
}

/* Open shared memory by its name. Returns NULL if this is not possible: the
 * name does not exist on another host, and another user cannot open it. */
static words_t *words_open(const char *name, int flags)
{
    int   fd    = shm_open(name, O_RDWR | flags, 0600);
    void *words = MAP_FAILED;

    if (fd < 0) {
        return NULL;
    }
    if (ftruncate(fd, sizeof(words_t)) == 0) {
        words = mmap(NULL, sizeof(words_t), PROT_READ | PROT_WRITE, MAP_SHARED,
                     fd, 0);
    }
    close(fd);
    return words != MAP_FAILED ? words : NULL;
}

/* Create the shared words. Both processes call this function: the sender
 * creates the words, initialized to 0, and the receiver opens them. *words_p is
 * NULL if the two do not run on the same host as the same user. */
static int words_create(control_t *control, bool is_sender, words_t **words_p)
{
    char    name[NAME_SIZE] = "";
    uint8_t found           = 0;
    int     status;

    if (is_sender) {
        snprintf(name, sizeof(name), "/ucxpool_perf-%016llx",
                 (unsigned long long)buffers_seed());
        *words_p = words_open(name, O_CREAT | O_EXCL);
        if (*words_p == NULL) {
            shm_unlink(name);
            return tool_error("cannot create shared memory: %s",
                              strerror(errno));
        }
        status = (control_send(control, name, sizeof(name)) != 0) ||
                 (control_recv(control, &found, sizeof(found)) != 0);
        shm_unlink(name);
    } else {
        status   = control_recv(control, name, sizeof(name)) != 0;
        *words_p = status == 0 ? words_open(name, 0) : NULL;
        found    = *words_p != NULL;
        status = status || (control_send(control, &found, sizeof(found)) != 0);
    }
    if (status || !found) {
        words_destroy(*words_p);
        *words_p = NULL;
    }
    return status ? -1 : 0;
}

/* --- copies --------------------------------------------------------------- */

typedef struct copy_end {
    end_t    end; /* first: an end_t * is a copy_end_t * */
    gpu_t   *gpu;
    words_t *words;
    void    *peer; /* the other end's arena as mapped here */
    CUstream streams[WORK_MAX_OUTSTANDING];
    bool     copying[WORK_MAX_OUTSTANDING];
    bool     expecting[WORK_MAX_OUTSTANDING];
    uint32_t seen[WORK_MAX_OUTSTANDING]; /* last values of the peer's words */
} copy_end_t;

/* Sent from each process to the other. */
typedef struct offer {
    CUipcMemHandle handle;
    char           reason[JOB_REASON_SIZE];
} offer_t;

static int fail(copy_end_t *copy)
{
    return end_fail(&copy->end, "the GPU's copies", copy->gpu->error);
}

static int start_copy(copy_end_t *copy, unsigned slot, void *target,
                      const void *source, size_t length)
{
    CUresult result;

    result = copy->gpu->driver.cuMemcpyAsync(
        gpu_address(target), gpu_address(source), length, copy->streams[slot]);
    if (result != CUDA_SUCCESS) {
        gpu_fail(copy->gpu, result, "cannot copy %zu bytes", length);
        return fail(copy);
    }
    return 0;
}

static void started(copy_end_t *copy, unsigned slot)
{
    copy->copying[slot] = true;
    copy->end.slots[slot].pending++;
}

/* Returns the address, at the other end, of a buffer of this end. */
static void *at_peer(const copy_end_t *copy, const void *address)
{
    return (char *)copy->peer +
           buffers_peer_offset(&copy->end.buffers, address);
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
        words_write(replied, *replied + 1);
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

/* Report a copy by this process to the other process if it has completed. */
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
    words_write(word, *word + 1);
}

static void poll_peer(copy_end_t *copy, unsigned slot)
{
    end_slot_t *at        = &copy->end.slots[slot];
    bool        is_sender = copy->end.is_sender;
    uint32_t   *word =
        is_sender ? &copy->words->replied[slot] : &copy->words->sent[slot];

    if ((!is_sender && !copy->expecting[slot]) ||
        (words_read(word) == copy->seen[slot])) {
        return;
    }
    copy->seen[slot]++;
    copy->expecting[slot] = false;
    if (is_sender) {
        at->replied = true;
    } else {
        at->arrived = true;
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

/* Wait until the other process has unmapped this process's memory, which must
 * not be freed before. */
static void part(copy_end_t *copy)
{
    unsigned mine     = copy->end.is_sender ? 0 : 1;
    uint64_t deadline = clock_now() + CLOSE_NS;

    gpu_unmap(copy->gpu, copy->peer);
    if (copy->words == NULL) {
        return;
    }
    words_write(&copy->words->closed[mine], 1);
    while (!copy->end.failed &&
           (words_read(&copy->words->closed[1 - mine]) == 0) &&
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
    words_destroy(copy->words);
    buffers_cleanup(&end->buffers);
    free(copy);
}

static const end_ops_t copy_ops = {copy_send,     copy_expect,      copy_reply,
                                   copy_progress, copy_end_destroy, NULL};

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

/* Map the memory of the other process, and exchange whether both succeeded. */
static int map_each_other(copy_end_t *copy, control_t *control, char *reason)
{
    offer_t mine = {0}, theirs;

    if (gpu_share(copy->gpu, copy->end.buffers.arena, &mine.handle) != 0) {
        return fail(copy);
    }
    if (control_swap(control, &mine, &theirs, sizeof(mine)) != 0) {
        return -1;
    }
    if (gpu_map(copy->gpu, &theirs.handle, &copy->peer) != 0) {
        snprintf(mine.reason, sizeof(mine.reason), "%.*s", JOB_REASON_SIZE - 1,
                 copy->gpu->error);
    }
    if (control_swap(control, &mine, &theirs, sizeof(mine)) != 0) {
        return -1;
    }
    theirs.reason[sizeof(theirs.reason) - 1] = '\0';
    snprintf(reason, JOB_REASON_SIZE, "%s",
             mine.reason[0] != '\0' ? mine.reason : theirs.reason);
    return 0;
}

static int connect_ends(copy_end_t *copy, control_t *control, char *reason)
{
    if (words_create(control, copy->end.is_sender, &copy->words) != 0) {
        return -1;
    }
    if (copy->words == NULL) {
        snprintf(reason, JOB_REASON_SIZE,
                 "the two processes do not have the same host and user");
        return 0;
    }
    return map_each_other(copy, control, reason);
}

int copy_end_create(const end_params_t *params, control_t *control,
                    char *reason, end_t **end_p)
{
    copy_end_t *copy = tool_calloc(1, sizeof(*copy));
    int         status;

    reason[0] = '\0';
    end_init(&copy->end, &copy_ops, params);
    copy->gpu = &params->memory->gpu;
    status    = (end_init_buffers(&copy->end, params, NULL) != 0) ||
             (create_streams(copy) != 0) ||
             (connect_ends(copy, control, reason) != 0);
    if (status || (reason[0] != '\0')) {
        copy->end.failed |= status != 0;
        copy_end_destroy(&copy->end);
    } else {
        *end_p = &copy->end;
    }
    return status ? -1 : 0;
}
