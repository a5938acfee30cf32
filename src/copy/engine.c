#include "copy/engine.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/math.h"
#include "copy/fault.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The maximum number of copies in flight. */
#define NUM_JOBS 16u
/* The maximum number of scatters in flight. Scatters from a peer's memory are
 * slow. If they used all jobs, no data would be gathered, and the peers' links
 * would be idle. An all-to-all between four H200 GPUs would then be 17 %
 * slower. */
#define NUM_SCATTERS 12u
/* The maximum number of scatters that wait for a flag, and so for a peer. A
 * long one counts as two. It needs only room for one, so that short ones cannot
 * take the room before it each time. So the thread blocks occupy at most 56 %
 * of a GPU with 8 or more multiprocessors (COPY_WAIT_FACTOR). */
#define NUM_WAITING 4u
/* The size of one copy's list in bytes: room for 131,072 segments of one
 * length. */
#define LIST_SIZE ((size_t)1 << 20)

/* The maximum number of thread blocks of one launch: enough to copy 256 MiB. */
#define MAX_TILES ((size_t)8192)
/* The maximum number of requests that wait for their streams. */
#define NUM_MARKERS 4096u

/* --- the bounce buffer ------------------------------------------------------
 * Data that the GPU cannot access is copied through a job's pinned memory:
 * pageable host memory among the segments, and the payload of an active
 * message.
 *
 *     bounce    | segments, laid out as in the stream | a block's bytes |
 *
 * The CPU copies host segments to the bounce buffer before a gather, and from
 * the bounce buffer after a scatter. If a message has pageable segments, its
 * pinned segments also go through the bounce buffer.
 *
 * Ranges may be in files. If the GPU cannot access a range, the CPU copies its
 * data to the bounce buffer, with the padding that follows it in the stream.
 */

/* The maximum number of bytes of the stream in a copy through the bounce
 * buffer. */
#define BOUNCE_HALF ((size_t)512 << 10)

/* In such a copy, the list uses less than one third of LIST_SIZE. The copies
 * that remain for the CPU are stored after the list. */
#define BOUNCE_SHARE 3u
#define BOUNCE_LIST  ((size_t)320 << 10)

static_assert((sizeof(ucxpool_segment_t) == sizeof(copy_segment_t)) &&
                  (offsetof(ucxpool_segment_t, length) ==
                   offsetof(copy_segment_t, length)),
              "a caller's segments must have the layout of the copy kernel's "
              "list");

/* The minimum number of segments or pieces for which the memory type of their
 * array is queried. */
#define PINNED_LIST_MIN 4096u

static_assert(sizeof(copy_entry_t) * 2 <= sizeof(copy_segment_t) * BOUNCE_SHARE,
              "each entry of the list must have room for a remaining copy");

static_assert(BOUNCE_LIST * BOUNCE_SHARE <= LIST_SIZE,
              "a list and the remaining copies must fit in LIST_SIZE");

/* An entry of a list of any form. */
typedef struct entry {
    uint64_t *address;
    uint64_t  length;
    uint64_t  offset; /* in the range */
} entry_t;

/* Get entry `index` of a list; sets *next_p to the offset of the next entry. */
static entry_t entry_get(const copy_table_t *list, uint32_t index,
                         uint64_t *next_p)
{
    void   *entries = (void *)(uintptr_t)list->entries;
    entry_t entry;

    entry.offset = *next_p;
    if (list->form == COPY_UNIFORM) {
        entry.address = (uint64_t *)entries + index;
        entry.length  = list->length;
    } else if (list->form == COPY_SEGMENTS) {
        copy_segment_t *segment = (copy_segment_t *)entries + index;

        entry.address = &segment->address;
        entry.length  = segment->length;
    } else {
        copy_exact_t *exact = (copy_exact_t *)entries + index;

        entry.address = &exact->address;
        entry.length  = exact->length;
        entry.offset  = exact->offset;
    }
    *next_p = base_align_up(entry.offset + entry.length, COPY_UNIT);
    return entry;
}

