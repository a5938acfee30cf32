/*
 * Parts of a model of a message's stream, which knows for each of its bytes
 * where it lies: for tests that compare with it.
 */
#ifndef TESTS_STREAM_MODEL_H
#define TESTS_STREAM_MODEL_H

#include "copy/plan.h"

#include <ucxpool/ucxpool.h>

#include <stddef.h>
#include <stdint.h>

/* The next number of a sequence that is the same on each machine. */
size_t stream_model_random(uint64_t *state, size_t limit);

/* The place of each byte, NULL where there is padding; returns how many there
 * are. The segments are at least as long as the lengths are together. */
size_t stream_model_make(const size_t *lengths, size_t num_lengths,
                         const ucxpool_segment_t *segments, char **stream);

/* A plan whose memory is segments. */
void stream_model_plan(copy_plan_t *plan, const copy_run_t *runs,
                       size_t num_runs, const copy_totals_t *totals,
                       const ucxpool_segment_t *segments, size_t num_segments);

/* The same; or where length is not 0, which then is that of all segments, one
 * whose memory is their addresses alone: they are written to pieces. */
void stream_model_plan_any(copy_plan_t *plan, const copy_run_t *runs,
                           size_t num_runs, const copy_totals_t *totals,
                           const ucxpool_segment_t *segments,
                           size_t num_segments, size_t length, void **pieces);

#endif
