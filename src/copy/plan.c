#include "copy/plan.h"

#include "base/error.h"

#include <string.h>

/* --- passes over a list -----------------------------------------------------
 * Segments are processed as vectors {address, length, address, length}. Each
 * pass is an inline function that is compiled twice: for the baseline
 * architecture, and for AVX2 on x86-64. With AVX2, it is 3 to 9 times as fast.
 */

/* Two segments; the second type has the alignment of a segment. */
typedef uint64_t pairs_t __attribute__((vector_size(32)));
typedef uint64_t pairs_here_t
    __attribute__((vector_size(32), aligned(8), may_alias));

static_assert(2 * sizeof(ucxpool_segment_t) == sizeof(pairs_t),
              "a segment must consist of two 64-bit words");

/* The number of segments that are checked together, without a branch for
 * each. */
#define STEP 8u

/* The prefetch distance in segments. The hardware prefetcher stops at the end
 * of a page. */
#define AHEAD 192u

#define HIGHEST_BIT (UINT64_C(1) << 63)

/* A sum of up to MAX_SUMMED shorter lengths does not overflow. */
#define SHORT_LENGTH (UINT64_C(1) << 40)
#define MAX_SUMMED   ((size_t)1 << 22)

#define INLINE static inline __attribute__((always_inline))

/* Load segment n and the next one. */
#define PAIRS(segments, n) (*(const pairs_here_t *)&(segments)[n])

/* Load four addresses from number n on. */
#define ADDRESSES(addresses, n) (*(const pairs_here_t *)&(addresses)[n])

INLINE void prefetch(const ucxpool_segment_t *segment)
{
    __builtin_prefetch(segment + AHEAD);
    __builtin_prefetch(segment + AHEAD + 4);
}

INLINE size_t addresses_any(const ucxpool_segment_t *segments,
                            size_t num_segments, uint64_t length,
                            uint64_t *addresses)
{
    size_t n = 0;

    for (; n + STEP <= num_segments; n += STEP) {
        pairs_t differs = {0};

        prefetch(&segments[n]);
        for (size_t i = n; i < n + STEP; i += 4) {
            pairs_t a = PAIRS(segments, i);
            pairs_t b = PAIRS(segments, i + 2);

            *(pairs_here_t *)&addresses[i] = (pairs_t){a[0], a[2], b[0], b[2]};
            differs |= (pairs_t){a[1], a[3], b[1], b[3]} ^ length;
        }
        if ((differs[0] | differs[1] | differs[2] | differs[3]) != 0) {
            break;
        }
    }
    while ((n < num_segments) && (segments[n].length == length)) {
        addresses[n] = (uintptr_t)segments[n].address;
        n++;
    }
    return n;
}

INLINE bool sum_any(const ucxpool_segment_t *segments, size_t num_segments,
                    uint64_t *sum_p)
{
    const pairs_t one  = {1, 0, 1, 0};
    pairs_t       sum  = {0};
    pairs_t       any  = {0}; /* OR of all addresses minus 1 and lengths */
    uint64_t      rest = 0;
    size_t        n    = 0;

    if (num_segments > MAX_SUMMED) {
        return false;
    }
    for (; n + STEP <= num_segments; n += STEP) {
        prefetch(&segments[n]);
        for (size_t i = n; i < n + STEP; i += 2) {
            sum += PAIRS(segments, i);
            any |= PAIRS(segments, i) - one;
        }
    }
    for (; n < num_segments; n++) {
        rest += segments[n].length;
        any[0] |= (uintptr_t)segments[n].address - 1;
        any[1] |= segments[n].length;
    }
    *sum_p = sum[1] + sum[3] + rest;
    return (((any[0] | any[2]) & HIGHEST_BIT) == 0) &&
           ((any[1] | any[3]) < SHORT_LENGTH);
}

/* Count the leading addresses that are not NULL. Also copies the addresses,
 * unless `copies` is NULL. */
