#include <config.h>

#include "replay/trace.h"
#include "common/error.h"

#include <ctype.h>
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define HEADER     "Thread,Time,Action,Pointer,Size,Stream"
#define NUM_FIELDS 6

trace_t *trace_create(const char *name)
{
    trace_t *trace = tool_calloc(1, sizeof(*trace));

    snprintf(trace->name, sizeof(trace->name), "%s", name);
    trace->divisor = 1;
    return trace;
}

void trace_destroy(trace_t *trace)
{
    if (trace != NULL) {
        free(trace->events);
        free(trace->sizes);
        free(trace);
    }
}

/* A linear search is enough: there are few streams, and most calls have the
 * same stream as the previous call. */
int trace_stream(trace_t *trace, uint64_t name)
{
    for (unsigned i = 0; i < trace->num_streams; i++) {
        if (trace->streams[i] == name) {
            return (int)i;
        }
    }
    if (trace->num_streams == TRACE_MAX_STREAMS) {
        return -1;
    }
    trace->streams[trace->num_streams] = name;
    return (int)trace->num_streams++;
}

static void add_event(trace_t *trace, unsigned stream, uint32_t allocation,
                      bool is_free)
{
    trace->events =
        tool_grow(trace->events, trace->num_events, sizeof(*trace->events));
    trace->events[trace->num_events++] =
        (trace_event_t){.allocation = allocation & (TRACE_MAX_ALLOCATIONS - 1),
                        .is_free    = is_free,
                        .stream     = (uint16_t)stream};
}

uint32_t trace_alloc(trace_t *trace, unsigned stream, uint64_t size)
{
    uint32_t allocation = (uint32_t)trace->num_allocations;

    if (trace->num_allocations == TRACE_MAX_ALLOCATIONS) {
        tool_error("a log may have at most %zu allocations",
                   TRACE_MAX_ALLOCATIONS);
        exit(1);
    }
    trace->sizes =
        tool_grow(trace->sizes, trace->num_allocations, sizeof(*trace->sizes));
    trace->sizes[trace->num_allocations++] = size;
    add_event(trace, stream, allocation, false);
    return allocation;
}

void trace_free(trace_t *trace, unsigned stream, uint32_t allocation)
{
    add_event(trace, stream, allocation, true);
}

static uint64_t divide_up(uint64_t size, unsigned divisor)
{
    return size / divisor + (size % divisor != 0);
}

void trace_scale(trace_t *trace, unsigned divisor)
{
    for (size_t i = 0; i < trace->num_allocations; i++) {
        trace->sizes[i] = divide_up(trace->sizes[i], divisor);
    }
    trace->capacity = divide_up(trace->capacity, divisor);
    trace->divisor *= divisor;
}

void trace_survey(trace_t *trace)
{
    uint64_t live = 0;
    size_t   num  = 0;

    trace->peak_live  = 0;
    trace->peak_num   = 0;
    trace->peak_event = 0;
    for (size_t i = 0; i < trace->num_events; i++) {
        const trace_event_t *event = &trace->events[i];

        if (event->is_free) {
            live -= trace->sizes[event->allocation];
            num--;
        } else {
            live += trace->sizes[event->allocation];
            num++;
        }
        if (live > trace->peak_live) {
            trace->peak_live  = live;
            trace->peak_num   = num;
            trace->peak_event = i;
        }
    }
    trace->num_left = num;
}

/* --- live allocations by address, of a log that is read: a tree ----------- */

typedef struct owner {
    uint64_t address;
    uint32_t allocation;
} owner_t;

static int compare_owners(const void *a, const void *b)
{
    uint64_t x = ((const owner_t *)a)->address;
    uint64_t y = ((const owner_t *)b)->address;

    return (x > y) - (x < y);
}

static void owners_add(void **owners, uint64_t address, uint32_t allocation)
{
    owner_t *owner = tool_calloc(1, sizeof(*owner));

    *owner = (owner_t){address, allocation};
    if (tsearch(owner, owners, compare_owners) == NULL) {
        tool_error("out of memory for the live allocations of the log");
        exit(1);
    }
}

/* Remove the owner of an address. Returns false if the address has no owner. */
static bool owners_take(void **owners, uint64_t address, uint32_t *allocation_p)
{
    owner_t   key   = {.address = address};
    owner_t **found = tfind(&key, owners, compare_owners);
    owner_t  *owner;

    if (found == NULL) {
        return false;
    }
    owner         = *found;
    *allocation_p = owner->allocation;
    tdelete(owner, owners, compare_owners);
    free(owner);
    return true;
}

/* --- reading a log ------------------------------------------------------- */

enum {
    FIELD_THREAD,
    FIELD_TIME,
    FIELD_ACTION,
    FIELD_POINTER,
    FIELD_SIZE,
    FIELD_STREAM
};

/* One parsed line. */
typedef struct call {
    const char *action;
    uint64_t    stream_name;
    uint64_t    pointer; /* 0: none */
    uint64_t    size;
    unsigned    stream; /* number in the trace */
} call_t;

typedef struct reader {
    const char *name;
    uint64_t    line;
    trace_t    *trace;
    void       *owners; /* the tree */
} reader_t;

