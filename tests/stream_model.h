/*
 * Parts of a model of a message's stream. The model knows the address of each
 * byte, and tests compare the library with it.
 */
#ifndef TESTS_STREAM_MODEL_H
#define TESTS_STREAM_MODEL_H

#include "copy/plan.h"

#include <ucxpool/ucxpool.h>

#include <stddef.h>
#include <stdint.h>

/* Returns the next number of a pseudorandom sequence that is the same on every
 * machine. */
size_t stream_model_random(uint64_t *state, size_t limit);

/* Sets stream to the address of each byte, NULL for padding. Returns the number
 * of bytes. The segments have at least as many bytes as the lengths. */
size_t stream_model_make(const size_t *lengths, size_t num_lengths,
                         const ucxpool_segment_t *segments, char **stream);

/* Make a plan whose memory is segments. */
void stream_model_plan(copy_plan_t *plan, const copy_run_t *runs,
                       size_t num_runs, const copy_totals_t *totals,
                       const ucxpool_segment_t *segments, size_t num_segments);

/* The same, or, if length is not 0, make a plan whose memory is pieces. All
 * segments must then have this length, and their addresses are written to
 * `pieces`. */
void stream_model_plan_any(copy_plan_t *plan, const copy_run_t *runs,
                           size_t num_runs, const copy_totals_t *totals,
                           const ucxpool_segment_t *segments,
                           size_t num_segments, size_t length, void **pieces);

#endif
