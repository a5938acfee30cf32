/*
 * Files for a tool's results, which the user names by options. Before its work,
 * the tool checks that it can write the files. The files keep their old content
 * until the results are written. Incomplete files are removed.
 */
#ifndef COMMON_RESULT_FILE_H
#define COMMON_RESULT_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct result_file {
    const char *option;   /* "--json" */
    const char *suffixes; /* allowed suffixes: ".svg .png" */
    const char *path;     /* NULL: not requested, or written to the standard
                             output */
    bool  is_asked;
    bool  is_new; /* created by the check */
    dev_t device; /* of a regular file; otherwise inode is 0 */
    ino_t inode;
} result_file_t;

/* Another file that the tool uses. path may be NULL. */
typedef struct result_other {
    const char *what; /* "the log that is read" */
    const char *path;
} result_other_t;

/* Store the value of the option. NULL and "-" are the standard output. */
void result_file_ask(result_file_t *file, const char *path);

/* Returns true if a name ends with this suffix; case is ignored. */
bool result_name_ends(const char *path, const char *suffix);

/*
 * Check that the requested files can be written. Each file must differ from all
 * other files, including `others`, and its suffix must match its format.
 *
 * Returns -1 if all can be written. Otherwise prints an error and returns the
 * exit code: 1 if a file cannot be written, 2 if the user must name another
 * file.
 */
int result_files_try(result_file_t *files, unsigned num,
                     const result_other_t *others, unsigned num_others);

/*
 * Write a requested file, which may be the standard output. Removes a file that
 * cannot be written completely. Returns 0, or -1 after printing an error.
 *
 * print   Function that writes the content. Returns 0, or -1 after printing an
 *         error.
 *
 * output  The standard output.
 */
int result_file_write(result_file_t *file,
                      int (*print)(const void *run, FILE *stream),
                      const void *run, FILE *output);

#endif
