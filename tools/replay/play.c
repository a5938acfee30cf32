#include <config.h>

#include "replay/measure.h"
#include "common/error.h"
#include "common/system.h"

#include <stdlib.h>

#define NUM_SAMPLES 2048

typedef struct round {
    const play_t  *play;
    play_mode_t    mode;
    void         **addresses; /* address of each allocation; NULL: not live */
    play_result_t *result;
} round_t;

/* Returns the time if the call is timed, otherwise 0. */
static uint64_t call_begin(const round_t *round, size_t event)
{
    return (round->mode == PLAY_TIMED) &&
                   (event >= round->play->trace->first_timed)
               ? clock_now()
               : 0;
}

static void call_end(uint64_t begin, samples_t *samples)
{
    if (begin != 0) {
        samples_add(samples, (double)(clock_now() - begin));
    }
}

/* Returns -1 if the round must end. */
static int play_alloc(round_t *round, size_t index)
{
    const play_t        *play    = round->play;
    const trace_event_t *event   = &play->trace->events[index];
    allocator_t         *to      = play->allocator;
    void                *stream  = play->device->streams[event->stream];
    uint64_t             size    = play->trace->sizes[event->allocation];
    void                *address = NULL;
    uint64_t             begin   = call_begin(round, index);
    allocator_answer_t   answer  = to->kind->alloc(to, size, stream, &address);

    call_end(begin, &round->result->allocs);
    if (answer == ALLOCATOR_OK) {
        round->addresses[event->allocation] = address;
        return 0;
    }
    if (answer == ALLOCATOR_FULL) {
        round->result->num_failures++;
    }
    return (answer == ALLOCATOR_FULL) && (round->mode != PLAY_STRICT) ? 0 : -1;
}

/* Free an allocation, unless it failed. Returns -1 if the round must end. */
static int play_free(round_t *round, size_t index)
{
    const play_t        *play    = round->play;
    const trace_event_t *event   = &play->trace->events[index];
    allocator_t         *to      = play->allocator;
    void                *stream  = play->device->streams[event->stream];
    uint64_t             size    = play->trace->sizes[event->allocation];
    void                *address = round->addresses[event->allocation];
    allocator_answer_t   answer;
    uint64_t             begin;

    if (address == NULL) {
        return 0;
    }
    round->addresses[event->allocation] = NULL;

    begin  = call_begin(round, index);
    answer = to->kind->free(to, address, size, stream);
    call_end(begin, &round->result->frees);
    return answer == ALLOCATOR_OK ? 0 : -1;
}

/* Sample the held bytes at evenly spaced events, and at the peak. */
static void sample(round_t *round, size_t event)
{
    const trace_t *trace = round->play->trace;
    allocator_t   *from  = round->play->allocator;
    uint64_t       reserved;

    if ((event % (trace->num_events / NUM_SAMPLES + 1) == 0) ||
        (event == trace->peak_event)) {
        reserved = from->kind->reserved(from);
        if (reserved > round->result->peak_reserved) {
            round->result->peak_reserved = reserved;
        }
    }
}

static int play_events(round_t *round)
{
    const trace_t *trace = round->play->trace;
    uint64_t       start = clock_now();

    for (size_t i = 0; i < trace->num_events; i++) {
        if (i == trace->first_timed) {
            start = clock_now();
        }
        if ((trace->events[i].is_free ? play_free(round, i)
                                      : play_alloc(round, i)) != 0) {
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
    const play_t *play   = round->play;
    allocator_t  *to     = play->allocator;
    void         *stream = play->device->streams[0];

    for (size_t i = 0; i < play->trace->num_allocations; i++) {
        void *address = round->addresses[i];

        if ((address != NULL) &&
            (to->kind->free(to, address, play->trace->sizes[i], stream) !=
             ALLOCATOR_OK)) {
            return -1;
        }
    }
    return device_settle(play->device);
}

int play_round(const play_t *play, play_mode_t mode, play_result_t *result_p)
{
    round_t round = {
        .play      = play,
        .mode      = mode,
        .addresses = tool_calloc(play->trace->num_allocations, sizeof(void *)),
        .result    = result_p,
    };
    int code = play_events(&round);

    /* A failed allocation is a result of PLAY_STRICT, not an error. */
    if ((mode == PLAY_STRICT) && (result_p->num_failures > 0)) {
        code = 0;
    }
    if (code == 0) {
        code = free_left(&round);
    }
    free(round.addresses);
    return code;
}
