#include "replay/workload.h"
#include "common/error.h"
#include "common/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

#define MAX_NUMBERS 2

/* --- random numbers ------------------------------------------------------ */

/* The state of a generator whose numbers are the same on every machine. Any
 * initial value is valid. */
typedef struct random64 {
    uint64_t state;
} random64_t;

static uint64_t random64_next(random64_t *random)
{
    uint64_t mixed = random->state += UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

/* Returns a number from 0 to bound - 1; bound is not 0. */
static uint64_t random64_below(random64_t *random, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)random64_next(random) * bound) >> 64);
}

/* Returns a number of at least 0 and less than 1. */
static double random64_fraction(random64_t *random)
{
    return (double)(random64_next(random) >> 11) * 0x1p-53;
}

/* Lehmer's generator, whose numbers are 1 to MODULUS - 1. */
#define MODULUS    UINT64_C(2147483647)
#define MULTIPLIER UINT64_C(16807)

/* One of NUM_VALUES, from 0. */
#define NUM_VALUES (MODULUS - 1)

static uint64_t minstd_next(minstd_t *minstd)
{
    minstd->state = (uint32_t)(minstd->state * MULTIPLIER % MODULUS);
    return minstd->state - 1;
}

/* Draw a number from 0 to span, which is less than NUM_VALUES - 1. Numbers that
 * would make the distribution uneven are drawn again. */
static uint64_t draw_few(minstd_t *minstd, uint64_t span)
{
    uint64_t scale = (NUM_VALUES - 1) / (span + 1);
    uint64_t past  = scale * (span + 1);
    uint64_t value;

    do {
        value = minstd_next(minstd);
    } while (value >= past);
    return value / scale;
}

/* Draw a number from 0 to a larger span, by combining several numbers. */
static uint64_t draw_many(minstd_t *minstd, uint64_t span)
{
    uint64_t high, value;

    do {
        high  = minstd_between(minstd, 0, span / NUM_VALUES) * NUM_VALUES;
        value = high + minstd_next(minstd);
    } while ((value > span) || (value < high));
    return value;
}

uint64_t minstd_between(minstd_t *minstd, uint64_t low, uint64_t high)
{
    uint64_t span = high - low;

    if (span < NUM_VALUES - 1) {
        return low + draw_few(minstd, span);
    }
    return low + (span == NUM_VALUES - 1 ? minstd_next(minstd)
                                         : draw_many(minstd, span));
}

/* --- a maker adds calls to a trace, in the default stream ----------------- */

typedef struct maker {
    trace_t  *trace;
    uint32_t *live; /* allocations, unordered */
    size_t    num_live;
    uint64_t  live_bytes;
} maker_t;

static void maker_alloc(maker_t *maker, uint64_t size)
{
    maker->live = tool_grow(maker->live, maker->num_live, sizeof(*maker->live));
    maker->live[maker->num_live++] = trace_alloc(maker->trace, 0, size);
    maker->live_bytes += size;
}

/* Free the allocation at an index of live[]. The last allocation moves to this
 * index. */
static void maker_free(maker_t *maker, size_t index)
{
    uint32_t allocation = maker->live[index];

    maker->live[index] = maker->live[--maker->num_live];
    maker->live_bytes -= maker->trace->sizes[allocation];
    trace_free(maker->trace, 0, allocation);
}

/* --- random sizes in random order ---------------------------------------- */

/* Constants of RMM's benchmark random_allocations, from its source. */
#define RMM_PERCENT   73
#define RMM_MAX_USAGE (16000 * MIB)

static void make_rmm(maker_t *maker, const uint64_t *numbers)
{
    uint64_t num_allocations = numbers[0];
    uint64_t max_size        = numbers[1] * MIB;
    minstd_t minstd          = {1};

    for (uint64_t i = 0; i < 2 * num_allocations; i++) {
        uint64_t size   = minstd_between(&minstd, 1, max_size);
        bool     allocs = true;

        if (maker->num_live > 0) {
            allocs = (minstd_between(&minstd, 0, 99) < RMM_PERCENT) &&
                     (maker->trace->num_allocations < num_allocations) &&
                     (maker->live_bytes + size < RMM_MAX_USAGE);
        }
        if (allocs) {
            maker_alloc(maker, size);
        } else {
            maker_free(maker, minstd_between(&minstd, 0, num_allocations - 1) %
                                  maker->num_live);
        }
    }
}

