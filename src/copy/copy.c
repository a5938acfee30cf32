#include "copy/plan.h"

#include "copy/list.h"
#include "copy/walk.h"

#include <string.h>

/* Copies that are collected before they are handed to the copy engine. */
#define COPY_BATCH 128

typedef struct copy_batch {
    void (*copy)(const copy_entry_t *copies, size_t num_copies);
    bool         is_scatter; /* from the block to memory */
    size_t       num_copies;
    copy_entry_t copies[COPY_BATCH];
} copy_batch_t;

static void copy_batch_flush(copy_batch_t *batch)
{
    batch->copy(batch->copies, batch->num_copies);
    batch->num_copies = 0;
}

static inline void copy_batch_add(copy_batch_t *batch, char *memory,
                                  char *block, uint64_t length)
{
    copy_entry_t *copy = &batch->copies[batch->num_copies];

    copy->target = batch->is_scatter ? memory : block;
    copy->source = batch->is_scatter ? block : memory;
    copy->length = (size_t)length;
    if (++batch->num_copies == COPY_BATCH) {
        copy_batch_flush(batch);
    }
}

/* Clear padding: what a block held before is no business of the peer's. */
static inline void copy_clear(const copy_batch_t *batch, char *block,
                              uint64_t length)
{
    if (!batch->is_scatter && (length > 0)) {
        memset(block, 0, (size_t)length);
    }
}

/* The same where at least COPY_ALIGNMENT bytes lie before the padding's end,
 * and the bytes before it are still to be copied. */
static inline void copy_clear_early(const copy_batch_t *batch, char *end)
{
    if (!batch->is_scatter) {
        memset(end - COPY_ALIGNMENT, 0, COPY_ALIGNMENT);
    }
}

/* Leave runs that have no bytes left. */
static inline void copy_settle(copy_plan_t *plan)
{
    while ((plan->at.run < plan->num_runs) &&
           ((plan->at.index == plan->runs[plan->at.run].count) ||
            (plan->runs[plan->at.run].length == 0))) {
        plan->at.run++;
        plan->at.index = 0;
    }
}

/* Pass `length` bytes of the stream, not beyond the end of the run. */
static inline void copy_pass(copy_plan_t *plan, uint64_t stride,
                             uint64_t length)
{
    plan->at.offset += length;
    plan->at.segment_offset += length;
    if (plan->at.segment_offset == stride) {
        plan->at.index++;
        plan->at.segment_offset = 0;
    } else if (plan->at.segment_offset > stride) {
        plan->at.index += plan->at.segment_offset / stride;
        plan->at.segment_offset %= stride;
    }
    copy_settle(plan);
}

/* Copy bytes that are one piece of the stream. */
static inline void copy_data(copy_plan_t *plan, copy_batch_t *batch,
                             uint64_t length, char *block)
{
    uint64_t left, n;

    while (length > 0) {
        left = copy_memory_length(&plan->memory, plan->at.memory) -
               plan->at.memory_offset;
        n = base_min(left, length);
        if (n > 0) {
            copy_batch_add(batch, copy_walk_address(plan), block, n);
        }
        plan->at.memory_offset += n;
        if (n == left) {
            plan->at.memory++;
            plan->at.memory_offset = 0;
        }
        block += n;
        length -= n;
    }
}

/*
 * Copy what is left of a segment (or of a run without padding), and pass the
 * padding behind it. Returns how much of the stream that was.
 */
static uint64_t copy_segment(copy_plan_t *plan, copy_batch_t *batch,
                             uint64_t length, char *block)
{
    const copy_run_t *run  = &plan->runs[plan->at.run];
    uint64_t          rest = copy_run_stride(run) - plan->at.segment_offset;
    uint64_t          data = 0;

    if (plan->at.segment_offset < run->length) {
        data = copy_run_data(run, plan->at.index, plan->at.segment_offset);
        data = base_min(data, length);
        copy_data(plan, batch, data, block);
    }
    length = base_min(length, base_max(data, rest));
    copy_clear(batch, block + data, length - data);
    copy_pass(plan, copy_run_stride(run), length);
    return length;
}

