#include <config.h>

#include "replay/error.h"
#include "replay/log.h"
#include "replay/owners.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HEADER     "Thread,Time,Action,Pointer,Size,Stream"
#define NUM_FIELDS 6

enum {
    FIELD_THREAD,
    FIELD_TIME,
    FIELD_ACTION,
    FIELD_POINTER,
    FIELD_SIZE,
    FIELD_STREAM
};

/* One line, understood. */
typedef struct call {
    const char *action;
    uint64_t    thread_name;
    uint64_t    stream_name;
    uint64_t    pointer; /* 0: none */
    uint64_t    size;
    unsigned    thread; /* numbers of what is played */
    unsigned    stream;
} call_t;

typedef struct reader {
    const char *name;
    uint64_t    line;
    trace_t    *trace;
    owners_t    owners;
} reader_t;

static int say_error(const reader_t *reader, const char *what, const char *text)
{
    return replay_error("%s:%llu: %s: %.60s", reader->name,
                        (unsigned long long)reader->line, what, text);
}

/* A number, all of the text; base 0 takes 0x. */
static bool parse(const char *text, int base, uint64_t *number_p)
{
    char *end;

    if (!isdigit((unsigned char)text[0])) {
        return false;
    }
    errno     = 0;
    *number_p = strtoull(text, &end, base);
    return (errno == 0) && (*end == '\0');
}

/* printf() has several ways to print a pointer; all are hexadecimal. */
static bool parse_pointer(const char *text, uint64_t *pointer_p)
{
    if ((strcmp(text, "(nil)") == 0) || (strcmp(text, "nullptr") == 0)) {
        *pointer_p = 0;
        return true;
    }
    if (!isxdigit((unsigned char)text[0])) {
        return false;
    }
    if ((text[0] == '0') && ((text[1] == 'x') || (text[1] == 'X'))) {
        text += 2;
    }
    return isxdigit((unsigned char)text[0]) &&
           (strspn(text, "0123456789abcdefABCDEF") == strlen(text)) &&
           (strlen(text) <= 16) &&
           (sscanf(text, "%llx", (unsigned long long *)pointer_p) == 1);
}

static char *trim(char *text)
{
    char *end;

    while ((*text == ' ') || (*text == '\t')) {
        text++;
    }
    end = text + strlen(text);
    while ((end > text) && isspace((unsigned char)end[-1])) {
        *--end = '\0';
    }
    return text;
}

static int split(const reader_t *reader, char *line, char *fields[NUM_FIELDS])
{
    char    *rest = line;
    unsigned num  = 0;

    while (rest != NULL) {
        char *field = strsep(&rest, ",");

        if (num < NUM_FIELDS) {
            fields[num] = trim(field);
        }
        num++;
    }
    if (num != NUM_FIELDS) {
        return replay_error("%s:%llu: %u fields, where there are %u in "
                            "\"" HEADER "\"",
                            reader->name, (unsigned long long)reader->line, num,
                            NUM_FIELDS);
    }
    return 0;
}

static int understand(const reader_t *reader, char *fields[NUM_FIELDS],
                      call_t *call)
{
    call->action = fields[FIELD_ACTION];
    if (!parse(fields[FIELD_THREAD], 10, &call->thread_name)) {
        return say_error(reader, "this thread is no number",
                         fields[FIELD_THREAD]);
    }
    if (!parse_pointer(fields[FIELD_STREAM], &call->stream_name)) {
        return say_error(reader, "this stream is neither 0 nor an address",
                         fields[FIELD_STREAM]);
    }
    if (!parse_pointer(fields[FIELD_POINTER], &call->pointer)) {
        return say_error(reader, "this pointer is no address",
                         fields[FIELD_POINTER]);
    }
    if (!parse(fields[FIELD_SIZE], 10, &call->size)) {
        return say_error(reader, "this size is no number of bytes",
                         fields[FIELD_SIZE]);
    }
    return 0;
}

/* Threads and streams of which nothing is played do not count. */
static int number(reader_t *reader, call_t *call)
{
    int thread = trace_thread(reader->trace, call->thread_name);
    int stream = trace_stream(reader->trace, call->stream_name);

    if ((thread < 0) || (stream < 0)) {
        return say_error(reader, "more than can be played",
                         thread < 0 ? "threads" : "streams");
    }
    call->thread = (unsigned)thread;
    call->stream = (unsigned)stream;
    return 0;
}