typedef struct plan {
    uint64_t seed;
    uint64_t num_allocations;
    uint64_t min_size;
    uint64_t max_size;
    bool     is_log_uniform;
    uint64_t max_live;
} plan_t;

static uint64_t draw_size(const plan_t *plan, random64_t *random)
{
    double low  = log2((double)plan->min_size);
    double high = log2((double)plan->max_size);

    if (plan->is_log_uniform) {
        return (uint64_t)exp2(low + (high - low) * random64_fraction(random));
    }
    return plan->min_size +
           random64_below(random, plan->max_size - plan->min_size + 1);
}

/* Allocate or free at random. If there is no room for more, also free a random
 * live allocation. At the end, free all remaining allocations. */
static void make_plan(maker_t *maker, const plan_t *plan)
{
    random64_t random = {plan->seed};

    while (maker->trace->num_allocations < plan->num_allocations) {
        uint64_t size   = draw_size(plan, &random);
        bool     allocs = random64_below(&random, 2) == 0;

        if ((maker->num_live == 0) ||
            (allocs && (maker->live_bytes + size < plan->max_live))) {
            maker_alloc(maker, size);
        } else {
            maker_free(maker, random64_below(&random, maker->num_live));
        }
    }
    while (maker->num_live > 0) {
        maker_free(maker, random64_below(&random, maker->num_live));
    }
}

/* --- workloads of one shape ---------------------------------------------- */

#define NUM_HOLES 65536
#define HOLE_SIZE KIB

/* Allocate and free, repeatedly. */
static void add_pairs(maker_t *maker, uint64_t size, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        maker_alloc(maker, size);
        maker_free(maker, maker->num_live - 1);
    }
}

static void make_pair(maker_t *maker, const uint64_t *numbers)
{
    add_pairs(maker, numbers[0], numbers[1]);
}

/* Allocate pieces, and free every second piece. The others stay live. */
static void add_holes(maker_t *maker, uint64_t num_pieces, uint64_t size)
{
    for (uint64_t i = 0; i < num_pieces; i++) {
        maker_alloc(maker, size);
    }
    /* Go from the last to the first, so that the piece that moves to the freed
     * index has already been visited. */
    for (uint64_t i = num_pieces - num_pieces % 2; i > 0; i -= 2) {
        maker_free(maker, i - 1);
    }
}

static void make_holes(maker_t *maker, const uint64_t *numbers)
{
    add_holes(maker, 2 * NUM_HOLES, HOLE_SIZE);
    maker->trace->first_timed = maker->trace->num_events;
    add_pairs(maker, numbers[0], numbers[1]);
}

static void make_checkerboard(maker_t *maker, const uint64_t *numbers)
{
    uint64_t size  = numbers[0] * MIB;
    uint64_t total = numbers[1];
    uint64_t num   = total / size;

    add_holes(maker, num, size);
    maker->trace->first_timed = maker->trace->num_events;
    maker_alloc(maker, (total - maker->live_bytes) / 16 * 15);
    maker->trace->capacity = total;
}

/* Run A, B and A again. A allocates 1 GiB that stays live, and 4 GiB that it
 * frees. B allocates 1 GiB that stays live. */
static void make_aba(maker_t *maker, const uint64_t *numbers)
{
    maker_alloc(maker, GIB);
    maker_alloc(maker, 4 * GIB);
    maker_free(maker, 1);
    maker_alloc(maker, GIB);
    maker_alloc(maker, GIB);
    maker_alloc(maker, 4 * GIB);
    maker_free(maker, 3);
    maker->trace->capacity = 8 * GIB;
}

/* --- their names --------------------------------------------------------- */

/* A number that may follow a workload's name. */
typedef struct number {
    uint64_t min; /* 0: no such number */
    uint64_t max;
    uint64_t fallback; /* 0: required */
} number_t;

