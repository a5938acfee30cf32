/*
 * The heap of a GPU compared with other allocators: shared by the parts of
 * bench_heap_cuda. Each error is printed and ends the program.
 */
#ifndef TESTS_BENCH_RIVALS_H
#define TESTS_BENCH_RIVALS_H

#include "replay/allocator.h"

#include <stdbool.h>

#define RIVALS_MAX  (2 + PLUGIN_MAX)
#define CELL_SIZE   48
#define NUM_STREAMS 8 /* device.streams[] */

/* The text of a table cell. */
typedef char cell_t[CELL_SIZE];

extern bool                    is_quick;
extern const allocator_kind_t *rivals[RIVALS_MAX];
extern unsigned                num_rivals;
extern device_t                device;

/* Opens GPU 0 and the allocators named on the command line. */
void rivals_open(int argc, char **argv);
void rivals_close(void);

/* Ends the program with an error if is_well is false. */
void check(bool is_well);

/* Create an allocator. `capacity` is in bytes; 0: as much as possible. */
allocator_t *make(const allocator_kind_t *kind, uint64_t capacity);

/* Allocate and free memory. take() returns NULL if there is not enough
 * memory. */
void *take(allocator_t *from, size_t size, void *stream);
void  give(allocator_t *to, void *address, size_t size, void *stream);

/* Print the head and a row of a table in Markdown, with a column for each
 * allocator. */
void print_head(const char *first);
void print_row(const char *first, const cell_t *cells);

/* Format a time, for example "123 ns" or "1.23 us". */
const char *in_words(uint64_t ns, cell_t text);

#endif
