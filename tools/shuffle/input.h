/*
 * The input files, laid side by side into one range of bytes.
 *
 *     | file 0        | file 1  | (empty) | file 2               |
 *     0          worker 0          |          worker 1           size
 *
 * A worker has the records that start in its part of the range. A record never
 * spans files.
 */
#ifndef SHUFFLE_INPUT_H
#define SHUFFLE_INPUT_H

#include <stddef.h>
#include <stdint.h>

typedef struct input_file {
    const char *path;
    uint64_t    start;     /* of its first byte in the whole range */
    uint64_t    size;      /* when the run began */
    int         delimiter; /* see field.h */
    uint64_t    header;    /* bytes at its begin that are no record */
} input_file_t;

typedef struct inputs {
    input_file_t *files;
    size_t        num_files;
    uint64_t      size;
    char         *header; /* the line, with its newline; NULL: none */
    size_t        header_length;
} inputs_t;

/*
 * Check that each file is a regular one that can be read, and take its size.
 * delimiter is FIELD_UNKNOWN to guess it from each name. The paths are
 * borrowed. Returns -1 with an error; nothing is left then.
 */
int  inputs_init(inputs_t *inputs, char *const *paths, size_t num_paths,
                 int delimiter);
void inputs_cleanup(inputs_t *inputs);

/*
 * The first line of each file is a header, the same in all, and no record. An
 * empty file has none. Returns -1 with an error.
 */
int inputs_take_header(inputs_t *inputs);

/* Where the part of a worker begins; that of worker num_workers is the end. */
uint64_t inputs_begin(const inputs_t *inputs, unsigned worker,
                      unsigned num_workers);

#endif
