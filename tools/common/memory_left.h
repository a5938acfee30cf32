/*
 * Host memory that is not in use.
 */
#ifndef COMMON_MEMORY_LEFT_H
#define COMMON_MEMORY_LEFT_H

#include <stdint.h>

/* What the system says that programs can still have. -1: it does not say. */
int memory_left(uint64_t *bytes_p);

#endif