/* Returns true if the address is in host memory. The query fails only if the
 * GPU has failed; the copy then reports this failure. */
static bool is_host(const mem_cuda_driver_t *driver, uint64_t address)
{
    copy_pointer_t pointer;

    return (copy_pointer_query(driver, address, &pointer) == UCXPOOL_OK) &&
           ((pointer.place == COPY_MEMTYPE_PAGEABLE) ||
            (pointer.place == COPY_MEMTYPE_PINNED));
}

/* Redirect the entries of host segments to the job's memory. For a gather, the
 * CPU copies their data there now. For a scatter, the list of copies that
 * remain for the CPU is stored in `copy`. */
static void bounce_segments(const mem_cuda_driver_t *driver,
                            copy_cuda_job_t *job, copy_launch_t *launch,
                            const copy_work_t *work, copy_job_t *copy)
{
    uint64_t next = 0;

    for (uint32_t i = 0; i < launch->list.num_entries; i++) {
        entry_t entry = entry_get(&launch->list, i, &next);
        char   *place = job->bounce + entry.offset;
        /* All entries of a uniform list have the same length, but the range may
         * end in the middle of the last segment. */
        size_t length =
            (size_t)base_min(entry.length, launch->covered - entry.offset);
        void *memory = (void *)(uintptr_t)*entry.address;

        if ((length == 0) ||
            (work->has_gpu_segments && !is_host(driver, *entry.address))) {
            continue;
        }
        copy->rest[copy->num_rest++] =
            work->is_gather ? (copy_entry_t){place, memory, length}
                            : (copy_entry_t){memory, place, length};
        *entry.address = (uintptr_t)place;
    }
    if (work->is_gather) {
        copy_list(copy->rest, copy->num_rest);
        copy->num_rest = 0;
    }
}

static_assert(BOUNCE_HALF / COPY_ALIGNMENT * 2 <=
                  LIST_SIZE / sizeof(copy_exact_t),
              "a list must have room for each segment and its padding");

/* Fill a list with an entry for each range that the GPU can access. The CPU
 * gathers all other ranges. */
static ucxpool_status_t bounce_some(const mem_cuda_driver_t *driver,
                                    const copy_cuda_job_t   *job,
                                    const copy_work_t *work, uint64_t length,
                                    copy_table_t *list)
{
    copy_exact_t    *entries = job->entries;
    copy_exact_t    *last = NULL; /* last entry for data that the CPU gathers */
    uint64_t         done;
    copy_extent_t    extent;
    ucxpool_status_t status;

    for (done = 0; done < length; done += extent.length) {
        char *place = job->bounce + done;

        copy_plan_extent(work->plan, work->offset + done, length - done,
                         &extent);
        if ((extent.address != NULL) &&
            !(work->has_host_segments &&
              is_host(driver, (uintptr_t)extent.address))) {
            last  = NULL;
            place = extent.address;
        } else {
            status = copy_gather(work->plan, work->offset + done, extent.length,
                                 place);
            if (status != UCXPOOL_OK) {
                return status;
            }
            if (last != NULL) {
                last->length += (uint32_t)extent.length;
                continue;
            }
            last = &entries[list->num_entries];
        }
        entries[list->num_entries++] = (copy_exact_t){
            .address = (uintptr_t)place,
            .length  = (uint32_t)extent.length,
            .offset  = (uint32_t)done,
        };
    }
    list->form = COPY_EXACT;
    return UCXPOOL_OK;
}

/* Gather ranges into the job's memory, in the layout of the stream, and fill
 * its list. If the GPU cannot access any range, the list has one piece. */
