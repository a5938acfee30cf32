/*
 * Memory of a file that cannot shrink, like the objects of a shared-memory
 * store.
 */
#ifndef TESTS_SEALED_H
#define TESTS_SEALED_H

#include <stddef.h>

/* Create a file and map all of it. The caller closes the descriptor. */
void *sealed_get(size_t size, int *fd_p);
void  sealed_put(void *address, size_t size);

/* Create a file with these seals. Memory is allocated for its first `filled`
 * bytes. */
int sealed_file(size_t size, size_t filled, int seals);

/* Map a part of the file for reading and writing. */
void *sealed_map(int fd, size_t offset, size_t size);

#endif
