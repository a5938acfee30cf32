#include "copy/plan.h"

#include "base/math.h"
#include "copy/walk.h"

#include <assert.h>
#include <string.h>

/* Bytes of data, without padding, before a place in a run. */
static inline uint64_t run_payload(const copy_run_t *run, uint64_t index,
                                   uint64_t segment_offset)
{
    return index * run->length + base_min(segment_offset, run->length);
}

static void plan_rewind(copy_plan_t *plan)
{
    memset(&plan->at, 0, sizeof(plan->at));
    plan->before = plan->at;
}

void copy_plan_init(copy_plan_t *plan, const copy_run_t *runs, size_t num_runs,
                    const copy_totals_t *totals, const copy_memory_t *memory)
{
    plan->runs     = runs;
    plan->num_runs = num_runs;
    plan->memory   = *memory;
    plan->totals   = *totals;
    if (copy_memory_is_pieces(memory) && (memory->length == 0)) {
        plan->memory = copy_memory_of_segments(NULL, 0);
    }
    plan_rewind(plan);
}

static void plan_advance_pieces(copy_plan_t *plan, uint64_t length)
{
    uint64_t place = plan->at.memory_offset + length;

    plan->at.memory += place / plan->memory.length;
    plan->at.memory_offset = place % plan->memory.length;
    assert((plan->at.memory < plan->memory.num) ||
           ((plan->at.memory == plan->memory.num) &&
            (plan->at.memory_offset == 0)));
}

/* Pass `length` bytes of memory, and then segments that have nothing left. */
static void plan_advance_memory(copy_plan_t *plan, uint64_t length)
{
    const ucxpool_segment_t *segments = plan->memory.segments;
    uint64_t                 left;

    if (copy_memory_is_pieces(&plan->memory)) {
        plan_advance_pieces(plan, length);
        return;
    }
    for (; plan->at.memory < plan->memory.num; plan->at.memory++) {
        left = segments[plan->at.memory].length - plan->at.memory_offset;
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
static void plan_advance(copy_plan_t *plan, uint64_t length)
{
    uint64_t          payload_size = 0;
    const copy_run_t *run;
    uint64_t          stride, left, place;

    plan->at.offset += length;
    for (; plan->at.run < plan->num_runs; plan->at.run++) {
        run    = &plan->runs[plan->at.run];
        stride = copy_run_stride(run);
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

/*
 * Ranges come nearly in order, but for some that overtake others on their way:
 * so the walk can go back to where the last one began, too.
 */
void copy_walk_seek(copy_plan_t *plan, uint64_t offset)
{
    if (offset >= plan->at.offset) {
        plan->before = plan->at;
    } else if (offset >= plan->before.offset) {
        plan->at = plan->before;
    } else {
        plan_rewind(plan);
    }
    plan_advance(plan, offset - plan->at.offset);
}

/* Bytes of padding at the walk's place. */
static inline uint64_t plan_padding(const copy_plan_t *plan)
{
    const copy_run_t *run = &plan->runs[plan->at.run];

    if (plan->at.segment_offset < run->length) {
        return 0;
    }
    return copy_run_stride(run) - plan->at.segment_offset;
}

/*
 * Add the runs behind *run_p to a stretch of data that reaches the end of that
 * run; false when there is padding, or nothing more.
 */
static bool plan_extend_data(const copy_plan_t *plan, size_t *run_p,
                             uint64_t *data_p)
{
    const copy_run_t *run = &plan->runs[*run_p];

    if (!copy_run_is_dense(run) || (*run_p + 1 == plan->num_runs)) {
        return false;
    }
    (*run_p)++;
    *data_p += copy_run_data(run + 1, 0, 0);
    return true;
}

/* Likewise the next segment of memory; false when it lies somewhere else. */
static bool plan_extend_memory(const copy_plan_t *plan, size_t *memory_p,
                               uint64_t *memory_size_p)
{
    const copy_memory_t *memory = &plan->memory;
    size_t               i      = *memory_p;
    size_t               next   = i + 1;

    while ((next < memory->num) && (copy_memory_length(memory, next) == 0)) {
        next++;
    }
    if ((next == memory->num) ||
        ((uintptr_t)copy_memory_address(memory, next) !=
         (uintptr_t)copy_memory_address(memory, i) +
             copy_memory_length(memory, i))) {
        return false;
    }
    *memory_p = next;
    *memory_size_p += copy_memory_length(memory, next);
    return true;
}

/*
 * Both lists are extended only as far as the other one reaches, so that the
 * bytes found pay for the steps made.
 */
static uint64_t plan_merge(const copy_plan_t *plan, uint64_t limit)
{
    size_t   run    = plan->at.run;
    size_t   memory = plan->at.memory;
    uint64_t data   = copy_run_data(&plan->runs[run], plan->at.index,
                                    plan->at.segment_offset);
    uint64_t memory_size =
        copy_memory_length(&plan->memory, memory) - plan->at.memory_offset;

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

void copy_plan_extent(copy_plan_t *plan, uint64_t offset, uint64_t length,
                      copy_extent_t *extent_p)
{
    uint64_t padding;

    length            = copy_walk_clip(plan, offset, length);
    extent_p->address = NULL;
    extent_p->length  = 0;
    if (length == 0) {
        return;
    }
    copy_walk_seek(plan, offset);
    padding = plan_padding(plan);
    if (padding != 0) {
        extent_p->length = base_min(padding, length);
        return;
    }
    extent_p->length = plan_merge(plan, length);
    if (copy_memory_address(&plan->memory, plan->at.memory) != NULL) {
        extent_p->address = copy_walk_address(plan);
    }
}

uint64_t copy_plan_padding(copy_plan_t *plan, uint64_t offset)
{
    uint64_t left = plan->totals.stream_size - offset;

    if (left == 0) {
        return 0;
    }
    copy_walk_seek(plan, offset);
    return base_min(plan_padding(plan), left);
}
