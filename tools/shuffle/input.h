/*
 * The input files form one range of bytes, one after the other. These functions
 * find the records and the key field of each record.
 *
 *     | file 0        | file 1  | (empty) | file 2               |
 *     0          worker 0          |          worker 1           size
 *
 * A worker reads the records that start in its part of the range. A record
 * never spans files. A last line without a newline gets one.
 *
 *     delimiter '|'    a|b||d           fields "a" "b" "" "d"
 *     FIELD_CSV        1,"a, b","5"""   fields "1" "a, b" "5\"" (RFC 4180)
 *
 * An empty record has one field, which is empty.
 *
 * Functions that return an int return -1 with an error.
 */
#ifndef SHUFFLE_INPUT_H
#define SHUFFLE_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Delimiters that are not one byte (0 to 255). */
#define FIELD_CSV     256 /* commas, and quotes */
#define FIELD_UNKNOWN (-1)

typedef struct input_file {
    const char *path;
    uint64_t    start; /* offset of the first byte in the whole range */
    uint64_t    size;  /* when the run began */
    int         delimiter;
    uint64_t    header; /* bytes of the header, which is not a record */
} input_file_t;

typedef struct inputs {
    input_file_t *files;
    size_t        num_files;
    uint64_t      size;
    char         *header; /* the line, with its newline; NULL: none */
    size_t        header_length;
} inputs_t;

/* Open the inputs. delimiter: FIELD_UNKNOWN to choose the delimiter by each
 * file's name. The paths belong to the caller. After an error, nothing needs to
 * be released. */
int  inputs_init(inputs_t *inputs, char *const *paths, size_t num_paths,
                 int delimiter);
void inputs_cleanup(inputs_t *inputs);

/* Treat the first line of each file as a header and not as a record. The header
 * must be the same in all files. An empty file has none. */
int inputs_take_header(inputs_t *inputs);

/* Returns the offset of a worker's part. The offset for worker num_workers is
 * the end of the range. */
uint64_t inputs_begin(const inputs_t *inputs, unsigned worker,
                      unsigned num_workers);

/* A record, valid until the next call to reader_next(). */
typedef struct record {
    const input_file_t *file;
    uint64_t            offset; /* offset in the file */
    const char         *data;
    size_t              length; /* with the newline */
    const char         *key;
    size_t              key_length;
} record_t;

typedef struct reader {
    const inputs_t *inputs;
    uint64_t        begin; /* the part, as offsets in the whole range */
    uint64_t        end;
    unsigned        field; /* number of the key field, from 1 */
    size_t          index; /* index of the current file */
    int             fd;    /* descriptor of that file, or -1 */
    uint64_t        low;   /* the part, as offsets in that file */
    uint64_t        high;
    uint64_t        offset; /* offset in that file of the next byte to read */
    char           *buffer;
    char           *value; /* value of a quoted key; as large as the buffer */
    size_t          capacity;
    size_t          head;      /* start of the next record in the buffer */
    size_t          scanned;   /* no record ends between head and here */
    size_t          tail;      /* end of the bytes in the buffer */
    int             quotes;    /* the csv_state_t at `scanned` */
    uint64_t        num_added; /* newlines that were added */
} reader_t;

/* Initialize a reader. buffer_size: bytes to read at a time, 2 or more. The
 * buffer grows for longer records. */
void reader_init(reader_t *reader, const inputs_t *inputs, uint64_t begin,
                 uint64_t end, unsigned field, size_t buffer_size);
void reader_cleanup(reader_t *reader);

/*
 * Read the next record. Returns 1 with a record, or 0 at the end. A record of
 * length 0 means that there is no record yet. This lets the caller do other
 * work while the reader searches for the first record of the part.
 */
int reader_next(reader_t *reader, record_t *record_p);

/* Find the key field of a record, which is passed without its newline. value:
 * room for length bytes. Returns false if the record has too few fields. */
bool field_find(int delimiter, unsigned field, const char *data, size_t length,
                char *value, const char **key_p, size_t *key_length_p);

/* Return the delimiter that the command line names (one character, tab, csv),
 * or that a file's name suggests, or FIELD_UNKNOWN. */
int field_delimiter_parse(const char *text);
int field_delimiter_guess(const char *path);

#endif