static ucxpool_status_t bounce_ranges(copy_engine_t     *engine,
                                      copy_cuda_job_t   *job,
                                      const copy_work_t *work,
                                      copy_launch_t     *launch)
{
    uint64_t length =
        copy_walk_clip(work->plan, work->offset,
                       base_min(work->length, (uint64_t)BOUNCE_HALF));

    *launch = (copy_launch_t){
        .list    = {.entries = job->entries, .stream = (uintptr_t)work->block},
        .covered = length,
    };
    if (work->has_gpu_segments) {
        return bounce_some(engine->device->driver, job, work, length,
                           &launch->list);
    }
    *(copy_segment_t *)job->entries =
        (copy_segment_t){(uintptr_t)job->bounce, length};
    launch->list.form        = COPY_SEGMENTS;
    launch->list.num_entries = 1;
    return copy_gather(work->plan, work->offset, length, job->bounce);
}

/* Copy a block's data to the bounce buffer; returns its address there. */
static uint64_t bounce_block(copy_cuda_job_t *job, const void *block,
                             uint64_t length)
{
    char *place = job->bounce + BOUNCE_HALF;

    memcpy(place, block, (size_t)length);
    return (uintptr_t)place;
}

/* --- the engine ----------------------------------------------------------- */

static bool is_host_engine(const copy_engine_t *engine)
{
    return engine->device == NULL;
}

void copy_engine_destroy(copy_engine_t *engine)
{
    if (engine == NULL) {
        return;
    }
    mem_cuda_markers_destroy(engine->markers);
    copy_cuda_copier_destroy(engine->copier);
    mem_cuda_device_close(engine->device);
    free(engine);
}

void copy_engine_enter(copy_engine_t *engine)
{
    if ((engine != NULL) && !is_host_engine(engine) &&
        (mem_cuda_device_enter(engine->device) != UCXPOOL_OK)) {
        engine->num_failed++;
    }
}

void copy_engine_leave(copy_engine_t *engine)
{
    if ((engine == NULL) || is_host_engine(engine)) {
        return;
    }
    /* A destroyed context never becomes valid again, so the most recent enter
     * calls are those that failed. */
    if (engine->num_failed != 0) {
        engine->num_failed--;
    } else {
        mem_cuda_device_leave(engine->device);
    }
}

void copy_engine_wait(const copy_engine_t *engine)
{
    if (!is_host_engine(engine)) {
        copy_cuda_copier_wait(engine->copier);
    }
}

uint64_t copy_engine_deadline(const copy_engine_t *engine)
{
    if (base_list_is_empty(&engine->copies) &&
        base_list_is_empty(&engine->marked)) {
        return BASE_CLOCK_FOREVER;
    }
    return base_clock_deadline(COPY_LOOK_NS);
}

/* Copy all of the work with the CPU. */
static ucxpool_status_t host_start(copy_job_t *copy, const copy_work_t *work,
                                   uint64_t *covered_p)
{
    uint64_t length = copy_walk_clip(work->plan, work->offset, work->length);
    ucxpool_status_t status = UCXPOOL_OK;

    if (work->is_gather) {
        base_range_begin(work->range, BASE_RANGE_GATHER, length);
        status = copy_gather(work->plan, work->offset, length,
                             (void *)(uintptr_t)work->block);
    } else {
        copy_scatter(work->plan, work->offset, length, work->block);
    }
    copy->job  = NULL;
    *covered_p = length;
    return status;
}

/*
 * Returns true if all data of a launch is contiguous, without padding. Between
 * GPUs, the GPU's copy engine is then faster than the kernel. For short data,
 * the reason is that the kernel must first read its arguments. For long data,
 * the copy engine uses the link better.
 */
static bool is_one_piece(const copy_launch_t *launch, copy_segment_t *piece_p)
{
    const copy_table_t *list = &launch->list;

    if ((list->num_entries != 1) || (list->form == COPY_EXACT)) {
        return false;
    }
    if (list->form == COPY_UNIFORM) {
        piece_p->address = *(const uint64_t *)list->entries;
        piece_p->length  = list->length;
    } else {
        *piece_p = *(const copy_segment_t *)list->entries;
    }
    /* A NULL address is copied by the kernel, because the kernel reports the
     * address. */
    return (piece_p->address != 0) && (piece_p->length == launch->covered);
}

