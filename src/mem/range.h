/*
 * Ranges of addresses, reserved so that nobody else gets them, to be filled
 * with mappings.
 */
#ifndef MEM_RANGE_H
#define MEM_RANGE_H

#include <stddef.h>

/*
 * Reserve `size` bytes of addresses (a multiple of the page) that start at a
 * multiple of `alignment` (a power of two). Returns 0 or an errno.
 */
int mem_range_reserve(size_t size, size_t alignment, void **address_p);

/* Give back a range with all that is mapped in it. */
void mem_range_release(void *address, size_t size);

#endif
