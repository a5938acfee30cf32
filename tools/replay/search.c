#include "replay/search.h"
#include "replay/play.h"
#include "replay/progress.h"

#include <string.h>

/* A capacity is not tried beyond so many times the peak, */
#define MAX_RATIO 16

/* nor beyond so much of what is free. */
#define MEMORY_PERCENT 75

typedef struct attempt {
    const trace_t          *trace;
    device_t               *device;
    const allocator_kind_t *kind;
    double                  percent;
    search_t               *search;
} attempt_t;

/* The capacity of a step, in whole pages. */
static uint64_t capacity_of(const attempt_t *attempt, uint64_t step)
{
    double bytes = (double)attempt->trace->peak_live *
                   (1 + attempt->percent / 100 * (double)step);

    return ((uint64_t)bytes + ALLOCATOR_UNIT - 1) / ALLOCATOR_UNIT *
           ALLOCATOR_UNIT;
}

static int try_step(const attempt_t *attempt, uint64_t step, bool *passes_p)
{
    play_t        play   = {.trace = attempt->trace, .device = attempt->device};
    play_result_t result = {0};
    int           code;

    if (attempt->kind->create(attempt->kind, attempt->device,
                              capacity_of(attempt, step),
                              &play.allocator) != 0) {
        return -1;
    }
    attempt->search->num_trials++;
    progress_say("%s: capacity %.3f of the peak, trial %u", attempt->kind->name,
                 (double)capacity_of(attempt, step) /
                     (double)attempt->trace->peak_live,
                 (unsigned)attempt->search->num_trials);
    code      = play_round(&play, PLAY_STRICT, NULL, &result);
    *passes_p = result.num_failures == 0;
    attempt->kind->destroy(play.allocator);
    return code;
}

/* Steps that may be tried. */
static int find_last(const attempt_t *attempt, uint64_t *last_p)
{
    uint64_t bytes;

    *last_p = (uint64_t)((MAX_RATIO - 1) * 100 / attempt->percent);
    if (attempt->kind->is_simulated) {
        return 0;
    }
    if (device_free_bytes(attempt->device, &bytes) != 0) {
        return -1;
    }
    bytes = bytes / 100 * MEMORY_PERCENT;
    while ((*last_p > 0) && (capacity_of(attempt, *last_p) > bytes)) {
        *last_p -= *last_p > 64 ? *last_p / 64 : 1;
    }
    return 0;
}

/* The first step of 0, 1, 2, 4, ... that passes; failed_p: the one before. */
static int gallop(const attempt_t *attempt, uint64_t last, int64_t *failed_p,
                  uint64_t *passed_p)
{
    bool passes = false;
    bool is_end = false;

    *failed_p = -1;
    *passed_p = 0;
    while (!is_end) {
        if (try_step(attempt, *passed_p, &passes) != 0) {
            return -1;
        }
        is_end = passes || (*passed_p == last);
        if (!is_end) {
            *failed_p = (int64_t)*passed_p;
            *passed_p = *passed_p == 0 ? 1 : 2 * *passed_p;
            *passed_p = *passed_p < last ? *passed_p : last;
        }
    }
    attempt->search->has_found = passes;
    return 0;
}

int search_run(const trace_t *trace, device_t *device,
               const allocator_kind_t *kind, double percent, search_t *search_p)
{
    attempt_t attempt = {trace, device, kind, percent, search_p};
    uint64_t  last, passed, middle;
    int64_t   failed;
    bool      passes;

    memset(search_p, 0, sizeof(*search_p));
    search_p->was_made = true;
    if ((find_last(&attempt, &last) != 0) ||
        (gallop(&attempt, last, &failed, &passed) != 0)) {
        return -1;
    }
    while (search_p->has_found && ((int64_t)passed - failed > 1)) {
        middle = (uint64_t)((int64_t)passed + failed) / 2;
        if (try_step(&attempt, middle, &passes) != 0) {
            return -1;
        }
        if (passes) {
            passed = middle;
        } else {
            failed = (int64_t)middle;
        }
    }
    search_p->capacity = capacity_of(&attempt, passed);
    return 0;
}