static bool waits_for_flag(const copy_work_t *work)
{
    return !work->is_gather && (work->flag.word != NULL);
}

static ucxpool_status_t start_launch(copy_engine_t       *engine,
                                     copy_cuda_job_t     *job,
                                     const copy_work_t   *work,
                                     const copy_launch_t *launch)
{
    copy_table_t   list = launch->list;
    copy_segment_t piece;

    if (is_one_piece(launch, &piece)) {
        if (!waits_for_flag(work)) {
            return copy_cuda_job_start_long(engine->copier, job, piece.address,
                                            list.stream, piece.length,
                                            work->is_gather);
        }
        list.form    = COPY_ONE;
        list.entries = (const void *)(uintptr_t)piece.address;
        list.length  = (uint32_t)piece.length;
    }
    return copy_cuda_job_start(engine->copier, job, &list, launch->covered,
                               work->is_gather);
}

/* Fill the job's list. Data that the GPU cannot access is copied through the
 * job's pinned memory. */
static ucxpool_status_t fill(copy_engine_t *engine, copy_job_t *copy,
                             copy_cuda_job_t *job, const copy_work_t *work,
                             copy_launch_t *launch)
{
    uint64_t         length    = work->length;
    size_t           list_size = LIST_SIZE;
    ucxpool_status_t status;

    if (work->has_host_block || work->has_host_segments) {
        length    = base_min(length, (uint64_t)BOUNCE_HALF);
        list_size = BOUNCE_LIST;
    }
    if (waits_for_flag(work)) {
        /* at most one thread block for each multiprocessor */
        length = base_min(length, (uint64_t)engine->device->num_processors *
                                      COPY_TILE_MAX);
    }
    status = copy_launch_fill(work->plan, work->offset, length, work->is_gather,
                              job->entries, list_size, launch);
    if (status != UCXPOOL_OK) {
        return status;
    }
    launch->list.stream = (uintptr_t)work->block;
    launch->list.is_far =
        work->has_far_block || work->has_host_block || waits_for_flag(work);
    job->is_pushed = work->is_pushed;
    job->flag      = work->flag;
    copy->num_rest = 0;
    copy->first    = launch->first;
    if (work->has_host_segments) {
        copy->rest = (copy_entry_t *)(void *)((char *)job->entries + list_size);
        copy->streams = copy_streams(work->plan->totals.payload_size);
        bounce_segments(engine->device->driver, job, launch, work, copy);
    }
    if (work->has_host_block) {
        launch->list.stream = bounce_block(job, work->block, launch->covered);
    }
    return UCXPOOL_OK;
}

/* Returns the part of NUM_WAITING that a copy counts as. */
static unsigned waiting_of(const copy_work_t *work)
{
    if (!waits_for_flag(work)) {
        return 0;
    }
    return (work->length > COPY_WAIT_SHORT) ? 2 : 1;
}

/* Returns a job for a copy, or NULL if none may be used. */
static copy_cuda_job_t *job_get(copy_engine_t *engine, bool is_gather,
                                unsigned waiting)
{
    if ((!is_gather && (engine->num_scatters == NUM_SCATTERS)) ||
        ((waiting != 0) && (engine->num_waiting >= NUM_WAITING))) {
        return NULL;
    }
    return copy_cuda_job_get(engine->copier);
}

