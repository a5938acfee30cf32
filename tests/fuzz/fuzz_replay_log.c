/*
 * Fuzz target: a log of allocations. A parsed log can be played.
 */
#include "fuzz.h"

#include "replay/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static trace_t *read_bytes(const void *data, size_t size)
{
    FILE    *stream = fmemopen((void *)(size_t)data, size, "r");
    trace_t *trace;

    CHECK(stream != NULL);
    trace = log_read_stream(stream, "log");
    fclose(stream);
    return trace;
}

static void check(const trace_t *trace)
{
    bool    *is_live  = calloc(trace->num_allocations, sizeof(*is_live));
    size_t   num_live = 0;
    uint32_t next     = 0;

    CHECK(is_live != NULL);
    for (size_t i = 0; i < trace->num_events; i++) {
        const trace_event_t *event = &trace->events[i];

        CHECK(event->stream < trace->num_streams);
        if (event->is_free) {
            CHECK(is_live[event->allocation]);
            is_live[event->allocation] = false;
            num_live--;
        } else {
            CHECK(event->allocation == next);
            CHECK(trace->sizes[next] != 0);
            is_live[next++] = true;
            num_live++;
        }
    }
    CHECK(num_live == trace->num_left);
    free(is_live);
}

static char told[512];

const char *fuzz_told(void)
{
    return told;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    trace_t *trace;

    told[0] = '\0';
    if (size == 0) {
        return 0;
    }
    /* Its error messages are discarded. */
    CHECK(freopen("/dev/null", "w", stderr) != NULL);
    trace = read_bytes(data, size);
    snprintf(told, sizeof(told), "refused");
    if (trace != NULL) {
        snprintf(told, sizeof(told), "%zu events", trace->num_events);
        check(trace);
        trace_destroy(trace);
    }
    return 0;
}
