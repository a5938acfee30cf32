/*
 * The output consists of the directory of a run, and the partition files of
 * each worker.
 *
 * Files get their final names only when all checks have passed. Until all
 * workers have committed, a file has both names, which shows that it belongs to
 * the run: no other file is replaced or removed.
 *
 *     DIR/.part-00003.RUN.tmp              written
 *     DIR/.part-00003.RUN.tmp, part-00003  committed
 *     DIR/part-00003                       settled
 *
 * On a file system without hard links, committing renames the file.
 *
 * Functions that return an int return -1 with an error.
 */
#ifndef SHUFFLE_OUTPUT_H
#define SHUFFLE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names have five digits. */
#define OUTPUT_MAX_PARTITIONS 100000u

typedef struct output_folder {
    const char *path;
    uint64_t    run; /* id of the run */
    int         fd;
    bool        created;      /* this process created the directory */
    bool        is_discarded; /* by output_discard() */
} output_folder_t;

/* Open the directory, or create it. It must be empty, except for files of this
 * run. */
int output_folder_open(output_folder_t *folder, const char *path, uint64_t run);

/* Close the directory. After output_discard() the directory is removed if this
 * process has created it and it is empty. */
void output_folder_close(output_folder_t *folder);

/* The set of partitions first, first + step, first + 2 step, ... below num. */
typedef struct output_set {
    uint32_t first;
    uint32_t step;
    uint32_t num;
} output_set_t;

/* Give the files of a set their final names, all or none. */
int output_commit(const output_folder_t *folder, const output_set_t *set);

/* Remove these final names again. */
void output_withdraw(const output_folder_t *folder, const output_set_t *set);

/* Remove the temporary names, after every worker has committed. */
void output_settle(const output_folder_t *folder, const output_set_t *set);

/* Remove the files of a set that have a temporary name. */
void output_discard(output_folder_t *folder, const output_set_t *set);

typedef struct output_file {
    int      fd;     /* -1: opened for each write */
    uint32_t fill;   /* bytes in its buffer */
    uint64_t length; /* bytes written so far */
} output_file_t;

/* The files of a set. As many files stay open as the system allows. */
typedef struct output {
    const output_folder_t *folder;
    output_set_t           set;
    output_file_t         *files; /* by slot: (partition - first) / step */
    uint32_t               num_files;
    uint32_t               num_kept; /* files that stay open */
    size_t                 buffer_size;
    char                  *buffers; /* one for each file */
} output_t;

/* Create the files of a set. */
int output_init(output_t *output, const output_folder_t *folder,
                const output_set_t *set);

/* Append to the file of a partition of the set. */
int output_append(output_t *output, uint32_t partition, const char *data,
                  size_t length);

/* Begin each file with a header. */
int output_write_header(output_t *output, const char *data, size_t length);

/* Write the buffers, close the files, and check that the system kept every
 * byte. */
int output_finish(output_t *output);

/* Close the files and release the memory. The files are not removed. */
void output_cleanup(output_t *output);

#endif
