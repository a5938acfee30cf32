/*
 * The walk stands at a byte of the stream, plan->at.offset, and says where that
 * is in both lists:
 *
 *     at.run, at.index, at.segment_offset    segment of the stream. Padding
 *                                            belongs to the segment before it:
 *                                            segment_offset >= its length
 *     at.memory, at.memory_offset            the next byte of memory to be used
 *
 * A segment takes its "stride" of the stream, its length with the padding that
 * follows. Whole runs and the segments of a run are passed by arithmetic, so a
 * peer's run of 2^40 segments costs as much as one of 1.
 */
#include "pack/plan.h"

#include "base/math.h"

#include <assert.h>
#include <string.h>

/* Copies that are collected before they are handed to the copy engine. */
#define PLAN_BATCH 128

typedef struct plan_batch {
    void (*copy)(const mem_copy_t *copies, size_t num_copies);
    bool       is_scatter; /* from the block to memory */
    size_t     num_copies;
    mem_copy_t copies[PLAN_BATCH];
} plan_batch_t;

static inline uint64_t run_stride(const pack_run_t *run)
{
    return base_align_up(run->length, PACK_ALIGNMENT);
}

/* Do the segments of a run follow each other in the stream without padding? */
static inline bool run_is_dense(const pack_run_t *run)
{
    return (run->length % PACK_ALIGNMENT) == 0;
}

/* Bytes of data, without padding, before a place in a run. */
static inline uint64_t run_payload(const pack_run_t *run, uint64_t index,
                                   uint64_t segment_offset)
{
    return index * run->length + base_min(segment_offset, run->length);
}

/* Bytes from a place in a run up to the next padding, or the run's end. */
static inline uint64_t run_data(const pack_run_t *run, uint64_t index,
                                uint64_t segment_offset)
{
    uint64_t count = run_is_dense(run) ? run->count - index : 1;

    return count * run->length - segment_offset;
}

static void plan_rewind(pack_plan_t *plan)
{
    memset(&plan->at, 0, sizeof(plan->at));
}

void pack_plan_init(pack_plan_t *plan, const pack_run_t *runs, size_t num_runs,
                    const pack_totals_t *totals,
                    const ucxpool_segment_t *segments, size_t num_segments)
{
    plan->runs         = runs;
    plan->num_runs     = num_runs;
    plan->segments     = segments;
    plan->num_segments = num_segments;
    plan->totals       = *totals;
    plan_rewind(plan);
}

/* Pass `length` bytes of memory, and then segments that have nothing left. */
static void plan_advance_memory(pack_plan_t *plan, uint64_t length)
{
    uint64_t left;

    for (; plan->at.memory < plan->num_segments; plan->at.memory++) {
        left = plan->segments[plan->at.memory].length - plan->at.memory_offset;
        if (length < left) {
            plan->at.memory_offset += length;
            return;
        }
        length -= left;
        plan->at.memory_offset = 0;
    }
    assert(length == 0);
}

/*
 * Pass `length` bytes of the stream. Afterwards the walk stands in a segment
 * that is not empty (or its padding), or behind the last run.
 */
static void plan_advance(pack_plan_t *plan, uint64_t length)
{
    uint64_t          payload_size = 0;
    const pack_run_t *run;
    uint64_t          stride, left, place;

    plan->at.offset += length;
    for (; plan->at.run < plan->num_runs; plan->at.run++) {
        run    = &plan->runs[plan->at.run];
        stride = run_stride(run);
        place  = plan->at.index * stride + plan->at.segment_offset;
        left   = run->count * stride - place;
        payload_size -=
            run_payload(run, plan->at.index, plan->at.segment_offset);
        if (length < left) {
            place += length;
            plan->at.index          = place / stride;
            plan->at.segment_offset = place % stride;
            payload_size +=
                run_payload(run, plan->at.index, plan->at.segment_offset);
            break;
        }
        length -= left;
        payload_size += run->count * run->length;
        plan->at.index          = 0;
        plan->at.segment_offset = 0;
    }
    plan_advance_memory(plan, payload_size);
}

static void plan_seek(pack_plan_t *plan, uint64_t offset)
{
    if (offset < plan->at.offset) {
        plan_rewind(plan);
    }
    plan_advance(plan, offset - plan->at.offset);
}

/* Bytes of a range that lie within the stream. */
static uint64_t plan_clip(const pack_plan_t *plan, uint64_t offset,
                          uint64_t length)
{
    assert(offset <= plan->totals.stream_size);
    return base_min(length, plan->totals.stream_size - offset);
}

static inline char *plan_address(const pack_plan_t *plan)
{
    return (char *)plan->segments[plan->at.memory].address +
           plan->at.memory_offset;
}

/* Bytes of padding at the walk's place. */
static inline uint64_t plan_padding(const pack_plan_t *plan)
{
    const pack_run_t *run = &plan->runs[plan->at.run];

    if (plan->at.segment_offset < run->length) {
        return 0;
    }
    return run_stride(run) - plan->at.segment_offset;
}

/*
 * Add the runs behind *run_p to a stretch of data that reaches the end of that
 * run; false when there is padding, or nothing more.
 */
static bool plan_extend_data(const pack_plan_t *plan, size_t *run_p,
                             uint64_t *data_p)
{
    const pack_run_t *run = &plan->runs[*run_p];

    if (!run_is_dense(run) || (*run_p + 1 == plan->num_runs)) {
        return false;
    }
    (*run_p)++;
    *data_p += run_data(run + 1, 0, 0);
    return true;
}

