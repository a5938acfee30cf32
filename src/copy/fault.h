/*
 * What is wrong with an entry of a list, in words: found by the processor, or
 * by a kernel, which leaves a number (copy/tiles.h).
 */
#ifndef COPY_FAULT_H
#define COPY_FAULT_H

#include "copy/plan.h"

#include <ucxpool/status.h>

#include <stddef.h>
#include <stdint.h>

/* UCXPOOL_ERR_INVALID_PARAM with these words: of a piece without an address, a
 * place that is not in its window, a segment whose length is not that of the
 * first one. */
ucxpool_status_t copy_fault_no_address(size_t piece);
ucxpool_status_t copy_fault_beyond(uint64_t place);
ucxpool_status_t copy_fault_other_length(size_t segment);

/* The first fault of segments that the caller says to have one length, from
 * number `first` to before number `end`. */
ucxpool_status_t copy_fault_find(const copy_memory_t *memory, size_t first,
                                 size_t end);

/*
 * What a kernel has left, whose list began with number `first`.
 *
 * UCXPOOL_OK        nothing
 * UCXPOOL_ERR_BUSY  COPY_LATE
 */
ucxpool_status_t copy_fault_of(uint32_t fault, size_t first);

#endif
