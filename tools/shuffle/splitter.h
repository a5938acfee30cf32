/*
 * The splitter: reads a worker's part of the inputs and cuts it into spans of
 * whole records.
 *
 *     part        begin|                            |end
 *     file     ....a\n bbbb\n ccc\n ddddddd\n eeeeeeeee\n ff\n
 *     spans            [bbbb\n ccc\n] [ddddddd\n eeeeeeeee\n]
 *
 * In a file with quotes a newline need not end a record, which only what comes
 * before it tells: the file is read from its begin up to the part first.
 *
 * A record belongs to the part in which its first byte lies. A last line
 * without a newline gets one; num_added counts them.
 *
 * Files are read by pread() into one buffer, which grows for a record that is
 * longer: a file may be larger than memory, and one that is cut short while it
 * is read gives an error, not a signal.
 */
#ifndef SHUFFLE_SPLITTER_H
#define SHUFFLE_SPLITTER_H

#include "tools/shuffle/csv.h"
#include "tools/shuffle/input.h"

#include <stdbool.h>

/* Whole records, each with its newline; valid until the next call. None, while
 * what comes before the part is read. */
typedef struct span {
    const input_file_t *file;
    uint64_t            offset; /* of its first byte in the file */
    const char         *data;
    size_t              length;
} span_t;

typedef struct splitter {
    const inputs_t *inputs;
    uint64_t        begin; /* the part, in the whole range */
    uint64_t        end;
    size_t          index; /* of the file */
    int             fd;    /* of that file, or -1 */
    bool            skip;  /* a record of the part before is to be passed */
    uint64_t        low;   /* the part, in that file */
    uint64_t        high;
    uint64_t        offset; /* in that file, of the next byte to be read */
    char           *buffer;
    size_t          capacity;
    size_t          head;    /* first byte that was not handed out yet */
    size_t          tail;    /* end of what was read */
    csv_state_t     state;   /* behind `scanned`, with quotes */
    size_t          scanned; /* up to here no record ends that was not found */
    bool            is_before; /* what comes before the part is being read */
    uint64_t        num_added;
} splitter_t;

/* buffer_size: bytes to read at a time, 2 or more. Returns -1 with a
 * error. */
int  splitter_init(splitter_t *splitter, const inputs_t *inputs, uint64_t begin,
                   uint64_t end, size_t buffer_size);
void splitter_cleanup(splitter_t *splitter);

/* Returns 1 with the next span, 0 at the end, -1 with an error. */
int splitter_next(splitter_t *splitter, span_t *span_p);

#endif
