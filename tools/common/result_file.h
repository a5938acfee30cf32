/*
 * Files named by options for a tool's results. Before the work, the tool checks
 * that they can be written. They keep their old content until the results are
 * written. Incomplete files are removed.
 */
#ifndef COMMON_RESULT_FILE_H
#define COMMON_RESULT_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct result_file {
    const char *option;   /* as "--json" */
    const char *suffixes; /* allowed suffixes, as ".svg .png" */
    const char *path;     /* NULL: it is not asked for, or goes to the standard
                             output */
    bool  is_asked;
    bool  is_new; /* created by the check */
    dev_t device; /* of a regular file; otherwise inode is 0 */
    ino_t inode;
} result_file_t;

/* A file used in addition. path may be NULL. */
typedef struct result_other {
    const char *what; /* as "the log that is read" */
    const char *path;
} result_other_t;

/* Take the value of the option; NULL and "-" are the standard output. */
void result_file_ask(result_file_t *file, const char *path);

/* Does a name end with this suffix, in any case? */
bool result_name_ends(const char *path, const char *suffix);

/*
 * Check that the requested files can be written. Each must differ from all
 * others and from `others`, and its suffix must match its format.
 *
 * Returns -1 if they can be written. Otherwise returns the exit code after an
 * error was printed: 1 if a file cannot be written, 2 if another file must be
 * named.
 */
int result_files_try(result_file_t *files, unsigned num,
                     const result_other_t *others, unsigned num_others);

/*
 * Write a requested file, which may be the standard output. A file that cannot
 * be written completely is removed. Returns 0, or -1 after an error was
 * printed.
 *
 * print   Writes the content; returns 0, or -1 after printing an error.
 *
 * output  The standard output.
 */
int result_file_write(result_file_t *file,
                      int (*print)(const void *run, FILE *stream),
                      const void *run, FILE *output);

#endif
