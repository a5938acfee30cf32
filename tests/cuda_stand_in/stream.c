/*
 * Streams and events. The operations of all streams are in one queue, in the
 * order in which they were posted. An operation is runnable if no earlier one
 * in the queue belongs to its stream, and if the event that it waits for has
 * occurred. The legacy stream waits for all other streams of its context, and
 * they wait for it.
 */
#include "state.h"
#include "stand_in.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct CUstream_st {
    CUcontext context;
    unsigned  flags;
    int       priority;
    bool      is_legacy;
};

struct CUevent_st {
    CUevent            next; /* list of all events */
    unsigned           refs; /* of the owner, and of each queued operation */
    CUcontext          context;
    unsigned long long recorded; /* the last record that was posted */
    unsigned long long done;     /* the last record that was reached */
};

typedef enum kind {
    OP_COPY,
    OP_SET,
    OP_KERNEL,
    OP_WRITE_VALUE,
    OP_WAIT_VALUE,
    OP_RECORD,
    OP_WAIT_EVENT
} kind_t;

typedef struct op {
    struct op         *next;
    CUstream           stream;
    kind_t             kind;
    CUdeviceptr        target;
    CUdeviceptr        source;
    size_t             size;
    unsigned           value;
    unsigned           flags;
    CUevent            event;
    unsigned long long record;
    CUfunction         function;
    unsigned           num_blocks;
    unsigned long long arguments[MAX_ARGUMENTS];
} op_t;

static op_t  *line;
static op_t **line_end = &line;

/* All events. Those of a destroyed context have no owner. */
static CUevent events;

/* The streams that the handles 0, 1 and 2 stand for, per device. */
static struct CUstream_st legacy_streams[MAX_DEVICES];
static struct CUstream_st thread_streams[MAX_DEVICES];

static CUstream find_stream(CUstream stream)
{
    CUcontext context = current_context();
    CUstream  named;

    if ((stream != NULL) && (stream != CU_STREAM_LEGACY) &&
        (stream != CU_STREAM_PER_THREAD)) {
        return stream;
    }
    if (stream == CU_STREAM_PER_THREAD) {
        named = &thread_streams[context->device];
    } else {
        named            = &legacy_streams[context->device];
        named->is_legacy = true;
    }
    named->context = context;
    return named;
}

/* Must b, which is earlier in the queue, run before a? */
static bool is_ordered(const struct CUstream_st *a, const struct CUstream_st *b)
{
    if (a == b) {
        return true;
    }
    return (a->context == b->context) && (a->is_legacy || b->is_legacy) &&
           ((a->flags | b->flags) & CU_STREAM_NON_BLOCKING) == 0;
}

static bool has_come(const op_t *op)
{
    const unsigned *word;
    size_t          run = 0;

    if (op->kind == OP_WAIT_EVENT) {
        return op->event->done >= op->record;
    }
    if (op->kind != OP_WAIT_VALUE) {
        return true;
    }
    word = (const unsigned *)(void *)resolve(
        op->target, op->stream->context->device, false, &run);
    if (word == NULL) {
        return true;
    }
    return op->flags == CU_STREAM_WAIT_VALUE_EQ ? *word == op->value
                                                : (int)(*word - op->value) >= 0;
}

