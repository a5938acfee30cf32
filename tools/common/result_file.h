/*
 * Files for a tool's results, which the user names by options. Before its work,
 * the tool checks that it can write the files. The files keep their old content
 * until the results are written. Incomplete files are removed.
 */
#ifndef COMMON_RESULT_FILE_H
#define COMMON_RESULT_FILE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct result_file {
    const char *option; /* "--json" */
    const char *path;   /* NULL: not requested, or the standard output */
    bool        is_asked;
} result_file_t;

/* Store the value of the option. NULL and "-" are the standard output. */
void result_file_ask(result_file_t *file, const char *path);

/* Returns true if a path, which may be NULL, names the same regular file, or is
 * the same path if the file does not exist. */
bool result_file_is(const result_file_t *file, const char *other);

/* Check that a file can be written, without a change, except that the target of
 * a link is created. Returns 0, or -1 after printing an error. */
int result_file_try(const result_file_t *file);

/*
 * Write a requested file, which may be the standard output. Removes a file that
 * cannot be written completely, unless it is a link. Returns 0, or -1 after
 * printing an error.
 *
 * print   Function that writes the content. Returns 0, or -1 after printing an
 *         error.
 *
 * output  The standard output.
 */
int result_file_write(const result_file_t *file,
                      int (*print)(const void *run, FILE *stream),
                      const void *run, FILE *output);

#endif
