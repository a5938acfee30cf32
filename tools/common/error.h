/* The errors of a tool: one line on standard error, printed by the first
 * function that knows the cause. */
#ifndef COMMON_ERROR_H
#define COMMON_ERROR_H

#include <stddef.h>

/* The tool's name, with which each error begins. program_main() sets it. */
extern const char *tool_name;

/* Print "NAME: ..." and return -1. */
int tool_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Same as calloc(), but ends the program with exit code 1 if memory is
 * exhausted. */
void *tool_calloc(size_t num, size_t size);

/* Make room for one more element in an array of `num`. Returns the array. The
 * room is doubled whenever it is full; NULL is an empty array. */
void *tool_grow(void *array, size_t num, size_t element_size);

/*
 * Keep an error instead of printing it, and return -1. The caller adds to the
 * error, or passes it to the process that prints. Only the last error is kept.
 * The arguments may contain the previous error.
 */
#define KEPT_ERROR_SIZE 1024
int keep_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *kept_error(void);

#endif