static CUresult write_value(const op_t *op, int device)
{
    size_t run  = 0;
    char  *word = resolve(op->target, device, true, &run);

    if ((word == NULL) || (run < sizeof(unsigned))) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    __atomic_store_n((unsigned *)(void *)word, op->value, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

static CUresult set_bytes(const op_t *op, int device)
{
    size_t size = op->size, run = 0;
    char  *bytes;

    for (CUdeviceptr at = op->target; size > 0; at += run, size -= run) {
        bytes = resolve(at, device, true, &run);
        if (bytes == NULL) {
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        run = run < size ? run : size;
        memset(bytes, (int)op->value, run);
    }
    return CUDA_SUCCESS;
}

static CUresult perform(const op_t *op)
{
    int device = op->stream->context->device;

    switch (op->kind) {
    case OP_COPY:
        return copy_bytes(op->target, op->source, op->size, device, true);
    case OP_SET:
        return set_bytes(op, device);
    case OP_KERNEL:
        return kernel_run(op->function, op->arguments, op->num_blocks, device);
    case OP_WRITE_VALUE:
        return write_value(op, device);
    case OP_RECORD:
        op->event->done = op->record;
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
}

static void event_drop(CUevent event)
{
    CUevent *link = &events;

    if ((event != NULL) && (--event->refs == 0)) {
        while (*link != event) {
            link = &(*link)->next;
        }
        *link = event->next;
        free(event);
    }
}

/* Run the first runnable operation. */
static bool work_once(void)
{
    for (op_t **link = &line; *link != NULL; link = &(*link)->next) {
        op_t    *op      = *link;
        bool     is_free = has_come(op);
        CUresult result;

        for (op_t *before = line; (before != op) && is_free;
             before       = before->next) {
            is_free = !is_ordered(op->stream, before->stream);
        }
        if (!is_free) {
            continue;
        }
        *link = op->next;
        if (op->next == NULL) {
            line_end = link;
        }
        /* Operations of a failed device are dropped, so no call waits
         * for them. */
        result = op->stream->context->sticky;
        if ((result == CUDA_SUCCESS) || (op->kind == OP_RECORD)) {
            result = perform(op);
        }
        if (op->stream->context->sticky == CUDA_SUCCESS) {
            op->stream->context->sticky = result;
        }
        event_drop(op->event);
        free(op);
        return true;
    }
    return false;
}

unsigned stream_work(unsigned num)
{
    unsigned num_done = 0;

    while ((num_done < num) && work_once()) {
        num_done++;
    }
    return num_done;
}

/* Runs while the queue has operations, until the test changes `run`. The lock
 * is released in between, so that other threads can make calls. Operations that
 * wait for these are polled. */
static bool is_working;

static void *work_late(void *unused)
{
    bool goes_on = true;

    while (goes_on) {
        sched_yield();
        state_lock();
        (void)work_once();
        goes_on    = config.runs_late && (line != NULL);
        is_working = goes_on;
        state_unlock();
    }
    return unused;
}

static void start_late(void)
{
    pthread_attr_t detached;
    pthread_t      thread;

    if (!is_working) {
        is_working = true;
        if ((pthread_attr_init(&detached) != 0) ||
            (pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED) !=
             0) ||
            (pthread_create(&thread, &detached, work_late, NULL) != 0)) {
            abort();
        }
        pthread_attr_destroy(&detached);
    }
}

static CUresult post(op_t wish)
{
    op_t *op = malloc(sizeof(*op));

    if (op == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (wish.event != NULL) {
        wish.event->refs++;
    }
    *op        = wish;
    op->next   = NULL;
    op->stream = find_stream(wish.stream);
    *line_end  = op;
    line_end   = &op->next;
    if (config.runs_at_once) {
        stream_work(~0u);
    } else if (config.runs_late) {
        start_late();
    }
    return CUDA_SUCCESS;
}

static bool is_busy(CUstream stream)
{
    for (const op_t *op = line; op != NULL; op = op->next) {
        if (op->stream == stream) {
            return true;
        }
    }
    return false;
}

ENTRY(cuStreamCreate, CUstream *stream, unsigned flags)
{
    CUstream made;

    BEGIN("cuStreamCreate", NEEDS_CONTEXT);
    made = flags > 1 ? NULL : calloc(1, sizeof(*made));
    FAIL_IF(made == NULL, CUDA_ERROR_INVALID_VALUE);
    made->context = current_context();
    made->flags   = flags;
    num_live++;
    *stream = made;
    return done(CUDA_SUCCESS);
}

/* The stand-in has one thread: a priority is stored, and has no effect. */
ENTRY(cuStreamCreateWithPriority, CUstream *stream, unsigned flags,
      int priority)
{
    CUresult result = cuStreamCreate(stream, flags);

    if (result == CUDA_SUCCESS) {
        (*stream)->priority = priority;
    }
    return result;
}

VISIBLE int stand_in_priority(CUstream stream)
{
    return stream->priority;
}

ENTRY(cuCtxGetStreamPriorityRange, int *least, int *greatest)
{
    BEGIN("cuCtxGetStreamPriorityRange", NEEDS_CONTEXT);
    *least    = 0;
    *greatest = -5;
    return done(CUDA_SUCCESS);
}

ENTRY(cuStreamDestroy_v2, CUstream stream)
{
    BEGIN("cuStreamDestroy", NEEDS_CONTEXT);
    /* The driver completes the work first. */
    stream_work(~0u);
    if (is_busy(stream)) {
        abort();
    }
    free(stream);
    num_live--;
    return done(CUDA_SUCCESS);
}

ENTRY(cuStreamSynchronize, CUstream stream)
{
    BEGIN("cuStreamSynchronize", NEEDS_CONTEXT);
    stream = find_stream(stream);
    stream_work(~0u);
    if (is_busy(stream)) {
        /* Only this thread could make it happen: a deadlock. */
        abort();
    }
    return done(stream->context->sticky);
}

ENTRY(cuCtxSynchronize, void)
{
    BEGIN("cuCtxSynchronize", NEEDS_CONTEXT);
    stream_work(~0u);
    return done(current_context()->sticky);
}

ENTRY(cuStreamQuery, CUstream stream)
{
    BEGIN("cuStreamQuery", NEEDS_CONTEXT);
    stream = find_stream(stream);
    return done(is_busy(stream) ? CUDA_ERROR_NOT_READY
                                : stream->context->sticky);
}

ENTRY(cuStreamWaitEvent, CUstream stream, CUevent event, unsigned flags)
{
    BEGIN("cuStreamWaitEvent", NEEDS_CONTEXT);
    FAIL_IF((event == NULL) || (flags != 0), CUDA_ERROR_INVALID_HANDLE);
    return done(post((op_t){.stream = stream,
                            .kind   = OP_WAIT_EVENT,
                            .event  = event,
                            .record = event->recorded}));
}

static CUresult check_word(CUdeviceptr address)
{
    if (!config.has_mem_ops) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return (address % 4 != 0) || (mapping_of(address) == NULL)
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}

ENTRY(cuStreamWriteValue32_v2, CUstream stream, CUdeviceptr address,
      cuuint32_t value, unsigned flags)
{
    CUresult result;

    BEGIN("cuStreamWriteValue32", NEEDS_CONTEXT);
    result = flags == 0 ? check_word(address) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        result = post((op_t){.stream = stream,
                             .kind   = OP_WRITE_VALUE,
                             .target = address,
                             .value  = value});
    }
    return done(result);
}

ENTRY(cuStreamWaitValue32_v2, CUstream stream, CUdeviceptr address,
      cuuint32_t value, unsigned flags)
{
    CUresult result;

    BEGIN("cuStreamWaitValue32", NEEDS_CONTEXT);
    result = flags <= 1 ? check_word(address) : CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS) {
        result = post((op_t){.stream = stream,
                             .kind   = OP_WAIT_VALUE,
                             .target = address,
                             .value  = value,
                             .flags  = flags});
    }
    return done(result);
}

ENTRY(cuEventCreate, CUevent *event, unsigned flags)
{
    CUevent made;

    BEGIN("cuEventCreate", NEEDS_CONTEXT);
    made = flags > 7 ? NULL : calloc(1, sizeof(*made));
    FAIL_IF(made == NULL, CUDA_ERROR_INVALID_VALUE);
    made->context = current_context();
    made->refs    = 1;
    made->next    = events;
    events        = made;
    num_live++;
    *event = made;
    return done(CUDA_SUCCESS);
}

ENTRY(cuEventDestroy_v2, CUevent event)
{
    BEGIN("cuEventDestroy", NEEDS_CONTEXT);
    /* It exists until all operations that wait for it have run. */
    event_drop(event);
    num_live--;
    return done(CUDA_SUCCESS);
}

ENTRY(cuEventRecord, CUevent event, CUstream stream)
{
    BEGIN("cuEventRecord", NEEDS_CONTEXT);
    FAIL_IF((event == NULL) || (event->context != find_stream(stream)->context),
            CUDA_ERROR_INVALID_HANDLE);
    event->recorded++;
    return done(post((op_t){.stream = stream,
                            .kind   = OP_RECORD,
                            .event  = event,
                            .record = event->recorded}));
}

ENTRY(cuEventQuery, CUevent event)
{
    BEGIN("cuEventQuery", NEEDS_CONTEXT);
    return done(event->done < event->recorded ? CUDA_ERROR_NOT_READY
                                              : event->context->sticky);
}

ENTRY(cuEventSynchronize, CUevent event)
{
    BEGIN("cuEventSynchronize", NEEDS_CONTEXT);
    stream_work(~0u);
    if (event->done < event->recorded) {
        /* As above. */
        abort();
    }
    return done(event->context->sticky);
}

/* The driver refuses to copy across the end of pinned host memory. */
static bool is_copyable(CUdeviceptr address, size_t size)
{
    const mapping_t *mapping = mapping_of(address);

    return (mapping == NULL) || (mapping->backing != NULL) ||
           (size <= mapping->size - (address - mapping->address));
}

static CUresult post_copy(CUdeviceptr target, CUdeviceptr source, size_t size,
                          CUstream stream)
{
    if (!is_copyable(target, size) || !is_copyable(source, size)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return size == 0 ? CUDA_SUCCESS
                     : post((op_t){.stream = stream,
                                   .kind   = OP_COPY,
                                   .target = target,
                                   .source = source,
                                   .size   = size});
}

ENTRY(cuMemcpyAsync, CUdeviceptr target, CUdeviceptr source, size_t size,
      CUstream stream)
{
    BEGIN("cuMemcpyAsync", NEEDS_CONTEXT);
    return done(post_copy(target, source, size, stream));
}

ENTRY(cuMemcpyDtoDAsync_v2, CUdeviceptr target, CUdeviceptr source, size_t size,
      CUstream stream)
{
    BEGIN("cuMemcpyDtoDAsync", NEEDS_CONTEXT);
    return done(post_copy(target, source, size, stream));
}

ENTRY(cuMemcpyHtoDAsync_v2, CUdeviceptr target, const void *source, size_t size,
      CUstream stream)
{
    BEGIN("cuMemcpyHtoDAsync", NEEDS_CONTEXT);
    return done(
        post_copy(target, (CUdeviceptr)(uintptr_t)source, size, stream));
}

ENTRY(cuMemcpyDtoHAsync_v2, void *target, CUdeviceptr source, size_t size,
      CUstream stream)
{
    BEGIN("cuMemcpyDtoHAsync", NEEDS_CONTEXT);
    return done(
        post_copy((CUdeviceptr)(uintptr_t)target, source, size, stream));
}

ENTRY(cuMemsetD8Async, CUdeviceptr target, unsigned char value, size_t size,
      CUstream stream)
{
    BEGIN("cuMemsetD8Async", NEEDS_CONTEXT);
    return done(post((op_t){.stream = stream,
                            .kind   = OP_SET,
                            .target = target,
                            .value  = value,
                            .size   = size}));
}

ENTRY(cuMemsetD32Async, CUdeviceptr target, unsigned value, size_t num,
      CUstream stream)
{
    BEGIN("cuMemsetD32Async", NEEDS_CONTEXT);
    FAIL_IF((target % 4 != 0) || (num != 1), CUDA_ERROR_INVALID_VALUE);
    return done(post((op_t){.stream = stream,
                            .kind   = OP_WRITE_VALUE,
                            .target = target,
                            .value  = value}));
}

static CUresult copy_now(CUdeviceptr target, CUdeviceptr source, size_t size)
{
    CUcontext context = current_context();

    stream_work(~0u);
    if (context->sticky == CUDA_SUCCESS) {
        return copy_bytes(target, source, size, context->device, true);
    }
    return context->sticky;
}

ENTRY(cuMemcpyHtoD_v2, CUdeviceptr target, const void *source, size_t size)
{
    BEGIN("cuMemcpyHtoD", NEEDS_CONTEXT);
    return done(copy_now(target, (CUdeviceptr)(uintptr_t)source, size));
}

ENTRY(cuMemcpyDtoH_v2, void *target, CUdeviceptr source, size_t size)
{
    BEGIN("cuMemcpyDtoH", NEEDS_CONTEXT);
    return done(copy_now((CUdeviceptr)(uintptr_t)target, source, size));
}

ENTRY(cuLaunchKernel, CUfunction function, unsigned grid_x, unsigned grid_y,
      unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
      unsigned shared_size, CUstream stream, void **params, void **extra)
{
    op_t op = {.stream = stream, .kind = OP_KERNEL, .function = function};

    BEGIN("cuLaunchKernel", NEEDS_CONTEXT);
    FAIL_IF((grid_x == 0) || (grid_y == 0) || (grid_z == 0) || (block_x == 0) ||
                (block_y == 0) || (block_z == 0) ||
                ((unsigned long long)block_x * block_y * block_z > 1024) ||
                (grid_y > 65535) || (grid_z > 65535) ||
                (shared_size > 48 << 10) || (extra != NULL) ||
                (grid_y * grid_z * block_y * block_z != 1) ||
                (kernel_arguments(function, params, block_x, op.arguments) < 0),
            CUDA_ERROR_INVALID_VALUE);
    op.num_blocks = grid_x;
    return done(post(op));
}
