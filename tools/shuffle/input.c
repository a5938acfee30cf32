#include "tools/shuffle/input.h"

#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- fields ------------------------------------------------------------- */

/* The state between two bytes of text with quotes. A quote opens a field only
 * at its start; anywhere else it is an ordinary character. */
typedef enum csv_state {
    CSV_START, /* at the start of a field */
    CSV_PLAIN,
    CSV_QUOTED,
    CSV_CLOSED /* after a quote that closes the field, or is the first of two */
} csv_state_t;

static csv_state_t csv_next(csv_state_t state, char c)
{
    if (state == CSV_QUOTED) {
        return c == '"' ? CSV_CLOSED : CSV_QUOTED;
    }
    if ((c == '"') && (state != CSV_PLAIN)) {
        return CSV_QUOTED;
    }
    return (c == ',') || (c == '\n') ? CSV_START : CSV_PLAIN;
}

/* Returns the length up to the end of a record, or 0 if there is no end. */
static size_t csv_find_end(int *state_p, const char *data, size_t length)
{
    csv_state_t state = (csv_state_t)*state_p;
    size_t      i     = 0;
    bool        ended = false;

    while ((i < length) && !ended) {
        state = csv_next(state, data[i]);
        ended = (data[i++] == '\n') && (state == CSV_START);
    }
    *state_p = (int)state;
    return ended ? i : 0;
}

static bool field_find_csv(unsigned field, const char *data, size_t length,
                           char *value, size_t *value_length_p)
{
    csv_state_t state = CSV_START;
    csv_state_t before;
    size_t      used = 0;

    if ((length > 0) && (data[length - 1] == '\r')) {
        length--;
    }
    for (size_t i = 0; (i < length) && (field > 0); i++) {
        before = state;
        state  = csv_next(state, data[i]);
        if (state == CSV_START) {
            field--;
        } else if ((field == 1) && (state != CSV_CLOSED) &&
                   ((before != CSV_START) || (state != CSV_QUOTED))) {
            value[used++] = data[i];
        }
    }
    *value_length_p = used;
    return field <= 1;
}

bool field_find(int delimiter, unsigned field, const char *data, size_t length,
                char *value, const char **key_p, size_t *key_length_p)
{
    const char *end = data + length;
    const char *stop;

    *key_p = value;
    if (delimiter == FIELD_CSV) {
        return field_find_csv(field, data, length, value, key_length_p);
    }
    while (((stop = memchr(data, delimiter, (size_t)(end - data))) != NULL) &&
           (field > 1)) {
        data = stop + 1;
        field--;
    }
    *key_p        = data;
    *key_length_p = (size_t)((stop != NULL ? stop : end) - data);
    return field == 1;
}

int field_delimiter_parse(const char *text)
{
    if (strcmp(text, "tab") == 0) {
        return '\t';
    }
    if (strcmp(text, "csv") == 0) {
        return FIELD_CSV;
    }
    /* A newline cannot be a delimiter, because it ends records. */
    if ((strlen(text) == 1) && (text[0] != '\n')) {
        return (unsigned char)text[0];
    }
    return FIELD_UNKNOWN;
}

int field_delimiter_guess(const char *path)
{
    static const struct {
        const char *ending;
        int         delimiter;
    } guesses[] = {
        {".tbl", '|'}, {".csv", FIELD_CSV}, {".tsv", '\t'}, {".tab", '\t'}};
    const char *suffix = strrchr(path, '.');

    for (size_t i = 0; i < sizeof(guesses) / sizeof(guesses[0]); i++) {
        if ((suffix != NULL) && (strcmp(suffix, guesses[i].ending) == 0)) {
            return guesses[i].delimiter;
        }
    }
    return FIELD_UNKNOWN;
}

/* --- files -------------------------------------------------------------- */

