/*
 * Memory of a file that cannot shrink, like the objects of a shared-memory
 * store.
 */
#ifndef TESTS_SEALED_H
#define TESTS_SEALED_H

#include <stddef.h>

/* A new file, mapped completely; the caller closes the descriptor. */
void *sealed_get(size_t size, int *fd_p);
void  sealed_put(void *address, size_t size);

/* A file with these seals. Its first `filled` bytes have memory behind them. */
int sealed_file(size_t size, size_t filled, int seals);

/* A part of it, mapped for reading and writing. */
void *sealed_map(int fd, size_t offset, size_t size);

#endif