/* Likewise the next segment of memory; false when it lies somewhere else. */
static bool plan_extend_memory(const pack_plan_t *plan, size_t *memory_p,
                               uint64_t *memory_size_p)
{
    const ucxpool_segment_t *segment = &plan->segments[*memory_p];
    const ucxpool_segment_t *next    = segment + 1;
    const ucxpool_segment_t *end     = plan->segments + plan->num_segments;

    while ((next < end) && (next->length == 0)) {
        next++;
    }
    if ((next == end) ||
        ((uintptr_t)next->address !=
         (uintptr_t)segment->address + segment->length)) {
        return false;
    }
    *memory_p = (size_t)(next - plan->segments);
    *memory_size_p += next->length;
    return true;
}

/*
 * Both lists are extended only as far as the other one reaches, so that the
 * bytes found pay for the steps made.
 */
static uint64_t plan_merge(const pack_plan_t *plan, uint64_t limit)
{
    size_t   run    = plan->at.run;
    size_t   memory = plan->at.memory;
    uint64_t data   = run_data(&plan->runs[run], plan->at.index,
                               plan->at.segment_offset);
    uint64_t memory_size =
        plan->segments[memory].length - plan->at.memory_offset;

    for (;;) {
        if (limit <= base_min(data, memory_size)) {
            return limit;
        }
        if (memory_size <= data) {
            if (!plan_extend_memory(plan, &memory, &memory_size)) {
                return memory_size;
            }
        } else if (!plan_extend_data(plan, &run, &data)) {
            return data;
        }
    }
}

void pack_plan_extent(pack_plan_t *plan, uint64_t offset, uint64_t length,
                      pack_extent_t *extent_p)
{
    uint64_t padding;

    length            = plan_clip(plan, offset, length);
    extent_p->address = NULL;
    extent_p->length  = 0;
    if (length == 0) {
        return;
    }
    plan_seek(plan, offset);
    padding = plan_padding(plan);
    if (padding != 0) {
        extent_p->length = base_min(padding, length);
        return;
    }
    extent_p->address = plan_address(plan);
    extent_p->length  = plan_merge(plan, length);
}

static void plan_batch_flush(plan_batch_t *batch)
{
    batch->copy(batch->copies, batch->num_copies);
    batch->num_copies = 0;
}

static inline void plan_batch_add(plan_batch_t *batch, char *memory,
                                  char *block, uint64_t length)
{
    mem_copy_t *copy = &batch->copies[batch->num_copies];

    copy->target = batch->is_scatter ? memory : block;
    copy->source = batch->is_scatter ? block : memory;
    copy->length = (size_t)length;
    if (++batch->num_copies == PLAN_BATCH) {
        plan_batch_flush(batch);
    }
}

/* Bytes at the walk's place that are one piece of the stream and of memory. */
static inline uint64_t plan_piece(const pack_plan_t *plan)
{
    const ucxpool_segment_t *segment = &plan->segments[plan->at.memory];
    uint64_t data = run_data(&plan->runs[plan->at.run], plan->at.index,
                             plan->at.segment_offset);

    return base_min(data, segment->length - plan->at.memory_offset);
}

/*
 * The common case: memory is cut as the stream is. Takes the whole segments of
 * the walk's run, with the padding behind them, that lie in the next `length`
 * bytes, and returns what it has taken.
 */
static uint64_t plan_copy_whole(pack_plan_t *plan, plan_batch_t *batch,
                                uint64_t length, char *block)
{
    const pack_run_t        *run     = &plan->runs[plan->at.run];
    const ucxpool_segment_t *segment = &plan->segments[plan->at.memory];
    const uint64_t           stride  = run_stride(run);
    uint64_t                 left    = length;
    uint64_t                 count;

    if ((plan->at.segment_offset != 0) || (plan->at.memory_offset != 0)) {
        return 0;
    }
    for (count = run->count - plan->at.index; count > 0; count--) {
        if ((left < stride) || (segment->length != run->length)) {
            break;
        }
        plan_batch_add(batch, segment->address, block, run->length);
        segment++;
        block += stride;
        left -= stride;
    }
    plan->at.memory = (size_t)(segment - plan->segments);
    plan->at.index  = run->count - count;
    plan->at.offset += length - left;
    return length - left;
}

static void plan_copy(pack_plan_t *plan, uint64_t offset, uint64_t length,
                      char *block, bool is_scatter)
{
    plan_batch_t batch;
    uint64_t     n;

    /* A gathered block is read at once; scattered memory only when all of the
     * message has come. */
    batch.copy = is_scatter && mem_copy_streams(plan->totals.payload_size)
                     ? mem_copy_list_stream
                     : mem_copy_list;
    batch.is_scatter = is_scatter;
    batch.num_copies = 0;
    length = plan_clip(plan, offset, length);
    plan_seek(plan, offset);
    while (length > 0) {
        n = plan_copy_whole(plan, &batch, length, block);
        if (n > 0) {
            plan_advance(plan, 0);
        } else {
            n = base_min(plan_padding(plan), length);
            if (n == 0) {
                n = base_min(plan_piece(plan), length);
                plan_batch_add(&batch, plan_address(plan), block, n);
            }
            plan_advance(plan, n);
        }
        block += n;
        length -= n;
    }
    plan_batch_flush(&batch);
}

void pack_gather(pack_plan_t *plan, uint64_t offset, uint64_t length,
                 void *block)
{
    plan_copy(plan, offset, length, block, false);
}

void pack_scatter(pack_plan_t *plan, uint64_t offset, uint64_t length,
                  const void *block)
{
    /* A block that is scattered is only read. */
    plan_copy(plan, offset, length, (char *)(uintptr_t)block, true);
}
