/*
 * Checks whether host memory is readable. Reading unmapped or protected memory
 * raises SIGSEGV, so addresses of unknown origin from a caller are checked
 * first.
 */
#ifndef MEM_READABLE_H
#define MEM_READABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mem_span {
    uint64_t address;
    uint64_t length; /* at least 1 */
} mem_span_t;

/* Maximum number of spans per call. */
#define MEM_SPANS_MAX 256u

/*
 * Returns the index of the first of `num` spans (at most MEM_SPANS_MAX) that is
 * not readable memory, or `num` if all are readable. Depending on the kernel
 * and on num, spans are checked as a whole or only at their first and last
 * byte. If the kernel forbids the check, all spans count as readable.
 */
size_t mem_find_unreadable(const mem_span_t *spans, size_t num);

/*
 * Find the mapping at an address, if that mapping is readable and anonymous,
 * such as a process's heap. Returns false if there is no such mapping, or if
 * the kernel does not support the query.
 */
bool mem_find_anonymous(uint64_t address, mem_span_t *mapping_p);

#endif
