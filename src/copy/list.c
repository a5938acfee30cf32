#include "copy/list.h"

#include "base/math.h"
#include "copy/file.h"

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/*
 * How far to prefetch: the number of entries, and the number of lines of each
 * entry. The hardware prefetcher loads the rest of a long source, but not
 * of a target. The CPU reads each line of a target before writing it, and waits
 * for each line that was not prefetched. Measured on an otherwise idle Xeon:
 * with entries of 256 bytes, 3.7 GB/s with two prefetched target lines (or
 * none), and 9.3 GB/s with all four; with entries of 1 KiB, 6.9 and 11.6 GB/s.
 */
#define COPY_AHEAD        8
#define COPY_SOURCE_LINES 4
#define COPY_TARGET_LINES 16

/* The prefetch distance in a long streamed entry. The distance reaches beyond
 * the end of a page, where the hardware prefetcher stops. */
#define COPY_STREAM_AHEAD ((size_t)4096)

#define COPY_LINE_SIZE ((size_t)64)

/* The length of the shortest entry that is written with non-temporal stores.
 * Shorter entries gain nothing from such stores, because too many of their
 * lines are only partly written. */
#define COPY_STREAM_MIN 256

/* Returns true if `next` begins at the end of the previous entry, or after a
 * few bytes of padding. */
static inline bool copy_follows(const void *address, size_t length,
                                const void *next)
{
    return (uintptr_t)next - ((uintptr_t)address + length) < COPY_LINE_SIZE;
}

static inline void copy_prefetch_target(const copy_entry_t *copy)
{
    size_t size = base_min(copy->length, COPY_TARGET_LINES * COPY_LINE_SIZE);

    for (size_t i = 0; i < size; i += COPY_LINE_SIZE) {
        __builtin_prefetch((char *)copy->target + i, 1);
    }
}

static inline void copy_prefetch_source(const copy_entry_t *copy)
{
    size_t size = base_min(copy->length, COPY_SOURCE_LINES * COPY_LINE_SIZE);

    for (size_t i = 0; i < size; i += COPY_LINE_SIZE) {
        __builtin_prefetch((const char *)copy->source + i, 0);
    }
}

/*
 * Prefetch the lines of an entry. One side of a list is a block, in which
 * entries are adjacent; the hardware prefetcher loads the block's lines.
 */
static inline void copy_prefetch(const copy_entry_t *copies, size_t i)
{
    const copy_entry_t *copy = &copies[i];

    if ((i == 0) ||
        !copy_follows(copy[-1].source, copy[-1].length, copy->source)) {
        copy_prefetch_source(copy);
    }
    if ((i == 0) ||
        !copy_follows(copy[-1].target, copy[-1].length, copy->target)) {
        copy_prefetch_target(copy);
    }
}

/* Copy 16 to 32 bytes as two parts that may overlap. */
static inline void copy_16(char *target, const char *source, size_t length)
{
    memcpy(target, source, 16);
    memcpy(target + length - 16, source + length - 16, 16);
}

/* Copy one entry. For a short entry, a call to memcpy takes longer than the
 * copy itself. */
static inline void copy_one(char *target, const char *source, size_t length)
{
    if ((length < 16) || (length > 64)) {
        if (length != 0) {
            memcpy(target, source, length);
        }
    } else if (length <= 32) {
        copy_16(target, source, length);
    } else {
        copy_16(target, source, 32);
        copy_16(target + length - 32, source + length - 32, 32);
    }
}

void copy_list(const copy_entry_t *copies, size_t num_copies)
{
    for (size_t i = 0; i < base_min(num_copies, (size_t)COPY_AHEAD); i++) {
        copy_prefetch(copies, i);
    }
    for (size_t i = 0; i < num_copies; i++) {
        if (i + COPY_AHEAD < num_copies) {
            copy_prefetch(copies, i + COPY_AHEAD);
        }
        copy_one(copies[i].target, copies[i].source, copies[i].length);
    }
}

