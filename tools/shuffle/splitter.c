#include <config.h>

#include "tools/shuffle/splitter.h"
#include "tools/shuffle/error.h"
#include "tools/shuffle/field.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int splitter_init(splitter_t *splitter, const inputs_t *inputs, uint64_t begin,
                  uint64_t end, size_t buffer_size)
{
    memset(splitter, 0, sizeof(*splitter));
    splitter->inputs   = inputs;
    splitter->begin    = begin;
    splitter->end      = end;
    splitter->fd       = -1;
    splitter->capacity = buffer_size;
    splitter->buffer   = malloc(buffer_size);
    if (splitter->buffer == NULL) {
        return say_error("out of memory for a buffer of %zu bytes",
                         buffer_size);
    }
    return 0;
}

static void splitter_close(splitter_t *splitter)
{
    if (splitter->fd >= 0) {
        close(splitter->fd);
        splitter->fd = -1;
    }
}

void splitter_cleanup(splitter_t *splitter)
{
    splitter_close(splitter);
    free(splitter->buffer);
    splitter->buffer = NULL;
}

static const input_file_t *splitter_file(const splitter_t *splitter)
{
    return &splitter->inputs->files[splitter->index];
}

static bool splitter_has_quotes(const splitter_t *splitter)
{
    return splitter_file(splitter)->delimiter == FIELD_CSV;
}

/* Find the next file that the part overlaps. Returns 0 when there is none. */
static int splitter_open(splitter_t *splitter)
{
    const input_file_t *file;

    for (;; splitter->index++) {
        if (splitter->index == splitter->inputs->num_files) {
            return 0;
        }
        file = splitter_file(splitter);
        if (file->start >= splitter->end) {
            return 0;
        }
        if ((file->size > 0) && (file->start + file->size > splitter->begin)) {
            break;
        }
    }
    splitter->fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (splitter->fd < 0) {
        return say_error("cannot open input file '%s': %s", file->path,
                         strerror(errno));
    }
    splitter->low =
        splitter->begin > file->start ? splitter->begin - file->start : 0;
    splitter->high = splitter->end - file->start < file->size
                         ? splitter->end - file->start
                         : file->size;
    if (splitter->low < file->header) {
        splitter->low = file->header;
    }
    /* Whether a record starts at low is told by the byte before it. */
    splitter->skip      = splitter->low > file->header;
    splitter->offset    = splitter->low - (splitter->skip ? 1 : 0);
    splitter->head      = 0;
    splitter->tail      = 0;
    splitter->state     = CSV_START;
    splitter->scanned   = 0;
    splitter->is_before = splitter->skip && splitter_has_quotes(splitter);
    if (splitter->is_before) {
        splitter->offset = file->header;
    }
    return 1;
}

static int splitter_grow(splitter_t *splitter)
{
    size_t capacity = splitter->capacity * 2;
    char  *buffer   = realloc(splitter->buffer, capacity);

    if (buffer == NULL) {
        return say_error("out of memory: a record of '%s' before byte %llu is "
                         "longer than %zu bytes",
                         splitter_file(splitter)->path,
                         (unsigned long long)splitter->offset,
                         splitter->capacity);
    }
    splitter->buffer   = buffer;
    splitter->capacity = capacity;
    return 0;
}

/* Read more behind what is left; makes room for it. */
static int splitter_fill(splitter_t *splitter)
{
    const input_file_t *file = splitter_file(splitter);
    size_t              left = splitter->tail - splitter->head;
    uint64_t end = splitter->is_before ? splitter->low - 1 : file->size;
    size_t   wanted;
    ssize_t  got;

    memmove(splitter->buffer, splitter->buffer + splitter->head, left);
    splitter->scanned -=
        splitter->head < splitter->scanned ? splitter->head : splitter->scanned;
    splitter->head = 0;
    splitter->tail = left;
    /* One byte stays free for the newline that a file may lack. */
    if ((splitter->tail + 1 >= splitter->capacity) &&
        (splitter_grow(splitter) != 0)) {
        return -1;
    }
    wanted = splitter->capacity - 1 - splitter->tail;
    if (wanted > end - splitter->offset) {
        wanted = (size_t)(end - splitter->offset);
    }
    do {
        got = pread(splitter->fd, splitter->buffer + splitter->tail, wanted,
                    (off_t)splitter->offset);
    } while ((got < 0) && (errno == EINTR));
    if (got < 0) {
        return say_error("cannot read '%s' at byte %llu: %s", file->path,
                         (unsigned long long)splitter->offset, strerror(errno));
    }
    if (got == 0) {
        return say_error("'%s' was cut short while it was read: byte %llu of "
                         "%llu is not there any more",
                         file->path, (unsigned long long)splitter->offset,
                         (unsigned long long)file->size);
    }
    splitter->tail += (size_t)got;
    splitter->offset += (uint64_t)got;
    return 0;
}

/* One buffer of what comes before the part; the last one ends with the byte
 * before the one that tells whether a record starts with the part. */
static int splitter_read_before(splitter_t *splitter)
{
    splitter->head = 0;
    splitter->tail = 0;
    if (splitter->offset < splitter->low - 1) {
        if (splitter_fill(splitter) != 0) {
            return -1;
        }
        splitter->state =
            csv_scan(splitter->state, splitter->buffer, splitter->tail);
    }
    splitter->head      = splitter->tail;
    splitter->is_before = splitter->offset < splitter->low - 1;
    return 0;
}