static int input_file_check(const char *path, int fd, struct stat *status_p)
{
    char    byte;
    ssize_t got = 0;

    if (fstat(fd, status_p) != 0) {
        return keep_error("cannot stat input file '%s': %s", path,
                          strerror(errno));
    }
    if (S_ISDIR(status_p->st_mode)) {
        return keep_error("'%s' is a directory: name the files in it", path);
    }
    if (!S_ISREG(status_p->st_mode)) {
        return keep_error("'%s' is not a regular file: several workers read it "
                          "at once, so save its contents to a file first",
                          path);
    }
    if (status_p->st_size == 0) {
        got = read(fd, &byte, sizeof(byte));
    }
    if (got < 0) {
        return keep_error("cannot read input file '%s': %s", path,
                          strerror(errno));
    }
    return got == 0 ? 0
                    : keep_error("'%s' does not report its size, like files in "
                                 "/proc: save its contents to a file first",
                                 path);
}

static int input_file_init(input_file_t *file, const char *path, int delimiter)
{
    /* Without O_NONBLOCK, opening a pipe without a writer blocks. */
    int         fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    int         result;

    if (fd < 0) {
        return keep_error("cannot open input file '%s': %s", path,
                          strerror(errno));
    }
    result = input_file_check(path, fd, &status);
    close(fd);
    if (result != 0) {
        return -1;
    }
    file->path = path;
    file->size = (uint64_t)status.st_size;
    file->delimiter =
        delimiter != FIELD_UNKNOWN ? delimiter : field_delimiter_guess(path);
    if (file->delimiter == FIELD_UNKNOWN) {
        return keep_error(
            "the suffix of '%s' does not show which character separates its "
            "fields: use -d with one character, 'tab' or 'csv'",
            path);
    }
    return 0;
}

int inputs_init(inputs_t *inputs, char *const *paths, size_t num_paths,
                int delimiter)
{
    memset(inputs, 0, sizeof(*inputs));
    inputs->num_files = num_paths;
    inputs->files     = tool_calloc(num_paths, sizeof(*inputs->files));
    for (size_t i = 0; i < num_paths; i++) {
        if (input_file_init(&inputs->files[i], paths[i], delimiter) != 0) {
            inputs_cleanup(inputs);
            return -1;
        }
        inputs->files[i].start = inputs->size;
        inputs->size += inputs->files[i].size;
    }
    return 0;
}

void inputs_cleanup(inputs_t *inputs)
{
    free(inputs->files);
    free(inputs->header);
    memset(inputs, 0, sizeof(*inputs));
}

uint64_t inputs_begin(const inputs_t *inputs, unsigned worker,
                      unsigned num_workers)
{
    return (uint64_t)((unsigned __int128)inputs->size * worker / num_workers);
}

/* --- the reader --------------------------------------------------------- */

void reader_init(reader_t *reader, const inputs_t *inputs, uint64_t begin,
                 uint64_t end, unsigned field, size_t buffer_size)
{
    memset(reader, 0, sizeof(*reader));
    reader->inputs   = inputs;
    reader->begin    = begin;
    reader->end      = end;
    reader->field    = field;
    reader->fd       = -1;
    reader->capacity = buffer_size;
    reader->buffer   = tool_calloc(1, buffer_size);
    reader->value    = tool_calloc(1, buffer_size);
}

static void reader_close(reader_t *reader)
{
    if (reader->fd >= 0) {
        close(reader->fd);
        reader->fd = -1;
        reader->index++;
    }
}

void reader_cleanup(reader_t *reader)
{
    reader_close(reader);
    free(reader->buffer);
    free(reader->value);
    memset(reader, 0, sizeof(*reader));
    reader->fd = -1;
}

static const input_file_t *reader_file(const reader_t *reader)
{
    return &reader->inputs->files[reader->index];
}

static bool reader_has_quotes(const reader_t *reader)
{
    return reader_file(reader)->delimiter == FIELD_CSV;
}