INLINE size_t copy_any(void *const *addresses, size_t num_addresses,
                       uint64_t *copies)
{
    size_t n = 0;

    for (; n + 2 * STEP <= num_addresses; n += 2 * STEP) {
        pairs_t missing = {0};

        __builtin_prefetch(&addresses[n + 2 * AHEAD]);
        __builtin_prefetch(&addresses[n + 2 * AHEAD + STEP]);
        /* Subtracting 1 sets the highest bit only for NULL. */
        for (size_t i = n; i < n + 2 * STEP; i += 4) {
            pairs_t a = ADDRESSES(addresses, i);

            if (copies != NULL) {
                *(pairs_here_t *)&copies[i] = a;
            }
            missing |= (a - 1) & ~a;
        }
        if (((missing[0] | missing[1] | missing[2] | missing[3]) &
             HIGHEST_BIT) != 0) {
            break;
        }
    }
    for (; (n < num_addresses) && (addresses[n] != NULL); n++) {
        if (copies != NULL) {
            copies[n] = (uintptr_t)addresses[n];
        }
    }
    return n;
}

INLINE size_t present_any(void *const *addresses, size_t num_addresses)
{
    return copy_any(addresses, num_addresses, NULL);
}

/* The passes below use sizes in signed arithmetic, so a size must be less than
 * 2^62. */
#define SIZE_IS_FIT(size) (((size) & (HIGHEST_BIT | HIGHEST_BIT >> 1)) == 0)

/* The highest bit of the result is set if `value` is negative or exceeds
 * `size`, which must be less than 2^62. A segment is inside the range if this
 * bit is clear for its offset from the start, its length, and their sum. */
#define OUTSIDE(value, size) ((value) | ((size) - (value)))

INLINE size_t inside_any(const ucxpool_segment_t *segments, size_t num_segments,
                         uint64_t start, uint64_t size)
{
    const pairs_t base = {start, 0, start, 0};
    size_t        n    = 0;

    if (!SIZE_IS_FIT(size)) {
        return 0;
    }
    for (; n + STEP <= num_segments; n += STEP) {
        pairs_t outside = {0};

        prefetch(&segments[n]);
        for (size_t i = n; i < n + STEP; i += 2) {
            pairs_t at  = PAIRS(segments, i) - base;
            pairs_t end = at + (pairs_t){at[1], at[0], at[3], at[2]};

            outside |= OUTSIDE(at, size) | (size - end);
        }
        if (((outside[0] | outside[1] | outside[2] | outside[3]) &
             HIGHEST_BIT) != 0) {
            break;
        }
    }
    for (; n < num_segments; n++) {
        uint64_t at = (uintptr_t)segments[n].address - start;

        if ((segments[n].length > size) || (at > size - segments[n].length)) {
            break;
        }
    }
    return n;
}

INLINE size_t even_any(const ucxpool_segment_t *segments, size_t num_segments,
                       uint64_t length, uint64_t start, uint64_t size)
{
    const pairs_t  base = {start, length, start, length};
    const uint64_t room = size - length; /* for the offset of a segment */
    size_t         n    = 0;

    if (!SIZE_IS_FIT(size) || (length > size)) {
        return 0;
    }
    for (; n + STEP <= num_segments; n += STEP) {
        pairs_t outside = {0};
        pairs_t differs = {0};

        prefetch(&segments[n]);
        for (size_t i = n; i < n + STEP; i += 2) {
            pairs_t from = PAIRS(segments, i) - base;

            outside |= OUTSIDE(from, room);
            differs |= from;
        }
        if ((((outside[0] | outside[2]) & HIGHEST_BIT) | differs[1] |
             differs[3]) != 0) {
            break;
        }
    }
    while ((n < num_segments) && (segments[n].length == length) &&
           ((uintptr_t)segments[n].address - start <= room)) {
        n++;
    }
    return n;
}