#if defined(__SSE2__)

/* Prefetch the first and the last line of a streamed entry. They are only
 * partly written, so they use the cache. */
static inline void copy_prefetch_stream(const copy_entry_t *copy)
{
    char *end;

    copy_prefetch_source(copy);
    if (copy->length < COPY_STREAM_MIN) {
        copy_prefetch_target(copy);
        return;
    }
    end = (char *)copy->target + copy->length;
    if ((uintptr_t)copy->target % COPY_LINE_SIZE != 0) {
        __builtin_prefetch(copy->target, 1);
    }
    if ((uintptr_t)end % COPY_LINE_SIZE != 0) {
        __builtin_prefetch(end, 1);
    }
}

static inline void copy_line(char *target, const char *source)
{
    __m128i part[4];

    memcpy(part, source, sizeof(part));
    _mm_stream_si128((__m128i *)(void *)target, part[0]);
    _mm_stream_si128((__m128i *)(void *)(target + 16), part[1]);
    _mm_stream_si128((__m128i *)(void *)(target + 32), part[2]);
    _mm_stream_si128((__m128i *)(void *)(target + 48), part[3]);
}

static inline void copy_stream(char *target, const char *source, size_t length)
{
    size_t head = -(uintptr_t)target % COPY_LINE_SIZE;

    if (length < COPY_STREAM_MIN) {
        copy_one(target, source, length);
        return;
    }
    memcpy(target, source, head);
    target += head;
    source += head;
    for (length -= head; length >= COPY_LINE_SIZE; length -= COPY_LINE_SIZE) {
        if (length > COPY_STREAM_AHEAD) {
            __builtin_prefetch(source + COPY_STREAM_AHEAD, 0);
        }
        copy_line(target, source);
        target += COPY_LINE_SIZE;
        source += COPY_LINE_SIZE;
    }
    memcpy(target, source, length);
}

void copy_list_stream(const copy_entry_t *copies, size_t num_copies)
{
    for (size_t i = 0; i < base_min(num_copies, (size_t)COPY_AHEAD); i++) {
        copy_prefetch_stream(&copies[i]);
    }
    for (size_t i = 0; i < num_copies; i++) {
        if (i + COPY_AHEAD < num_copies) {
            copy_prefetch_stream(&copies[i + COPY_AHEAD]);
        }
        copy_stream(copies[i].target, copies[i].source, copies[i].length);
    }
    /* Non-temporal stores are not ordered with later stores, which may report
     * to another thread or process that the data is complete. */
    _mm_sfence();
}

#else

void copy_list_stream(const copy_entry_t *copies, size_t num_copies)
{
    copy_list(copies, num_copies);
}

#endif

bool copy_streams(size_t total_size)
{
    return total_size >= COPY_STREAM_TOTAL;
}

/* --- gather and scatter --------------------------------------------------- */

/* The number of copies that are collected before they are executed. */
#define COPY_BATCH 128

typedef struct copy_batch {
    void (*copy)(const copy_entry_t *copies, size_t num_copies);
    bool              is_scatter; /* from the block to memory */
    size_t            num_copies;
    copy_entry_t      copies[COPY_BATCH];
    copy_file_reads_t reads;
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

/* Zero the padding, so that old data of the block does not leak to the peer. */
static inline void copy_clear(const copy_batch_t *batch, char *block,
                              uint64_t length)
{
    if (!batch->is_scatter && (length > 0)) {
        memset(block, 0, (size_t)length);
    }
}

/* Zero padding before the data is copied, as one store of COPY_ALIGNMENT bytes.
 * At least this many bytes must be before `end`. */
static inline void copy_clear_early(const copy_batch_t *batch, char *end)
{
    if (!batch->is_scatter) {
        memset(end - COPY_ALIGNMENT, 0, COPY_ALIGNMENT);
    }
}

/* Advance the walk by `length` bytes of the stream, within the current run. */
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
    copy_walk_settle(plan);
}

