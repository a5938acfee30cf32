/*
 * Memory of a file that cannot shrink, as a store that hands out its objects
 * has it.
 */
#ifndef TESTS_SEALED_H
#define TESTS_SEALED_H

#include <stddef.h>

/* All of a new file, mapped; the descriptor is the caller's to close. */
void *sealed_get(size_t size, int *fd_p);
void  sealed_put(void *address, size_t size);

/* A file with these seals, with memory behind the first `filled` bytes. */
int sealed_file(size_t size, size_t filled, int seals);

/* A part of it, mapped for both. */
void *sealed_map(int fd, size_t offset, size_t size);

#endif
