/*
 * Fuzz target: a peer's runs of segment lengths, and plans made from them.
 *
 *     0   8   start offsets of expand and of the first extent
 *     8   8   memory layout: the length of segment i is byte i % 8, shifted
 *             left by byte (i + 1) % 8, modulo 48
 *    16       the runs, 16 bytes each
 */
#include "fuzz.h"

#include "base/log.h"
#include "base/math.h"
#include "copy/list.h"
#include "copy/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_SIZE  16
#define MAX_LENGTHS  64
#define MAX_SEGMENTS 256
#define MAX_EXTENTS  256
#define MAX_COPY     65536
#define FAKE_ADDRESS 4096

typedef unsigned __int128 wide_t;

typedef struct input {
    uint64_t          start;
    uint8_t           cut[8];
    size_t            num_runs;
    copy_run_t       *runs;
    copy_totals_t     totals;
    size_t            num_segments;
    ucxpool_segment_t segments[MAX_SEGMENTS];
} input_t;

/* The sums, computed in types that cannot overflow. */
static void check_totals(const input_t *input)
{
    wide_t num_segments = 0, payload_size = 0, stream_size = 0;

    for (size_t i = 0; i < input->num_runs; i++) {
        wide_t length = input->runs[i].length;
        wide_t count  = input->runs[i].count;

        CHECK(count > 0);
        num_segments += count;
        payload_size += length * count;
        if (length > 0) {
            stream_size = (stream_size + 15) / 16 * 16;
            stream_size += (length + 15) / 16 * 16 * (count - 1) + length;
        }
    }
    CHECK(num_segments == input->totals.num_segments);
    CHECK(payload_size == input->totals.payload_size);
    CHECK(stream_size == input->totals.stream_size);
    CHECK(stream_size <= (wide_t)1 << 62);
}

static void check_expand(const input_t *input)
{
    size_t   lengths[MAX_LENGTHS];
    size_t   num_lengths;
    uint64_t left = 0;

    if (input->start < input->totals.num_segments) {
        left = input->totals.num_segments - input->start;
    }
    num_lengths = copy_lengths_expand(input->runs, input->num_runs,
                                      input->start, MAX_LENGTHS, lengths);
    CHECK(num_lengths == base_min(left, (uint64_t)MAX_LENGTHS));
    for (size_t i = 0; i < num_lengths; i++) {
        CHECK(lengths[i] <= input->totals.payload_size);
    }
}

/* Adjacent segments from `address` on that hold the whole message. */
static void make_memory(input_t *input, uintptr_t address)
{
    uint64_t left = input->totals.payload_size;
    uint64_t length;

    for (size_t i = 0; i < MAX_SEGMENTS; i++) {
        length = (uint64_t)input->cut[i % 8] << input->cut[(i + 1) % 8] % 48;
        if ((length > left) || (i + 1 == MAX_SEGMENTS)) {
            length = left;
        }
        input->segments[i].address = (void *)address;
        input->segments[i].length  = length;
        address += length;
        left -= length;
    }
    input->num_segments = MAX_SEGMENTS;
}

/* The memory is contiguous, so an address determines the offset. */
static void check_extents(const input_t *input, uint64_t at)
{
    const uint64_t size = input->totals.stream_size;
    copy_memory_t  memory =
        copy_memory_of_segments(input->segments, input->num_segments);
    uint64_t      next = 0;
    copy_plan_t   plan;
    copy_extent_t extent;
    uint64_t      place;

    copy_plan_init(&plan, input->runs, input->num_runs, &input->totals,
                   &memory);
    for (size_t i = 0; (i < MAX_EXTENTS) && (at < size); i++) {
        copy_plan_extent(&plan, at, size - at, &extent);
        CHECK((extent.length > 0) && (extent.length <= size - at));
        if (extent.address != NULL) {
            place = (uintptr_t)extent.address - FAKE_ADDRESS;
            CHECK((next == 0) || (place == next));
            next = place + extent.length;
            CHECK(next <= input->totals.payload_size);
        } else {
            CHECK((at + extent.length) % COPY_ALIGNMENT == 0);
            CHECK(extent.length < COPY_ALIGNMENT);
        }
        at += extent.length;
        CHECK((at < size) || (next == input->totals.payload_size));
    }
}

/* Gather from memory split in one way, scatter to memory split in the other. */
static void check_copy(input_t *input)
{
    const size_t      stream_size  = (size_t)input->totals.stream_size;
    const size_t      payload_size = (size_t)input->totals.payload_size;
    const size_t      step         = 1 + (size_t)(input->start % 5000);
    char             *from         = malloc(payload_size + 1);
    char             *to           = calloc(1, payload_size + 1);
    char             *block        = malloc(step);
    ucxpool_segment_t whole        = {from, payload_size};
    copy_memory_t     memory       = copy_memory_of_segments(&whole, 1);
    copy_plan_t       gather, scatter;
    size_t            n;

    for (size_t i = 0; i < payload_size; i++) {
        from[i] = (char)(i * 7 + i / 256);
    }
    make_memory(input, (uintptr_t)to);
    copy_plan_init(&gather, input->runs, input->num_runs, &input->totals,
                   &memory);
    memory = copy_memory_of_segments(input->segments, input->num_segments);
    copy_plan_init(&scatter, input->runs, input->num_runs, &input->totals,
                   &memory);
    for (size_t at = 0; at < stream_size; at += n) {
        n = base_min(step, stream_size - at);
        copy_gather(&gather, at, n, block);
        copy_scatter(&scatter, at, n, block);
    }
    CHECK(memcmp(from, to, payload_size) == 0);
    free(from);
    free(to);
    free(block);
}

static char told[512];

const char *fuzz_told(void)
{
    return told;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input_t input;
    size_t  runs_size;

    base_log_set_level(BASE_LOG_NONE);
    told[0] = '\0';
    if (size < HEADER_SIZE) {
        return 0;
    }
    memset(&input, 0, sizeof(input));
    memcpy(&input.start, data, sizeof(input.start));
    memcpy(input.cut, data + sizeof(input.start), sizeof(input.cut));
    input.num_runs = (size - HEADER_SIZE) / sizeof(copy_run_t);
    runs_size      = input.num_runs * sizeof(copy_run_t);
    if (copy_lengths_check(data + HEADER_SIZE, input.num_runs, &input.totals) !=
        UCXPOOL_OK) {
        snprintf(told, sizeof(told), "refused: %s", ucxpool_error_detail());
        return 0;
    }
    snprintf(told, sizeof(told), "%llu segments, %llu bytes",
             (unsigned long long)input.totals.num_segments,
             (unsigned long long)input.totals.payload_size);
    input.runs = malloc(runs_size + 1);
    memcpy(input.runs, data + HEADER_SIZE, runs_size);
    check_totals(&input);
    check_expand(&input);
    make_memory(&input, FAKE_ADDRESS);
    check_extents(&input, 0);
    if (input.totals.stream_size > 0) {
        check_extents(&input, input.start % input.totals.stream_size);
    }
    if (input.totals.stream_size <= MAX_COPY) {
        check_copy(&input);
    }
    free(input.runs);
    return 0;
}