static ucxpool_status_t gpu_start(copy_engine_t *engine, copy_job_t *copy,
                                  const copy_work_t *work, uint64_t *covered_p)
{
    unsigned         waiting = waiting_of(work);
    copy_cuda_job_t *job     = job_get(engine, work->is_gather, waiting);
    copy_launch_t    launch;
    ucxpool_status_t status;

    if (job == NULL) {
        return UCXPOOL_ERR_BUSY;
    }
    if (copy_memory_is_ranges(&work->plan->memory)) {
        copy->num_rest = 0;
        status         = bounce_ranges(engine, job, work, &launch);
    } else {
        status = fill(engine, copy, job, work, &launch);
    }
    if (status == UCXPOOL_OK) {
        assert((job->flag.word == NULL) || !work->is_gather ||
               (launch.covered == work->length));
        status = start_launch(engine, job, work, &launch);
    }
    if (status != UCXPOOL_OK) {
        copy_cuda_job_put(engine->copier, job);
        return status;
    }
    copy->job        = job;
    copy->is_scatter = !work->is_gather;
    copy->waiting    = waiting;
    *covered_p       = launch.covered;
    if (work->is_gather) {
        base_range_begin(work->range, BASE_RANGE_GATHER, launch.covered);
    }
    engine->num_scatters += copy->is_scatter ? 1 : 0;
    engine->num_waiting += waiting;
    base_list_add_tail(&engine->copies, &copy->link);
    return UCXPOOL_INPROGRESS;
}

bool copy_engine_has_job(const copy_engine_t *engine)
{
    return is_host_engine(engine) || copy_cuda_copier_has_job(engine->copier);
}

ucxpool_status_t copy_engine_start(copy_engine_t *engine, copy_job_t *copy,
                                   const copy_work_t *work, uint64_t *covered_p)
{
    return is_host_engine(engine) ? host_start(copy, work, covered_p)
                                  : gpu_start(engine, copy, work, covered_p);
}

ucxpool_status_t copy_engine_pairs_get(copy_engine_t *engine, copy_job_t *copy,
                                       copy_room_t *room_p)
{
    assert(!is_host_engine(engine));
    copy->job = job_get(engine, false, 0);
    if (copy->job == NULL) {
        return UCXPOOL_ERR_BUSY;
    }
    *room_p = (copy_room_t){copy->job->entries, LIST_SIZE};
    return UCXPOOL_OK;
}

void copy_engine_pairs_put(copy_engine_t *engine, copy_job_t *copy)
{
    copy_cuda_job_put(engine->copier, copy->job);
    copy->job = NULL;
}

/* Launch a copy of pairs. The GPU's copy engine copies a single pair, unless
 * the list has not been checked (COPY_EVEN_PLACES). Entries of COPY_PAIRS
 * and COPY_EVEN_PAIRS begin with the same two addresses. */
static ucxpool_status_t launch_pairs(copy_engine_t      *engine,
                                     copy_cuda_job_t    *job,
                                     const copy_table_t *list, uint64_t size,
                                     bool is_to_other)
{
    const copy_even_pair_t *first = list->entries;

    if ((list->num_entries == 1) && (list->form != COPY_EVEN_PLACES)) {
        return copy_cuda_job_start_long(engine->copier, job, first->address,
                                        first->other, size, is_to_other);
    }
    return copy_cuda_job_start(engine->copier, job, list, size, is_to_other);
}

/* A copy of pairs is counted as a scatter. It occupies the link for the same
 * time as a scatter from a peer's memory. */
ucxpool_status_t copy_engine_pairs_start(copy_engine_t      *engine,
                                         copy_job_t         *copy,
                                         const copy_table_t *list,
                                         uint64_t size, bool is_to_other)
{
    ucxpool_status_t status =
        launch_pairs(engine, copy->job, list, size, is_to_other);

    if (status != UCXPOOL_OK) {
        copy_engine_pairs_put(engine, copy);
        return status;
    }
    copy->num_rest   = 0;
    copy->is_scatter = true;
    copy->waiting    = 0;
    engine->num_scatters++;
    base_list_add_tail(&engine->copies, &copy->link);
    return UCXPOOL_INPROGRESS;
}