/* Open the next file that has bytes of the part. Returns 0 if there is none. */
static int reader_open(reader_t *reader)
{
    const input_file_t *file = reader_file(reader);

    while ((reader->index < reader->inputs->num_files) &&
           (file->start + file->size <= reader->begin)) {
        file = &reader->inputs->files[++reader->index];
    }
    if ((reader->index == reader->inputs->num_files) ||
        (file->start >= reader->end)) {
        return 0;
    }
    reader->fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (reader->fd < 0) {
        return keep_error("cannot open input file '%s': %s", file->path,
                          strerror(errno));
    }
    reader->low = reader->begin > file->start ? reader->begin - file->start : 0;
    reader->high = reader->end - file->start < file->size
                       ? reader->end - file->start
                       : file->size;
    if (reader->low <= file->header) {
        reader->low    = file->header;
        reader->offset = file->header;
    } else {
        /* The byte before the part shows whether a record starts at the part.
         * With quotes, all bytes before it are needed. */
        reader->offset =
            reader_has_quotes(reader) ? file->header : reader->low - 1;
    }
    reader->head    = 0;
    reader->scanned = 0;
    reader->tail    = 0;
    reader->quotes  = CSV_START;
    return 1;
}

static int reader_grow(reader_t *reader)
{
    size_t capacity = reader->capacity * 2;
    char  *buffer   = realloc(reader->buffer, capacity);
    char  *value    = realloc(reader->value, capacity);

    reader->buffer = buffer != NULL ? buffer : reader->buffer;
    reader->value  = value != NULL ? value : reader->value;
    if ((buffer == NULL) || (value == NULL)) {
        return keep_error("out of memory: a record of '%s' before byte %llu is "
                          "longer than %zu bytes",
                          reader_file(reader)->path,
                          (unsigned long long)reader->offset, reader->capacity);
    }
    reader->capacity = capacity;
    return 0;
}

/* Read more after the remaining bytes. */
static int reader_fill(reader_t *reader)
{
    const input_file_t *file = reader_file(reader);
    size_t              wanted;
    ssize_t             got;

    reader->tail -= reader->head;
    reader->scanned -= reader->head;
    memmove(reader->buffer, reader->buffer + reader->head, reader->tail);
    reader->head = 0;
    /* Keep one byte free for the newline that a file may lack. */
    if ((reader->tail + 1 >= reader->capacity) && (reader_grow(reader) != 0)) {
        return -1;
    }
    wanted = reader->capacity - 1 - reader->tail;
    if (wanted > file->size - reader->offset) {
        wanted = (size_t)(file->size - reader->offset);
    }
    do {
        got = pread(reader->fd, reader->buffer + reader->tail, wanted,
                    (off_t)reader->offset);
    } while ((got < 0) && (errno == EINTR));
    if (got < 0) {
        return keep_error("cannot read '%s' at byte %llu: %s", file->path,
                          (unsigned long long)reader->offset, strerror(errno));
    }
    if (got == 0) {
        return keep_error("'%s' was cut short while it was read: byte %llu of "
                          "%llu no longer exists",
                          file->path, (unsigned long long)reader->offset,
                          (unsigned long long)file->size);
    }
    reader->tail += (size_t)got;
    reader->offset += (uint64_t)got;
    return 0;
}

/* Returns the length of the record at head, or 0 if its end has not been read
 * yet. */
static size_t reader_find_end(reader_t *reader)
{
    const char *at   = reader->buffer + reader->scanned;
    size_t      left = reader->tail - reader->scanned;
    const char *newline;
    size_t      length;

    if (reader_has_quotes(reader)) {
        length = csv_find_end(&reader->quotes, at, left);
    } else {
        newline = memchr(at, '\n', left);
        length  = newline != NULL ? (size_t)(newline + 1 - at) : 0;
    }
    reader->scanned += length > 0 ? length : left;
    return length > 0 ? reader->scanned - reader->head : 0;
}

