#include "replay/error.h"
#include "replay/log.h"

#include <stdlib.h>

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
        const trace_event_t *event  = &trace->events[i];
        uint64_t             name   = trace->streams[event->stream];
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

int log_write(const trace_t *trace, FILE *stream)
{
    uint64_t *addresses = lay_out(trace);

    if (addresses == NULL) {
        return replay_error("out of memory");
    }
    write_events(trace, addresses, stream);
    free(addresses);
    return 0;
}