static ucxpool_status_t poll(copy_engine_t *engine, const copy_job_t *copy)
{
    ucxpool_status_t status = copy_cuda_job_poll(engine->copier, copy->job);

    return (status == UCXPOOL_OK)
               ? copy_fault_of(copy_cuda_job_fault(copy->job), copy->first)
               : status;
}

/* Returns the first copy that has ended, or NULL. */
static copy_job_t *find_finished(copy_engine_t    *engine,
                                 ucxpool_status_t *status_p)
{
    copy_job_t *copy;

    base_list_for_each(copy, &engine->copies, copy_job_t, link) {
        *status_p = poll(engine, copy);
        if (*status_p != UCXPOOL_INPROGRESS) {
            return copy;
        }
    }
    return NULL;
}

/* Execute the copies of a scatter that remain for the CPU. */
static void copy_rest(const copy_job_t *copy)
{
    if (copy->num_rest == 0) {
        return;
    }
    if (copy->streams) {
        copy_list_stream(copy->rest, copy->num_rest);
    } else {
        copy_list(copy->rest, copy->num_rest);
    }
}

unsigned copy_engine_progress(copy_engine_t *engine)
{
    unsigned         count = 0;
    copy_job_t      *copy;
    ucxpool_status_t status;

    /* The handlers may change the list, so search from its start each time. */
    while ((copy = find_finished(engine, &status)) != NULL) {
        base_list_del(&copy->link);
        if (status == UCXPOOL_OK) {
            copy_rest(copy);
        }
        copy_cuda_job_put(engine->copier, copy->job);
        copy->job = NULL;
        engine->num_scatters -= copy->is_scatter ? 1 : 0;
        engine->num_waiting -= copy->waiting;
        copy->done(copy, status);
        count++;
    }
    return count;
}

/* Check that memory on a GPU is on the pool's GPU. other: the ordinal of the
 * memory's GPU; -1: the memory is not on a GPU; -2: it is on several. */
static ucxpool_status_t check_device(const mem_cuda_device_t *device, int other)
{
    if ((other == -1) || (other == device->ordinal)) {
        return UCXPOOL_OK;
    }
    if (other == -2) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the segments are on several GPUs; send the segments "
                          "of each GPU through a pool on that GPU (this pool "
                          "is on GPU %d)",
                          device->ordinal);
    }
    return base_error(UCXPOOL_ERR_UNSUPPORTED,
                      "the segments are on GPU %d, and the pool is on GPU %d; "
                      "send them through a pool on their GPU",
                      other, device->ordinal);
}

ucxpool_status_t copy_engine_memtypes(const copy_engine_t *engine,
                                      const copy_memory_t *memory,
                                      unsigned            *memtypes_p)
{
    copy_memtypes_t  memtypes;
    ucxpool_status_t status;

    if (is_host_engine(engine)) {
        *memtypes_p = 0; /* the CPU can access all mapped memory */
        return UCXPOOL_OK;
    }
    status = copy_memtypes_query(engine->device->driver, memory, &memtypes);
    if (status != UCXPOOL_OK) {
        return status;
    }
    *memtypes_p = memtypes.types;
    return check_device(engine->device, memtypes.device);
}

/*
 * Segments of this length or more are not checked for equal lengths. The check
 * would not make their copy faster, because the CPU reads an array more slowly
 * after the GPU has read it. With the check, an H100 was 1.4 to 1.5 times as
 * fast for 256 bytes, and 0.8 to 1.0 times as fast for 1 KiB.
 */
#define EVEN_MAX 512u

/* The same limit if the caller declares the lengths, so that only the GPU reads
 * the array. For longer segments, the time for the data dominates (H200). */
#define TOLD_EVEN_MAX (16u << 10)

/* Returns true if there are many segments and the first one is short. Assumes
 * that all segments have the length of the first one. */