static int line_error(const reader_t *reader, const char *what,
                      const char *text)
{
    return tool_error("%s:%llu: %s: %.60s", reader->name,
                      (unsigned long long)reader->line, what, text);
}

/* Parse a number, which must be the whole text. With base 16 it may begin with
 * 0x. */
static bool parse(const char *text, int base, uint64_t *number_p)
{
    char *end;

    if (!isxdigit((unsigned char)text[0])) {
        return false;
    }
    errno     = 0;
    *number_p = strtoull(text, &end, base);
    return (errno == 0) && (*end == '\0');
}

/* Parse a pointer. Implementations of printf() differ in how they print one,
 * but all use hexadecimal. */
static bool parse_pointer(const char *text, uint64_t *pointer_p)
{
    if ((strcmp(text, "(nil)") == 0) || (strcmp(text, "nullptr") == 0)) {
        *pointer_p = 0;
        return true;
    }
    return parse(text, 16, pointer_p);
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
        return tool_error(
            "%s:%llu: %u fields instead of the %u in \"" HEADER "\"",
            reader->name, (unsigned long long)reader->line, num, NUM_FIELDS);
    }
    return 0;
}

static int parse_fields(const reader_t *reader, char *fields[NUM_FIELDS],
                        call_t *call)
{
    uint64_t thread;

    call->action = fields[FIELD_ACTION];
    if (!parse(fields[FIELD_THREAD], 10, &thread)) {
        return line_error(reader, "the thread is not a number",
                          fields[FIELD_THREAD]);
    }
    if (!parse_pointer(fields[FIELD_STREAM], &call->stream_name)) {
        return line_error(reader, "the stream is neither 0 nor an address",
                          fields[FIELD_STREAM]);
    }
    if (!parse_pointer(fields[FIELD_POINTER], &call->pointer)) {
        return line_error(reader, "the pointer is not an address",
                          fields[FIELD_POINTER]);
    }
    if (!parse(fields[FIELD_SIZE], 10, &call->size)) {
        return line_error(reader, "the size is not a number of bytes",
                          fields[FIELD_SIZE]);
    }
    return 0;
}

/* Number the stream of a call. Only streams with played calls have numbers. */
static int number(reader_t *reader, call_t *call)
{
    int stream = trace_stream(reader->trace, call->stream_name);

    if (stream < 0) {
        return line_error(reader, "there are too many of these", "streams");
    }
    call->stream = (unsigned)stream;
    return 0;
}

static void count(const reader_t *reader, trace_remark_kind_t kind)
{
    trace_remark_t *remark = &reader->trace->remarks[kind];

    if (remark->num++ == 0) {
        remark->line = reader->line;
    }
}

static int add_alloc(reader_t *reader, call_t *call)
{
    uint32_t earlier;

    if (call->size == 0) {
        count(reader, TRACE_EMPTY);
        return 0;
    }
    if (call->pointer == 0) {
        return tool_error("%s:%llu: an allocation has no address: write a "
                          "failed one as \"allocate failure\"",
                          reader->name, (unsigned long long)reader->line);
    }
    if (number(reader, call) != 0) {
        return -1;
    }
    if (owners_take(&reader->owners, call->pointer, &earlier)) {
        count(reader, TRACE_TWICE);
        trace_free(reader->trace, call->stream, earlier);
    }
    owners_add(&reader->owners, call->pointer,
               trace_alloc(reader->trace, call->stream, call->size));
    return 0;
}

static int add_free(reader_t *reader, call_t *call)
{
    uint32_t allocation;

    if ((call->pointer == 0) && (call->size == 0)) {
        count(reader, TRACE_EMPTY);
        return 0;
    }
    if ((call->pointer == 0) ||
        !owners_take(&reader->owners, call->pointer, &allocation)) {
        count(reader, TRACE_UNKNOWN);
        return 0;
    }
    if (reader->trace->sizes[allocation] != call->size) {
        count(reader, TRACE_OTHER_SIZE);
    }
    if (number(reader, call) != 0) {
        return -1;
    }
    trace_free(reader->trace, call->stream, allocation);
    return 0;
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
        (parse_fields(reader, fields, &call) != 0)) {
        return -1;
    }
    if (strcmp(call.action, "allocate") == 0) {
        return add_alloc(reader, &call);
    }
    if (strcmp(call.action, "free") == 0) {
        return add_free(reader, &call);
    }
    if (strcmp(call.action, "allocate failure") == 0) {
        count(reader, TRACE_FAILED);
        return 0;
    }
    return line_error(reader,
                      "the action is not allocate, free or allocate failure",
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
        code = tool_error("%s: %s", reader->name, strerror(errno));
    }
    if ((code == 0) && (reader->trace->num_allocations == 0)) {
        code = tool_error("%s: the log contains no allocation", reader->name);
    }
    return code;
}

trace_t *log_read_stream(FILE *stream, const char *name)
{
    reader_t reader = {.name = name, .trace = trace_create(name)};
    int      code   = read_lines(&reader, stream);

    tdestroy(reader.owners, free);
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
        tool_error("%s: %s", path, strerror(errno));
        return NULL;
    }
    trace = log_read_stream(stream, path);
    fclose(stream);
    return trace;
}
