/*
 * A trace is the list of calls that a program makes to an allocator. A trace is
 * read from a log, or generated (workload.h).
 *
 *     allocation   0  1  2  ...  in the order in which they begin
 *     event        allocate 0, allocate 1, free 0, allocate 2, ...
 *     stream       numbered in the order in which it first appears; the log's
 *                  own number is kept too
 *
 * Functions print errors and return -1 or NULL. Running out of memory ends the
 * program.
 */
#ifndef REPLAY_TRACE_H
#define REPLAY_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TRACE_MAX_ALLOCATIONS ((size_t)1 << 31)
#define TRACE_MAX_STREAMS     4096

/* One call. */
typedef struct trace_event {
    uint32_t allocation : 31;
    uint32_t is_free : 1;
    uint16_t stream;
} trace_event_t;

/* Unusual calls of a log. They are left out, except where a comment says
 * otherwise. */
typedef enum trace_remark_kind {
    TRACE_FAILED,     /* allocations that failed when the log was written */
    TRACE_UNKNOWN,    /* frees of memory allocated before the log began */
    TRACE_TWICE,      /* allocations at addresses that were in use; the first
                         owner's memory is freed then */
    TRACE_OTHER_SIZE, /* frees with another size; played anyway */
    TRACE_EMPTY,      /* calls for 0 bytes */
    TRACE_NUM_REMARKS
} trace_remark_kind_t;

typedef struct trace_remark {
    uint64_t num;
    uint64_t line; /* of the first such call */
} trace_remark_t;

typedef struct trace {
    char           name[128];
    trace_event_t *events;
    size_t         num_events;
    uint64_t      *sizes; /* size of each allocation in bytes */
    size_t         num_allocations;
    uint64_t       streams[TRACE_MAX_STREAMS]; /* 0 is the default stream */
    unsigned       num_streams;
    /* Events before this one prepare the rest, and are not timed. */
    size_t   first_timed;
    uint64_t capacity; /* intended capacity; 0: any */
    unsigned divisor;  /* sizes are divided by this; 1: unchanged */

    trace_remark_t remarks[TRACE_NUM_REMARKS];

    /* Found by trace_survey(). */
    uint64_t peak_live;  /* bytes requested */
    size_t   peak_num;   /* live allocations at the peak */
    size_t   peak_event; /* index of the event that reaches it */
    size_t   num_left;   /* allocations that are never freed */
} trace_t;

trace_t *trace_create(const char *name);
void     trace_destroy(trace_t *trace);

/* Returns the number of a stream, which is added if it is new, or -1 if there
 * are too many. */
int trace_stream(trace_t *trace, uint64_t name);

/* Add an event; trace_alloc() returns the number of the allocation. */
uint32_t trace_alloc(trace_t *trace, unsigned stream, uint64_t size);
void     trace_free(trace_t *trace, unsigned stream, uint32_t allocation);

/* Divide all sizes (and the capacity), rounding up. */
void trace_scale(trace_t *trace, unsigned divisor);

/* Compute the peaks of the events. */
void trace_survey(trace_t *trace);

/*
 * Logs of allocations, as RMM's logging adaptor and UCXPOOL_HEAP_LOG write
 * them:
 *
 *     Thread,Time,Action,Pointer,Size,Stream
 *     4711,10:15:30.123456,allocate,0x7f3c40000000,1048576,0x55d0c0
 *     4711,10:15:30.123460,free,0x7f3c40000000,1048576,0x55d0c0
 *     4711,10:15:30.123470,allocate failure,(nil),99999999999,0x55d0c0
 *
 * A file may contain several logs, each with or without a header. Calls that
 * cannot be played are left out and counted in trace->remarks. The path "-"
 * means standard input. `name` is the name of the log in errors.
 */
trace_t *log_read(const char *path);
trace_t *log_read_stream(FILE *stream, const char *name);

#endif
