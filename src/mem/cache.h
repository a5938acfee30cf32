/*
 * The processor's cache.
 */
#ifndef MEM_CACHE_H
#define MEM_CACHE_H

#include <stddef.h>

/* No cache is taken to be smaller. */
#define MEM_CACHE_MIN ((size_t)4 << 20)

/*
 * Bytes of the largest cache that the first processor has or shares. Asked of
 * the system once; any thread.
 */
size_t mem_cache_size(void);

#endif