/* Add a copy from or to the current position in memory. Files are only
 * gathered. */
static inline void copy_batch_walk(copy_batch_t *batch, const copy_plan_t *plan,
                                   char *block, uint64_t length)
{
    const ucxpool_range_t *range;

    if (copy_memory_is_ranges(&plan->memory)) {
        range = &plan->memory.ranges[plan->at.memory];
        if (range->kind == UCXPOOL_RANGE_FILE) {
            copy_file_reads_add(&batch->reads, range, plan->at.memory_offset,
                                length, block);
            return;
        }
    }
    copy_batch_add(batch, copy_walk_address(plan), block, length);
}

/* Copy bytes that are contiguous in the stream. */
static inline void copy_data(copy_plan_t *plan, copy_batch_t *batch,
                             uint64_t length, char *block)
{
    uint64_t left, n;

    while (length > 0) {
        left = copy_memory_length(&plan->memory, plan->at.memory) -
               plan->at.memory_offset;
        n = base_min(left, length);
        if (n > 0) {
            copy_batch_walk(batch, plan, block, n);
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
 * Copy the rest of a segment (or of a run without padding), and advance past
 * the padding that follows. Returns how many bytes of the stream were passed,
 * including the padding.
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

/* Copy segments of the current run within `length` bytes, as long as the memory
 * is cut like the stream. Returns the number of segments. */
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

/* Like copy_segments(), for pieces. */
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
 * The common case: the memory is cut like the stream. Copies the segments of
 * the current run, with their padding, that are in the next `length` bytes.
 * Returns how many bytes of the stream were passed, including the padding.
 */
static uint64_t copy_whole(copy_plan_t *plan, copy_batch_t *batch,
                           uint64_t length, char *block)
{
    const copy_run_t *run    = &plan->runs[plan->at.run];
    const uint64_t    stride = copy_run_stride(run);
    uint64_t          count;

    if ((plan->at.segment_offset != 0) || (plan->at.memory_offset != 0) ||
        copy_memory_is_ranges(&plan->memory)) {
        return 0;
    }
    count = copy_memory_is_pieces(&plan->memory)
                ? copy_pieces(plan, batch, length, block)
                : copy_segments(plan, batch, length, block);
    plan->at.memory += count;
    plan->at.index += count;
    plan->at.offset += count * stride;
    copy_walk_settle(plan);
    return count * stride;
}

static ucxpool_status_t copy_range(copy_plan_t *plan, uint64_t offset,
                                   uint64_t length, char *block,
                                   bool is_scatter)
{
    copy_batch_t batch;
    uint64_t     n;

    /* A gathered block is read immediately. Scattered memory is read only after
     * the whole message has arrived. */
    batch.copy       = is_scatter && copy_streams(plan->totals.payload_size)
                           ? copy_list_stream
                           : copy_list;
    batch.is_scatter = is_scatter;
    batch.num_copies = 0;
    copy_file_reads_init(&batch.reads);
    length = copy_walk_clip(plan, offset, length);
    copy_walk_seek(plan, offset);
    for (; (length > 0) && (batch.reads.status == UCXPOOL_OK); length -= n) {
        n = copy_whole(plan, &batch, length, block);
        if (n == 0) {
            n = copy_segment(plan, &batch, length, block);
        }
        block += n;
    }
    copy_batch_flush(&batch);
    return copy_file_reads_flush(&batch.reads);
}

ucxpool_status_t copy_gather(copy_plan_t *plan, uint64_t offset,
                             uint64_t length, void *block)
{
    return copy_range(plan, offset, length, block, false);
}

void copy_scatter(copy_plan_t *plan, uint64_t offset, uint64_t length,
                  const void *block)
{
    /* The cast is safe, because a scatter only reads the block. A scatter reads
     * no files, so it cannot fail. */
    (void)copy_range(plan, offset, length, (char *)(uintptr_t)block, true);
}
