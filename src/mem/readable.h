/*
 * Is host memory there? What is not mapped, or may not be read, ends a process
 * that reads it; so the kernel is asked first, where an address came from a
 * caller and nothing else is known of it.
 */
#ifndef MEM_READABLE_H
#define MEM_READABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mem_span {
    uint64_t address;
    uint64_t length; /* 1 or more */
} mem_span_t;

/* Spans of one question. */
#define MEM_SPANS_MAX 256u

/*
 * The first of some spans, MEM_SPANS_MAX at the most, that is not memory which
 * can be read; num: all are. Some of them are looked at as a whole, others, as
 * older kernels cannot do more at one go, at their first and last byte. Where
 * such questions are forbidden, the caller is believed.
 */
size_t mem_find_unreadable(const mem_span_t *spans, size_t num);

/*
 * The mapping in which an address lies, if it can be read and has no file
 * behind it: a heap's, say. False: it is none such, or the kernel does not
 * tell.
 */
bool mem_find_anonymous(uint64_t address, mem_span_t *mapping_p);

#endif
