#include "copy/launch.h"

#include "base/error.h"
#include "copy/plan.h"

/* So many segments of one length are worth a list of 8 bytes each, though the
 * launch then ends with the run. */
#define UNIFORM_MIN 4096u

/* A launch's sizes are numbers of 32 bits. */
#define LENGTH_MAX ((uint64_t)1 << 30)

/* What is being filled. */
typedef struct filling {
    copy_plan_t *plan;
    const void  *entries; /* or a part of the pieces' own */
    uint64_t     length;  /* of the range */
    uint64_t     done;    /* bytes of it */
    size_t       room;    /* for entries of 16 bytes */
    uint32_t     num;     /* entries filled */
    size_t       seen;    /* pieces that have an address */
} filling_t;

/* Both lists stand at the start of a segment, or as far in one of the same
 * length: memory is cut as the stream is. */
static bool is_cut_alike(const copy_plan_t *plan)
{
    return (plan->at.segment_offset == plan->at.memory_offset) &&
           (copy_memory_length(&plan->memory, plan->at.memory) ==
            plan->runs[plan->at.run].length);
}

/* Leave runs and memory that have no bytes left. */
static void settle(copy_plan_t *plan)
{
    while ((plan->at.run < plan->num_runs) &&
           ((plan->at.index == plan->runs[plan->at.run].count) ||
            (plan->runs[plan->at.run].length == 0))) {
        plan->at.run++;
        plan->at.index = 0;
    }
    while ((plan->at.memory < plan->memory.num) &&
           (copy_memory_length(&plan->memory, plan->at.memory) == 0)) {
        plan->at.memory++;
    }
}

/*
 * Pass `count` segments of the walk's run with all of their memory, which is
 * `size` bytes of the stream. A range that a stranger chose may end in the last
 * one's padding: there the walk then stands.
 */
static void pass_whole(copy_plan_t *plan, uint64_t count, uint64_t size)
{
    uint64_t stride = copy_run_stride(&plan->runs[plan->at.run]);
    uint64_t place  = plan->at.segment_offset + size;

    plan->at.offset += size;
    plan->at.index += count;
    plan->at.segment_offset = 0;
    if (place < count * stride) {
        plan->at.index--;
        plan->at.segment_offset = place - (count - 1) * stride;
    }
    plan->at.memory += count;
    plan->at.memory_offset = 0;
    settle(plan);
}

/* Segments of the walk's run that lie whole in the range; the last one's
 * padding may lie behind it. */
static uint64_t count_whole(const filling_t *filling, const copy_run_t *run)
{
    uint64_t count = (filling->length - filling->done) / copy_run_stride(run);

    if (filling->length - filling->done - count * copy_run_stride(run) >=
        run->length) {
        count++;
    }
    return base_min(count, run->count - filling->plan->at.index);
}

/* The addresses of the memory's next segments that have this length, `max` at
 * most; returns how many. */
static uint64_t copy_addresses(filling_t *filling, uint64_t max,
                               uint64_t length, uint64_t *addresses)
{
    const copy_plan_t   *plan   = filling->plan;
    const copy_memory_t *memory = &plan->memory;

    if (!copy_memory_is_pieces(memory)) {
        return copy_pairs_addresses(&memory->segments[plan->at.memory], max,
                                    length, addresses);
    }
    if (memory->length != length) {
        return 0;
    }
    /* Where there is a NULL among them the list is not used. */
    filling->seen =
        copy_pairs_copy(&memory->addresses[plan->at.memory], max, addresses);
    return max;
}

/* Are these pieces a list already? Short ones go with what follows them. */
static bool is_list(const copy_plan_t *plan, uint64_t num, uint64_t length)
{
    return plan->memory.is_pinned && (plan->memory.length == length) &&
           (num >= UNIFORM_MIN);
}

/* Addresses alone, where many segments have one length. */
static bool fill_uniform(filling_t *filling, uint64_t *addresses)
{
    copy_plan_t      *plan = filling->plan;
    const copy_run_t *run  = &plan->runs[plan->at.run];
    uint64_t          count, n;

    if ((plan->at.segment_offset != 0) || (plan->at.memory_offset != 0) ||
        (run->length > LENGTH_MAX)) {
        return false;
    }
    count =
        base_min(count_whole(filling, run), plan->memory.num - plan->at.memory);
    if (is_list(plan, count, run->length)) {
        filling->entries = &plan->memory.addresses[plan->at.memory];
        filling->seen    = count; /* by the kernel, in time */
        n                = count;
    } else {
        count = base_min(count, (uint64_t)filling->room * 2);
        n     = copy_addresses(filling, count, run->length, addresses);
    }
    if ((n == 0) ||
        ((n < UNIFORM_MIN) && (n * copy_run_stride(run) < filling->length))) {
        return false;
    }
    filling->num  = (uint32_t)n;
    filling->done = base_min(n * copy_run_stride(run), filling->length);
    pass_whole(plan, n, filling->done);
    return true;
}