/* Whole segments of the walk's run, where memory is cut alike, that lie in
 * `length` bytes; returns how many. */
static uint64_t copy_segments(const copy_plan_t *plan, copy_batch_t *batch,
                              uint64_t length, char *block)
{
    const copy_run_t        *run     = &plan->runs[plan->at.run];
    const ucxpool_segment_t *segment = &plan->memory.segments[plan->at.memory];
    const uint64_t           stride  = copy_run_stride(run);
    const uint64_t           max     = run->count - plan->at.index;
    uint64_t                 count;

    for (count = 0; count < max; count++) {
        if ((length < stride) || (segment->length != run->length)) {
            break;
        }
        if (stride != run->length) {
            copy_clear_early(batch, block + stride);
        }
        copy_batch_add(batch, segment->address, block, run->length);
        segment++;
        block += stride;
        length -= stride;
    }
    return count;
}

/* The same from pieces. */
static uint64_t copy_pieces(const copy_plan_t *plan, copy_batch_t *batch,
                            uint64_t length, char *block)
{
    const copy_run_t *run     = &plan->runs[plan->at.run];
    void *const      *address = &plan->memory.addresses[plan->at.memory];
    const uint64_t    stride  = copy_run_stride(run);
    uint64_t          count;

    if (plan->memory.length != run->length) {
        return 0;
    }
    count = base_min(length / stride, run->count - plan->at.index);
    for (uint64_t i = 0; i < count; i++) {
        if (stride != run->length) {
            copy_clear_early(batch, block + stride);
        }
        copy_batch_add(batch, address[i], block, run->length);
        block += stride;
    }
    return count;
}

/*
 * The common case: memory is cut as the stream is. Takes the whole segments of
 * the walk's run, with the padding behind them, that lie in the next `length`
 * bytes, and returns how much of the stream that was.
 */
static uint64_t copy_whole(copy_plan_t *plan, copy_batch_t *batch,
                           uint64_t length, char *block)
{
    const copy_run_t *run    = &plan->runs[plan->at.run];
    const uint64_t    stride = copy_run_stride(run);
    uint64_t          count;

    if ((plan->at.segment_offset != 0) || (plan->at.memory_offset != 0)) {
        return 0;
    }
    count = copy_memory_is_pieces(&plan->memory)
                ? copy_pieces(plan, batch, length, block)
                : copy_segments(plan, batch, length, block);
    plan->at.memory += count;
    plan->at.index += count;
    plan->at.offset += count * stride;
    copy_settle(plan);
    return count * stride;
}

static void copy_range(copy_plan_t *plan, uint64_t offset, uint64_t length,
                       char *block, bool is_scatter)
{
    copy_batch_t batch;
    uint64_t     n;

    /* A gathered block is read at once; scattered memory only when all of the
     * message has come. */
    batch.copy       = is_scatter && copy_streams(plan->totals.payload_size)
                           ? copy_list_stream
                           : copy_list;
    batch.is_scatter = is_scatter;
    batch.num_copies = 0;
    length           = copy_walk_clip(plan, offset, length);
    copy_walk_seek(plan, offset);
    for (; length > 0; length -= n) {
        n = copy_whole(plan, &batch, length, block);
        if (n == 0) {
            n = copy_segment(plan, &batch, length, block);
        }
        block += n;
    }
    copy_batch_flush(&batch);
}

void copy_gather(copy_plan_t *plan, uint64_t offset, uint64_t length,
                 void *block)
{
    copy_range(plan, offset, length, block, false);
}

void copy_scatter(copy_plan_t *plan, uint64_t offset, uint64_t length,
                  const void *block)
{
    /* A block that is scattered is only read. */
    copy_range(plan, offset, length, (char *)(uintptr_t)block, true);
}
