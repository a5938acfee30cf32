#include "replay/error.h"
#include "replay/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Addresses begin behind NULL, and are multiples of this. */
#define ALIGNMENT UINT64_C(256)

/* The address of each allocation: side by side, none twice. NULL: no memory. */
static uint64_t *lay_out(const trace_t *trace)
{
    uint64_t *addresses = calloc(trace->num_allocations, sizeof(*addresses));
    uint64_t  next      = ALIGNMENT;

    for (size_t i = 0; (addresses != NULL) && (i < trace->num_allocations);
         i++) {
        addresses[i] = next;
        next += (trace->sizes[i] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return addresses;
}

static void write_events(const trace_t *trace, const uint64_t *addresses,
                         FILE *stream)
{
    fprintf(stream, "Thread,Time,Action,Pointer,Size,Stream\n");
    for (size_t i = 0; i < trace->num_events; i++) {
        const trace_event_t *event = &trace->events[i];
        uint64_t             name  = trace->streams[event->stream];
        unsigned long        second = (unsigned long)(i / 1000000);

        /* There was no clock: a call takes a microsecond. */
        fprintf(stream, "%llu,%02lu:%02lu:%02lu.%06lu,%s,0x%llx,%llu,%s%llx\n",
                (unsigned long long)trace->threads[event->thread],
                second / 3600 % 24, second / 60 % 60, second % 60,
                (unsigned long)(i % 1000000),
                event->is_free ? "free" : "allocate",
                (unsigned long long)addresses[event->allocation],
                (unsigned long long)trace->sizes[event->allocation],
                name == 0 ? "" : "0x", (unsigned long long)name);
    }
}

int log_write(const trace_t *trace, const char *path, FILE *output)
{
    bool      is_output = strcmp(path, "-") == 0;
    FILE     *stream    = is_output ? output : fopen(path, "w");
    uint64_t *addresses;
    bool      failed;

    if (stream == NULL) {
        return replay_error("%s: %s", path, strerror(errno));
    }
    addresses = lay_out(trace);
    if (addresses != NULL) {
        write_events(trace, addresses, stream);
    }
    failed = (fflush(stream) != 0) || ferror(stream);
    if (!is_output && (fclose(stream) != 0)) {
        failed = true;
    }
    if (addresses == NULL) {
        return replay_error("out of memory");
    }
    free(addresses);
    return failed ? replay_error("%s cannot be written: is the disk full?",
                                 is_output ? "the standard output" : path)
                  : 0;
}
