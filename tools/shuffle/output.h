/*
 * The partition files of one worker.
 *
 * With many partitions little comes for each at a time, so every file has a
 * buffer, and is written when that is full:
 *
 *     buffers  [ slot 0 #####... | slot 1 ##...... | slot 2 ######## ] -> write
 *
 * What is at least as long as a buffer goes straight to the file. The memory of
 * a buffer is the system's until something is in it.
 *
 * As many files stay open as the system allows; the others are opened for each
 * write.
 */
#ifndef SHUFFLE_OUTPUT_H
#define SHUFFLE_OUTPUT_H

#include "tools/shuffle/output_folder.h"

typedef struct output_file {
    int      fd;     /* -1: it is opened for each write */
    uint32_t fill;   /* bytes that wait in its buffer */
    uint64_t length; /* bytes that were written */
} output_file_t;

typedef struct output {
    const output_folder_t *folder;
    output_set_t           set;
    output_file_t         *files; /* by slot: (partition - first) / step */
    uint32_t               num_files;
    uint32_t               num_kept; /* that stay open */
    size_t                 buffer_size;
    char                  *buffers;
} output_t;

/* Create the files of a set. Returns -1 with an error. */
int output_init(output_t *output, const output_folder_t *folder,
                const output_set_t *set);

/* Begin each file with a header. */
int output_write_header(output_t *output, const char *data, size_t length);

/* Append to the file of a partition of the set. */
int output_append(output_t *output, uint32_t partition, const char *data,
                  size_t length);

/* Write what waits, close the files, and check that the system kept every
 * byte. */
int output_finish(output_t *output);

/* Close what is open and release; the files stay. */
void output_cleanup(output_t *output);

#endif
