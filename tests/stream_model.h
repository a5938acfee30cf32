/*
 * Parts of a model of a message's stream, which knows the address of each of
 * its bytes: for tests that compare with it.
 */
#ifndef TESTS_STREAM_MODEL_H
#define TESTS_STREAM_MODEL_H

#include "copy/plan.h"

#include <ucxpool/ucxpool.h>

#include <stddef.h>
#include <stdint.h>

/* The next number of a sequence that is the same on every machine. */
size_t stream_model_random(uint64_t *state, size_t limit);

/* The address of each byte, NULL for padding; returns their number. The
 * segments have at least as many bytes as the lengths. */
size_t stream_model_make(const size_t *lengths, size_t num_lengths,
                         const ucxpool_segment_t *segments, char **stream);

/* A plan whose memory is segments. */
void stream_model_plan(copy_plan_t *plan, const copy_run_t *runs,
                       size_t num_runs, const copy_totals_t *totals,
                       const ucxpool_segment_t *segments, size_t num_segments);

/* The same. If length is not 0, it is the length of all segments, and the
 * plan's memory is only their addresses, which are written to pieces. */
void stream_model_plan_any(copy_plan_t *plan, const copy_run_t *runs,
                           size_t num_runs, const copy_totals_t *totals,
                           const ucxpool_segment_t *segments,
                           size_t num_segments, size_t length, void **pieces);

#endif