typedef struct workload {
    const char *usage; /* the name, and after a colon its numbers */
    const char *doc;
    void (*make)(maker_t *maker, const uint64_t *numbers); /* NULL: the plan */
    number_t numbers[MAX_NUMBERS];
    plan_t   plan;
} workload_t;

/* clang-format off */
static const workload_t workloads[] = {
    {"rmm:N,MIB",
     "RMM's benchmark random_allocations: N allocations of up to MIB MiB",
     .make = make_rmm, .numbers = {{1, 10000000, 0}, {1, 65536, 0}}},
    {"trace1", "3,000 sizes, uniform to 256 MiB, under 16 GiB live",
     .plan = {1, 3000, 1, 256 * MIB, false, 16 * GIB}},
    {"trace2", "5,000 sizes, log-uniform from 256 B to 1 GiB, under 16 GiB",
     .plan = {2, 5000, 256, GIB, true, 16 * GIB}},
    {"trace3", "600 sizes, uniform to 2 GiB, under 24 GiB",
     .plan = {3, 600, 1, 2 * GIB, false, 24 * GIB}},
    {"trace4", "20,000 sizes, log-uniform from 256 B to 64 MiB, under 8 GiB",
     .plan = {4, 20000, 256, 64 * MIB, true, 8 * GIB}},
    {"checkerboard:MIB[,TOTAL]",
     "fill TOTAL (8g) with pieces of MIB MiB, free every second one, allocate "
     "15/16 of the free memory",
     .make    = make_checkerboard,
     .numbers = {{1, 65536, 0}, {1, 64 * TIB, 8 * GIB}}},
    {"pair:SIZE[,NUM]", "allocate and free SIZE, NUM times (100,000)",
     .make = make_pair, .numbers = {{1, 64 * TIB, 0}, {1, 100000000, 100000}}},
    {"holes:SIZE[,NUM]",
     "the same where 65,536 holes of 1 KiB are free among live pieces",
     .make = make_holes, .numbers = {{1, 64 * TIB, 0}, {1, 100000000, 10000}}},
    {"aba", "8 GiB: 1 GiB kept and 4 GiB freed, 1 GiB kept, the first again",
     .make = make_aba},
};
/* clang-format on */

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
        if ((strcspn(workloads[i].usage, ":") == length) &&
            (memcmp(workloads[i].usage, name, length) == 0)) {
            return &workloads[i];
        }
    }
    return NULL;
}

/* Parse the numbers after the colon, or use their defaults. */
static bool parse_numbers(const workload_t *workload, const char *text,
                          uint64_t *numbers)
{
    char  copy[128];
    char *rest = *text == '\0' ? NULL : copy;

    if (strlen(text) >= sizeof(copy)) {
        return false;
    }
    strcpy(copy, text);
    for (unsigned i = 0; i < MAX_NUMBERS; i++) {
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

/* Check numbers that are valid alone but may be invalid together. */
static bool fits(const workload_t *workload, const uint64_t *numbers)
{
    return (workload->make != make_checkerboard) ||
           (numbers[0] * KIB * KIB * 2 <= numbers[1]);
}

trace_t *workload_make(const char *text)
{
    size_t            length   = strcspn(text, ":");
    const workload_t *workload = find(text, length);
    uint64_t          numbers[MAX_NUMBERS];
    trace_t          *trace;
    maker_t           maker;

    if (workload == NULL) {
        tool_error("%s: no such workload; --list prints all", text);
        return NULL;
    }
    if (!parse_numbers(workload, text[length] == ':' ? text + length + 1 : "",
                       numbers) ||
        !fits(workload, numbers)) {
        tool_error("%s: a workload of that kind is %s; see --list", text,
                   workload->usage);
        return NULL;
    }
    trace = trace_create(text);
    trace_stream(trace, 0);
    maker = (maker_t){.trace = trace};
    if (workload->make != NULL) {
        workload->make(&maker, numbers);
    } else {
        make_plan(&maker, &workload->plan);
    }
    free(maker.live);
    trace_survey(trace);
    return trace;
}
