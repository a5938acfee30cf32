/*
 * Errors for invalid entries of a list. The CPU or a kernel finds such entries.
 * A kernel reports a fault number (copy/tiles.h).
 */
#ifndef COPY_FAULT_H
#define COPY_FAULT_H

#include "copy/plan.h"

#include <ucxpool/status.h>

#include <stddef.h>
#include <stdint.h>

/* Return UCXPOOL_ERR_INVALID_PARAM with a detail: the piece has no address, or
 * the place is outside its window. */
ucxpool_status_t copy_fault_no_address(size_t piece);
ucxpool_status_t copy_fault_beyond(uint64_t place);

/* Return the first fault of segments [first, end), which the caller declared to
 * have the same length. */
ucxpool_status_t copy_fault_find(const copy_memory_t *memory, size_t first,
                                 size_t end);

/*
 * Translate the fault number of a kernel whose list began with piece `first`.
 *
 * UCXPOOL_OK        no fault
 * UCXPOOL_ERR_BUSY  COPY_LATE
 * others            the fault, with a detail
 */
ucxpool_status_t copy_fault_of(uint32_t fault, size_t first);

#endif
