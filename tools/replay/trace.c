#include "replay/trace.h"
#include "replay/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

trace_t *trace_create(const char *name)
{
    trace_t *trace = calloc(1, sizeof(*trace));

    if (trace == NULL) {
        replay_error("out of memory");
        return NULL;
    }
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

/* Names are few, and the next one is mostly the last one. */
static int find_name(uint64_t *names, unsigned *num, unsigned max,
                     uint64_t name)
{
    for (unsigned i = 0; i < *num; i++) {
        if (names[i] == name) {
            return (int)i;
        }
    }
    if (*num == max) {
        return -1;
    }
    names[*num] = name;
    return (int)(*num)++;
}

int trace_thread(trace_t *trace, uint64_t name)
{
    return find_name(trace->threads, &trace->num_threads, TRACE_MAX_THREADS,
                     name);
}

int trace_stream(trace_t *trace, uint64_t name)
{
    return find_name(trace->streams, &trace->num_streams, TRACE_MAX_STREAMS,
                     name);
}

/* Room for one more element. */
static int grow(void *array_p, size_t num, size_t *room, size_t element_size)
{
    size_t larger = *room == 0 ? 1024 : 2 * *room;
    void  *array;

    if (num < *room) {
        return 0;
    }
    memcpy(&array, array_p, sizeof(array));
    array = realloc(array, larger * element_size);
    if (array == NULL) {
        return replay_error("out of memory for a trace of %zu calls", larger);
    }
    memcpy(array_p, &array, sizeof(array));
    *room = larger;
    return 0;
}

static int add_event(trace_t *trace, trace_event_t event)
{
    if (grow(&trace->events, trace->num_events, &trace->event_room,
             sizeof(*trace->events)) != 0) {
        return -1;
    }
    trace->events[trace->num_events++] = event;
    return 0;
}

int trace_alloc(trace_t *trace, unsigned thread, unsigned stream, uint64_t size,
                uint32_t *allocation_p)
{
    trace_event_t event = {.thread = (uint16_t)thread,
                           .stream = (uint16_t)stream};

    if (trace->num_allocations == TRACE_MAX_ALLOCATIONS) {
        return replay_error("a trace has %zu allocations at most",
                            TRACE_MAX_ALLOCATIONS);
    }
    event.allocation = trace->num_allocations & 0x7fffffff;
    if ((grow(&trace->sizes, trace->num_allocations, &trace->size_room,
              sizeof(*trace->sizes)) != 0) ||
        (add_event(trace, event) != 0)) {
        return -1;
    }
    trace->sizes[trace->num_allocations++] = size;
    *allocation_p                          = event.allocation;
    return 0;
}

int trace_free(trace_t *trace, unsigned thread, unsigned stream,
               uint32_t allocation)
{
    return add_event(trace,
                     (trace_event_t){.allocation = allocation & 0x7fffffff,
                                     .is_free    = 1,
                                     .thread     = (uint16_t)thread,
                                     .stream     = (uint16_t)stream});
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
