/*
 * Logs of allocations, as RMM's logging adaptor and UCXPOOL_HEAP_LOG write
 * them:
 *
 *     Thread,Time,Action,Pointer,Size,Stream
 *     4711,10:15:30.123456,allocate,0x7f3c40000000,1048576,0x55d0c0
 *     4711,10:15:30.123460,free,0x7f3c40000000,1048576,0x55d0c0
 *     4711,10:15:30.123470,allocate failure,(nil),99999999999,0x55d0c0
 */
#ifndef REPLAY_LOG_H
#define REPLAY_LOG_H

#include "replay/trace.h"

#include <stdio.h>

/*
 * Read a log. Returns the trace, or NULL after having said which line of which
 * file is wrong.
 *
 * The first line may be the header, and so may later ones, where logs were put
 * together. What does not fit is left out, and told in trace->remarks.
 *
 * path  "-": the standard input.
 */
trace_t *log_read(const char *path);

/* The same for a stream that is open; `name` is for messages. */
trace_t *log_read_stream(FILE *stream, const char *name);

/* Write a trace as a log, with addresses that are used once. Returns 0; or -1
 * without memory for that. Whether the stream took it is for the caller to
 * see. */
int log_write(const trace_t *trace, FILE *stream);

#endif