static void count(uint64_t *num, uint64_t *first_line, const reader_t *reader)
{
    if ((*num)++ == 0) {
        *first_line = reader->line;
    }
}

static int add_alloc(reader_t *reader, call_t *call)
{
    trace_remarks_t *remarks = &reader->trace->remarks;
    uint32_t         earlier, allocation;

    if (call->size == 0) {
        count(&remarks->num_empty, &remarks->empty_line, reader);
        return 0;
    }
    if (call->pointer == 0) {
        return replay_error("%s:%llu: an allocation without an address: a "
                            "failed one is an \"allocate failure\"",
                            reader->name, (unsigned long long)reader->line);
    }
    if (number(reader, call) != 0) {
        return -1;
    }
    if (owners_find(&reader->owners, call->pointer, &earlier)) {
        count(&remarks->num_twice, &remarks->twice_line, reader);
        owners_remove(&reader->owners, call->pointer);
        if (trace_free(reader->trace, call->thread, call->stream, earlier) !=
            0) {
            return -1;
        }
    }
    return (trace_alloc(reader->trace, call->thread, call->stream, call->size,
                        &allocation) != 0)
               ? -1
               : owners_add(&reader->owners, call->pointer, allocation);
}

static int add_free(reader_t *reader, call_t *call)
{
    trace_remarks_t *remarks = &reader->trace->remarks;
    uint32_t         allocation;

    if ((call->pointer == 0) && (call->size == 0)) {
        count(&remarks->num_empty, &remarks->empty_line, reader);
        return 0;
    }
    if ((call->pointer == 0) ||
        !owners_find(&reader->owners, call->pointer, &allocation)) {
        count(&remarks->num_unknown, &remarks->unknown_line, reader);
        return 0;
    }
    if (reader->trace->sizes[allocation] != call->size) {
        count(&remarks->num_other_sizes, &remarks->other_size_line, reader);
    }
    owners_remove(&reader->owners, call->pointer);
    if (number(reader, call) != 0) {
        return -1;
    }
    return trace_free(reader->trace, call->thread, call->stream, allocation);
}

static int read_line(reader_t *reader, char *line)
{
    char  *fields[NUM_FIELDS];
    call_t call;

    line = trim(line);
    if ((*line == '\0') || (strcmp(line, HEADER) == 0)) {
        return 0;
    }
    if ((split(reader, line, fields) != 0) ||
        (understand(reader, fields, &call) != 0)) {
        return -1;
    }
    if (strcmp(call.action, "allocate") == 0) {
        return add_alloc(reader, &call);
    }
    if (strcmp(call.action, "free") == 0) {
        return add_free(reader, &call);
    }
    if (strcmp(call.action, "allocate failure") == 0) {
        reader->trace->remarks.num_failures++;
        return 0;
    }
    return say_error(reader,
                     "this action is not allocate, free or allocate failure",
                     call.action);
}

static int read_lines(reader_t *reader, FILE *stream)
{
    char  *line = NULL;
    size_t room = 0;
    int    code = 0;

    while ((code == 0) && (getline(&line, &room, stream) >= 0)) {
        reader->line++;
        code = read_line(reader, line);
    }
    free(line);
    if ((code == 0) && ferror(stream)) {
        code = replay_error("%s: %s", reader->name, strerror(errno));
    }
    if ((code == 0) && (reader->trace->num_allocations == 0)) {
        code = replay_error("%s: nothing is allocated in it", reader->name);
    }
    return code;
}

trace_t *log_read_stream(FILE *stream, const char *name)
{
    reader_t reader = {.name = name};
    int      code;

    reader.trace = trace_create(name);
    if (reader.trace == NULL) {
        return NULL;
    }
    code = read_lines(&reader, stream);
    owners_cleanup(&reader.owners);
    if (code != 0) {
        trace_destroy(reader.trace);
        return NULL;
    }
    trace_survey(reader.trace);
    return reader.trace;
}

trace_t *log_read(const char *path)
{
    FILE    *stream;
    trace_t *trace;

    if (strcmp(path, "-") == 0) {
        return log_read_stream(stdin, "standard input");
    }
    stream = fopen(path, "r");
    if (stream == NULL) {
        replay_error("%s: %s", path, strerror(errno));
        return NULL;
    }
    trace = log_read_stream(stream, path);
    fclose(stream);
    return trace;
}
