#include "replay/workload.h"
#include "common/number.h"
#include "replay/error.h"
#include "replay/workloads.h"

#include <string.h>

#define KIB (UINT64_C(1) << 10)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

/* A number that may stand behind a workload's name. */
typedef struct number {
    uint64_t min; /* 0: there is no such number */
    uint64_t max;
    uint64_t fallback; /* 0: it must be given */
} number_t;

typedef struct workload {
    const char     *name;
    const char     *usage;
    const char     *doc;
    workload_make_t make;
    number_t        numbers[WORKLOAD_MAX_NUMBERS];
} workload_t;

static const workload_t workloads[] = {
    {"rmm",
     "rmm:N,MIB",
     "RMM's benchmark random_allocations: N allocations of up to MIB MiB",
     workload_make_rmm,
     {{1, 10000000, 0}, {1, 65536, 0}}},
    {"trace1",
     "trace1",
     "3,000 sizes, uniform to 256 MiB, under 16 GiB live",
     workload_make_trace1,
     {{0, 0, 0}}},
    {"trace2",
     "trace2",
     "5,000 sizes, log-uniform from 256 B to 1 GiB, under 16 GiB",
     workload_make_trace2,
     {{0, 0, 0}}},
    {"trace3",
     "trace3",
     "600 sizes, uniform to 2 GiB, under 24 GiB",
     workload_make_trace3,
     {{0, 0, 0}}},
    {"trace4",
     "trace4",
     "20,000 sizes, log-uniform from 256 B to 64 MiB, under 8 GiB",
     workload_make_trace4,
     {{0, 0, 0}}},
    {"checkerboard",
     "checkerboard:MIB[,TOTAL]",
     "fill TOTAL (8g) with pieces of MIB MiB, free every second one, ask for "
     "15/16 of what is free",
     workload_make_checkerboard,
     {{1, 65536, 0}, {1, 64 * TIB, 8 * GIB}}},
    {"pair",
     "pair:SIZE[,NUM]",
     "allocate and free SIZE, NUM times (100,000)",
     workload_make_pair,
     {{1, 64 * TIB, 0}, {1, 100000000, 100000}}},
    {"holes",
     "holes:SIZE[,NUM]",
     "the same where 65,536 holes of 1 KiB are free among live pieces",
     workload_make_holes,
     {{1, 64 * TIB, 0}, {1, 100000000, 10000}}},
    {"aba",
     "aba",
     "8 GiB: 1 GiB kept and 4 GiB freed, 1 GiB kept, the first again",
     workload_make_aba,
     {{0, 0, 0}}},
    {"threads",
     "threads:N[,NUM]",
     "N threads, each with a stream of its own and NUM (100,000) allocations "
     "of 1 KiB to 1 MiB, at most 16 live",
     workload_make_threads,
     {{1, 64, 0}, {1, 100000000, 100000}}},
};

#define NUM_WORKLOADS (sizeof(workloads) / sizeof(workloads[0]))

void workload_list(FILE *stream)
{
    for (size_t i = 0; i < NUM_WORKLOADS; i++) {
        fprintf(stream, "  %-25s %s\n", workloads[i].usage, workloads[i].doc);
    }
}

static const workload_t *find(const char *name, size_t length)
{
    for (size_t i = 0; i < NUM_WORKLOADS; i++) {
        if ((strlen(workloads[i].name) == length) &&
            (memcmp(workloads[i].name, name, length) == 0)) {
            return &workloads[i];
        }
    }
    return NULL;
}

/* The numbers behind the colon, or their defaults. */
static bool parse_numbers(const workload_t *workload, const char *text,
                          uint64_t *numbers)
{
    char  copy[128];
    char *rest = *text == '\0' ? NULL : copy;

    if (strlen(text) >= sizeof(copy)) {
        return false;
    }
    strcpy(copy, text);
    for (unsigned i = 0; i < WORKLOAD_MAX_NUMBERS; i++) {
        const number_t *number = &workload->numbers[i];
        const char     *word   = rest == NULL ? NULL : strsep(&rest, ",");

        numbers[i] = number->fallback;
        if (word != NULL) {
            if ((number->min == 0) ||
                (number_parse_size(word, number->max, &numbers[i]) != 0)) {
                return false;
            }
        }
        if (numbers[i] < number->min) {
            return false;
        }
    }
    return rest == NULL;
}

/* Numbers that are right alone may not be right together. */
static bool fits(const workload_t *workload, const uint64_t *numbers)
{
    return (strcmp(workload->name, "checkerboard") != 0) ||
           (numbers[0] * KIB * KIB * 2 <= numbers[1]);
}

trace_t *workload_make(const char *text, bool *is_wrong_p)
{
    size_t            length   = strcspn(text, ":");
    const workload_t *workload = find(text, length);
    uint64_t          numbers[WORKLOAD_MAX_NUMBERS];
    trace_t          *trace;

    *is_wrong_p = true;
    if (workload == NULL) {
        replay_error("%s: no such workload; --list names them", text);
        return NULL;
    }
    if (!parse_numbers(workload, text[length] == ':' ? text + length + 1 : "",
                       numbers) ||
        !fits(workload, numbers)) {
        replay_error("%s: a workload of that kind is %s; --list tells more",
                     text, workload->usage);
        return NULL;
    }
    *is_wrong_p = false;
    trace       = trace_create(text);
    if ((trace != NULL) && (workload->make(trace, numbers) != 0)) {
        trace_destroy(trace);
        trace = NULL;
    }
    if (trace != NULL) {
        trace_survey(trace);
    }
    return trace;
}