/* The length of what a record ends with, its newline included; 0: it goes on
 * behind what was read. */
static size_t splitter_find_end(splitter_t *splitter)
{
    const char *newline;

    if (splitter_has_quotes(splitter)) {
        return csv_record_end(&splitter->state, splitter->buffer,
                              splitter->tail);
    }
    newline = memchr(splitter->buffer, '\n', splitter->tail);
    return newline != NULL ? (size_t)(newline + 1 - splitter->buffer) : 0;
}

/* Pass the rest of a record that started before the part. */
static int splitter_skip(splitter_t *splitter)
{
    const input_file_t *file = splitter_file(splitter);

    while (splitter->offset < file->size) {
        splitter->head = 0;
        splitter->tail = 0;
        if (splitter_fill(splitter) != 0) {
            return -1;
        }
        splitter->head = splitter_find_end(splitter);
        if (splitter->head > 0) {
            splitter->scanned = splitter->head;
            splitter->skip    = false;
            return 0;
        }
    }
    splitter->head = splitter->tail;
    splitter->skip = false;
    return 0;
}

/* The file ends here: its last line may lack a newline. Returns the length of
 * what is left. */
static size_t splitter_end_file(splitter_t *splitter)
{
    splitter->buffer[splitter->tail++] = '\n';
    splitter->num_added++;
    return splitter->tail - splitter->head;
}

/* splitter_cut() where there may be quotes. */
static size_t splitter_cut_quoted(splitter_t *splitter)
{
    uint64_t begin = splitter->offset - splitter->tail;
    size_t   whole = splitter->head;
    size_t   length;

    while ((length = csv_record_end(&splitter->state,
                                    splitter->buffer + splitter->scanned,
                                    splitter->tail - splitter->scanned)) > 0) {
        splitter->scanned += length;
        whole = splitter->scanned;
        if (begin + whole >= splitter->high) {
            return whole - splitter->head;
        }
    }
    splitter->scanned = splitter->tail;
    if ((splitter->offset == splitter_file(splitter)->size) &&
        (splitter->state != CSV_QUOTED)) {
        return splitter_end_file(splitter);
    }
    return whole - splitter->head;
}

/*
 * How many bytes from head on are whole records of the part, 0 when more must
 * be read. The last record of the part is the one that has byte high - 1.
 */
static size_t splitter_cut(splitter_t *splitter)
{
    const char *data   = splitter->buffer + splitter->head;
    size_t      length = splitter->tail - splitter->head;
    uint64_t    start  = splitter->offset - length;
    const char *newline;
    size_t      inside;

    if (splitter_has_quotes(splitter)) {
        return splitter_cut_quoted(splitter);
    }
    if (splitter->offset >= splitter->high) {
        inside  = (size_t)(splitter->high - 1 - start);
        newline = memchr(data + inside, '\n', length - inside);
        if (newline != NULL) {
            return (size_t)(newline + 1 - data);
        }
        if (splitter->offset == splitter_file(splitter)->size) {
            return splitter_end_file(splitter);
        }
    }
    newline = memrchr(data, '\n', length);
    return newline != NULL ? (size_t)(newline + 1 - data) : 0;
}

static int splitter_complain_quote(const splitter_t *splitter)
{
    const input_file_t *file = splitter_file(splitter);
    size_t              left = splitter->tail - splitter->head;

    return say_error(
        "the last record of '%s', which begins at byte %llu, has a "
        "quote that is not closed: mend it, or give -d , where "
        "quotes are characters as others",
        file->path, (unsigned long long)(file->size - left));
}

static void splitter_span(splitter_t *splitter, uint64_t start, size_t length,
                          span_t *span_p)
{
    span_p->file   = splitter_file(splitter);
    span_p->offset = start;
    span_p->data   = splitter->buffer + splitter->head;
    span_p->length = length;
    splitter->head += length;
}

/* The next span of the open file. Returns 0 when the part has no more of it. */
static int splitter_next_here(splitter_t *splitter, span_t *span_p)
{
    uint64_t start = splitter->offset - (splitter->tail - splitter->head);
    size_t   length;

    if (splitter->is_before) {
        if (splitter_read_before(splitter) != 0) {
            return -1;
        }
        splitter_span(splitter, splitter->offset, 0, span_p);
        return 1;
    }
    if (splitter->skip) {
        if (splitter_skip(splitter) != 0) {
            return -1;
        }
        start = splitter->offset - (splitter->tail - splitter->head);
    }
    if (start >= splitter->high) {
        return 0;
    }
    for (;;) {
        if ((splitter->tail > splitter->head) &&
            ((length = splitter_cut(splitter)) > 0)) {
            break;
        }
        if (splitter->offset == splitter_file(splitter)->size) {
            return splitter_complain_quote(splitter);
        }
        if (splitter_fill(splitter) != 0) {
            return -1;
        }
    }
    splitter_span(splitter, start, length, span_p);
    return 1;
}

int splitter_next(splitter_t *splitter, span_t *span_p)
{
    int result;

    for (;;) {
        if (splitter->fd < 0) {
            result = splitter_open(splitter);
            if (result <= 0) {
                return result;
            }
        }
        result = splitter_next_here(splitter, span_p);
        if (result != 0) {
            return result;
        }
        splitter_close(splitter);
        splitter->index++;
    }
}