/* Add the missing newline to the last record of a file. Returns the record's
 * length, or 0 with an error. */
static size_t reader_end_file(reader_t *reader, uint64_t start)
{
    if (reader->quotes == CSV_QUOTED) {
        keep_error("the last record of '%s', which begins at byte %llu, has a "
                   "quote that is not closed: correct it, or use -d , which "
                   "gives quotes no meaning",
                   reader_file(reader)->path, (unsigned long long)start);
        return 0;
    }
    reader->buffer[reader->tail++] = '\n';
    reader->scanned                = reader->tail;
    reader->num_added += start >= reader->low;
    return reader->tail - reader->head;
}

/* Read the next record, as reader_next() does, but without its key. */
static int reader_next_record(reader_t *reader, record_t *record)
{
    size_t length;
    int    result;

    memset(record, 0, sizeof(*record));
    for (;;) {
        if ((reader->fd < 0) && ((result = reader_open(reader)) <= 0)) {
            return result;
        }
        record->file   = reader_file(reader);
        record->offset = reader->offset - (reader->tail - reader->head);
        if (record->offset >= reader->high) {
            reader_close(reader);
            continue;
        }
        length = reader_find_end(reader);
        if ((length == 0) && (reader->offset < record->file->size)) {
            if (reader_fill(reader) != 0) {
                return -1;
            }
            if (record->offset < reader->low) {
                return 1;
            }
            continue;
        }
        if (length == 0) {
            length = reader_end_file(reader, record->offset);
        }
        if (length == 0) {
            return -1;
        }
        record->data = reader->buffer + reader->head;
        reader->head += length;
        if (record->offset >= reader->low) {
            record->length = length;
            return 1;
        }
    }
}

static int reader_complain_field(const reader_t *reader, const record_t *record)
{
    char   excerpt[41] = "";
    size_t length      = record->length - 1;

    for (size_t i = 0; (i < length) && (i < sizeof(excerpt) - 1); i++) {
        char c = record->data[i];

        excerpt[i] = (c >= ' ') && (c <= '~') ? c : '?';
    }
    return keep_error("the record at byte %llu of '%s' has no field %u (it "
                      "begins with '%s'): correct it, or use another -k or -d",
                      (unsigned long long)record->offset, record->file->path,
                      reader->field, excerpt);
}

int reader_next(reader_t *reader, record_t *record_p)
{
    int result = reader_next_record(reader, record_p);

    if ((result <= 0) || (record_p->length == 0)) {
        return result;
    }
    return field_find(record_p->file->delimiter, reader->field, record_p->data,
                      record_p->length - 1, reader->value, &record_p->key,
                      &record_p->key_length)
               ? 1
               : reader_complain_field(reader, record_p);
}

/* --- the header --------------------------------------------------------- */

static int inputs_take_header_of(inputs_t *inputs, input_file_t *file)
{
    reader_t reader;
    record_t record;
    int      result = 0;

    reader_init(&reader, inputs, file->start, file->start + 1, 1, 4096);
    if (reader_next_record(&reader, &record) < 0) {
        result = -1;
    } else if (inputs->header == NULL) {
        inputs->header        = reader.buffer;
        inputs->header_length = record.length;
        reader.buffer         = NULL;
    } else if ((record.length != inputs->header_length) ||
               (memcmp(record.data, inputs->header, record.length) != 0)) {
        result =
            keep_error("the header of '%s' differs from that of earlier files: "
                       "with --header, all files must have the same header",
                       file->path);
    }
    file->header = record.length < file->size ? record.length : file->size;
    reader_cleanup(&reader);
    return result;
}

int inputs_take_header(inputs_t *inputs)
{
    for (size_t i = 0; i < inputs->num_files; i++) {
        if ((inputs->files[i].size > 0) &&
            (inputs_take_header_of(inputs, &inputs->files[i]) != 0)) {
            return -1;
        }
    }
    return 0;
}