INLINE size_t within_any(void *const *addresses, size_t num_addresses,
                         uint64_t length, uint64_t start, uint64_t size)
{
    const uint64_t room = size - length; /* for the offset of a piece */
    size_t         n    = 0;

    if (!SIZE_IS_FIT(size) || (length > size)) {
        return 0;
    }
    for (; n + 2 * STEP <= num_addresses; n += 2 * STEP) {
        pairs_t outside = {0};

        __builtin_prefetch(&addresses[n + 2 * AHEAD]);
        __builtin_prefetch(&addresses[n + 2 * AHEAD + STEP]);
        for (size_t i = n; i < n + 2 * STEP; i += 4) {
            outside |= OUTSIDE(ADDRESSES(addresses, i) - start, room);
        }
        if (((outside[0] | outside[1] | outside[2] | outside[3]) &
             HIGHEST_BIT) != 0) {
            break;
        }
    }
    while ((n < num_addresses) && ((uintptr_t)addresses[n] - start <= room)) {
        n++;
    }
    return n;
}

#if defined(__x86_64__)
#define FOR_AVX2   __attribute__((target("avx2")))
#define HAS_AVX2() __builtin_cpu_supports("avx2")
#else
#define FOR_AVX2
#define HAS_AVX2() false
#endif

/* Define copy_pairs_NAME(), which calls NAME_any() or its version for AVX2. */
#define PASS(_type, _name, _params, _args) \
    FOR_AVX2 static _type _name##_avx2 _params \
    { \
        return _name##_any _args; \
    } \
    _type copy_pairs_##_name _params \
    { \
        return HAS_AVX2() ? _name##_avx2 _args : _name##_any _args; \
    }

PASS(size_t, addresses,
     (const ucxpool_segment_t *segments, size_t num, uint64_t length,
      uint64_t *addresses),
     (segments, num, length, addresses))
PASS(bool, sum,
     (const ucxpool_segment_t *segments, size_t num, uint64_t *sum_p),
     (segments, num, sum_p))
PASS(size_t, present, (void *const *addresses, size_t num), (addresses, num))
PASS(size_t, copy, (void *const *addresses, size_t num, uint64_t *copies),
     (addresses, num, copies))
PASS(size_t, inside,
     (const ucxpool_segment_t *segments, size_t num, uint64_t start,
      uint64_t size),
     (segments, num, start, size))
PASS(size_t, even,
     (const ucxpool_segment_t *segments, size_t num, uint64_t length,
      uint64_t start, uint64_t size),
     (segments, num, length, start, size))
PASS(size_t, within,
     (void *const *addresses, size_t num, uint64_t length, uint64_t start,
      uint64_t size),
     (addresses, num, length, start, size))

/* --- the lengths of a message --------------------------------------------- */

/*
 * The limit of all sums: 2^62 if size_t has 64 bits. Offsets in the stream then
 * need no overflow checks, and fit a size_t.
 */
#define LENGTHS_LIMIT ((uint64_t)(SIZE_MAX / 4 + 1))

/* Add `count` (1 or more) segments of `length` bytes. Returns false if a sum
 * exceeds the limit. */
static bool lengths_add(copy_totals_t *totals, uint64_t length, uint64_t count)
{
    uint64_t stride, payload_size, stream_size;

    if ((length > LENGTHS_LIMIT) || (count > LENGTHS_LIMIT) ||
        !base_add(totals->num_segments, count, &totals->num_segments) ||
        (totals->num_segments > LENGTHS_LIMIT)) {
        return false;
    }
    if (length == 0) {
        return true;
    }
    /* Only the last segment has no padding after it. */
    stride = base_align_up(length, COPY_ALIGNMENT);
    if (!base_mul(length, count, &payload_size) ||
        !base_mul(stride, count - 1, &stream_size) ||
        !base_add(stream_size, length, &stream_size) ||
        !base_add(totals->payload_size, payload_size, &payload_size) ||
        !base_add(base_align_up(totals->stream_size, COPY_ALIGNMENT),
                  stream_size, &stream_size) ||
        (stream_size > LENGTHS_LIMIT)) {
        return false;
    }
    totals->payload_size = payload_size;
    totals->stream_size  = stream_size;
    return true;
}

