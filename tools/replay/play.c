#include <config.h>

#include "replay/measure.h"
#include "common/error.h"
#include "common/system.h"

#include <stdlib.h>

#define NUM_SAMPLES 2048

typedef struct round {
    const trace_t *trace;
    allocator_t   *allocator;
    play_mode_t    mode;
    void         **addresses; /* address of each allocation; NULL: not live */
    play_result_t *result;
} round_t;

/* Returns -1 if the round must end. */
static int play_event(round_t *round, size_t index)
{
    const trace_event_t *event   = &round->trace->events[index];
    allocator_t         *to      = round->allocator;
    void                *stream  = to->device->streams[event->stream];
    uint64_t             size    = round->trace->sizes[event->allocation];
    void               **address = &round->addresses[event->allocation];
    bool                 is_timed =
        (round->mode == PLAY_TIMED) && (index >= round->trace->first_timed);
    allocator_answer_t answer;
    uint64_t           begin;

    if (event->is_free && (*address == NULL)) {
        return 0; /* the allocation failed */
    }
    begin  = is_timed ? clock_now() : 0;
    answer = event->is_free ? to->kind->free(to, *address, size, stream)
                            : to->kind->alloc(to, size, stream, address);
    if (is_timed) {
        samples_add(event->is_free ? &round->result->frees
                                   : &round->result->allocs,
                    (double)(clock_now() - begin));
    }
    if (event->is_free || (answer != ALLOCATOR_OK)) {
        *address = NULL;
    }
    if (!event->is_free && (answer == ALLOCATOR_FULL)) {
        round->result->num_failures++;
        return 0;
    }
    return answer == ALLOCATOR_OK ? 0 : -1;
}

/* Sample the held bytes at evenly spaced events, and at the peak. */
static void sample(round_t *round, size_t event)
{
    const trace_t *trace = round->trace;
    allocator_t   *from  = round->allocator;
    uint64_t       reserved;

    if ((from->kind->reserved != NULL) &&
        ((event % (trace->num_events / NUM_SAMPLES + 1) == 0) ||
         (event == trace->peak_event))) {
        reserved = from->kind->reserved(from);
        if (reserved > round->result->peak_reserved) {
            round->result->peak_reserved = reserved;
        }
    }
}

static int play_events(round_t *round)
{
    const trace_t *trace = round->trace;
    uint64_t       start = clock_now();

    for (size_t i = 0; i < trace->num_events; i++) {
        if (i == trace->first_timed) {
            start = clock_now();
        }
        if (play_event(round, i) != 0) {
            return -1;
        }
        if (round->mode == PLAY_SAMPLED) {
            sample(round, i);
        }
    }
    round->result->ns = clock_now() - start;
    return 0;
}

static int free_left(const round_t *round)
{
    const trace_t *trace  = round->trace;
    allocator_t   *to     = round->allocator;
    void          *stream = to->device->streams[0];

    for (size_t i = 0; i < trace->num_allocations; i++) {
        void *address = round->addresses[i];

        if ((address != NULL) && (to->kind->free(to, address, trace->sizes[i],
                                                 stream) != ALLOCATOR_OK)) {
            return -1;
        }
    }
    return device_settle(to->device);
}

int play_round(const trace_t *trace, allocator_t *allocator, play_mode_t mode,
               play_result_t *result_p)
{
    round_t round = {
        .trace     = trace,
        .allocator = allocator,
        .mode      = mode,
        .addresses = tool_calloc(trace->num_allocations, sizeof(void *)),
        .result    = result_p,
    };
    int code = play_events(&round);

    if (code == 0) {
        code = free_left(&round);
    }
    free(round.addresses);
    return code;
}
