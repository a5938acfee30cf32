/*
 * Makes a trace in one thread and one stream, and knows what is live, so that
 * one of it can be freed.
 */
#ifndef REPLAY_MAKER_H
#define REPLAY_MAKER_H

#include "replay/trace.h"

typedef struct maker {
    trace_t  *trace;
    unsigned  thread;
    unsigned  stream;
    uint32_t *live; /* allocations, in no order */
    size_t    num_live;
    size_t    room;
    uint64_t  live_bytes;
    bool      has_failed; /* no memory; all further calls do nothing */
} maker_t;

/* For the log's thread and stream of these names. */
void maker_init(maker_t *maker, trace_t *trace, uint64_t thread,
                uint64_t stream);

void maker_alloc(maker_t *maker, uint64_t size);

/* Free the allocation at an index of live[]; the last one takes its place. */
void maker_free(maker_t *maker, size_t index);

/* 0, or -1 when something had failed. */
int maker_cleanup(maker_t *maker);

#endif
