#include "copy/lengths.h"

#include "base/error.h"
#include "base/math.h"
#include "copy/pairs.h"

#include <string.h>

/*
 * No sum may exceed this: 2^62 where a size has 64 bits. Offsets in the stream
 * then need no checks of their own, and each of them fits a size_t.
 */
#define LENGTHS_LIMIT ((uint64_t)(SIZE_MAX / 4 + 1))

/* Add `count` (1 or more) segments of one length; false if a sum is too big. */
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
    /* The last segment has no padding behind it, those before it have. */
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

/* The number of segments from `first` on that are as long as that one, and
 * have an address: the first one at least. */
static size_t lengths_run(const ucxpool_segment_t *segments,
                          size_t num_segments, size_t first)
{
    return 1 + copy_pairs_alike(&segments[first + 1], num_segments - first - 1,
                                segments[first].length);
}

static ucxpool_status_t no_address(const ucxpool_segment_t *segments, size_t i)
{
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "segment %zu has %zu bytes and no address; give it "
                      "memory, or the length 0",
                      i, segments[i].length);
}

/* Add segments to the run before, or to a new one. */
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

ucxpool_status_t copy_lengths_count(const ucxpool_segment_t *segments,
                                    size_t num_segments, copy_run_t *runs,
                                    size_t max_runs, size_t *num_runs_p,
                                    copy_totals_t *totals_p)
{
    copy_totals_t totals   = {0, 0, 0};
    copy_run_t    last     = {0, 0};
    size_t        num_runs = 0;
    size_t        count;

    for (size_t i = 0; i < num_segments; i += count) {
        count = lengths_run(segments, num_segments, i);
        if ((segments[i].address == NULL) && (segments[i].length != 0)) {
            return no_address(segments, i);
        }
        if (!lengths_add(&totals, segments[i].length, count)) {
            return base_error(UCXPOOL_ERR_INVALID_PARAM,
                              "segment %zu (%zu bytes, %zu times) takes the "
                              "message over %llu bytes; check its length",
                              i, segments[i].length, count,
                              (unsigned long long)LENGTHS_LIMIT);
        }
        run_add(runs, max_runs, &last, &num_runs, segments[i].length, count);
    }
    *num_runs_p = num_runs;
    *totals_p   = totals;
    return UCXPOOL_OK;
}

ucxpool_status_t copy_lengths_of_pieces(uint64_t length, size_t num_pieces,
                                        copy_run_t *run_p, size_t *num_runs_p,
                                        copy_totals_t *totals_p)
{
    copy_totals_t totals = {0, 0, 0};

    if ((num_pieces != 0) && !lengths_add(&totals, length, num_pieces)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%zu pieces of %llu bytes are more than %llu bytes; "
                          "check the length",
                          num_pieces, (unsigned long long)length,
                          (unsigned long long)LENGTHS_LIMIT);
    }
    *run_p      = (copy_run_t){length, num_pieces};
    *num_runs_p = (num_pieces != 0);
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
                              "count 0",
                              i);
        }
        if (!lengths_add(&totals, run.length, run.count)) {
            return base_error(UCXPOOL_ERR_PROTOCOL,
                              "run %zu of the peer's segment lengths (%llu "
                              "bytes, %llu times) takes the message over %llu "
                              "bytes",
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