/* One segment, or what is left of it, with the padding behind it. */
static copy_segment_t next_segment(filling_t *filling)
{
    copy_plan_t      *plan   = filling->plan;
    const copy_run_t *run    = &plan->runs[plan->at.run];
    uint64_t          left   = filling->length - filling->done;
    uint64_t          data   = run->length - plan->at.segment_offset;
    uint64_t          stride = copy_run_stride(run) - plan->at.segment_offset;
    copy_segment_t    entry  = {(uintptr_t)copy_walk_address(plan),
                                base_min(data, left)};

    stride = base_min(stride, left);
    filling->done += stride;
    if (entry.length < data) {
        plan->at.offset += stride;
        plan->at.segment_offset += stride;
        plan->at.memory_offset += stride;
        return entry;
    }
    pass_whole(plan, 1, stride);
    return entry;
}

/* Addresses and lengths, where memory is cut as the stream is. */
static bool fill_segments(filling_t *filling, copy_segment_t *entries)
{
    if (filling->plan->at.segment_offset % COPY_ALIGNMENT != 0) {
        return false; /* the list would place the next one wrongly */
    }
    while ((filling->done < filling->length) &&
           (filling->num < filling->room) && is_cut_alike(filling->plan)) {
        entries[filling->num++] = next_segment(filling);
    }
    return filling->num != 0;
}

/* Any cut at all: each entry says where it lies in the stream. Padding is
 * zeros, which a scatter has no use for. */
static void fill_exact(filling_t *filling, copy_exact_t *entries,
                       bool is_gather)
{
    copy_plan_t  *plan   = filling->plan;
    uint64_t      start  = plan->at.offset;
    uint64_t      length = filling->length;
    copy_extent_t extent;

    while ((filling->done < length) && (filling->num < filling->room)) {
        copy_plan_extent(plan, start + filling->done, length - filling->done,
                         &extent);
        if ((extent.address != NULL) || is_gather) {
            entries[filling->num++] = (copy_exact_t){
                .address = (uintptr_t)extent.address,
                .length  = (uint32_t)extent.length,
                .offset  = (uint32_t)filling->done,
            };
        }
        filling->done += extent.length;
    }
}

/* Nobody may have looked at the pieces' addresses before. Looks at those from
 * number `first` up to a place of the stream. */
static ucxpool_status_t check_pieces(copy_plan_t *plan, size_t first,
                                     uint64_t offset)
{
    size_t end, num;

    if (!copy_memory_is_pieces(&plan->memory)) {
        return UCXPOOL_OK;
    }
    copy_walk_seek(plan, offset);
    end = plan->at.memory + (plan->at.memory_offset != 0);
    if (first >= end) {
        return UCXPOOL_OK;
    }
    num = copy_pairs_present(&plan->memory.addresses[first], end - first);
    if (num == end - first) {
        return UCXPOOL_OK;
    }
    return copy_launch_no_address(first + num);
}

ucxpool_status_t copy_launch_no_address(size_t piece)
{
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "piece %zu has no address; give it memory", piece);
}

ucxpool_status_t copy_launch_fill(copy_plan_t *plan, uint64_t offset,
                                  uint64_t length, bool is_gather,
                                  void *entries, size_t entries_size,
                                  copy_launch_t *launch_p)
{
    filling_t filling = {.plan = plan, .entries = entries};

    length         = copy_walk_clip(plan, offset, length);
    filling.length = base_min(length, LENGTH_MAX);
    filling.room   = entries_size / sizeof(copy_segment_t);
    copy_walk_seek(plan, offset);
    launch_p->list = (copy_table_t){.entries = entries};
    if (filling.length == 0) {
        launch_p->covered = 0;
        return UCXPOOL_OK;
    }
    settle(plan);
    launch_p->first       = plan->at.memory;
    launch_p->list.length = (uint32_t)plan->runs[plan->at.run].length;
    if (fill_uniform(&filling, entries)) {
        launch_p->list.form = COPY_UNIFORM;
    } else if (fill_segments(&filling, entries)) {
        launch_p->list.form = COPY_SEGMENTS;
    } else {
        fill_exact(&filling, entries, is_gather);
        launch_p->list.form = COPY_EXACT;
    }
    launch_p->list.entries     = filling.entries;
    launch_p->list.num_entries = filling.num;
    launch_p->list.is_padded   = filling.done % COPY_ALIGNMENT == 0;
    launch_p->covered          = filling.done;
    return check_pieces(plan, launch_p->first + filling.seen,
                        offset + filling.done);
}