/* Counts the segments from `first` on that have the length of the first one and
 * an address. Returns at least 1, and possibly fewer than there are. */
static size_t lengths_run(const ucxpool_segment_t *segments,
                          size_t num_segments, size_t first)
{
    return 1 + copy_pairs_even(&segments[first + 1], num_segments - first - 1,
                               segments[first].length, 1, COPY_ANYWHERE);
}

static ucxpool_status_t no_address(const ucxpool_segment_t *segments, size_t i)
{
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "segment %zu has %zu bytes and no address; set its "
                      "address, or set its length to 0",
                      i, segments[i].length);
}

static ucxpool_status_t too_long(const copy_memory_t *memory, size_t i,
                                 size_t count)
{
    const unsigned long long limit  = LENGTHS_LIMIT;
    const size_t             length = (size_t)copy_memory_length(memory, i);

    if (copy_memory_is_ranges(memory)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "range %zu (%zu bytes) makes the message longer "
                          "than the limit of %llu bytes; check its length",
                          i, length, limit);
    }
    if (copy_memory_is_pieces(memory)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%zu pieces of %zu bytes exceed the limit of %llu "
                          "bytes; check the length",
                          count, length, limit);
    }
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "segment %zu (%zu bytes, %zu times) makes the message "
                      "longer than the limit of %llu bytes; check its length",
                      i, length, count, limit);
}

/* Add segments to the last run, or to a new one. */
static void run_add(copy_run_t *runs, size_t max_runs, copy_run_t *last,
                    size_t *num_runs, uint64_t length, uint64_t count)
{
    if ((*num_runs == 0) || (last->length != length)) {
        *last = (copy_run_t){length, 0};
        (*num_runs)++;
    }
    last->count += count;
    if (*num_runs <= max_runs) {
        runs[*num_runs - 1] = *last;
    }
}

ucxpool_status_t copy_lengths_count(const copy_memory_t *memory,
                                    copy_run_t *runs, size_t max_runs,
                                    size_t *num_runs_p, copy_totals_t *totals_p)
{
    /* NULL: the array is not read, or the memory consists of ranges. */
    const ucxpool_segment_t *segments =
        copy_memory_is_even(memory) ? NULL : memory->segments;
    copy_totals_t totals   = {0, 0, 0};
    copy_run_t    last     = {0, 0};
    size_t        num_runs = 0;
    size_t        count;

    for (size_t i = 0; i < memory->num; i += count) {
        uint64_t length = copy_memory_length(memory, i);

        if (segments == NULL) {
            count = copy_memory_is_ranges(memory) ? 1 : memory->num;
        } else {
            count = lengths_run(segments, memory->num, i);
            if ((segments[i].address == NULL) && (length != 0)) {
                return no_address(segments, i);
            }
        }
        if (!lengths_add(&totals, length, count)) {
            return too_long(memory, i, count);
        }
        run_add(runs, max_runs, &last, &num_runs, length, count);
    }
    *num_runs_p = num_runs;
    *totals_p   = totals;
    return UCXPOOL_OK;
}