static bool is_even_by_first(const copy_memory_t *memory, size_t max)
{
    const ucxpool_segment_t *first = memory->segments;

    return (first != NULL) && (memory->num >= PINNED_LIST_MIN) &&
           (first->length != 0) && (first->length < max);
}

bool copy_engine_is_even(const copy_engine_t *engine,
                         const copy_memory_t *memory, bool is_declared)
{
    const ucxpool_segment_t *first   = memory->segments;
    copy_pointer_t           pointer = {.start = 1, .size = COPY_ANYWHERE};

    if (is_host_engine(engine) || !is_even_by_first(memory, EVEN_MAX)) {
        return false;
    }
    if (!is_declared &&
        ((copy_pointer_query(engine->device->driver, (uintptr_t)first->address,
                             &pointer) != UCXPOOL_OK) ||
         (pointer.place == COPY_MEMTYPE_PAGEABLE))) {
        return false;
    }
    return copy_pairs_even(first, memory->num, first->length, pointer.start,
                           pointer.size) == memory->num;
}

bool copy_engine_reaches_array(const copy_engine_t *engine, const void *array,
                               size_t num, size_t size)
{
    uint64_t       start = (uintptr_t)array;
    copy_pointer_t pointer;

    return !is_host_engine(engine) && (num >= PINNED_LIST_MIN) &&
           (copy_pointer_query(engine->device->driver, start, &pointer) ==
            UCXPOOL_OK) &&
           (pointer.place == COPY_MEMTYPE_PINNED) &&
           (num <= pointer.size / size) &&
           (start - pointer.start <= pointer.size - num * size);
}

bool copy_engine_reaches_list(const copy_engine_t *engine,
                              const copy_memory_t *memory)
{
    if (!copy_memory_is_even(memory)) {
        return false;
    }
    return copy_memory_is_pieces(memory)
               ? copy_engine_reaches_array(engine, memory->addresses,
                                           memory->num, sizeof(void *))
               : copy_engine_reaches_array(engine, memory->segments,
                                           memory->num,
                                           sizeof(ucxpool_segment_t));
}

bool copy_engine_takes_even(const copy_engine_t *engine,
                            const copy_memory_t *memory)
{
    return is_even_by_first(memory, TOLD_EVEN_MAX) &&
           copy_engine_reaches_array(engine, memory->segments, memory->num,
                                     sizeof(*memory->segments));
}

ucxpool_status_t copy_engine_create_host(copy_engine_t **engine_p)
{
    copy_engine_t *engine = calloc(1, sizeof(*engine));

    if (engine == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a copy engine");
    }
    base_list_init(&engine->copies);
    base_list_init(&engine->marked);
    *engine_p = engine;
    return UCXPOOL_OK;
}

ucxpool_status_t copy_engine_create(mem_cuda_device_t *device,
                                    copy_engine_t    **engine_p)
{
    const copy_cuda_copier_params_t params = {
        .num_jobs     = NUM_JOBS,
        .entries_size = LIST_SIZE,
        .max_tiles    = MAX_TILES,
        .bounce_size  = 2 * BOUNCE_HALF,
    };
    copy_engine_t   *engine = NULL;
    ucxpool_status_t status = copy_engine_create_host(&engine);

    if (status != UCXPOOL_OK) {
        return status;
    }
    engine->device = device;
    engine->gpu    = base_crc32c(0, &device->uuid, sizeof(device->uuid));
    status         = copy_cuda_copier_create(device, &params, &engine->copier);
    if (status != UCXPOOL_OK) {
        goto err_free_engine;
    }
    status = mem_cuda_markers_create(device, NUM_MARKERS, &engine->markers);
    if (status != UCXPOOL_OK) {
        goto err_destroy_copier;
    }
    *engine_p = engine;
    return UCXPOOL_OK;

err_destroy_copier:
    copy_cuda_copier_destroy(engine->copier);
err_free_engine:
    free(engine);
    return status;
}
