/*
 * The files that options name for a tool's results. Before the work it is tried
 * whether they can be written; they keep what they hold until there is
 * something to write. No file is left that is not whole.
 */
#ifndef COMMON_RESULT_FILE_H
#define COMMON_RESULT_FILE_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

typedef struct result_file {
    const char *option;   /* as "--json" */
    const char *suffixes; /* of names for this, as ".svg .png" */
    const char *path;     /* NULL: it is not asked for, or goes to the standard
                             output */
    bool  is_asked;
    bool  is_new; /* made for the trial */
    dev_t device; /* of a regular file; else inode is 0 */
    ino_t inode;
} result_file_t;

/* A file that is used besides. path may be NULL. */
typedef struct result_other {
    const char *what; /* as "the log that is read" */
    const char *path;
} result_other_t;

/* Take the value of the option; NULL and "-" are the standard output. */
void result_file_ask(result_file_t *file, const char *path);

/* Whether a name ends so, in capitals or not. */
bool result_name_ends(const char *path, const char *suffix);

/*
 * Try to write those that are asked for. Each must be a file of its own, and
 * none of the others; what its name ends in must be right for what is written
 * to it.
 *
 * Returns -1 to go on; or the exit code after an error was printed: 1 where a
 * file cannot be written, 2 where another must be named.
 */
int result_files_try(result_file_t *files, unsigned num,
                     const result_other_t *others, unsigned num_others);

/*
 * Write a file that is asked for, the standard output included. A file that
 * cannot be written whole is removed. Returns 0, or -1 after an error was
 * printed.
 *
 * print   Writes the content; returns 0, or -1 after it printed why it cannot.
 * output  The standard output.
 */
int result_file_write(result_file_t *file,
                      int (*print)(const void *run, FILE *stream),
                      const void *run, FILE *output);

#endif