ucxpool_status_t copy_lengths_check(const void *runs, size_t num_runs,
                                    copy_totals_t *totals_p)
{
    copy_totals_t totals = {0, 0, 0};
    copy_run_t    run;

    for (size_t i = 0; i < num_runs; i++) {
        memcpy(&run, (const char *)runs + i * sizeof(run), sizeof(run));
        if (run.count == 0) {
            return base_error(UCXPOOL_ERR_PROTOCOL,
                              "run %zu of the peer's segment lengths has the "
                              "invalid count 0",
                              i);
        }
        if (!lengths_add(&totals, run.length, run.count)) {
            return base_error(UCXPOOL_ERR_PROTOCOL,
                              "run %zu of the peer's segment lengths (%llu "
                              "bytes, %llu times) makes the message longer "
                              "than the limit of %llu bytes",
                              i, (unsigned long long)run.length,
                              (unsigned long long)run.count,
                              (unsigned long long)LENGTHS_LIMIT);
        }
    }
    *totals_p = totals;
    return UCXPOOL_OK;
}

size_t copy_lengths_expand(const copy_run_t *runs, size_t num_runs,
                           uint64_t first, size_t num_lengths, size_t *lengths)
{
    size_t   num_written = 0;
    uint64_t count;

    for (size_t i = 0; (i < num_runs) && (num_written < num_lengths); i++) {
        if (first >= runs[i].count) {
            first -= runs[i].count;
            continue;
        }
        count = base_min(runs[i].count - first, num_lengths - num_written);
        first = 0;
        for (uint64_t j = 0; j < count; j++) {
            lengths[num_written++] = (size_t)runs[i].length;
        }
    }
    return num_written;
}

/* --- the walk ------------------------------------------------------------- */

/* Returns the bytes of data, without padding, before a position in a run. */
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

static void plan_advance_even(copy_plan_t *plan, uint64_t length)
{
    uint64_t place = plan->at.memory_offset + length;

    plan->at.memory += place / plan->memory.length;
    plan->at.memory_offset = place % plan->memory.length;
    assert((plan->at.memory < plan->memory.num) ||
           ((plan->at.memory == plan->memory.num) &&
            (plan->at.memory_offset == 0)));
}

/* Advance by `length` bytes of memory, and then past segments that have no
 * bytes left. */
static void plan_advance_memory(copy_plan_t *plan, uint64_t length)
{
    uint64_t left;

    if (copy_memory_is_even(&plan->memory)) {
        plan_advance_even(plan, length);
        return;
    }
    for (; plan->at.memory < plan->memory.num; plan->at.memory++) {
        left = copy_memory_length(&plan->memory, plan->at.memory) -
               plan->at.memory_offset;
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
 * Advance by `length` bytes of the stream. Afterwards, the walk is in a
 * nonempty segment or its padding, or after the last run.
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

/* Most ranges are requested in order. For the others, the walk can return to
 * the start of the previous range. */
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

/* Returns the number of padding bytes at the current position. */
static inline uint64_t plan_padding(const copy_plan_t *plan)
{
    const copy_run_t *run = &plan->runs[plan->at.run];

    if (plan->at.segment_offset < run->length) {
        return 0;
    }
    return copy_run_stride(run) - plan->at.segment_offset;
}

/*
 * Extend a range of data, which reaches the end of run *run_p, by the next run.
 * Returns false if padding or the end of the stream follows.
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

/* Extend a range of memory by the next segment. Returns false if the next
 * segment is not adjacent. */
static bool plan_extend_memory(const copy_plan_t *plan, size_t *memory_p,
                               uint64_t *memory_size_p)
{
    const copy_memory_t *memory = &plan->memory;
    size_t               i      = *memory_p;
    size_t               next   = i + 1;

    while ((next < memory->num) && (copy_memory_length(memory, next) == 0)) {
        next++;
    }
    if ((next == memory->num) || (copy_memory_address(memory, i) == NULL) ||
        ((uintptr_t)copy_memory_address(memory, next) !=
         (uintptr_t)copy_memory_address(memory, i) +
             copy_memory_length(memory, i))) {
        return false;
    }
    *memory_p = next;
    *memory_size_p += copy_memory_length(memory, next);
    return true;
}

/* Find the length of the contiguous memory at the walk's position. Extends each
 * list only as far as the other list reaches, so that the number of steps is
 * proportional to the bytes found. */
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
